"""Trackers (TensorBoard, MLflow, W&B): the diagram and the table of a finished run, handed to those that keep them."""

from collections.abc import Callable, Sequence
from typing import Any

from calibench.plots.style import Figure
from calibench.ranking.columns import Column
from calibench.ranking.reading import read_results
from calibench.ranking.table import build_tables
from calibench.runs import Run, read_json
from calibench.tables.evaluation import metrics_table
from calibench.tables.text import markdown

Keep = Callable[[Any, "Figure", str], None]


def keep_artefacts(loggers: Sequence[Any], run: Run) -> None:
    """Give the diagram and the table of a run that is done to each of its loggers that can keep them.

    A logger of another kind keeps what it was told while it trained.
    """
    kinds = [(logger, type(logger).__name__) for logger in loggers]
    keeping = [(logger, KEEP[kind]) for logger, kind in kinds if kind in KEEP]
    if not keeping:
        return
    from calibench.plots.kinds import PICTURE_KINDS
    from calibench.plots.selection import Request

    columns = [Column("error"), Column("nll"), Column("ece")]
    tables = build_tables(read_results(run.folder), columns, Column("nll"))
    figure = PICTURE_KINDS["reliability"](Request(tables, Column("ece"))).figure
    table = markdown(metrics_table(read_json(run.folder / "metrics.json")))
    for logger, keep in keeping:
        keep(logger, figure, table)


def _in_tensorboard(logger: Any, figure: Figure, table: str) -> None:
    logger.experiment.add_figure("reliability", figure)
    logger.experiment.add_text("table", table)
    logger.experiment.flush()


def _in_mlflow(logger: Any, figure: Figure, table: str) -> None:
    logger.experiment.log_figure(logger.run_id, figure, "reliability.png")
    logger.experiment.log_text(logger.run_id, table, "table.md")


def _in_wandb(logger: Any, figure: Figure, table: str) -> None:
    logger.log_image("reliability", [figure])
    logger.log_text("table", columns=["table"], data=[[table]])


KEEP: dict[str, Keep] = {
    "TensorBoardLogger": _in_tensorboard,
    "MLFlowLogger": _in_mlflow,
    "WandbLogger": _in_wandb,
}
