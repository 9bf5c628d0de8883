"""The consensus trainer: resume, then round by round x-steps, agreement, telemetry, checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from adaptermill.consensus import telemetry
from adaptermill.consensus.admm import Admm, NodeState, NotFinite, Solved
from adaptermill.consensus.communicator import Communicator, Distributed, InProcess
from adaptermill.consensus.local import AdamSteps, Partial
from adaptermill.training.checkpoint import Refusal, StateFolder
from adaptermill.training.consensus.fitting import FIGURES, Fitting
from adaptermill.training.consensus.state import RoundsFolder
from adaptermill.training.processes import Interrupted, Processes, Signals
from adaptermill.training.saving import LEAST_CHANGE, Saving
from adaptermill.training.tracking import Trackers

# What the log says of a round beside its figures; none of it is the same in another run.
PASSING = ("step", "seconds", "eta_s")
SECONDS_BETWEEN_LINES = 30.0


@dataclass
class ConsensusTrainer:
    """One run. Every process has one, with the nodes that it carries.

    `rounds` has what was told of every finished round, on every process.
    """

    fitting: Fitting
    key: str
    state: StateFolder
    processes: Processes
    saving: Saving = field(default_factory=Saving)
    trackers: Trackers = field(default_factory=Trackers)
    on_step: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        self.recipe = self.fitting.recipe
        self.nodes = self.fitting.nodes
        self.device = self.processes.device
        self.communicator: Communicator = (
            Distributed(len(self.nodes)) if self.processes.count > 1 else InProcess(len(self.nodes))
        )
        self.folder = RoundsFolder(self.state, self.key, len(self.nodes))
        self.start = self.fitting.basis.vector()
        self.rounds: list[dict[str, Any]] = []
        self.signals: Signals | None = None
        self._saved_at = self._said_at = time.monotonic()
        self._unsaved = 0

    @property
    def is_per_node(self) -> bool:
        return self.recipe.is_per_node(len(self.nodes))

    @property
    def deployed(self) -> list[int]:
        """The nodes whose vectors are adapters: all, or the first, whose z is everybody's."""
        return list(range(len(self.nodes))) if self.is_per_node else [0]

    # ---- the loop ------------------------------------------------------------------------------

    def run(self, signals: Signals | None = None) -> None:
        """Trains to the last round, from the last checkpoint where there is one.

        Raises `Refusal` when the run cannot end well, and `Interrupted` after a signal, with the
        last finished local step written.
        """
        self.signals = signals or Signals(self.processes.count)
        self.state.check_not_refused()
        admm = self._resume()
        started, first = time.monotonic(), admm.round
        try:
            while admm.round < self.recipe.rounds:
                solved = self._solve(admm)
                with self.signals.held_back():
                    told = self._finish(admm, solved)
                    per_round = (time.monotonic() - started) / (admm.round - first)
                    self._tell(told, per_round)
                    self._checkpoint(admm)
        except Interrupted:
            self.signals.ignore()
            self._save_partials(admm.round)
            self._write_references()
            raise
        self._write_references()
        if self.processes.is_first:
            self._check()

    def _resume(self) -> Admm:
        """The nodes where the newest round that all processes agree on left them."""
        found: Any = None
        if self.processes.is_first:
            logged = len(self._logged())
            newest = max((n for n in self.folder.rounds() if n <= logged), default=0)
            self.state.cut_log(newest)
            found = [newest, self._logged()]
        found = self.processes.agree(found)
        newest, self.rounds = found
        nodes: dict[int, NodeState] = {}
        self.solver = AdamSteps(
            gradient=self.fitting.gradient,
            steps=self.recipe.local_steps,
            learning_rate=self.recipe.learning_rate,
            clip=self.recipe.grad_clip,
            rho=self.recipe.rho,
            figures=FIGURES,
            keep_adam=self.recipe.keep_adam,
            after_step=self._after_step,
            held_back=self.signals.held_back,
        )
        for node in self.communicator.own:
            if newest > 0:
                state, adam = self.folder.load(newest, node)
                nodes[node] = NodeState(*(v.to(self.device) for v in vars(state).values()))
                if adam is not None:
                    self.solver.kept[node] = self._moved(adam)
            if (partial := self.folder.load_partial(newest, node)) is not None:
                x, adam = partial.x.to(self.device), self._moved(partial.adam)
                self.solver.partial[node] = Partial(partial.step, x, adam, partial.sums)
        admm = Admm(self.recipe.coupling, self.solver, self.communicator, self.start, newest, nodes)
        if self.processes.is_first and (newest or self.solver.partial):
            inside = {self.nodes[n].name: p.step for n, p in self.solver.partial.items()}
            steps = ", ".join(f"{name} after step {step}" for name, step in inside.items())
            where = f" ({steps})" if steps else ""
            print(f"resuming after round {newest} of {self.recipe.rounds}{where}", flush=True)
        return admm

    def _moved(self, adam: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Adam's moments where they are used; its count of steps stays on the CPU."""
        return {n: v if n == "step" else v.to(self.device) for n, v in adam.items()}

    def _solve(self, admm: Admm) -> dict[int, Solved]:
        """The x-steps of this process's nodes; all processes stop together if one must."""
        solved: dict[int, Solved] = {}
        trouble, interrupted = None, False
        try:
            solved = admm.solve()
            if self.processes.count > 1:
                self._save_partials(admm.round)  # the others may take long yet
        except NotFinite as error:
            trouble = self._named(error)
            self.state.refuse(trouble)
        except Interrupted:
            if self.processes.count == 1:
                raise
            interrupted = True
        flags = torch.tensor([trouble is not None, interrupted], dtype=torch.float64)
        flags = flags.to(self.device)
        self.processes.sum(flags)
        if trouble is not None:
            raise Refusal(trouble)
        if flags[0]:
            raise Refusal("another process found a value that is not finite")
        if flags[1]:
            raise Interrupted("a signal to one of the processes")
        return solved

    def _finish(self, admm: Admm, solved: Mapping[int, Solved]) -> dict[str, Any]:
        try:
            told = admm.finish(solved)
        except NotFinite as error:
            raise Refusal(f"{error}. Lower learning_rate or raise rho.") from None
        self.solver.end_round()
        if self.recipe.heldout_fraction > 0:
            nll = {n: self.fitting.held_out_nll(n, s.z) for n, s in admm.nodes.items()}
            totals = self.communicator.table(nll, 2).sum(0).tolist()
            told["heldout_nll"] = totals[0] / totals[1]
            if told["heldout_nll"] < min(self._held_out(), default=float("inf")):
                for node in set(self.deployed) & set(admm.nodes):
                    self.folder.save_best(node, admm.nodes[node].z)
        self.rounds.append(told)
        return told

    def _held_out(self) -> list[float]:
        return [told["heldout_nll"] for told in self.rounds]

    @property
    def best_round(self) -> int | None:
        """The round with the lowest held-out NLL, the earliest of equals; None without any."""
        held_out = self._held_out() if self.recipe.heldout_fraction > 0 else []
        return 1 + held_out.index(min(held_out)) if held_out else None

    def _after_step(self, node: int, step: int) -> None:
        """Between two local steps: what was asked for, a line now and then, a checkpoint."""
        if self.on_step is not None:
            self.on_step(node, step)
        if self.signals.pending:
            raise Interrupted("a signal")
        now = time.monotonic()
        round_, inside = divmod(step - 1, self.recipe.local_steps)
        self._unsaved += self.recipe.batch_examples
        if now - self._said_at >= SECONDS_BETWEEN_LINES:
            self._said_at = now
            steps = f"step {inside + 1} of {self.recipe.local_steps}"
            print(f"round {round_ + 1}: {self.nodes[node].name} at {steps}", flush=True)
        late = now - self._saved_at >= 60 * self.saving.every_minutes
        if late or self._unsaved >= self.saving.every_rows:
            self._save_partials(round_)

    # ---- state ---------------------------------------------------------------------------------

    def _save_partials(self, round_: int) -> None:
        for node, partial in self.solver.partial.items():
            self.folder.save_partial(round_, node, partial)
        self._saved_at, self._unsaved = time.monotonic(), 0

    def _checkpoint(self, admm: Admm) -> None:
        for node, state in admm.nodes.items():
            self.folder.save(admm.round, node, state, self.solver.kept.get(node))
        self._saved_at, self._unsaved = time.monotonic(), 0
        # All nodes of the round are there before an older one goes.
        self.processes.sum(torch.zeros(1, device=self.device))
        if self.processes.is_first:
            self.folder.forget()

    def _logged(self) -> list[dict[str, Any]]:
        """What was told of the finished rounds, as far as it can be read."""
        if not self.state.log_path.is_file():
            return []
        found: list[dict[str, Any]] = []
        for text in self.state.log_path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:  # cut short when its writer was killed
                break
            found.append({name: value for name, value in line.items() if name not in PASSING})
        return found

    def _write_references(self) -> None:
        if self.fitting.references is not None:
            self.fitting.references.write()

    # ---- what it tells -------------------------------------------------------------------------

    def _tell(self, told: Mapping[str, Any], seconds: float) -> None:
        if not self.processes.is_first:
            return
        left = self.recipe.rounds - told["round"]
        passing = {"seconds": round(seconds, 3), "eta_s": round(seconds * left)}
        self.state.log({"step": told["round"], **told, **passing})
        self.trackers.log({"step": told["round"], **_single(told)})
        shown = [f"objective {sum(told['objective']) / len(told['objective']):.4f}"]
        shown += [
            f"{name.replace('_', ' ')} {told[name]:.3g}"
            for name in ("primal_residual", "dual_residual", "disagreement", "heldout_nll")
            if name in told
        ]
        shown.append(f"{max(told['bytes_sent']) / 1e6:.2f} MB sent by a node")
        ending = f"ETA {passing['eta_s']} s"
        print(
            f"round {told['round']}/{self.recipe.rounds}  {'  '.join(shown)}  {ending}", flush=True
        )
        if telemetry.first_growing(self.rounds) == told["round"]:
            print(f"warning: {telemetry.warnings(self.rounds)[0]}", flush=True)

    def _named(self, error: NotFinite) -> str:
        """The error with the examples of the minibatch that it came up in."""
        node, partial = next(
            (n, p) for n, p in self.solver.partial.items() if p.step < self.recipe.local_steps
        )
        step = len(self.rounds) * self.recipe.local_steps + partial.step
        rows = "\n".join(f"  {e.chosen.prompt}" for e in self.fitting.batches[node].batch(step))
        name = self.nodes[node].name
        return (
            f"{error} ({name}), in the batch of\n{rows}\n"
            "The last good checkpoint is kept. Look at these rows, or lower learning_rate."
        )

    # ---- the end -------------------------------------------------------------------------------

    def vectors(self) -> dict[int, torch.Tensor]:
        """What is deployed of each node in `deployed`; read from the last round's files."""
        last = self.recipe.rounds
        return {n: self.folder.load(last, n)[0].z.to(self.device) for n in self.deployed}

    def best(self) -> dict[int, torch.Tensor]:
        """The same of the best round; empty where none is known."""
        if self.best_round is None:
            return {}
        return {node: self.folder.load_best(node).to(self.device) for node in self.deployed}

    def _check(self) -> None:
        """`Refusal` for an adapter that must not be written."""
        for node, vector in self.vectors().items():
            what = f"the adapter of {self.nodes[node].name}" if self.is_per_node else "the adapter"
            if not bool(torch.isfinite(vector).all()):
                raise Refusal(f"{what} holds a value that is not finite; it is not written")
            change = self.fitting.basis.relative_change(vector)
            if change < LEAST_CHANGE:
                raise Refusal(
                    f"{what} did not move (relative change {change:.1e}, at least "
                    f"{LEAST_CHANGE:.0e} is wanted); it is not written. Raise learning_rate, "
                    "rounds or local_steps"
                )


def _single(told: Mapping[str, Any]) -> dict[str, float]:
    """Figures for trackers: a number each, of those per node their mean."""
    return {n: sum(v) / len(v) if isinstance(v, list) else v for n, v in told.items()}
