"""Checks of the arguments that all data modules share, which need neither torch nor Lightning."""

from calibench.messages.checks import integer_from, positive_integer


def check_common_arguments(
    *, batch_size: int = 128, train_fraction: float = 1.0, split_seed: int | str = 1
) -> None:
    """Raise a ValueError unless these arguments of `ClassificationDataModule` are within their ranges."""
    positive_integer("batch_size", batch_size)
    if not 0 < train_fraction <= 1:
        raise ValueError(f"`train_fraction` must be in (0, 1], got {train_fraction}.")
    if split_seed != "run":
        integer_from("split_seed", split_seed, 0)  # type: ignore[arg-type]
