"""Weights of a hub that cannot be reached: said at once, and the cache alone is looked into."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from huggingface_hub import constants

from calibench.files import hub


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in hub.VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "name", ["CALIBENCH_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"]
)
def test_a_variable_forbids_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setattr(constants, "ENDPOINT", None)  # whoever asks it fails
    assert hub.reason_offline() == f"{name} is set"
    monkeypatch.setenv(name, "off")
    assert hub.offline_variable() == ""


def test_a_closed_door_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    assert hub.reason_offline().startswith("the hub does not answer (Connect")
    seen = []

    @hub.cache_if_offline()
    def fetch() -> None:
        seen.append(constants.HF_HUB_OFFLINE)
        raise OSError("as the client does")

    with pytest.raises(ValueError, match="the weights are not in the cache: download them"):
        fetch()
    assert (seen, constants.HF_HUB_OFFLINE) == ([True], False)


def test_a_hub_that_is_silent_is_waited_for_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        assert hub.reason_offline().startswith("the hub does not answer (")
        assert time.monotonic() - start < 30


def test_a_hub_that_answers_is_asked_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with hub.cache_if_offline():
            assert constants.HF_HUB_OFFLINE is False
