"""Toy study of uncertainty measures against the true error of probabilities (BSCE-GRA, section 4.3).

    python benchmarks/papers/bsce_gra/toy.py -o toy.csv
    python benchmarks/papers/bsce_gra/toy.py --runs 20 --lr 0.1 -o toy.png

On Gaussians whose posterior is known. Published: Pearson .664 for gBS, .638 for DFL, .550 for FL. Written: the
correlation of every run, error, measure, gamma and beta.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calibench.data.gaussians import SyntheticGaussiansDataModule
from calibench.losses.gradient_reweighting import vector_form
from calibench.messages.checks import ends_in, positive, positive_integer
from calibench.messages.errors import exit_on_mistakes
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import write_numbers
from calibench.plots.kinds.calibrators import draw_bars
from calibench.plots.style import PICTURE_FORMATS, Figure, legend_below, panel
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
    "target": lambda eta, p, y: (_gather_target(eta, y) - _gather_target(p, y)).abs(),
    "signed": lambda eta, p, y: _gather_target(eta, y) - _gather_target(p, y),
}


def focal_weight(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """(1 - p_y)^gamma, the weight of focal loss: (N, K) and (N,) -> (N,)."""
    return (1 - _gather_target(p, y)).clamp_min(0) ** gamma


def dual_focal_weight(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """(1 - p_y + p_second)^gamma with the second largest probability, the weight of dual focal loss."""
    return (1 - _gather_target(p, y) + p.topk(2, dim=1).values[:, 1]).clamp_min(0) ** gamma


def generalised_brier_weight(p: Tensor, y: Tensor, gamma: float, beta: float) -> Tensor:
    """||p - Y||_beta^gamma, the weight of BSCE."""
    return vector_form(p - F.one_hot(y, p.shape[1]), gamma, beta)


MEASURES = {
    "FL": (focal_weight, (1.0,)),
    "DFL": (dual_focal_weight, (1.0,)),
    "gBS": (generalised_brier_weight, BETAS),
}


def _gather_target(p: Tensor, y: Tensor) -> Tensor:
    return p.gather(1, y[:, None]).squeeze(1)


def train_network(
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


def compute_correlations(run: int, *, lr: float = LEARNING_RATE) -> Iterator[Correlation]:
    """Compute the correlations of one run for every error, measure, gamma and beta; NaN if the network diverged."""
    eta, p, y = train_network(SyntheticGaussiansDataModule(means_seed=run), run, lr=lr)
    for (error, compute_error), (measure, (weight, betas)) in product(
        ERRORS.items(), MEASURES.items()
    ):
        for gamma, beta in product(GAMMAS, betas):
            pair = torch.stack([compute_error(eta, p, y), weight(p, y, gamma, beta)])
            yield Correlation(run, error, measure, gamma, beta, float(torch.corrcoef(pair)[0, 1]))


def find_best_points(
    correlations: Sequence[Correlation],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and deviation over runs at the best point of the grid, by error and measure; without diverged networks."""
    diverged = {entry.run for entry in correlations if math.isnan(entry.pearson)}
    points: dict[tuple[str, str], dict[tuple[float, float], list[float]]] = {}
    for entry in correlations:
        if entry.run not in diverged:
            grid = points.setdefault((entry.error, entry.measure), {})
            grid.setdefault((entry.gamma, entry.beta), []).append(entry.pearson)
    return {key: max(map(mean_std, grid.values())) for key, grid in points.items()}


def draw_correlations(correlations: Sequence[Correlation]) -> Figure:
    """Draw bars of the correlations, a group for each error, beside the published ones."""
    best, none = find_best_points(correlations), (math.nan, math.nan)
    groups = {error: {m: best.get((error, m), none) for m in MEASURES} for error in ERRORS}
    groups["published"] = {measure: (value, math.nan) for measure, value in PUBLISHED.items()}
    figure, axes = panel(5, 3)
    draw_bars(axes, groups, y="Pearson correlation with the error")
    legend_below(figure, [axes], columns=3)
    return figure


def build_table(correlations: Sequence[Correlation]) -> Grid:
    """Tabulate the correlation of each error and measure at the best point of the grid, on the mean over runs."""
    runs = {entry.run for entry in correlations}
    diverged = {entry.run for entry in correlations if math.isnan(entry.pearson)}
    draws = len(runs - diverged)
    best, none = find_best_points(correlations), (math.nan, math.nan)
    rows: list[list[PrintedNumber | str]] = []
    for error in ERRORS:
        values = (best.get((error, measure), none) for measure in MEASURES)
        texts = ((f"{mean:.3f}", f"{std:.3f}" if draws > 1 else "") for mean, std in values)
        rows.append([error, *(PrintedNumber(*pair) for pair in texts)])
    rows.append(["published", *(f"{PUBLISHED[measure]:.3f}" for measure in MEASURES)])
    left_out = f"left out: {len(diverged)} of {len(runs)} networks diverged at this learning rate"
    footer = [
        f"Pearson correlation with the error over test points; mean ± standard deviation of {draws} draws of the means",
        "each at its best gamma and beta of the grid, chosen on these runs, as in the paper",
        *([left_out] if diverged else []),
    ]
    columns = headings("error", *MEASURES)
    return Grid("Uncertainty measures against the true error", columns, rows, footer)


def study(runs: int, lr: float, output: Path | None) -> None:
    """Print the table of some runs, and write the correlations of each."""
    per_run = (list(compute_correlations(run, lr=lr)) for run in range(1, runs + 1))
    correlations = [entry for part in with_progress(per_run, runs, "runs") for entry in part]
    show(build_table(correlations))
    numbers = [asdict(entry) for entry in correlations]
    write_numbers(output, numbers, lambda: draw_correlations(correlations))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="toy.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="each has its own class means")
    parser.add_argument("--lr", type=float, default=LEARNING_RATE, help="default: 1, the authors'")
    parser.add_argument("--output", "-o", type=Path, help=".csv, .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        positive_integer("--runs", options.runs)
        positive("--lr", options.lr)
        if options.output is not None:
            ends_in(".csv", *PICTURE_FORMATS)("--output", options.output)
        study(options.runs, options.lr, options.output)


if __name__ == "__main__":
    main()
