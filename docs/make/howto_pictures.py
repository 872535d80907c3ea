"""Pictures of the how-to pages, by what the pages themselves run.

    python docs/make/howto_pictures.py             writes them into docs/howto/pictures
    python docs/make/howto_pictures.py FOLDER      writes them there

They are drawn of digits, by the first block of `own-logits.md` and the commands of `training.md`, and of the runs that
come with calibench.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import tempfile
from pathlib import Path

import matplotlib

import calibench
from calibench.cli import main

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

HOWTO = Path(__file__).resolve().parents[1] / "howto"


def draw_own_logits() -> Figure:
    """Reliability of the test logits that `save_logits.py` writes, raw and after a temperature."""
    page = (HOWTO / "own-logits.md").read_text(encoding="utf-8")
    script = re.search(r'```python title="save_logits.py"\n(.*?)```', page, re.DOTALL)
    assert script is not None
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(script[1], {})
        test = calibench.load("test.npz")
        scaling = calibench.calibrate("val.npz", calibrator="TemperatureScaling")
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    calibench.reliability(test.logits, test.target, title="raw", ax=left)
    probs = scaling.predict_proba(test.logits)
    calibench.reliability(probs, test.target, scores="probs", title="temperature scaling", ax=right)
    return figure


def draw_leaderboard() -> Figure:
    """NLL of seven losses, each after its calibrator: what `figure` of the page's leaderboard draws."""
    return calibench.leaderboard("shipped/digits_lt").figure()


def draw_by_commands(page: str, picture: str, *commands: str) -> bytes:
    """What the commands of a page draw, as SVG, each of them known by how it begins."""
    text = (HOWTO / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for beginning in commands:
            (command,) = re.findall(rf"^ *calibench ({beginning}.*)$", text, re.MULTILINE)
            assert main(shlex.split(re.sub(r"\.(pdf|png)", ".svg", command))) == 0
        return Path(picture).read_bytes()


PICTURES = {"own_logits": draw_own_logits, "leaderboard": draw_leaderboard}
BY_COMMANDS = {
    "tradeoff": ("in-a-paper.md", "plot tradeoff"),
    "curves": ("training.md", "fit --config digits_lt --config losses/flsd", "plot curves"),
}


def draw_pictures(folder: Path) -> None:
    """Write every picture into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams |= {"svg.hashsalt": "calibench", "svg.fonttype": "none"}
    for name, draw in PICTURES.items():
        draw().savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    for name, (page, *commands) in BY_COMMANDS.items():
        picture = draw_by_commands(page, f"{name}.svg", *commands)
        (folder / f"{name}.svg").write_bytes(picture)


if __name__ == "__main__":
    draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else HOWTO / "pictures")
