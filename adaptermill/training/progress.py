"""What a run tells while it goes on: a line for people, a record for programs."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import torch

from adaptermill.training.batches import Shares
from adaptermill.training.checkpoint import StateFolder
from adaptermill.training.tracking import Trackers

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Figures per optimizer step: all in `train_log.jsonl`, a line now and then on stdout."""

    def __init__(
        self,
        state: StateFolder,
        total_rows: int,
        device: torch.device,
        trackers: Trackers,
    ) -> None:
        self.state = state
        self.trackers = trackers
        self.total_rows = total_rows
        self.device = device
        self.started = self.last_line = time.monotonic()
        self.rows = self.tokens = 0
        self.terminal = sys.stdout.isatty()

    def step(
        self, done: int, step: int, epoch: int, shares: Shares, figures: dict[str, Any]
    ) -> None:
        """Notes one optimizer step: `done` rows of the plan; `shares` says what this one ran."""
        self.rows += len(shares.lengths)
        self.tokens += shares.tokens
        seconds = max(time.monotonic() - self.started, 1e-9)
        rows_per_s = self.rows / seconds
        record = {
            "rows": done,
            "of": self.total_rows,
            "step": step,
            "epoch": epoch,
            **figures,
            "prefix_saved": round(shares.saved / shares.tokens, 4),
            "rows_per_s": round(rows_per_s, 3),
            "tokens_per_s": round(self.tokens / seconds, 1),
            "eta_s": round((self.total_rows - done) / rows_per_s),
            "peak_gb": round(self.peak_gb(), 3),
        }
        self.state.log(record)
        self.trackers.log(record)
        now = time.monotonic()
        if done == self.total_rows or now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        shown = " ".join(
            f"{name} {record[name]:.4f}" for name in ("ce", "anchor") if record[name] is not None
        )
        line = (
            f"{record['rows']:>6}/{self.total_rows} rows  {record['rows_per_s']:.2f} rows/s  "
            f"{record['tokens_per_s']:.0f} tokens/s  prefix saved {record['prefix_saved']:.0%}  "
            f"{shown}  ETA {_clock(record['eta_s'])}"
        )
        if self.terminal:
            share = record["rows"] / self.total_rows
            bar = "#" * round(20 * share)
            ending = "\n" if record["rows"] == self.total_rows else ""
            print(f"\r[{bar:<20}] {line}", end=ending, flush=True)
        else:
            print(line, flush=True)

    def peak_gb(self) -> float:
        """Peak memory in GB: of the GPU where there is one, else of this process."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
