"""A paper's table as it is printed: its layout, ours under its numbers, and what is missing."""

from collections.abc import Iterator, Mapping, Sequence

from calibench.messages.printable_text import FileRow
from calibench.reports.reproduce.numbers import Line, Reproduction, as_coded
from calibench.statistics import mean_std
from calibench.tables.grid import Grid, Heading
from calibench.tables.metric_titles import Title
from calibench.tables.published import PAPERS, Published

CLAIMS = "https://calibench.github.io/calibench/benchmarks/results/evidence.html"


def entry(line: Line) -> str:
    """The paper's value, ours, and their difference, one under the other."""
    number, measurement, info = line.number, line.ours, line.info
    lines = [_number(info, number.value, number.std, number.temperature)]
    if not measurement.values:
        return "\n".join([*lines, "-"])
    count = len(measurement.values)
    mean, std = mean_std(measurement.values)
    temperature = mean_std(measurement.temperatures)[0] if measurement.temperatures else None
    seeds = "" if count == measurement.planned else f" [{count}/{measurement.planned}]"
    lines.append(_number(info, mean, std if count > 1 else None, temperature) + seeds)
    verdict = {True: " in", False: " out", None: ""}[line.inside]
    lines.append(f"{info.show(line.difference, '+')}{verdict}")
    return "\n".join(lines)


def _number(info: Title, mean: float, std: float | None, temperature: float | None) -> str:
    spread = "" if std is None else f"±{info.show(std)}"
    fitted = "" if temperature is None else f" ({temperature:.2f})"
    return f"{info.show(mean)}{spread}{fitted}"


def grids(lines: Sequence[Line]) -> Iterator[Grid]:
    """One table a metric, as in the papers: data sets, networks, labels down, losses across, raw before calibrated."""
    marks = {text: f"[{place}]" for place, text in enumerate(differences(lines), start=1)}
    for metric in dict.fromkeys(line.reading or line.number.measure for line in lines):
        metric_lines = [line for line in lines if (line.reading or line.number.measure) == metric]
        yield _grid(
            f"{metric_lines[0].info.label}{_bins(metric_lines[0].number)}", metric_lines, marks
        )


def differences(lines: Sequence[Line]) -> list[str]:
    """How the protocol of ours differs from the paper's, each once."""
    return list(dict.fromkeys(text for line in lines for text in line.ours.differs))


def _grid(title: str, lines: Sequence[Line], marks: Mapping[str, str]) -> Grid:
    columns = list(dict.fromkeys((n.loss, n.stage) for n in (line.number for line in lines)))
    headings = [
        Heading("", label=True, left=True),
        *(Heading(f"{loss}\n{stage}", group=loss) for loss, stage in columns),
        *([Heading("protocol\ndiffers", label=True, left=True)] if marks else []),
    ]
    cells = {(_row(line.number), line.number.loss, line.number.stage): line for line in lines}
    rows = []
    for row in dict.fromkeys(_row(line.number) for line in lines):
        row_lines = [cells.get((row, *column)) for column in columns]
        entries = [entry(line) if line else "" for line in row_lines]
        differing = _differing([line for line in row_lines if line], marks)
        rows.append([row, *entries, *([differing] if marks else [])])
    return Grid(title, headings, rows, spaced=True)


def _differing(row: Sequence[Line], marks: Mapping[str, str]) -> str:
    """The marks of a row's differences, with the losses of those that are not of all."""
    texts = []
    for text, mark in marks.items():
        losses = dict.fromkeys(line.number.loss for line in row if text in line.ours.differs)
        everywhere = all(text in line.ours.differs for line in row)
        texts += [mark if everywhere else f"{mark} {', '.join(losses)}"] if losses else []
    return "\n".join(texts)


def _row(number: Published) -> str:
    varied = f"ats_bins={number.calibrator_bins}" if number.calibrator_bins else ""
    parts = (number.dataset, number.model, varied, number.label)
    return "\n".join(part for part in parts if part)


def _bins(number: Published) -> str:
    """How a binned metric is computed, the papers' code and ours alike."""
    if number.metric not in ("ece", "adaptive_ece", "classwise_ece"):
        return ""
    coded = ", as the papers' code computes it" if as_coded(number.metric) != number.metric else ""
    return f", {number.bins} bins{coded}"


def notes(reproduction: Reproduction) -> Iterator[str]:
    """How to read the tables, and what is missing."""
    paper, lines = PAPERS[reproduction.paper], reproduction.lines
    yield (
        f"{paper.title} ({paper.source}), Table {reproduction.table}. In each entry: the paper's value ± std "
        "(temperature), ours, and ours - the paper's"
    )
    yield "in, out: whether the paper's value lies in our 95 % interval of the mean over seeds (t)"
    yield from reproduction.remarks
    for place, text in enumerate(differences(lines), start=1):
        yield f"protocol differs, [{place}]: {text}"
    for note in dict.fromkeys(line.number.note for line in lines if line.number.note):
        yield f"on the paper's numbers: {note}"
    yield _count(lines)
    yield f"the papers' claims, tested one by one on small networks: {CLAIMS}"
    for reason in dict.fromkeys(line.ours.missing for line in lines if line.ours.missing):
        missing = dict.fromkeys(line.number for line in lines if line.ours.missing == reason)
        rows = dict.fromkeys(f"{number.dataset} {number.model}" for number in missing)
        yield f"missing, {reason}: {len(missing)} numbers ({', '.join(rows)})"
    if reproduction.suite and any(line.ours.planned and not line.ours.values for line in lines):
        yield f"calibench sweep {reproduction.suite} --dry-run lists the runs that are missing and the time they take"


def _count(lines: Sequence[Line]) -> str:
    """Count the numbers of a table, and those of the paper that lie in our intervals."""
    have = len({line.number for line in lines if line.ours.values})
    tested = [line for line in lines if line.inside is not None]
    alike = [line for line in tested if not line.ours.differs]
    inside, inside_alike = (sum(bool(line.inside) for line in group) for group in (tested, alike))
    text = (
        f"we have {have} of {len({line.number for line in lines})} numbers; "
        f"of {len(tested)} with an interval, {inside} have the paper's value in it"
    )
    if len(alike) == len(tested):
        return text
    return f"{text} ({inside_alike} of {len(alike)} where the protocol is the paper's)"


CSV_COLUMNS = (
    "dataset", "model", "loss", "metric", "stage", "n_bins", "note", "published", "published_std",
    "published_temperature", "seeds", "ours", "std", "low", "high", "temperature", "difference", "inside",
    "protocol_differs", "missing", "machine",
)  # fmt: skip


def csv_rows(lines: Sequence[Line]) -> Iterator[FileRow]:
    """Every number as fractions, for a program."""
    for line in lines:
        number, measurement = line.number, line.ours
        row = {name: getattr(number, name) for name in CSV_COLUMNS[:7]} | {
            "published": number.value, "published_std": number.std,
            "published_temperature": number.temperature, "seeds": len(measurement.values), "inside": line.inside,
            "protocol_differs": "; ".join(measurement.differs), "missing": measurement.missing,
            "machine": "; ".join(measurement.machines),
        }  # fmt: skip
        if measurement.values:
            mean, std = mean_std(measurement.values)
            low, high = measurement.interval or (None, None)
            row |= {"ours": mean, "std": std if len(measurement.values) > 1 else None}
            row |= {"low": low, "high": high, "difference": line.difference}
        if measurement.temperatures:
            row["temperature"] = mean_std(measurement.temperatures)[0]
        yield row
