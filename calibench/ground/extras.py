"""What this project is called where packages are installed from, and how a user installs an extra of it."""

DISTRIBUTION = "calibench-suite"  # as in pyproject.toml; what is imported and typed is `calibench`


def pip_install(extra: str) -> str:
    """The command that installs the libraries of an extra: `pip install 'calibench-suite[text]'`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
