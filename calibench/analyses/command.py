"""Verbs of the analyses and of audit, and the checks of what they name, for which torch is not imported."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from calibench.analyses.arguments import (
    LossArguments,
    LossNames,
    MapChoice,
    NumbersFile,
    RunFolders,
    Training,
    Trust,
    blocks_of,
    checkpoints,
    finished_runs,
    whole_numbers,
)
from calibench.command_line.verb_parser import Count, Option, VerbParser
from calibench.configuration.merging import build_configuration, read_arguments
from calibench.messages.checks import ends_in, positive
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading, say
from calibench.plots.style import PictureFile, check_kept
from calibench.run_configuration.checks import check_configuration

LOSSES = ("CrossEntropyLoss", "FocalLoss:gamma=10", "FocalCalibrationLoss:gamma=10,weight=1.5")


def analyse(kind: Literal["toy", "gradient-norm", "boundary", "features"]) -> int:
    """Make an analysis of a paper from checkpoints or from nothing, and write its numbers as CSV.

    Args:
        kind: What to analyse, before any option.

    Kinds:
        toy            which uncertainty measure follows the true error of probabilities, where it is known
        gradient-norm  how closely the gradient norm of an example follows its Brier score, from checkpoints
        boundary       how sharp the decision boundaries of losses are on the two moons
        features       maps of the features of test examples, from checkpoints

    `calibench analyse KIND --help` explains one.
    """
    raise AssertionError(f"`analyse {kind}` is a verb of its own.")


def toy(
    *, runs: Count = 5, lr: Annotated[float, positive] = 1.0, output: NumbersFile = None
) -> int:
    """Ask which uncertainty measure follows the true error of probabilities, on Gaussians whose posterior is known.

    BSCE-GRA, section 4.3: Pearson .664 for gBS, .638 for DFL, .550 for FL.

    Args:
        runs: Runs, each with its own class means.
        lr: Learning rate (default: 1, the authors').
        output: The correlation of every run, error, measure, gamma and beta: as .csv, or a picture (.png, .svg, .pdf)
            with the .csv beside it.

    Examples:
        calibench analyse toy -o toy.csv
        calibench analyse toy --runs 20 --lr 0.1
    """
    with loading():
        from calibench.analyses.toy import study
    study(runs, lr, output)
    return 0


def gradient_norm(
    runs: RunFolders,
    *,
    trust: Trust = False,
    output: NumbersFile = None,
    epochs: Annotated[list[int] | None, "N,N", whole_numbers(1, "50,350")] = None,
) -> int:
    """Measure how closely the gradient norm of an example follows its uncertainty, from checkpoints.

    The norm of the gradient of its loss with respect to the last linear layer, for every training example, without
    augmentation, and how closely it follows the example's Brier score sum_k (p_k - Y_k)^2 (BSCE-GRA, Figures 4 and 5):
    Pearson's and Spearman's correlation, and the standard deviation of the norm among examples of about the same Brier
    score ("narrow" is the paper's claim), as a mean over 20 bins of [0, 2].

    Args:
        runs: The runs.
        trust: Whether their own classes are built.
        output: Brier score and norm of every example: as .csv, or a picture (.png, .svg, .pdf) with the .csv beside it.
        epochs: Checkpoints of these epochs only, from 1 (default: all).

    Examples:
        calibench fit --config digits_lt --trace.checkpoints '[10, 20, 30]'      keeps the checkpoints of these epochs
        calibench analyse gradient-norm results/digits_lt -o norms.png
        calibench analyse gradient-norm RUN RUN --epochs 50,350 -o norms.csv

    Of a run with checkpoints of several epochs all are taken, of others the evaluated weights. For a loss that couples
    the examples of a batch the norm is N times the example's row of the gradient of a random batch of N; the table says
    so.
    """
    finished = finished_runs(runs)
    found = [checkpoints(run, epochs) for run in finished]
    with loading():
        from calibench.analyses.gradient_norm import study
    study(finished, found, trust, output)
    return 0


def boundary(
    losses: LossNames = LOSSES,
    *,
    argument: LossArguments = (),
    output: NumbersFile = None,
    training: Training,
) -> int:
    """Measure how sharp the decision boundaries of losses are: small networks on the two moons with noise.

    Test error, ECE (15 bins) and the mean length of the gradient of p along the boundary (FCL, Figure 7: two layers of
    10, Adam, 500 epochs, noise .2, gamma 10, weight 1.5). The paper leaves open the number of points and the learning
    rate; here they are 500 training points (5,000 for the test), all of them in every step, and --lr.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: Error, ECE and slope of each loss and seed: as .csv, or a picture (.png, .svg, .pdf) with the .csv
            beside it.
        training: How the networks are trained.

    Examples:
        calibench analyse boundary -o boundary.png                  the paper's two losses and cross-entropy
        calibench analyse boundary FocalLoss:gamma=1 mylosses.my_loss --seeds 5 -o boundary.csv
    """
    blocks = blocks_of(losses, argument)
    with loading():
        from calibench.analyses.boundary import study
    study(blocks, training, output)
    return 0


def features(
    runs: RunFolders, *, trust: Trust = False, output: NumbersFile = None, examples: Count = 2000
) -> int:
    """Map the features that go into the last layer of trained networks, of test examples, into the plane.

    By their principal components, and by t-SNE (whose distances between groups mean nothing), coloured by class and by
    confidence. The runs need their checkpoints and their data.

    Args:
        runs: The runs.
        trust: Whether their own classes are built.
        output: The place of every example in both maps: as .csv, or a picture (.png, .svg, .pdf) with the .csv beside
            it.
        examples: Of the test set.

    Examples:
        calibench analyse features results/digits_lt -o features.png
        calibench analyse features RUN --examples 5000 -o features.csv
    """
    finished = finished_runs(runs)
    with loading():
        from calibench.analyses.features import study
    study(finished, examples, trust, output)
    return 0


def _key(name: str, parser: VerbParser) -> None:
    if not name.startswith(("--model.", "--data.")):
        parser.refuse_option(name)


def frozen_features(
    network: Annotated[str, "RUN|BACKBONE"],
    data: Annotated[str | None, "DATA"] = None,
    *,
    trust: Trust = False,
    output: Annotated[Path, Option("DIR", ("-o",))],
    overrides: Annotated[Sequence[str], Option(rest=_key)] = (),
) -> int:
    """Write what goes into the last layer of a network, of every example, once, and a benchmark of heads on it.

    Heads (a linear one, or an MLP) are then trained with any loss in seconds, as any benchmark.

    Args:
        network: The folder of a finished run, whose weights are taken, or a backbone.
        data: A benchmark, whose data the network is shown (default: the run's own).
        trust: Whether the run's own classes are built.
        output: Folder of the features, which is made.
        overrides: Keys and values of the configuration of DATA, such as --model.backbone.pretrained true.

    Examples:
        calibench features RUN -o probes                 a run's own data
        calibench features RUN cifar100 -o probes        other data of the same kind
        calibench features timm:resnet18 cifar10 --model.backbone.pretrained true -o probes
        calibench sweep probes/probes.yaml --seeds 1..5
        calibench sweep probes/probes.yaml --seeds 1..5 --model.backbone.hidden [256]
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"`--output {output}` is there already: features are written once.")
    options = read_arguments(overrides).options
    is_run = Path(network).is_dir()
    if data is None and (options or not is_run):
        what = "keys of a configuration are" if is_run else f"`{network}` is a backbone, which is"
        raise UsageError(f"{what} shown the data of a benchmark: name it after `{network}`.")
    asked = None
    if data is not None:
        backbone = [] if is_run else [("model.backbone", network)]
        asked = build_configuration([data], [*backbone, *options])
        check_configuration(asked)
    runs = finished_runs([Path(network)]) if is_run else [None]
    if len(runs) > 1:
        raise UsageError(f"{network} holds {len(runs)} runs: name one of them.")
    with loading():
        from calibench.analyses.frozen_features import source_of, write_features
    source = source_of(network, runs[0], asked, trust)
    dimensions, digest = write_features(source, output)
    benchmark = output / f"{output.absolute().name}.yaml"
    say(
        f"{output}  {dimensions} features of {source.title}, digest {digest}",
        f"calibench sweep {benchmark} --seeds 1..5",
    )
    return 0


def _probability(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise UsageError(f"`{name}` must lie in (0, 1), got {value:g}.")
    return value


def plot_loss_surface(
    losses: LossNames,
    *,
    argument: LossArguments = (),
    output: PictureFile,
    posterior: Annotated[float, "P", _probability] = 0.8,
) -> int:
    """Draw what losses do with cross-entropy (CE), for any loss, yours by its import path.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: The picture.
        posterior: True probability of a class, for phi and its root.

    Panels:
        g        the weight on CE's gradient, g(p, gamma) of focal loss (BSCE-GRA, Figure 1), with its peak and the p
                 where it falls below 1 (Mukhoti et al. 2020)
        u        the weight on CE's value, loss / CE
        phi(p)   how steeply the expected loss falls where the true probability is known, whose root is the probability
                 at which training comes to rest (FCL, Figure 5): less than the truth for a loss that makes
                 underconfident
        simplex  the gradient's weight over the simplex of four classes with target 1 (BSCE-GRA, Figure 2), as slices

    Losses are as at the start of training, with classes equally frequent; every point is a batch of one.

    Examples:
        calibench plot loss-surface FocalLoss:gamma=.5 FocalLoss:gamma=1 FocalLoss:gamma=5 -o figure1.png
        calibench plot loss-surface FocalGRALoss:gamma=1 DualFocalGRALoss:gamma=1 BSCEGRALoss:gamma=2 -o figure2.png
        calibench plot loss-surface focal focal_calibration@cifar10/resnet50 BrierLoss -o phi.png
        calibench plot loss-surface mylosses.my_loss cross_entropy -o mine.pdf
    """
    blocks = blocks_of(losses, argument)
    with loading():
        from calibench.analyses.loss_surface import study
    study(blocks, posterior, output)
    return 0


def plot_grad_cam(runs: RunFolders, *, output: PictureFile, maps: MapChoice) -> int:
    """Draw where in test images trained networks find evidence for a class (Grad-CAM, Selvaraju et al. 2017).

    A row for each run, a column for each image. The runs need their checkpoints and their data. The pixel of the
    largest evidence of each map is written beside the picture as CSV.

    Args:
        runs: The runs.
        output: The picture.
        maps: Which maps.

    Examples:
        calibench plot grad-cam results/digits_lt -o cam.png
        calibench plot grad-cam RUN --examples 3,7 --class 8 -o cam.png
        calibench plot grad-cam RUN --boxes BBox_List_2017.csv -o cam.png

    A CSV of boxes has a header; a row is image,class,x,y,width,height (later fields, as ChestX-ray14 has them, are left
    out): the name of an image file, or the number of a test image where images have no files, and pixels of that image.
    Then a table says of each run, for every image and class with boxes in the test set: how often the maximum of the
    map lies in a box (pointing game), and how often the box around the region above 20 % of the maximum has an IoU
    above .1, .3 and .5. The CSV beside the picture has these numbers too, of each run and of each image and class.
    """
    check_kept(output, *filter(None, [maps.boxes]))
    finished = finished_runs(runs)
    with loading():
        from calibench.analyses.grad_cam import draw
    draw(finished, maps, output)
    return 0


def audit(
    losses: LossNames,
    *,
    argument: LossArguments = (),
    output: Annotated[Path | None, Option("FILE", ("-o",)), ends_in(".json", ".md")] = None,
) -> int:
    """Audit any loss: is it proper, finite, right in several processes, differentiable, and what does it cost.

    Does training end at the true probabilities (is it proper), is it finite at logits of 1e4 and -inf, does it depend
    on what it should not, is it batch-coupled, does it work with torch.func, in bfloat16, in 2 and 3 processes with
    unequal and empty shards, and when resumed. A loss is tried in the second of three epochs, after one validation.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: A copy as .json or .md.

    Returns:
        1 if a loss has a fault, else 0.

    Examples:
        calibench audit FocalLoss --argument gamma=3
        calibench audit FocalLoss:gamma=1 FocalLoss:gamma=5 focal_calibration@cifar10/resnet50
        calibench audit mylosses.my_loss -o audit.json     a function of (logits, target), a class of such, or ours
        calibench audit all -o audit.md                    every loss of `calibench list benchmarks` under losses/
    """
    blocks = blocks_of(losses, argument)
    with loading():
        from calibench.loss_audit.page import study
    return study(blocks, output)
