"""Tables of README and of the pages about the evidence, and the picture of ranks, made again from the committed rows.

    python benchmarks/evidence/pages.py

Rewrites what stands between `<!-- evidence: NAME -->` and `<!-- /evidence -->` in the files of `PAGES`; a test holds
them equal. Other sentences are written by hand: read them again where a table changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from textwrap import fill

import claims
import label_shift
import numpy as np
import pandas as pd
import rates
import speedrun
import training_methods
import tuned
import validated
import yaml
from committed_rows import (
    BASE,
    BENCHMARKS,
    CVC,
    RESULTS,
    SETS,
    SPEEDRUNS,
    against_base,
    at_one_rate,
    full_runs,
    losses,
    numbers,
    ranks,
    searched,
    sets,
    shifts,
    small_runs,
    values,
)
from scipy.stats import binom, binomtest, norm

from calibench.calibrator_comparison.summary import (
    TS,
    BenchmarkSummary,
    build_curves,
    build_frame,
    summarise_results,
)
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds.aggregates import draw_critical_difference
from calibench.plots.style import panel
from calibench.ranking.comparison import EFFECTS
from calibench.statistics.data_sets import (
    AHEAD,
    BEHIND,
    UNKNOWN,
    SetComparison,
    SetMean,
    compare_log_ratios,
    mean_over_sets,
)
from calibench.statistics.number import RAW
from calibench.statistics.seeds import LEVEL, holm
from calibench.sweeps.suite_files import load_suite
from calibench.tables.text import markdown

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/concepts/do-losses-matter.md",
    "benchmarks/results/losses_after_calibration.md",
    "benchmarks/results/evidence.md",
    "benchmarks/results/label_shift.md",
    "benchmarks/results/methods.md",
    "benchmarks/results/posthoc_real.md",
    "benchmarks/results/learning_curves.md",
    "benchmarks/results/speedrun.md",
    "benchmarks/results/tuned.md",
    "benchmarks/results/validated.md",
)

FIGURE = BENCHMARKS / "figures" / "evidence_ranks.svg"
SITE = "https://calibench.github.io/calibench"
ON_GITHUB = "https://github.com/calibench/calibench/blob/main/benchmarks"

LONGER = "30 epochs"  # a control of methods, none itself
FEWEST_PRIMARY, FEWEST_OF_FAMILY = 6, 9
"""Data sets that a sign test needs to reject at 5 %: of one comparison, and of eight or nine by Holm."""

Table = Sequence[Sequence[str]]


def pairs() -> Iterator[list[str]]:
    """Each loss against cross-entropy on these data sets, over its runs: raw and after CVC."""
    rows = [
        [
            loss,
            str(len(sets(loss))),
            *(against_base(loss, of, [*sets(loss)]) for of in ("raw", CVC)),
        ]
        for loss in losses()[1:]
    ]
    yield ["loss", "data sets", "raw", "after CVC"]
    yield from sorted(rows, key=lambda row: row[3], reverse=True)


def log_ratios(loss: str, calibrator: str) -> list[float]:
    """The logarithm of a loss's mean NLL over cross-entropy's, on each data set."""
    means = (
        [values(data, name, "nll", calibrator).mean() for name in (loss, BASE)]
        for data in sets(loss)
    )
    return [float(np.log(ours / theirs)) for ours, theirs in means]


@cache
def compared(calibrator: str = CVC) -> dict[str, tuple[str, SetComparison]]:
    """Each loss against cross-entropy with data sets as the sample: which comparison it is, and what it says."""
    primary = load_suite("suites/evidence_cpu").primary.losses
    rest = [loss for loss in losses()[1:] if loss not in primary]
    found = {}
    for kind, names in (("primary", primary), ("exploratory", rest)):
        of = compare_log_ratios([log_ratios(loss, calibrator) for loss in names])
        order = sorted(zip(names, of, strict=True), key=lambda pair: pair[1].effect.value)
        found |= {loss: (kind, comparison) for loss, comparison in order}
    return found


def over_sets() -> Iterator[list[str]]:
    """Each loss against cross-entropy on each data set, after CVC: the mean and the median difference, two tests."""
    yield [
        "loss", "comparison", "data sets", "sets with lower NLL", "median difference, %",
        "p (sign test)",
        "mean difference, %", "p (sign-flip test)", "mean difference raw, %", "other data sets",
    ]  # fmt: skip
    raw = {loss: _difference(of) for loss, (_, of) in compared("raw").items()}
    for loss, (kind, of) in compared().items():
        median = 100 * float(np.expm1(np.median(log_ratios(loss, CVC))))
        yield [
            loss, kind, f"{of.effect.sets}", f"{of.lower}", f"{median:.1f}", f"{signs()[loss]:.2g}",
            _difference(of), f"{of.p:.2g}", raw[loss], beyond(loss),
        ]  # fmt: skip


@cache
def signs() -> dict[str, float]:
    """The p-value of each loss's sign test over data sets, which holds whatever the shape of effects.

    Holm's correction over the exploratory losses.
    """
    alone = {
        loss: float(binomtest(of.lower, of.effect.sets).pvalue)
        for loss, (_, of) in compared().items()
    }
    family = [loss for loss, (kind, _) in compared().items() if kind != "primary"]
    return alone | dict(zip(family, holm([alone[loss] for loss in family]), strict=True))


def decidable(loss: str) -> bool:
    """Whether a loss ran on enough data sets for the corrected sign test: equal signs on all would be significant."""
    kind, of = compared()[loss]
    return of.effect.sets >= (FEWEST_PRIMARY if kind == "primary" else FEWEST_OF_FAMILY)


def beyond(loss: str) -> str:
    """Verdict on data sets beyond these, by the sign test about the median."""
    of = compared()[loss][1]
    if not decidable(loss):
        return f"too few data sets ({of.effect.sets})"
    if signs()[loss] > LEVEL:
        return UNKNOWN
    return AHEAD if 2 * of.lower > of.effect.sets else BEHIND


def _difference(of: SetComparison) -> str:
    effect = of.effect
    return f"{100 * effect.value:.1f} [{100 * effect.low:.1f}, {100 * effect.high:.1f}]"


def powers() -> Iterator[list[str]]:
    """How often a sign test over ten sets finds an effect, by its deviation over sets: alone, after Holm."""
    (of,) = (of for kind, of in compared().values() if kind == "primary")
    yield ["deviation over data sets", *(f"{100 * effect:.0f} %" for effect in EFFECTS)]
    for name, deviation in (("here", of.deviation), ("", 0.055), ("", 0.10), ("", 0.15)):
        shares = [
            " / ".join(
                f"{100 * share:.0f} %" for share in sign_power(of.effect.sets, deviation, effect)
            )
            for effect in EFFECTS
        ]
        yield [f"{deviation:.3f} ({name})" if name else f"{deviation:.3f}", *shares]


def sign_power(sets: int, deviation: float, effect: float, family: int = 8) -> tuple[float, float]:
    """Power of the two-sided sign test for normal logarithms of ratios: of one comparison, and after Bonferroni."""
    lower = norm.cdf(np.log1p(effect) / deviation)  # the chance that a data set shows the sign
    counts = np.arange(sets + 1)
    chances = binom.pmf(counts, sets, lower)
    p_values = np.array([binomtest(int(count), sets).pvalue for count in counts])
    return tuple(float(chances[p_values <= level].sum()) for level in (LEVEL, LEVEL / family))


def draw_ranks() -> Picture:
    """Mean ranks of all losses, with their critical difference."""
    names, over, found = ranks("digits_lt")
    figure, axes = panel(7, 1.6 + 0.3 * len(names))
    draw_critical_difference(
        axes, names, found.mean_ranks, found.critical_difference,
        title=f"mean ranks by NLL after CVC over {len(over)} data sets",
        note=f"joined: no significant difference (Nemenyi, 5 %); all alike (Friedman): p = {found.friedman_p:.2g}",
    )  # fmt: skip
    ranked = zip(names, found.mean_ranks, strict=True)
    return Picture(figure, [{"loss": name, "mean_rank": rank} for name, rank in ranked])


def pairs_by_set() -> Iterator[list[str]]:
    """Each loss against cross-entropy on each data set, after CVC."""
    yield ["loss, NLL +CVC0", *sets().values()]
    for loss in losses()[1:]:
        ran = sets(loss)
        yield [loss, *(against_base(loss, CVC, [data]) if data in ran else "" for data in sets())]


def few_labels() -> Iterator[list[str]]:
    """Each loss on a tenth of the digits' labels, and how likely it has lower scores than cross-entropy."""
    columns = {"Error %": ("error", "raw"), "NLL": ("nll", "raw"), "NLL +CVC0": ("nll", CVC)}
    yield ["loss", *columns, *(f"P(lower {title} than cross-entropy)" for title in columns)]
    for loss in losses():
        means = (
            tuned.mean(pd.Series(values("digits_tenth", loss, *place), name=place[0]))
            for place in columns.values()
        )
        pairs = (
            against_base(loss, calibrator, ["digits_tenth"], metric)
            for metric, calibrator in columns.values()
        )
        yield [loss, *means, *(pairs if loss != BASE else [""] * len(columns))]


def spans() -> Iterator[list[str]]:
    """From the best loss to the worst one: NLL, its two parts, and after CVC."""
    columns = {
        "NLL": ("nll", "raw"),
        "of it refinement": ("nll_refinement", "raw"),
        "of it calibration": ("nll_calibration", "raw"),
        "NLL +CVC0": ("nll", CVC),
    }
    yield ["data set", "runs a loss", *columns]
    for data, title in sets().items():
        means = {
            name: [values(data, loss, *place).mean() for loss in losses(data)]
            for name, place in columns.items()
        }
        runs = str(len(values(data, BASE, "nll", "raw")))
        yield [title, runs, *(f"{min(of):.3f} to {max(of):.3f}" for of in means.values())]


def learning_curves() -> Iterator[list[str]]:
    """How much lower than raw the NLL is after each calibrator, by examples that it was fitted on."""
    gains = build_curves(posthoc("posthoc_sizes.csv")[0], "nll")
    yield ["calibrator", *(f"{size:g} examples" for size in gains.columns)]
    for name in sorted(
        set(gains.index) - {RAW}, key=lambda name: (-gains.loc[name].iloc[-1], name)
    ):
        yield [name, *(f"{round(gain, 4) + 0.0:.4f}" for gain in gains.loc[name])]


def shifted(benchmark: str) -> Iterator[list[str]]:
    """Calibrators and cures on a long-tailed benchmark."""
    yield from label_shift.table(shifts()[benchmark])


def over_regimes() -> Iterator[list[str]]:
    """Losses of four regimes of the full width or more against cross-entropy, on the runs that both have, after CVC.

    No test: regimes of one data set are no sample of data sets.
    """
    logs: dict[str, list[float]] = {}
    for data in SPEEDRUNS:
        nll = speedrun.by_run(full_runs(data), "nll", speedrun.CVC)
        for loss in nll.index.drop(BASE):
            ours, theirs = nll.loc[[loss, BASE]].dropna(axis=1).mean(axis=1)
            logs.setdefault(loss, []).append(float(np.log(ours / theirs)))
    primary = load_suite("suites/evidence_speedrun").primary.losses
    exploratory = [loss for loss, values in logs.items() if len(values) > 3 and loss not in primary]
    yield [
        "loss",
        "comparison",
        "regimes",
        "regimes with lower NLL",
        "mean difference after CVC, %",
    ]
    for loss in [*primary, *sorted(exploratory, key=lambda loss: float(np.mean(logs[loss])))]:
        of_loss = np.array(logs[loss])
        kind = "primary" if loss in primary else "exploratory"
        mean = f"{100 * np.expm1(of_loss.mean()):.1f}"
        yield [loss, kind, f"{len(of_loss)}", f"{(of_loss < 0).sum()}", mean]


def with_methods(benchmark: str) -> pd.DataFrame:
    """The runs of a benchmark with each method, and their ensembles."""
    runs = pd.read_csv(RESULTS / "methods.csv")
    return runs[runs["benchmark"] == benchmark]


def claims_table() -> Iterator[list[str]]:
    """The papers' claims, one by one."""
    yield ["paper", "claim", "found", "data sets", "verdict"]
    yield from claims.rows(yaml.safe_load(claims.CLAIMS.read_text()), numbers())


@cache
def posthoc(file: str) -> tuple[pd.DataFrame, BenchmarkSummary | None]:
    """Rows of `calibench posthoc`, and their summary if calibrators were fitted on all examples."""
    metrics = ["nll", "brier", "ece", "error"]
    found = build_frame(pd.read_csv(RESULTS / file).to_dict("records"), metrics)
    return found, summarise_results(found, metrics) if not found["size"].any() else None


def sentences() -> str:
    """README's four findings, with their numbers."""
    findings = (_temperature_finding(), _choice_finding(), _loss_finding(), _method_finding())
    return "\n".join(
        fill(
            text,
            150,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for text in findings
    )


def _temperature_finding() -> str:
    models, summary = posthoc("posthoc_real.csv")
    before, after = (100 * summary.means["ece"][name] for name in (RAW, TS))
    fall, networks = ece_fall(), len(models.groupby(["dataset", "model"]))
    return (
        f"**One fitted temperature lowers the ECE** of {networks} public networks from {before:.1f} % to {after:.1f} %."
        f" Averaged over their {fall.sets} data sets, it falls by {fall.value:.1f} percentage points"
        f" (95 % interval [{fall.low:.1f}, {fall.high:.1f}]; [all calibrators]({ON_GITHUB}/results/posthoc_real.md))."
    )


def _choice_finding() -> str:
    models, _ = posthoc("posthoc_real.csv")
    nll = models.groupby(["dataset", "calibrator"])["nll"].mean().unstack()
    lower = int((nll["CrossValidatedCalibration"] < nll[TS]).sum())
    return (
        f"**A calibrator chosen by cross-validation** has a lower NLL than temperature scaling on {lower} of these"
        f" {len(nll)} data sets ([by how much]({ON_GITHUB}/results/posthoc_real.md#five-random-halves))."
        " They are too few to generalise."
    )


def _loss_finding() -> str:
    significant = sum(beyond(loss) in ("lower", "higher") for loss in compared())
    counted = sum(map(decidable, compared()))
    alone, corrected = (100 * share for share in sign_power(len(sets()), 0.06, 0.05))
    return (
        f"**After that calibrator**, in its published form (without calibench's shrinkage), {_count(significant)} of"
        f" the {counted} losses that ran"
        f" on all {len(sets())} data sets differs significantly in NLL from cross-entropy. They may still differ:"
        f" with {len(sets())} data sets, the power to detect a difference of 5 % is only {corrected:.0f} %"
        f" ({alone:.0f} % if it were the only comparison; [table and limits]({SITE}/concepts/do-losses-matter.html))."
    )


def _method_finding() -> str:
    of_cifar, of_digits = (method_effects(name) for name in ("cifar10_methods", "digits_lt"))
    mean, low, high = of_cifar[training_methods.ENSEMBLE]
    lower = sum(high < 0 for _, _, high in of_cifar.values())
    significant = sum(not low <= 0 <= high for _, low, high in of_digits.values())
    return (
        "**An ensemble of three networks** lowers the NLL after that calibrator, with calibench's default shrinkage, by"
        f" {-mean:.3f} on CIFAR-10 (simultaneous 95 % interval"
        f" [{-high:.3f}, {-low:.3f}]). {_count(lower - 1).capitalize()} of the"
        f" eight other losses and methods lowers it significantly. On long-tailed digits, {_count(significant)} of"
        f" these nine changes it significantly ([all methods]({ON_GITHUB}/results/methods.md))."
    )


def _count(number: int) -> str:
    return str(number) if number else "none"


def ece_fall() -> SetMean:
    """Fall of the mean ECE by temperature scaling, in percentage points, with its t interval over data sets."""
    models, _ = posthoc("posthoc_real.csv")
    ece = models.groupby(["dataset", "calibrator"])["ece"].mean().unstack()
    return mean_over_sets(100 * (ece[RAW] - ece[TS]).to_numpy())


def method_effects(benchmark: str) -> dict[str, tuple[float, float, float]]:
    """Change of NLL after CVC by each loss and method: mean, low and high, corrected for all nine."""
    _, *rows = training_methods.changes(with_methods(benchmark))
    cells = {row[1]: re.findall(r"[-+][.\d]+", row[-1]) for row in rows if row[1] != LONGER}
    return {name: tuple(map(float, numbers)) for name, numbers in cells.items()}


def calibrators() -> str:
    """All calibrators, as `calibench posthoc` prints them."""
    text = markdown(posthoc("posthoc_real.csv")[1].grid())
    return text.partition("\n\n")[2].rstrip("\n")  # the page has a heading of its own


def halves() -> Iterator[list[str]]:
    """Gains over temperature scaling of each half, largest mean first."""
    means = posthoc("posthoc_real.csv")[0].set_index(["dataset", "model", "repeat", "calibrator"])
    nll, brier = (means[score].unstack() for score in ("nll", "brier"))
    lower = nll.lt(nll[TS], axis=0).groupby(level=["dataset", "model"])
    yield [
        "calibrator",
        "PHI NLL over TS",
        "PHI Brier over TS",
        "models with a lower NLL than TS in all five halves",
        "in some",
    ]
    gains = [-found.sub(found[TS], axis=0).groupby(level="repeat").mean() for found in (nll, brier)]
    for name in gains[0].mean().drop(TS).sort_values(ascending=False, kind="stable").index:
        cells = [_spread(gain[name], gain[name].mean()) for gain in gains]
        yield [
            name,
            *cells,
            *(str(count[name]) for count in (lower.all().sum(), lower.any().sum())),
        ]


def speedrun_calibrators() -> Iterator[list[str]]:
    """Gains over temperature scaling on the speedrun's networks of a data set: the median, and on how many."""
    nll = posthoc("posthoc_speedrun.csv")[0].groupby(["dataset", "model", "calibrator"])["nll"]
    of_models = nll.mean().unstack()
    gains = of_models.rsub(of_models[TS], axis=0)
    data = {name: gains.loc[name] for name in ("cifar10_speedrun", "cifar100_speedrun")}
    titles = [SETS.get(name, "CIFAR-10") for name in data]
    yield [
        "calibrator",
        *(f"{title}, PHI NLL over TS" for title in titles),
        *(f"{title}, networks with a lower NLL than TS" for title in titles),
    ]
    medians = sum(of.median() for of in data.values())
    for name in medians.drop(TS).sort_values(ascending=False, kind="stable").index:
        cells = [_spread(of[name], of[name].median()) for of in data.values()]
        yield [name, *cells, *(f"{(of[name] > 0).sum()} of {len(of)}" for of in data.values())]


def _spread(values: pd.Series, middle: float) -> str:
    """Mean or median, with the least and the largest value."""
    of, least, most = (
        f"{round(value, 4) + 0.0:.4f}" for value in (middle, values.min(), values.max())
    )
    return of if of == "-inf" else f"{of} [{least} to {most}]"


TABLES: dict[str, Callable[[], str | Iterator[Sequence[str]]]] = {
    "sentences": sentences,
    "calibrators": calibrators,
    "halves": halves,
    "speedrun calibrators": speedrun_calibrators,
    "losses": pairs,
    "over sets": over_sets,
    "power": powers,
    "pairs by set": pairs_by_set,
    "spans": spans,
    "claims": claims_table,
    "learning curves": learning_curves,
    "few labels": few_labels,
    "validated": lambda: validated.table(pd.read_csv(RESULTS / "validated.csv")),
    "rates": lambda: rates.table(searched()),
    "speedrun": lambda: speedrun.losses(full_runs()),
    "speedrun cifar100": lambda: speedrun.losses(full_runs("cifar100")),
    "speedrun cifar10_lt": lambda: speedrun.losses(full_runs("cifar10_lt")),
    "speedrun cifar100_lt": lambda: speedrun.losses(full_runs("cifar100_lt")),
    "speedrun overconfident": lambda: speedrun.losses(full_runs("cifar10_overconfident")),
    "speedrun small": lambda: speedrun.losses(small_runs()),
    "speedrun one rate": lambda: speedrun.losses(at_one_rate()),
    "speedrun small cifar100": lambda: speedrun.losses(small_runs("cifar100")),
    "speedrun small cifar10_lt": lambda: speedrun.losses(small_runs("cifar10_lt")),
    "speedrun small cifar100_lt": lambda: speedrun.losses(small_runs("cifar100_lt")),
    "speedrun small overconfident": lambda: speedrun.losses(small_runs("cifar10_overconfident")),
    "speedrun over regimes": over_regimes,
    "speedrun shifts": lambda: speedrun.shifts(full_runs()),
    "speedrun shifts overconfident": lambda: speedrun.shifts(full_runs("cifar10_overconfident")),
    "speedrun orders": lambda: speedrun.orders(
        *({data: runs(data) for data in SPEEDRUNS} for runs in (full_runs, small_runs))
    ),
    "methods": lambda: training_methods.scores(with_methods("digits_lt")),
    "changes": lambda: training_methods.changes(with_methods("digits_lt")),
    "methods cifar10": lambda: training_methods.scores(with_methods("cifar10_methods")),
    "changes cifar10": lambda: training_methods.changes(with_methods("cifar10_methods")),
    "tuned": lambda: tuned.table(pd.read_csv(RESULTS / "tuned.csv")),
    "label shift digits_lt": lambda: shifted("digits_lt"),
    "label shift cifar10_lt": lambda: shifted("cifar10_lt_small"),
    "label shift by loss": lambda: label_shift.by_loss(shifts()["cifar10_lt_small"]),
}


def piped(table: Table) -> str:
    """The rows as Markdown, the first one as the heading."""
    head, *rows = table
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


@cache
def made(name: str) -> str | Table:
    """A table of `TABLES`, or its text, made once."""
    table = TABLES[name]()
    return table if isinstance(table, str) else list(table)


def rewritten(text: str) -> str:
    """A page with its tables made again."""

    def block(found: re.Match[str]) -> str:
        table = made(found[1])
        text = table if isinstance(table, str) else piped(table)
        return f"<!-- evidence: {found[1]} -->\n{text}\n<!-- /evidence -->"

    return re.sub(r"<!-- evidence: (.*?) -->\n.*?<!-- /evidence -->", block, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the pages, and draw their picture again."""
    for name in PAGES:
        page = BENCHMARKS.parent / name
        page.write_text(rewritten(page.read_text()))
    draw_ranks().write(FIGURE)


if __name__ == "__main__":
    main()
