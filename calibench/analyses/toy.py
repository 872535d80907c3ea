"""Toy study of uncertainty measures against the true error of probabilities (Lin et al. 2025, section 4.3)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calibench.analyses.arguments import write
from calibench.data.gaussians import SyntheticGaussiansDataModule
from calibench.losses.gradient_reweighting import vector_form
from calibench.messages.progress import with_progress
from calibench.plots.kinds.calibrators import draw_bars
from calibench.plots.style import Figure, legend_below, panel
from calibench.statistics import mean_std
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show

EPOCHS, BATCH = 5, 1000
LEARNING_RATE = 1.0  # the authors'
GAMMAS = (0.5, 1.0, 2.0, 3.0, 5.0)
BETAS = (1.0, 2.0, 3.0, 5.0)
PUBLISHED = {"FL": 0.550, "DFL": 0.638, "gBS": 0.664}


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation of an error and an uncertainty measure over the test points of one run.

    A run has its own class means, points and network. The error of the probabilities is `l2`, ||eta - p||, `target`,
    |eta_y - p_y|, or `signed`, eta_y - p_y, which is what the authors' notebook computes. A measure, `FL`, `DFL` or
    `gBS`, has an exponent gamma and a norm of order beta, 1 where it has none.
    """

    run: int
    error: str
    measure: str
    gamma: float
    beta: float
    pearson: float


ERRORS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "l2": lambda eta, p, y: (eta - p).norm(dim=1),
    "target": lambda eta, p, y: (_of_target(eta, y) - _of_target(p, y)).abs(),
    "signed": lambda eta, p, y: _of_target(eta, y) - _of_target(p, y),
}


def focal(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """(1 - p_y)^gamma, the weight of focal loss: (N, K) and (N,) -> (N,)."""
    return (1 - _of_target(p, y)).clamp_min(0) ** gamma


def dual_focal(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """(1 - p_y + p_second)^gamma with the second largest probability, the weight of dual focal loss."""
    return (1 - _of_target(p, y) + p.topk(2, dim=1).values[:, 1]).clamp_min(0) ** gamma


def generalised_brier(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """||p - Y||_beta^gamma, the weight of BSCE."""
    return vector_form(p - F.one_hot(y, p.shape[1]), gamma, beta)


MEASURES = {"FL": (focal, (1.0,)), "DFL": (dual_focal, (1.0,)), "gBS": (generalised_brier, BETAS)}


def _of_target(p: Tensor, y: Tensor) -> Tensor:
    return p.gather(1, y[:, None]).squeeze(1)


def trained(
    data: SyntheticGaussiansDataModule, seed: int, *, lr: float = LEARNING_RATE
) -> tuple[Tensor, Tensor, Tensor]:
    """Train the authors' network, 2-10-K, by cross-entropy and plain SGD for five epochs.

    Returns the true posterior (N, K), the probabilities (N, K) and the classes (N,) of the test points, in float64.
    """
    splits = data.load_splits(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, data.num_classes))
        optimizer = torch.optim.SGD(network.parameters(), lr=lr)
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(len(splits.train.target)), BATCH):
                optimizer.zero_grad()
                logits = network(splits.train.inputs[rows])
                F.cross_entropy(logits, splits.train.target[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    with torch.no_grad():
        p = network(splits.test.inputs).double().softmax(1)
    return data.posterior(splits.test.inputs.double()), p, splits.test.target


def correlations(run: int, *, lr: float = LEARNING_RATE) -> Iterator[Correlation]:
    """The correlations of one run for every error, measure, gamma and beta; NaN if the network diverged."""
    eta, p, y = trained(SyntheticGaussiansDataModule(means_seed=run), run, lr=lr)
    for (error, of), (measure, (weight, betas)) in product(ERRORS.items(), MEASURES.items()):
        for gamma, beta in product(GAMMAS, betas):
            pair = torch.stack([of(eta, p, y), weight(p, y, gamma, beta)])
            yield Correlation(run, error, measure, gamma, beta, float(torch.corrcoef(pair)[0, 1]))


def best_points(found: Sequence[Correlation]) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and deviation over runs at the best point of the grid, by error and measure; without diverged networks."""
    diverged = {one.run for one in found if math.isnan(one.pearson)}
    points: dict[tuple[str, str], dict[tuple[float, float], list[float]]] = {}
    for one in found:
        if one.run not in diverged:
            of = points.setdefault((one.error, one.measure), {})
            of.setdefault((one.gamma, one.beta), []).append(one.pearson)
    return {key: max(map(mean_std, of.values())) for key, of in points.items()}


def picture(found: Sequence[Correlation]) -> Figure:
    """Bars of the correlations, a group for each error, beside the published ones."""
    best, none = best_points(found), (math.nan, math.nan)
    groups = {error: {m: best.get((error, m), none) for m in MEASURES} for error in ERRORS}
    groups["published"] = {measure: (value, math.nan) for measure, value in PUBLISHED.items()}
    figure, axes = panel(5, 3)
    draw_bars(axes, groups, y="Pearson correlation with the error")
    legend_below(figure, [axes], columns=3)
    return figure


def table_of(found: Sequence[Correlation]) -> Grid:
    """The correlation of each error and measure at the best point of the grid, on the mean over runs."""
    runs = {one.run for one in found}
    diverged = {one.run for one in found if math.isnan(one.pearson)}
    kept, best, none = len(runs - diverged), best_points(found), (math.nan, math.nan)
    rows: list[list[PrintedNumber | str]] = []
    for error in ERRORS:
        values = (best.get((error, measure), none) for measure in MEASURES)
        shown = ((f"{mean:.3f}", f"{std:.3f}" if kept > 1 else "") for mean, std in values)
        rows.append([error, *(PrintedNumber(*texts) for texts in shown)])
    rows.append(["published", *(f"{PUBLISHED[measure]:.3f}" for measure in MEASURES)])
    left_out = f"left out: {len(diverged)} of {len(runs)} networks diverged at this learning rate"
    footer = [
        f"Pearson correlation with the error over test points; mean ± standard deviation of {kept} draws of the means",
        "each at its best gamma and beta of the grid, chosen on these runs, as in the paper",
        *([left_out] if diverged else []),
    ]
    columns = headings("error", *MEASURES)
    return Grid("Uncertainty measures against the true error", columns, rows, footer)


def study(runs: int, lr: float, output: Path | None) -> None:
    """Print the table of some runs, and write the correlations of each."""
    made = (list(correlations(run, lr=lr)) for run in range(1, runs + 1))
    found = [one for part in with_progress(made, runs, "runs") for one in part]
    show(table_of(found))
    write(output, [asdict(one) for one in found], lambda: picture(found))
