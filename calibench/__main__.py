"""`python -m calibench`."""

import sys

from calibench.cli import main

if __name__ == "__main__":
    sys.exit(main())
