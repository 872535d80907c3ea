"""Hints for keys and values of a configuration that other programs have, and what to type instead."""

from collections.abc import Mapping, Sequence

from calibench.messages.errors import UsageError
from calibench.messages.other_options import UnknownOption
from calibench.messages.spelling import is_command_line

VALUE_HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("trainer.strategy dp", "trainer.strategy data_parallel", "trainer.strategy ddp2", "trainer.strategy horovod"),
        "write `--trainer.strategy ddp --trainer.devices N`",
    ),
    **dict.fromkeys(
        [f"trainer.accelerator {name}" for name in ("cuda", "nvidia", "cuda:0", "cuda:1", "0", "true", "True", "1")],
        "write `--trainer.accelerator gpu`",
    ),
    "ckpt_path best": "a run keeps its best checkpoint with `--evaluated_checkpoint best_nll`, and it is "
    "`--ckpt_path RUN/checkpoints/best.ckpt`",
}  # fmt: skip
"""What to type on a command line in place of a value that others have, by the key and the value."""


def check_value_of_others(key: str, value: object) -> None:
    """Raise a UsageError for a value at a dotted key that other programs have, with what to type."""
    hint = VALUE_HINTS.get(f"{key} {value}", "") if is_command_line() else ""
    if hint:
        raise UsageError(f"`{key}` takes no `{value}`: {hint}.")


PLAIN_OPTIONS = (
    "--config", "--seed", "--data", "--benchmark", "--logger", "--overwrite", "--ckpt_path", "--threads",
    "--checkpoint_every_n_steps", "--evaluated_checkpoint", "--print_config", "--seed_everything",
    "--model", "--trainer", "--evaluation", "--trace",
)  # fmt: skip
"""Options of a run that are no dotted keys."""


EXAMPLE_FILE = "`calibench fit --config digits_lt --print_config` prints one to start from"
"""How a configuration is seen."""


def describe_unknown_key(
    name: str, value: object = "", *, whole: bool = True, others: Sequence[str] = ()
) -> str:
    """`: SENTENCE` with what to type for a key of other programs, `--resume` or `resume`; an empty string otherwise.

    Args:
        name: The key.
        value: What was typed behind it.
        whole: Whether the key is known as a whole, rather than by some of the words that it consists of.
        others: Options of `calibench predict` beside the keys, if it is the verb.
    """
    if not is_command_line():
        return ""
    text = "" if value is None or isinstance(value, Mapping | list) else str(value)
    verb = "predict" if others else "fit"
    options = [*PLAIN_OPTIONS, *(f"--{option}" for option in others)]
    return UnknownOption(verb, name, options, text, takes_keys=True).find_answer(whole=whole)


_SMALL_IMAGES = (
    "; did you mean digits, which has small images of digits? `calibench new images NAME --data FOLDER` makes a "
    "benchmark of images of your own"
)
_SMALL_TABLES = "; did you mean wine, a small table, as is breast_cancer?"
_SHORT_TEXTS = "; did you mean ag_news, short texts? `newsgroups` has longer ones"
_OTHER_DATA: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "mnist",
            "fashion_mnist",
            "fashionmnist",
            "fmnist",
            "emnist",
            "kmnist",
            "usps",
            "stl10",
            "cub",
            "flowers102",
            "food101",
            "oxford_pets",
            "chexpert",
            "mimic_cxr",
            "padchest",
            "isic",
            "medmnist",
        ),
        _SMALL_IMAGES,
    ),
    **dict.fromkeys(("iris", "adult", "titanic", "covertype", "higgs"), _SMALL_TABLES),
    **dict.fromkeys(
        ("imdb", "sst2", "sst5", "glue", "yelp", "dbpedia", "trec", "mnli"), _SHORT_TEXTS
    ),
} | {
    word: f": `calibench new {kind} NAME --data {place}` writes one for data of your own, `--config NAME/NAME.yaml`"
    for kind, place in (("images", "FOLDER"), ("texts", "FILE"), ("table", "FILE"))
    for word in (kind, kind.removesuffix("s"), f"{kind.removesuffix('s')}s")
}
"""What to do where a kind of data, or a data set that no benchmark has, stands for a configuration."""


def describe_other_data(name: str) -> str:
    """Remedy where a kind of data, or a data set that no benchmark has, is named; an empty string otherwise."""
    return _OTHER_DATA.get(name.replace("-", "_").lower(), "")
