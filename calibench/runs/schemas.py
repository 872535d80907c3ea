"""Schemas of the files of a run: what each key of their JSON must be where it is there.

A file may come from a damaged disk or from a stranger. It is checked once, where it is read, so that who reads on finds
the types that are written here. Other keys, of newer versions, are let through.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

WholeNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Plain = bool | float | str | list[Any] | None  # an integer is one as long as it is a float, too
Parameter = Plain | dict[str, Plain]  # those of each label


class FileDigest(TypedDict):
    """Size and digest of a file."""

    bytes: WholeNumber
    sha256: str


class Status(TypedDict, total=False):
    """status.json of a run."""

    format: int
    status: str
    reason: str | None
    imported: bool
    claimed: list[str]
    files: dict[str, FileDigest]
    host: str | None
    pid: int | None
    started: str | None
    finished: str | None
    request: str


class EntryStatus(TypedDict):
    """status.json of an entry of a store."""

    status: Literal["done"]
    format: int
    imported: bool
    precision: Literal["float16", "float32"]
    examples: Annotated[dict[str, WholeNumber], msgspec.Meta(min_length=1)]
    outputs: str
    claimed: list[str]
    labels: list[str]
    content: str
    files: dict[str, FileDigest]
    digest: str


class NumberRow(TypedDict):
    """A number of metrics.json."""

    metric: str
    split: str
    calibrator: str
    value: float | str | None
    n_bins: NotRequired[Integer | None]
    score: NotRequired[str | None]
    label: NotRequired[str | None]
    floor: NotRequired[float | None]
    p: NotRequired[float | None]
    overconfidence: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class EvaluationSettings(TypedDict, total=False):
    """How the numbers of metrics.json were made."""

    calibrators: list[str | dict[str, Any]] | None
    n_bins: list[Integer]
    reference: bool
    metrics: list[str | dict[str, Any]] | None
    priors: str | list[float] | None


class MetricDescription(TypedDict):
    """Title, unit and direction of a metric that is not this package's own."""

    title: str
    percent: bool
    higher_is_better: bool | None


class Metrics(TypedDict, total=False):
    """metrics.json of a run."""

    format: int
    benchmark: str
    backbone: str
    loss: str
    key: str
    seed: Integer
    settings: dict[str, Any]
    evaluation: EvaluationSettings
    fingerprint: str
    class_counts: list[Integer] | None
    caveats: list[str]
    posterior: str | None
    fast_dev_run: bool
    unavailable: dict[str, str]
    sets: dict[str, str]
    calibrators: dict[str, dict[str, Parameter]]
    metrics: dict[str, MetricDescription] | None
    files: dict[str, FileDigest]
    rows: list[NumberRow]


class Environment(TypedDict, total=False):
    """environment.json of a run."""

    versions: dict[str, str]
    wall_seconds: float | None
    seconds_per_epoch: float | None
    peak_memory_mb: float | None
    device: str | None
    commit: str | None


class Metadata(TypedDict, total=False):
    """The metadata in a file of predictions."""

    format: int
    task: Literal["multiclass", "multilabel"] | None
    split: str
    kind: str
    distance: str
    class_names: list[str | int] | None
    label_names: list[str] | None
    class_counts: list[float] | None
    fingerprint: str
    caveats: list[str]
    posterior: str | None
    labels: str
    calibrator: str | None


SCHEMAS = {"status.json": Status, "metrics.json": Metrics, "environment.json": Environment}
"""The schema of a file of a run, by its name."""


def check_schema(content: Any, schema: type) -> None:
    """Raise a ValueError unless plain data are what a schema says; the message names the field."""
    try:
        msgspec.convert(content, schema)
    except (msgspec.ValidationError, RecursionError) as error:
        reason = str(error).replace("`", "").replace("at $", "at ").replace("at .", "at ")
        raise ValueError(f"it is not what such a file holds: {reason}") from error
