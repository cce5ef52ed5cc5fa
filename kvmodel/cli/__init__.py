"""The command line. Only the module of the command that was asked for is imported: start-up counts."""

import argparse
import io
import os
import re
import sys
from importlib import import_module
from typing import NoReturn

from kvmodel.units import KvError, nearest

COMMANDS = {
    "size": "sizing", "fit": "sizing", "cards": "sizing",
    "tiers": "tiers", "hardware": "tiers", "load": "load", "replay": "replay",
    "claims": "claims", "figures": "figures", "cite": "figures",
    "chapters": "runs", "run": "runs", "sweep": "runs", "scenarios": "runs",
}  # fmt: skip
USAGE = f"usage: kvmodel COMMAND ...\ncommands: {' '.join(COMMANDS)}\nkvmodel COMMAND --help says what a command takes; kvmodel --version prints the version"


class Parser(argparse.ArgumentParser):
    """argparse that refuses in one line and never abbreviates an option."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | kwargs)  # type: ignore[arg-type]
        self._negative_number_matcher = re.compile(r"-\.?\d")  # `--context -5k` is a bad value, to be refused as such, and no option

    def error(self, message: str) -> NoReturn:
        commands = [p for a in self._actions if isinstance(a.choices, dict) for p in a.choices.values()]
        options = sorted({o for p in (self, *commands) for a in p._actions for o in a.option_strings})
        wrong = next((w for w in message.split() if w.startswith("-") and w.split("=")[0] not in options), None) if "unrecognized" in message else None
        near = f"; nearest: {nearest(wrong, options)!r}" if wrong else ""
        raise KvError(f"{self.prog}: {' '.join(message.split())}{near}")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 a run failed, 2 refused with one line on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows only ASCII gets every line too
    try:
        code = _main(argv)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not after us
        return code
    except KvError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a file that cannot be read or written where no command knew better
        print(f"file: {str(error.filename or 'standard output')[:200]!r} is not accepted; accepted: a usable file ({error.strerror})", file=sys.stderr)
    return 2


def _main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if argv[0] == "--version":
        from kvmodel import __version__

        print(f"kvmodel {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise KvError(f"command: {argv[0]!r} is not accepted; accepted: {' '.join(COMMANDS)}; nearest: {nearest(argv[0], COMMANDS)!r}")
    parser = Parser(prog="kvmodel", add_help=False)
    import_module(f"kvmodel.cli.{COMMANDS[argv[0]]}").register(parser.add_subparsers(parser_class=Parser))
    args = parser.parse_args(argv)
    return int(args.run(args) or 0)
