"""A sign of life of any verb on a terminal: where nothing was written for some 1.5 seconds, a line counts them."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_CLEAR = "\r\x1b[K"
_SHOW_CURSOR = "\x1b[?25h"  # what a progress bar of rich ends with


class _Watched:
    """A stream of the terminal, and when it was last written to; all else is the stream's own."""

    def __init__(self, stream: TextIO, pulse: "_Pulse") -> None:
        self._stream, self._pulse = stream, pulse

    def write(self, text: str) -> int:
        with self._pulse.lock:
            if text:  # `print` writes an empty end too
                self._pulse.make_room(text)
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Pulse:
    """What was last written, and the line that counts the seconds since."""

    def __init__(self, verb: str, to: TextIO, after: float) -> None:
        self.lock, self.ended = threading.Lock(), threading.Event()
        self._verb, self._to, self._after = verb, to, after
        self._what, self._free, self._shown, self._since = verb, True, False, time.monotonic()

    def make_room(self, text: str = "") -> None:
        """Take the line away for a text that is written now."""
        if self._shown:
            self._to.write(_CLEAR)
        says_what = text.endswith(" ...")  # as `loading ...`, which ends no line
        self._what = text.strip().removesuffix(" ...") if says_what else self._verb
        self._free = says_what or text.endswith(("\n", _CLEAR, _SHOW_CURSOR))
        self._shown, self._since = False, time.monotonic()

    def beat(self) -> None:
        """Count, until it is ended."""
        while not self.ended.wait(self._after / 4):
            seconds = time.monotonic() - self._since
            with self.lock:
                if self._free and seconds >= self._after and not self.ended.is_set():
                    self._to.write(f"{_CLEAR}{self._what} ... {seconds:.0f} s")
                    self._to.flush()
                    self._shown = True


@contextmanager
def signs_of_life(verb: str, after: float = 1.5) -> Iterator[None]:
    """Count the seconds on stderr while what is inside writes nothing, if both streams are a terminal.

    Progress bars are left alone; so are further processes of one training, and forks.

    Args:
        verb: What is said to be at work.
        after: Seconds of silence before it is said.
    """
    streams = sys.stdout, sys.stderr
    if not all(stream.isatty() for stream in streams) or "LOCAL_RANK" in os.environ:
        yield
        return
    pulse = _Pulse(verb, sys.stderr, after)

    def restore() -> None:
        sys.stdout, sys.stderr = streams

    os.register_at_fork(after_in_child=restore)
    watched: Any = [_Watched(stream, pulse) for stream in streams]
    sys.stdout, sys.stderr = watched
    thread = threading.Thread(target=pulse.beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        pulse.ended.set()
        thread.join()
        pulse.make_room()
        restore()
