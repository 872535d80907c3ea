"""Standard streams of a process that was started without some of them (`>&-`)."""

import os
import sys


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Python has None for such a stream, and the next file that is opened would get its descriptor, to which libraries
    write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
