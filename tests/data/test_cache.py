from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from calibench.data.cache import load_or_decode


class Decoder:
    """Counts its calls; each returns the number of the call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"pixels": np.full((4, 2), self.calls, dtype=np.uint8)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "images"
    path.parent.mkdir()
    path.write_bytes(b"1234")
    return path


def test_the_second_use_reads_the_file(tmp_path: Path, source: Path) -> None:
    decode, cache = Decoder(), tmp_path / "kept" / "images.npz"
    first, second = load_or_decode(cache, [source], decode), load_or_decode(cache, [source], decode)
    assert decode.calls == 1
    assert set(second) == {"pixels"}
    assert np.array_equal(first["pixels"], second["pixels"])
    assert [path.name for path in cache.parent.iterdir()] == ["images.npz"]  # nothing half-written


def test_a_changed_source_is_decoded_again(tmp_path: Path, source: Path) -> None:
    decode, cache = Decoder(), tmp_path / "images.npz"
    load_or_decode(cache, [source], decode)
    source.write_bytes(b"12345")
    assert load_or_decode(cache, [source], decode)["pixels"][0, 0] == 2


@pytest.mark.parametrize("position", [40, -40])
def test_a_damaged_cache_is_remade(tmp_path: Path, source: Path, position: int) -> None:
    decode, cache = Decoder(), tmp_path / "images.npz"
    load_or_decode(cache, [source], decode)
    content = bytearray(cache.read_bytes())
    content[position] ^= 0xFF
    cache.write_bytes(content)
    assert load_or_decode(cache, [source], decode)["pixels"][0, 0] in (1, 2)
    cache.write_bytes(bytes(content[: len(content) // 2]))
    load_or_decode(cache, [source], decode)
    assert decode.calls >= 2
    before = decode.calls
    load_or_decode(cache, [source], decode)
    assert decode.calls == before


def test_flipped_pixels_are_noticed(tmp_path: Path, source: Path) -> None:
    decode, cache = Decoder(), tmp_path / "images.npz"
    load_or_decode(cache, [source], decode)
    content = cache.read_bytes()
    at = content.index(bytes([1] * 8))
    cache.write_bytes(content[:at] + bytes([7]) + content[at + 1 :])
    assert (load_or_decode(cache, [source], decode)["pixels"] == 2).all()


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path, source: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder is needed")
    decode = Decoder()
    assert load_or_decode(blocked / "images.npz", [source], decode)["pixels"][0, 0] == 1
    assert load_or_decode(blocked / "images.npz", [source], decode)["pixels"][0, 0] == 2


def test_several_may_start_at_once(tmp_path: Path, source: Path) -> None:
    cache, start = tmp_path / "kept" / "images.npz", threading.Barrier(8)

    def decode() -> dict[str, np.ndarray]:
        start.wait(timeout=10)  # all have looked for the file before anyone writes it
        return {"pixels": np.full((200, 300), 7, dtype=np.uint8)}

    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(load_or_decode, cache, [source], decode) for _ in range(8)]
    assert all((result.result()["pixels"] == 7).all() for result in results)
    assert [path.name for path in cache.parent.iterdir()] == ["images.npz"]
    assert (load_or_decode(cache, [source], Decoder())["pixels"] == 7).all()
