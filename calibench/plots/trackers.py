"""Trackers (TensorBoard, MLflow, W&B): the diagram and the table of a finished run, handed to those that keep them."""

from collections.abc import Sequence
from typing import Any

from calibench.leaderboard.columns import Column
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.table import build_tables
from calibench.plots.style import Figure
from calibench.runs import Run, read_json
from calibench.tables.evaluation import table_of
from calibench.tables.text import markdown

KEEPING = ("TensorBoardLogger", "MLFlowLogger", "WandbLogger")


def keep_artefacts(loggers: Sequence[Any], run: Run) -> None:
    """Give the diagram and the table of a run that is done to each of its loggers that can keep them.

    A logger of another kind keeps what it was told while it trained.
    """
    keeping = [logger for logger in loggers if type(logger).__name__ in KEEPING]
    if not keeping:
        return
    from calibench.plots.kinds import KINDS
    from calibench.plots.request import Request

    columns = [Column("error"), Column("nll"), Column("ece")]
    tables = build_tables(read_results(run.folder), columns, Column("nll"))
    figure = KINDS["reliability"](Request(tables, Column("ece"))).figure
    table = markdown(table_of(read_json(run.folder / "metrics.json")))
    for logger in keeping:
        _keep(logger, figure, table)


def _keep(logger: Any, figure: Figure, table: str) -> None:
    match type(logger).__name__:
        case "TensorBoardLogger":
            logger.experiment.add_figure("reliability", figure)
            logger.experiment.add_text("table", table)
            logger.experiment.flush()
        case "MLFlowLogger":
            logger.experiment.log_figure(logger.run_id, figure, "reliability.png")
            logger.experiment.log_text(logger.run_id, table, "table.md")
        case "WandbLogger":
            logger.log_image("reliability", [figure])
            logger.log_text("table", columns=["table"], data=[[table]])
