"""What every metric promises: edges, types, batches, merging, moving, one clear error."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pandas as pd
import pytest
import torch
from torch.overrides import TorchFunctionMode

from calibench import metrics as M
from calibench.metrics.base import (
    COLUMN_KINDS,
    CalibrationMetric,
    PackedColumnsMetric,
    PerExampleMetric,
)
from calibench.tables.metric_titles import METRICS
from tests.deterministic import AsOnADeterministicGpu
from tests.examples import Contract
from tests.metrics.cases import (
    K,
    assert_same,
    batch,
    cases,
    computed,
    exported_classes,
    flat,
    function_of,
)

CASES = cases()
CASES_OF: dict[str, list[str]] = defaultdict(list)
for case, (build, _) in CASES.items():
    CASES_OF[type(build()).__name__].append(case)
CONTRACT = Contract(CASES_OF)


@CONTRACT.rule()
def batches_in_any_order_give_the_function_of_the_whole(name: str) -> None:
    build, function = CASES[name]
    preds, target = batch(1000)
    shuffled = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    parts = list(zip(preds[shuffled].split(130), target[shuffled].split(130), strict=True))
    expected = function(preds, target)
    assert flat(expected).isfinite().all()
    assert_same(computed(build(), (preds, target)), expected)
    assert_same(computed(build(), (preds[:0], target[:0]), *parts), expected)


@CONTRACT.rule()
def arrays_frames_lists_and_names_of_classes_are_taken(name: str) -> None:
    build, _ = CASES[name]
    preds, target = batch(200)
    expected = computed(build(), (preds, target))
    classes = [f"class {k}" for k in range(K)]
    names = [classes[k] for k in target]
    frame = pd.DataFrame(preds.numpy(), columns=classes)
    for given in ((preds.numpy(), target.tolist()), (frame, pd.Series(names))):
        assert_same(computed(build(), given), expected)
    metric = build()
    metric.update(preds.numpy(), names, classes=classes)
    assert_same(metric.compute(), expected)


@CONTRACT.rule()
def deterministic_on_a_gpu(name: str) -> None:
    build, _ = CASES[name]
    with AsOnADeterministicGpu():
        assert flat(computed(build(), batch(1000))).isfinite().all()


@CONTRACT.rule()
def batches_without_rows_alone(name: str) -> None:
    build, function = CASES[name]
    preds, target = batch(0)
    value = computed(build(), (preds, target))
    assert (value == 0).all() if name == "confusion" else value.isnan().all()
    assert_same(value, function(preds, target))


@CONTRACT.rule()
def few_examples(name: str) -> None:
    for n in (1, 2, 7):
        build, function = CASES[name]
        value = computed(build(), batch(n))
        assert_same(value, function(*batch(n)))
        undefined = name in ("class_error", "group_error", "debiased_ece_l1") or (
            name == "skce" and n == 1
        )
        assert undefined or value.isfinite().all()


@CONTRACT.rule()
def every_floating_type(name: str) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        build, function = CASES[name]
        preds, target = batch(100, dtype=dtype)
        wide = preds.double() if dtype == torch.float64 else preds.float()
        value = computed(build(), (preds, target))
        assert value.dtype == (torch.int64 if name == "confusion" else torch.float64)
        exact = function(preds, target)
        assert_same(value, exact, atol=1e-9)
        if dtype in (torch.float32, torch.float64):
            assert_same(value, function(wide, target), atol=1e-9)


def functions_of(name: str, k: int) -> Callable[[torch.Tensor, torch.Tensor], object]:
    """The metric's function for any K."""
    return (
        partial(M.group_error, class_counts=[100] * k) if name == "group_error" else CASES[name][1]
    )


@CONTRACT.rule()
def one_class_and_two(name: str) -> None:
    ones = torch.ones(20, 1)
    value = flat(functions_of(name, 1)(ones, torch.zeros(20, dtype=torch.long)))
    perfect = torch.zeros_like(value)
    if name == "aurc":
        perfect[2] = 1  # full coverage
    if name in ("spiegelhalter", "skce"):
        perfect[1] = 1  # p-value
    if name == "confusion":
        perfect[0] = 20
    if name == "group_error":
        perfect[[0, 2, 4, 5]] = torch.nan  # one medium class is the head
    assert_same(value, perfect, atol=1e-3 if "smooth" in name else 1e-12)
    assert name == "group_error" or flat(functions_of(name, 2)(*batch(300, 2))).isfinite().all()


@CONTRACT.rule()
def every_integer_type_of_targets(name: str) -> None:
    build, function = CASES[name]
    preds, target = batch(50)
    expected = function(preds, target)
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        assert_same(function(preds, target.to(dtype)), expected)
        assert_same(computed(build(), (preds, target.to(dtype))), expected)


def test_small_integers_do_not_overflow() -> None:
    preds, target = batch(400, 100)
    expected = M.confusion_matrix(preds, target)
    assert torch.equal(M.confusion_matrix(preds, target.to(torch.uint8)), expected)
    collection = M.calibration_metrics(100, (15,))
    collection.update(preds, target.to(torch.int8))
    assert_same(collection.compute()["classwise_ece"], M.classwise_calibration_error(preds, target))


def test_functions_take_the_arguments_of_their_classes_in_the_same_order() -> None:
    for build, _ in CASES.values():
        cls = type(build())
        of_class = dict(inspect.signature(cls).parameters)
        of_class.pop("kwargs", None)
        parameters = inspect.signature(function_of(cls)).parameters
        assert [*parameters][2:] == [*of_class, "ignore_index"]
        kinds = {parameter.kind for parameter in [*parameters.values()][2:]}
        assert kinds == {inspect.Parameter.KEYWORD_ONLY}, cls
        for name, parameter in of_class.items():
            default = None if name == "num_classes" else parameter.default
            assert (parameters[name].default, parameter.kind) == (default, parameter.KEYWORD_ONLY)


@CONTRACT.rule()
def only_one_class_among_the_targets(name: str) -> None:
    preds, _ = batch(300)
    value = computed(CASES[name][0](), (preds, torch.full((300,), 2)))
    assert name in ("class_error", "group_error") or value.isfinite().all()


@CONTRACT.rule()
def all_confidences_equal(name: str) -> None:
    preds = torch.full((100, K), 0.1)
    preds[:, 0] = 0.6
    target = torch.arange(100) % K
    value = computed(CASES[name][0](), (preds, target))
    assert value.isfinite().all()
    gap = {
        "ece",
        "ece_20",
        "ece_sweep",
        "rmsce",
        "mce",
        "adaptive_ece",
        "lipschitz_ce",
        "ks",
        "kuiper",
    }
    if name in gap:
        assert float(value) == pytest.approx(0.4, abs=1e-6)
    if name == "adaptive_ece_reference":
        assert float(value) == 0  # what the papers' code says


@CONTRACT.rule()
def reset_and_use_again(name: str) -> None:
    build, function = CASES[name]
    metric = build()
    computed(metric, batch(100))
    metric.reset()
    assert_same(computed(metric, batch(50, seed=3)), function(*batch(50, seed=3)))


@CONTRACT.rule()
def merged_states(name: str) -> None:
    build, function = CASES[name]
    (preds, target), rest = batch(300), batch(40, seed=9)
    first, second = build(), build()
    second.update(preds[:100], target[:100])
    first.merge_state(second)
    first.update(preds[100:], target[100:])
    first.compute_with_cache = False
    assert_same(first.compute(), function(preds, target))
    # The two do not share memory: what one appends, the other does not see.
    second.update(*rest)
    assert_same(first.compute(), function(preds, target))
    both = torch.cat([preds[:100], rest[0]]), torch.cat([target[:100], rest[1]])
    assert_same(second.compute(), function(*both))


@CONTRACT.rule()
def forward_gives_the_batch_and_keeps_the_whole(name: str) -> None:
    build, function = CASES[name]
    metric, (preds, target) = build(), batch(300)
    for rows in (slice(0, 100), slice(100, 300)):
        assert_same(metric(preds[rows], target[rows]), function(preds[rows], target[rows]))
    assert_same(metric.compute(), function(preds, target))


@CONTRACT.rule()
def copies_and_pickles(name: str) -> None:
    build, function = CASES[name]
    (preds, target), metric = batch(300), build()
    metric.update(preds[:100], target[:100])
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        other.update(preds[100:], target[100:])
        assert_same(other.compute(), function(preds, target))
    assert_same(metric.compute(), function(preds[:100], target[:100]))


@CONTRACT.rule()
def persistent_state_is_saved_and_loaded(name: str) -> None:
    build, function = CASES[name]
    (preds, target), metric, loaded = batch(300), build(), build()
    metric.persistent(True)
    loaded.persistent(True)
    metric.update(preds[:100], target[:100])
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file))
    loaded.update(preds[100:], target[100:])
    assert_same(loaded.compute(), function(preds, target))


@CONTRACT.rule()
def a_cast_of_the_parent_leaves_the_state(name: str) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        build, function = CASES[name]
        parent = torch.nn.ModuleDict({"metric": build()})
        preds, target = batch(300)
        parent["metric"].update(preds[:100], target[:100])
        parent.to(dtype)
        parent["metric"].set_dtype(dtype)
        parent["metric"].update(preds[100:], target[100:])
        assert_same(parent["metric"].compute(), function(preds, target))
        parent["metric"].reset()
        assert_same(computed(parent["metric"], (preds, target)), function(preds, target))


@CONTRACT.rule()
def inference_mode_before_and_after(name: str) -> None:
    build, function = CASES[name]
    (preds, target), metric = batch(300), build()
    with torch.inference_mode():
        metric.update(*batch(20, seed=5))
        metric.reset()
        metric.update(preds[:100], target[:100])
    metric.update(preds[100:200], target[100:200])
    with torch.inference_mode():
        metric.update(preds[200:], target[200:])
    assert_same(metric.compute(), function(preds, target))


@CONTRACT.rule()
def gradients_are_not_kept(name: str) -> None:
    preds, target = batch(60)
    build, function = CASES[name]
    metric = build()
    assert_same(function(preds.requires_grad_(), target), function(preds.detach(), target))
    metric.update(preds, target)
    assert not any(
        tensor.requires_grad
        for state in metric.metric_state.values()
        for tensor in (state if isinstance(state, list) else [state])
    )


def bytes_an_example(metric: CalibrationMetric) -> int:
    """How much a metric may keep of each example: nothing, a confidence and a hit, or every p_k."""
    if not isinstance(metric, PerExampleMetric):
        return 0
    if isinstance(metric, M.RiskCoverage):
        return 9  # log-odds in double precision: confidences near 1 are ranked too
    marginal = isinstance(metric, PackedColumnsMetric) and metric.kind is COLUMN_KINDS["marginal"]
    return 4 * K if marginal else 5


@CONTRACT.rule()
def state_is_small(name: str) -> None:
    metric = CASES[name][0]()
    for seed in range(5):
        metric.update(*batch(1000, seed=seed))
    held = [
        s
        for state in metric.metric_state.values()
        for s in (state if isinstance(state, list) else [state])
    ]
    size = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert size <= 5000 * bytes_an_example(metric) + 8 * 4 * 20 * K


BAD = [
    (torch.full((2, K), 0.3), torch.tensor([0, 1]), "sum to 1"),
    (torch.tensor([[1.5, -0.5, 0, 0, 0]]), torch.tensor([0]), r"\[0, 1\]"),
    (torch.tensor([[torch.nan, 1, 0, 0, 0]]), torch.tensor([0]), "NaN"),
    (torch.tensor([[5.0, 1, -2, 0, 0]]), torch.tensor([0]), "probabilities"),
    (torch.eye(K), torch.full((K,), K), r"`target` must lie in \[0, 5\)"),
    (torch.eye(K), torch.full((K,), -1), r"`target` must lie in \[0, 5\)"),
    (torch.eye(K), torch.zeros(K - 1, dtype=torch.long), "`target` must have shape"),
    (torch.eye(K)[0], torch.tensor(0), "`preds` must have shape"),
]


@CONTRACT.rule()
def invalid_values(name: str) -> None:
    build, function = CASES[name]
    metric = build()
    for preds, target, message in BAD:
        for call in (metric.update, function):
            with pytest.raises(ValueError, match=message):
                call(preds, target)


@CONTRACT.rule()
def invalid_types(name: str) -> None:
    metric = CASES[name][0]()
    with pytest.raises(TypeError, match="integer class indices"):
        metric.update(torch.eye(K), torch.zeros(K))
    with pytest.raises(TypeError, match="must be floating"):
        metric.update(torch.eye(K).long(), torch.zeros(K, dtype=torch.long))
    with pytest.raises(TypeError, match=r"numpy\.str_"):
        metric.update(["cat", "dog"], [0, 1])


@CONTRACT.rule()
def validation_can_be_left_out(name: str) -> None:
    build, _ = CASES[name]
    preds, target = batch(50)
    build(validate_args=False).update(preds * 1.01, target)
    with pytest.raises(ValueError, match="sum to 1"):
        build().update(preds * 1.01, target)


@pytest.mark.parametrize(
    ("dtype", "off"), [(torch.float32, 2e-4), (torch.float16, 9e-3), (torch.bfloat16, 0.06)]
)
def test_tolerance_of_row_sums_follows_the_type(dtype: torch.dtype, off: float) -> None:
    good = torch.tensor([[0.5, 0.5]], dtype=dtype)
    M.calibration_error(good * (1 + off / 8), torch.tensor([0]))
    with pytest.raises(ValueError, match="sum to 1"):
        M.calibration_error(good * (1 + off), torch.tensor([0]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: M.CalibrationError(n_bins=0), "`n_bins` must be a positive integer, got 0."),
        (lambda: M.CalibrationError(norm="l3"), "`norm` must be one of"),
        (lambda: M.CalibrationError(variant="mine"), "`variant` must be one of"),
        (lambda: M.SmoothCalibrationError(kernel="box"), "`kernel` must be one of"),
        (lambda: M.DebiasedCalibrationError(p=3), "`p` must be one of"),
        (lambda: M.DebiasedCalibrationError(kind="all"), "`kind` must be one of"),
        (lambda: M.OutOfDistribution(score="odin"), "`score` must be one of"),
        (
            lambda: M.ClasswiseCalibrationError(num_classes=0),
            "`num_classes` must be a positive integer, got 0.",
        ),
        (
            lambda: M.ThresholdedAdaptiveCalibrationError(num_classes=3, threshold=1),
            "`threshold` must lie in",
        ),
        (lambda: M.RiskCoverage(risk=2), "`risk` must lie in"),
        (lambda: M.CorpDecomposition(kind="all"), "`kind` must be one of"),
        (
            lambda: M.SquaredKernelCalibrationError(bandwidth=0),
            "`bandwidth` must be a finite number > 0",
        ),
        (lambda: M.SquaredKernelCalibrationError(block_size=1), "`block_size` must be an integer"),
        (lambda: M.GroupError(class_counts=[]), "`class_counts` must be"),
        (lambda: M.GroupError(class_counts=[3, 4], thresholds=(20, 100)), "`thresholds` must be"),
    ],
)
def test_invalid_options(build, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        build()


@pytest.mark.parametrize(
    "name",
    [
        "classwise_ece",
        "adaptive_classwise_ece",
        "tace",
        "brier_decomposition",
        "confusion",
        "class_error",
    ],
)
def test_the_number_of_classes_is_checked(name: str) -> None:
    build, function = CASES[name]
    with pytest.raises(ValueError, match="`preds` must have 5 columns"):
        build().update(*batch(10, 3))
    with pytest.raises(ValueError, match="`preds` must have 5 columns"):
        function(*batch(10, 3), num_classes=5)
    assert_same(function(*batch(10), num_classes=5), function(*batch(10)))


class WithoutFloat64(TorchFunctionMode):
    """Moving float64 fails, as it does to a GPU of Apple's."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.to and args[0].dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return function(*args, **(kwargs or {}))


@CONTRACT.rule()
def a_device_without_float64_leaves_the_metric_where_it_is(name: str) -> None:
    build, function = CASES[name]
    with WithoutFloat64():
        metric = torch.nn.ModuleList([build()]).to("meta")[0]
    assert metric.device.type == "cpu"
    assert_same(computed(metric, batch(50)), function(*batch(50)))


def classes() -> list[type]:
    return [
        value
        for value in vars(M).values()
        if inspect.isclass(value) and value.__name__ in M.__all__
    ]


def test_first_docstring_line_names_the_source() -> None:
    for cls in classes():
        line = cls.__doc__.splitlines()[0]
        assert len(line) <= 96, cls
        assert line.endswith(")."), cls


def test_every_class_has_its_function() -> None:
    functions = {name for name in M.__all__ if not inspect.isclass(getattr(M, name))}
    others = {"probabilities", "softmax", "log_softmax"}
    assert functions == {function_of(cls).__name__ for cls in exported_classes()} | others


def on_meta(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch without data: whatever asks a device for a value, or for how many there are, fails."""
    return torch.empty(n, K, device="meta"), torch.empty(n, dtype=torch.long, device="meta")


@CONTRACT.rule()
def an_update_never_waits_for_the_device(name: str) -> None:
    metric = CASES[name][0](validate_args=False).to("meta")
    metric.update(*on_meta())
    metric.update(*on_meta())
    with pytest.raises((RuntimeError, NotImplementedError)):  # checks do, and so this test can fail
        CASES[name][0]().to("meta").update(*on_meta())


# `compute`, once an epoch, reads values back where an algorithm is one of the host, or a number of rows decides a shape.
OF_THE_HOST = {"lipschitz_ce", "ece_sweep"}  # searches, in numpy or row by row
OF_CUTS = {"adaptive_ece", "adaptive_ece_reference", "adaptive_classwise_ece"}  # slices of rows
OF_TIES = {"aurc", "ks", "kuiper"}  # runs of equal confidences
OF_SOME_ROWS = {
    "tace",
    "smooth_ece",
    "smooth_ece_logit",
}  # those above a threshold, those that are not empty
OF_COLUMNS = {
    "corp",
    "corp_marginal",
    "debiased_ece",
    "debiased_ece_l1",
    "debiased_ece_marginal",
    "skce",
}
READ_VALUES = OF_THE_HOST | OF_CUTS | OF_TIES | OF_SOME_ROWS | OF_COLUMNS


@CONTRACT.rule()
def a_value_is_computed_on_the_device_unless_named(name: str) -> None:
    metric = CASES[name][0](validate_args=False).to("meta")
    metric.update(*on_meta())
    if name in READ_VALUES:
        with pytest.raises((RuntimeError, NotImplementedError), match=r"meta|Meta"):
            metric.compute()
    else:
        assert flat(metric.compute()).is_meta


def test_an_update_of_the_collection_never_waits_for_the_device() -> None:
    collection = M.calibration_metrics(K, validate_args=False).to("meta")
    for _ in range(5):
        collection.update(*on_meta(3000))
        collection.update_logits(*on_meta(3000))
    collection.evaluate_waiting_rows()
    detection = M.OutOfDistribution(validate_args=False).to("meta")
    detection.update(on_meta()[0], True)


def test_no_two_metrics_share_a_name_in_files_whatever_their_arguments() -> None:
    """Values of other arguments are other values, which files keep apart by name (bins have a field of their own)."""
    metrics = [build() for case, (build, _) in CASES.items() if case != "ece_20"]
    names = [name for metric in metrics for name in metric.value_names]
    assert len(set(names)) == len(names)
    assert {*names} <= METRICS.keys()
    assert METRICS["mce"].label == "MCE %"


test_contract = CONTRACT.test()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 3}, "CalibrationError has no argument `num_classes`: leave it out"),
        ({"nbins": 3}, "CalibrationError has no argument `nbins`; did you mean n_bins"),
        ({"alpha": 3}, "has no argument `alpha`; it takes `n_bins`, `norm`"),
    ],
)
def test_an_argument_that_a_metric_lacks_is_named_with_what_to_do(
    arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        M.CalibrationError(**arguments)  # type: ignore[arg-type]
