"""Public reports of other programs, tried on this one."""
