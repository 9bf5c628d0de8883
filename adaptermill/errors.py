"""Errors that a person can act on.

A `UserError` is something the user can mend: its text names the file (and line) and the way out.
Command lines print it without a traceback and end with status 2; anything else is a bug and keeps
its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

EXIT_USER_ERROR = 2


class UserError(Exception):
    """What is wrong, where, and how to mend it, in words for the person who runs the pipeline."""


def run_command(
    main: Callable[[list[str] | None], int | None], argv: list[str] | None = None
) -> int:
    """Runs `main(argv)`, turning a `UserError` into a message on stderr and exit status 2.

    Returns the exit status for `sys.exit`.
    """
    try:
        return main(argv) or 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return EXIT_USER_ERROR
