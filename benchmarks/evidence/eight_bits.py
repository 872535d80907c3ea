"""What logits of 8 bits would do to a store: its size, and which numbers would still follow.

    python benchmarks/evidence/eight_bits.py [--every 10] [--output benchmarks/results/eight_bits.csv]

Distances from a row's largest logit are rounded to 255 steps of equal ratio from 2^-8 to 2^6, 18 in an octave: each by
at most 1.9 % of itself (float16: 0.05 %), or by 2^-8 below that, so the NLL moves by at most 0.019 (NLL + ln K) + 2^-8.
Of each entry looked at: bytes of its logits as float16 and as 8 bits, both compressed; how many raw numbers differ by
more than float16 may make them; and the largest change of the NLL and of the ECE, beside the ECE itself.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibench import store
from calibench.evaluation import Evaluation
from calibench.evaluation.verify import tolerated_difference
from calibench.runs import Predictions
from calibench.store.packing import round_predictions
from calibench.tables.text import rows_csv

LOW, HIGH, STEPS = -8.0, 6.0, 254


def codes(logits: np.ndarray) -> np.ndarray:
    """A byte for each distance from the largest of a row: 0 for none, then steps of equal ratio."""
    distance = logits.max(1, keepdims=True) - logits
    with np.errstate(divide="ignore"):
        place = (np.log2(distance) - LOW) / (HIGH - LOW) * STEPS
    return np.where(distance == 0, 0, 1 + np.clip(np.rint(place), 0, STEPS)).astype(np.uint8)


def decoded(found: np.ndarray) -> np.ndarray:
    """Logits (N, K) of bytes, the largest of each row 0."""
    sizes = 2 ** (LOW + (np.arange(256) - 1) / STEPS * (HIGH - LOW))
    return -np.where(np.arange(256) == 0, 0, sizes).astype(np.float32)[found]


def size(array: np.ndarray) -> int:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, logits=array)
    return len(buffer.getvalue())


def row(entry: store.Entry) -> dict[str, object]:
    """What 8 bits do to an entry."""
    sets = entry.predictions()
    coded = {name: codes(part.logits) for name, part in sets.items()}
    as_bytes = {n: replace(part, logits=decoded(coded[n])) for n, part in sets.items()}
    started = time.process_time()
    told = numbers(sets)
    seconds = time.process_time() - started
    found = numbers(as_bytes)
    change = {key: abs(found[key] - value) for key, value in told.items()}
    wrong = [
        k
        for k, v in told.items()
        if not change[k] <= tolerated_difference(k, v, sets[k.split], exact=False)
    ]
    largest = {name: max(change[k] for k in change if k.metric == name) for name in ("nll", "ece")}
    return {
        "entry": entry.name, "examples": sum(part.examples for part in sets.values()),
        "bytes_float16": sum(size(round_predictions(part)["logits"]) for part in sets.values()),
        "bytes_8": sum(map(size, coded.values())), "numbers": len(told), "beyond_float16": len(wrong),
        **{f"{name}_change": round(value, 6) for name, value in largest.items()},
        "ece": round(max(v for k, v in told.items() if k.metric == "ece"), 6),
        "raw_seconds": round(seconds, 3),
    }  # fmt: skip


def numbers(sets: dict[str, Predictions]) -> dict:
    return {number.key: number.value for number in Evaluation([], [15])(sets).numbers}


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=10, help="every so manieth entry of the store")
    parser.add_argument("--output", type=Path, help="a CSV file")
    options = parser.parse_args(given)
    found = [row(entry) for entry in list(store.entries("store"))[:: options.every]]
    if options.output:
        options.output.write_text(rows_csv(found))
    total = {
        name: sum(float(str(one[name])) for one in found) for name in found[0] if name != "entry"
    }
    print(*csv_lines(found), sep="\n")
    thousand = 1000 / len(found) / 1e6
    print(
        f"{total['beyond_float16']:.0f} of {total['numbers']:.0f} raw numbers do not follow; 1,000 such entries: "
        f"{total['bytes_float16'] * thousand:.0f} MB of logits as float16, {total['bytes_8'] * thousand:.0f} MB as "
        f"8 bits; their raw numbers {total['raw_seconds'] * 1000 / len(found):.0f} CPU seconds"
    )


def csv_lines(found: list[dict[str, object]]) -> list[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, found[0])
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue().splitlines()


if __name__ == "__main__":
    main()
