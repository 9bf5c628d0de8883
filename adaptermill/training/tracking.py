"""Experiment trackers, chosen by name; none is needed, and none is loaded unless it is asked for.

    trackers = Trackers(["tensorboard"], "drag", key, settings, folder)

They get the figures of `train_log.jsonl`, and where a run goes on after an interruption, the same
run's curve goes on. wandb works without a network: it writes offline unless WANDB_MODE says else.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from adaptermill.errors import UserError


class Tracker(Protocol):
    """Takes a record of `train_log.jsonl` per optimizer step, until it is closed."""

    def log(self, record: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in `<folder>/tensorboard`."""

    def __init__(self, name: str, run: str, settings: Mapping[str, Any], folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard" / f"{name}-{run}"))
        shown = "\n".join(f"    {key}: {value}" for key, value in settings.items())
        self.writer.add_text("settings", shown)

    def log(self, record: Mapping[str, Any]) -> None:
        for figure, value in numbers(record).items():
            self.writer.add_scalar(figure, value, record["step"])

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A run of Weights & Biases in `<folder>/wandb`, to be synchronised whenever wanted."""

    def __init__(self, name: str, run: str, settings: Mapping[str, Any], folder: Path) -> None:
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "adaptermill"),
            name=name,
            id=run,
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            config=dict(settings),
        )

    def log(self, record: Mapping[str, Any]) -> None:
        self.run.log(numbers(record), step=record["step"])

    def close(self) -> None:
        self.run.finish()


class Trackio:
    """A run of trackio in `<folder>/trackio`."""

    def __init__(self, name: str, run: str, settings: Mapping[str, Any], folder: Path) -> None:
        # It reads its place when it is loaded.
        os.environ.setdefault("TRACKIO_DIR", str((folder / "trackio").resolve()))
        import trackio

        self.trackio = trackio
        trackio.init(
            project="adaptermill",
            name=f"{name}-{run}",
            resume="allow",
            config=dict(settings),
            embed=False,
        )

    def log(self, record: Mapping[str, Any]) -> None:
        self.trackio.log(numbers(record), step=record["step"])

    def close(self) -> None:
        self.trackio.finish()


KINDS: dict[str, Callable[[str, str, Mapping[str, Any], Path], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
}


class Trackers:
    """The trackers of one adapter's run; `UserError` for one that is not installed.

    `name` is the adapter's, `run` the run's identity (resumed runs share it). One that fails later
    is told about and left out: no training ends because of it.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        name: str = "",
        run: str = "",
        settings: Mapping[str, Any] | None = None,
        folder: Path = Path(),
    ) -> None:
        self.opened: list[Tracker] = []
        for kind in names:
            if importlib.util.find_spec(kind) is None:
                raise UserError(
                    f"training.tracking: {kind} is not installed; `pip install {kind}`, or take it "
                    "off the list"
                )
            folder.mkdir(parents=True, exist_ok=True)
            self.opened.append(KINDS[kind](name, run, settings or {}, folder))

    def log(self, record: Mapping[str, Any]) -> None:
        self._each(lambda tracker: tracker.log(record))

    def close(self) -> None:
        self._each(lambda tracker: tracker.close())

    def _each(self, tell: Callable[[Tracker], None]) -> None:
        for tracker in list(self.opened):
            try:
                tell(tracker)
            except Exception as error:  # of a library and a service that training does not need
                self.opened.remove(tracker)
                print(f"{type(tracker).__name__} failed and is left out: {error}", flush=True)


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a record that have a value (a batch without anchor rows has no penalty)."""
    return {figure: value for figure, value in record.items() if value is not None}
