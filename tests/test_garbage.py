"""No search for garbage inside, and as before afterwards."""

from __future__ import annotations

import gc

import pytest

from calibench.garbage import uncollected


def test_the_collector_is_as_before_afterwards() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inside"), uncollected():
        raise ValueError("inside")
    assert gc.isenabled()
