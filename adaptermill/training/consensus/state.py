"""The state of a consensus run on disk, beside what checkpoint.py keeps (lock, log, refusal).

    state/
      round_<k>/node_<i>.pt    x, z, u (and Adam's moments, where kept) after round k; newest two k
      round_<k>/step_<i>.pt    inside the x-step of round k + 1: x, Adam and position
      best/node_<i>.pt         z of the best round so far

A file per node: nodes may be spread over another number of processes when a run goes on. A round
counts once all of its nodes are there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from adaptermill.atomic import replacing
from adaptermill.consensus.admm import NodeState
from adaptermill.consensus.local import Partial
from adaptermill.errors import UserError
from adaptermill.training.checkpoint import KEPT, StateFolder


class RoundsFolder:
    """Rounds of one run, by key; a file of another run is an error."""

    def __init__(self, state: StateFolder, key: str, nodes: int) -> None:
        self.state = state
        self.key = key
        self.nodes = nodes

    def _place(self, round_: int, kind: str, node: int) -> Path:
        return self.state.folder / f"round_{round_}" / f"{kind}_{node}.pt"

    # ---- rounds --------------------------------------------------------------------------------

    def rounds(self) -> list[int]:
        """Rounds of which every node can be read, oldest first."""
        names = (path.name for path in self.state.folder.glob("round_*"))
        numbers = sorted(int(name.removeprefix("round_")) for name in names)
        return [number for number in numbers if self._is_whole(number)]

    def _is_whole(self, round_: int) -> bool:
        return all(self._read(self._place(round_, "node", n)) for n in range(self.nodes))

    def save(self, round_: int, node: int, state: NodeState, adam: dict[str, Any] | None) -> None:
        content = {"round": round_, "adam": adam, **vars(state)}
        self._write(self._place(round_, "node", node), content)

    def load(self, round_: int, node: int) -> tuple[NodeState, dict[str, Any] | None]:
        content = self._required(self._place(round_, "node", node))
        return NodeState(content["x"], content["z"], content["u"]), content["adam"]

    def forget(self) -> None:
        """Removes all rounds but the newest two, and what lies inside the older one's x-step."""
        whole = self.rounds()
        for number in whole[:-KEPT]:
            shutil.rmtree(self.state.folder / f"round_{number}", ignore_errors=True)
        for number in (0, *whole[:-1]):
            for path in (self.state.folder / f"round_{number}").glob("step_*.pt"):
                path.unlink(missing_ok=True)

    # ---- inside an x-step ----------------------------------------------------------------------

    def save_partial(self, round_: int, node: int, partial: Partial) -> None:
        self._write(self._place(round_, "step", node), vars(partial))

    def load_partial(self, round_: int, node: int) -> Partial | None:
        content = self._read(self._place(round_, "step", node))
        if content is None:
            return None
        return Partial(content["step"], content["x"], content["adam"], content["sums"])

    # ---- the best round ------------------------------------------------------------------------

    def save_best(self, node: int, z: torch.Tensor) -> None:
        self._write(self.state.folder / "best" / f"node_{node}.pt", {"z": z})

    def load_best(self, node: int) -> torch.Tensor:
        return self._required(self.state.folder / "best" / f"node_{node}.pt")["z"]

    # ---- files ---------------------------------------------------------------------------------

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        kept = {name: _on_cpu(value) for name, value in content.items()}
        try:
            with replacing(path) as temporary:
                torch.save({"key": self.key, **kept}, temporary)
        except (OSError, RuntimeError) as error:  # torch's writer has an error of its own
            raise UserError(
                f"the checkpoint {path} cannot be written ({error}); is the disk full, or the "
                "folder not writable? Mend that and start again: the round before it is kept"
            ) from None

    def _required(self, path: Path) -> dict[str, Any]:
        content = self._read(path)
        if content is None:
            raise UserError(f"{path} is missing or damaged; start again to go on without it")
        return content

    def _read(self, path: Path) -> dict[str, Any] | None:
        """What the file holds; None where there is none that can be read."""
        if not path.is_file():
            return None
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file shows itself in many ways
            print(f"{path} cannot be read ({error}); going on without it", flush=True)
            return None
        if content["key"] != self.key:
            raise UserError(
                f"{path} belongs to the run {content['key']}, not to {self.key}; delete "
                f"{self.state.folder} and start again"
            )
        return content


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {name: _on_cpu(held) for name, held in value.items()}
    return value
