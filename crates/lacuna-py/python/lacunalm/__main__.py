"""The `lacuna` command: `python -m lacunalm generate "..."`."""

import signal
import sys

from ._native import main


def run() -> None:
    """Runs the command with the arguments of the process, and exits with its status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["eval"] and any(argument.split("=")[0] == "--ray" for argument in arguments):
        try:
            from .ray.evaluation import command
        except ImportError as error:
            sys.exit(f"error: {error}")
        sys.exit(command(arguments[1:]))
    # Python would note Ctrl-C and wait until the command is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(arguments))


if __name__ == "__main__":
    run()
