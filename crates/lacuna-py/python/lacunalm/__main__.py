"""The `lacuna` command: `python -m lacuna generate "..."`."""

import sys

from ._native import main


def run() -> None:
    """Runs the command with the arguments of the process, and exits with its status."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
