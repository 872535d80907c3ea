"""`python -m tests.golden.record [NAME ...]` writes expected files anew; `--keys` and `--fixtures` the others.

The tests write them, so that they are made as they are compared. Fixtures are files of an earlier version that must
stay readable: they are written anew only where a change of their format is meant.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def record(names: list[str]) -> int:
    """Write the expected files of some commands, by default all; returns pytest's exit code."""
    from tests.golden.desk import EXPECTED, commands
    from tests.golden.test_commands import RECORD

    known = commands()
    if wrong := [name for name in names if name not in known]:
        sys.exit(f"no such commands in commands.yaml: {', '.join(wrong)}")
    for path in [] if names else EXPECTED.glob("*.txt"):
        if path.stem not in known:
            path.unlink()
    os.environ[RECORD] = "1"
    file = HERE / "test_commands.py"
    tests = [f"{file}::test_command[{name}]" for name in names] or [f"{file}::test_command"]
    return int(pytest.main(["-q", "-m", "slow or not slow", "--durations=12", *tests]))


def main(arguments: list[str]) -> int:
    """What the arguments ask for."""
    if arguments == ["--fixtures"]:
        from tests.golden.fixtures_made import write_fixtures

        write_fixtures()
        return 0
    if arguments == ["--keys"]:
        from tests.golden.keys import write_keys

        write_keys()
        return 0
    return record(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
