"""One line that says how far an evaluation is."""

from __future__ import annotations

import sys
import time

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Counts rows and tokens; a bar on a terminal, a plain line now and then in a log."""

    def __init__(self, total: int, kept: int) -> None:
        self.total = total
        self.done = self.kept = kept
        self.tokens = 0
        self.nll = 0.0
        self.started = self.last = time.monotonic()

    def row(self, tokens: int, nll: float) -> None:
        """Notes one more row of so many tokens (prompt and answer), with its mean -log p."""
        self.done += 1
        self.tokens += tokens
        self.nll += nll
        now = time.monotonic()
        if self.done == self.total or now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            self._show(max(now - self.started, 1e-9))

    def _show(self, seconds: float) -> None:
        fresh = self.done - self.kept
        minutes, rest = divmod(round((self.total - self.done) * seconds / fresh), 60)
        line = (
            f"{self.done:>6}/{self.total} rows  {fresh / seconds:.2f} rows/s  "
            f"{self.tokens / seconds:.0f} tokens/s  nll {self.nll / fresh:.4f}  "
            f"ETA {minutes}:{rest:02}"
        )
        if sys.stdout.isatty():
            bar = "#" * round(20 * self.done / self.total)
            ending = "\n" if self.done == self.total else ""
            print(f"\r[{bar:<20}] {line}", end=ending, flush=True)
        else:
            print(line, flush=True)
