"""`python -m calibench`."""

from calibench.cli import run_program

if __name__ == "__main__":
    run_program()
