"""What the scripts of this folder share: a GPU or one line, a limit of minutes, results that are measured once."""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch


class Sitting:
    """One start of a script on a device.

    Args:
        options: Those of `parser`.
        settings: What a result depends on beside its name; results of other settings are measured anew.
    """

    def __init__(self, options: argparse.Namespace, **settings: Any) -> None:
        self.path = Path(options.output)
        self.end = time.monotonic() + 60 * options.minutes
        on_gpu = options.device == "cuda"
        device = torch.cuda.get_device_name() if on_gpu else "CPU, one thread"
        self.settings = {"device": device, "torch": torch.__version__, **settings}
        self.missing = 0
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        known = [json.loads(line) for line in lines]
        self.known = {item["name"]: item["values"] for item in known if self._same(item)}
        print(", ".join(f"{key} {value}" for key, value in self.settings.items()), flush=True)

    def _same(self, item: dict[str, Any]) -> bool:
        return bool(item["settings"] == json.loads(json.dumps(self.settings)))

    def measure(self, name: str, values: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The values of a measurement: those on file, or new ones if there is time; else an empty dictionary."""
        if name in self.known:
            return self.known[name]
        if time.monotonic() > self.end:
            self.missing += 1
            return {}
        start = time.perf_counter()
        found = values()
        took = round(time.perf_counter() - start, 1)
        item = {"name": name, "settings": self.settings, "values": found, "seconds": took}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(item) + "\n")
        self.known[name] = found
        return found

    def close(self) -> None:
        """Say how much is left for a second start."""
        if self.missing:
            print(f"{self.missing} left: start again, what is in {self.path} is kept")


def parser(script: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all scripts have."""
    parser = argparse.ArgumentParser(prog=script, description=(doc or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--output", default=f"{Path(script).stem}.jsonl", help="file of results")
    parser.add_argument("--minutes", type=float, default=8.0, help="nothing is begun after so many")
    return parser


def read(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; ends with one line where there is no GPU."""
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            f"{parser.prog}: there is no CUDA device here; `--device cpu` tries the script on small sizes"
        )
    quiet()
    return options


def quiet() -> None:
    """One thread, and nothing of what training warns of."""
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
