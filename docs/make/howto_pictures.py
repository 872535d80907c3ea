"""Pictures of the how-to pages, by what the pages themselves run.

    python docs/make/howto_pictures.py             writes them into docs/howto/pictures
    python docs/make/howto_pictures.py FOLDER      writes them there

They are drawn of digits, by the first block of `own-logits.md`, and of the runs that come with calibench.
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


def draw_tradeoff() -> bytes:
    """What the command of `in-a-paper.md` draws, as SVG."""
    page = (HOWTO / "in-a-paper.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^calibench (plot tradeoff .*)$", page, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        assert main(shlex.split(command.replace(".pdf", ".svg"))) == 0
        return Path("tradeoff.svg").read_bytes()


PICTURES = {"own_logits": draw_own_logits, "leaderboard": draw_leaderboard}


def draw_pictures(folder: Path) -> None:
    """Write every picture into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams |= {"svg.hashsalt": "calibench", "svg.fonttype": "none"}
    for name, draw in PICTURES.items():
        draw().savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    (folder / "tradeoff.svg").write_bytes(draw_tradeoff())


if __name__ == "__main__":
    draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else HOWTO / "pictures")
