"""Classes and functions by import path, and what is said of arguments that they do not take."""

from __future__ import annotations

import pytest

from calibench import CalibratedClassifier
from calibench.calibrators import HistogramBinning
from calibench.losses import FocalLoss
from calibench.messages.errors import UsageError
from calibench.plugins.import_paths import NotImported, accepts, check_arguments, import_by_path


def plain(a: int, b: int = 2) -> None: ...


def open_ended(a: int, **others: int) -> None: ...


def test_a_path_is_a_class_or_a_function() -> None:
    assert import_by_path("tests.plugins.test_import_paths.plain") is plain


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tests.plugins.test_import_paths.plian", "has no `plian`; did you mean plain"),
        (
            "tests.plugins.test_import_paths.__name__",
            "is of type str; a class or a function is expected",
        ),
    ],
)
def test_what_is_not_there_is_named(path: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_by_path(path)


def test_a_module_that_is_not_there_is_another_error() -> None:
    with pytest.raises(NotImported, match="No module named 'nosuch'"):
        import_by_path("nosuch.Thing")


def test_attributes_of_attributes_are_out_of_reach() -> None:
    with pytest.raises(NotImported):
        import_by_path("torch.nn.functional.torch.hub.load")


def test_arguments_are_checked_before_a_call() -> None:
    assert accepts(plain, "b")
    assert accepts(open_ended, "anything")
    assert not accepts(plain, "c")
    check_arguments("plain", plain, {"b": 3}, before=("value",))
    with pytest.raises(UsageError, match="`plain` has no argument `bb`; did you mean b"):
        check_arguments("plain", plain, {"bb": 3}, before=("value",))
    with pytest.raises(UsageError, match=r"missing a required argument: 'a' .it takes `a`, `b`."):
        check_arguments("plain", plain, {"b": 3})
    with pytest.raises(UsageError, match="it takes `a`, `b`, and is called with `x, y, z`"):
        check_arguments("plain", plain, {}, before=("x", "y", "z"))
    check_arguments("dict", dict, {"x": 1})  # without a signature: the call itself will tell


def test_a_constructor_names_the_argument_that_it_lacks_or_needs() -> None:
    with pytest.raises(TypeError, match="FocalLoss has no argument `alpha`; it takes `gamma`"):
        FocalLoss(alpha=0.25)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"FocalLoss needs `gamma`: FocalLoss\(gamma=\.\.\.\)"):
        FocalLoss()  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match="HistogramBinning has no argument `bins`; did you mean n_bins"
    ):
        HistogramBinning(bins=3)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match="CalibratedClassifier has no argument `method`: `calibrator="
    ):
        CalibratedClassifier(method="sigmoid")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional arguments"):
        CalibratedClassifier(1, 2, 3, 4)  # type: ignore[call-arg]
