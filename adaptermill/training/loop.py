"""The anchored trainer: set up, loop, save.

A row is either a cross-entropy row (the adapter's own families) or an anchor row (the others), held
near the reference: the base without the adapter, or a frozen copy of the adapter it started from.
Each process takes a part of every global batch and runs its rows one at a time, behind their common
prefix where that is known to be exact; the gradients are summed in one all-reduce per optimizer
step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel

from adaptermill.models.encode import Encoded
from adaptermill.models.scoring import target_logits, token_logps
from adaptermill.models.states import why_unknown
from adaptermill.training import lora
from adaptermill.training.batches import PlanLine, Shares, cut, plan_shares
from adaptermill.training.checkpoint import Refusal, StateFolder
from adaptermill.training.dropout import DropoutKeys, position_keys
from adaptermill.training.examples import Examples
from adaptermill.training.objectives import anchor_penalty, cross_entropy
from adaptermill.training.prefix import SharedPrefix
from adaptermill.training.processes import Interrupted, Processes, Signals
from adaptermill.training.progress import Progress
from adaptermill.training.recipe import Recipe
from adaptermill.training.recomputation import Recomputation
from adaptermill.training.references import References
from adaptermill.training.saving import LEAST_CHANGE, Saving
from adaptermill.training.schedule import multiplier
from adaptermill.training.tracking import Trackers
from adaptermill.training.vision import Screenshots

CLIP_NORM = 1.0
# What is summed over the processes beside the gradients, in this order.
SUMS = (
    "ce",
    "ce_rows",
    "anchor",
    "anchor_rows",
    "clamped",
    "anchor_tokens",
    "not_finite",
    "interrupted",
)


@dataclass
class Shortcuts:
    """What makes training faster or smaller; results stay the same but for rounding.

    `token_budget`: rows longer than so many tokens are run with recomputation; None keeps all
    activations. `references`: where reference log-probabilities are kept; None computes them again
    whenever a row is asked for.
    """

    share_prefix: bool = True
    token_budget: int | None = None
    references: References | None = None


@dataclass
class Trainer:
    """One training run. `model` is the base with the adapter on it, `plan` what to train on."""

    model: PeftModel
    examples: Examples
    plan: Sequence[PlanLine]
    recipe: Recipe
    key: str
    state: StateFolder
    processes: Processes
    keys: DropoutKeys
    saving: Saving = field(default_factory=Saving)
    shortcuts: Shortcuts = field(default_factory=Shortcuts)
    trackers: Trackers = field(default_factory=Trackers)
    on_step: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self.device = self.processes.device
        self.parameters = lora.parameters(self.model)
        self.base = self.model.get_base_model()
        self.share_prefix = self.shortcuts.share_prefix and why_unknown(self.base.config) is None
        self.screenshots = Screenshots(self.base, self.device)
        budget = self.shortcuts.token_budget
        self.recomputation = None if budget is None else Recomputation(self.base, self.keys)
        self.batches = cut(self.plan, self.recipe.batch_rows)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=self.recipe.learning_rate, weight_decay=0.0
        )
        self.step = 0  # finished optimizer steps
        self.saved_step = -1

    # ---- the loop ------------------------------------------------------------------------------

    def run(self, signals: Signals | None = None) -> None:
        """Trains to the end of the plan, from the last checkpoint where there is one.

        Raises `Refusal` when the run cannot end well, and `Interrupted` after a signal, with the
        last finished step written.
        """
        signals = signals or Signals(self.processes.count)
        self.resume()
        progress = Progress(self.state, len(self.plan), self.device, self.trackers)
        saved_at, saved_rows = time.monotonic(), self._rows_done()
        try:
            while self.step < len(self.batches):
                batch = self.batches[self.step]
                shares = self.shares(batch)
                sums = self.accumulate(batch, signals, shares)
                with signals.held_back():
                    figures = self.update(batch, sums)
                    self.step += 1
                    if not self.processes.is_first:
                        continue
                    done = self._rows_done()
                    epoch = batch[-1].epoch
                    progress.step(done, self.step, epoch, shares, figures)
                    ended = self._keep_epochs(batch)
                    late = time.monotonic() - saved_at >= 60 * self.saving.every_minutes
                    due = done // self.saving.every_rows > saved_rows // self.saving.every_rows
                    if due and self.saving.keep_curve:
                        lora.save(self.model, self.state.folder / f"rows_{done}")
                    if ended or late or due:
                        self.checkpoint()
                        saved_at, saved_rows = time.monotonic(), done
                if self.on_step is not None:
                    self.on_step(self.step)
        except Interrupted:
            signals.ignore()
            self._write_references()
            if self.processes.is_first and self.step > 0:
                self.checkpoint()
            raise
        self._write_references()
        self._check_moved()

    def shares(self, batch: Sequence[PlanLine]) -> Shares:
        """Which rows of the batch each process takes."""
        rows = [self.examples.tokens(line.row_id) for line in batch]
        return plan_shares(rows, self.processes.count, share_prefix=self.share_prefix)

    def accumulate(
        self,
        batch: Sequence[PlanLine],
        signals: Signals | None = None,
        shares: Shares | None = None,
    ) -> torch.Tensor:
        """Adds the gradients of this process's part of the batch to the parameters.

        Every row's loss is divided by the number of rows of the whole batch. Returns SUMS (float64)
        of this process. A pending signal ends it early, as SUMS says.
        """
        shares = shares or self.shares(batch)
        mine = shares.places[self.processes.rank]
        sums = torch.zeros(len(SUMS), dtype=torch.float64, device=self.device)
        self.optimizer.zero_grad(set_to_none=False)
        self.screenshots.forget()
        if self.recomputation is not None and mine:
            longest = max(shares.lengths[place] for place in mine)
            self.recomputation.on = longest > self.shortcuts.token_budget
        prefix = None
        for number, place in enumerate(mine):
            if signals is not None and signals.pending:
                break
            line = batch[place]
            encoded = self._encoded(line)
            self.examples.expect(batch[other].row_id for other in mine[number + 1 : number + 3])
            if number == 0 and shares.shares_prefix(self.processes.rank):
                self._set_dropout(line, encoded, shares.prefix)
                prefix = SharedPrefix(self.base, encoded, shares.prefix, self.keys, self.device)
            reference = self._reference(line, encoded) if line.kind == "anchor" else None
            self._set_dropout(line, encoded, shares.prefix)
            loss = self.row_loss(line, encoded, self._logps(encoded, prefix), reference, sums)
            (loss / len(batch)).backward()
            if prefix is not None:
                prefix.collect()
        if signals is not None and signals.pending:
            sums[SUMS.index("interrupted")] = 1
        elif prefix is not None:
            prefix.backward()
        return sums

    def row_loss(
        self,
        line: PlanLine,
        encoded: Encoded,
        logps: torch.Tensor,
        reference: torch.Tensor | None,
        sums: torch.Tensor,
    ) -> torch.Tensor:
        """The loss of one row from log p of its targets (both [T]), noted in `sums`."""
        mask = encoded.action_mask.to(self.device)
        if reference is None:
            loss = cross_entropy(logps, mask if self.recipe.ce_on == "action" else None)
            noted = {"ce": loss, "ce_rows": 1}
        else:
            penalty, clamped = anchor_penalty(logps, reference, mask)
            loss = self.recipe.beta * penalty
            noted = {"anchor": penalty, "anchor_rows": 1, "clamped": clamped}
            noted["anchor_tokens"] = mask.sum()
        noted["not_finite"] = ~torch.isfinite(loss)
        for name, value in noted.items():
            sums[SUMS.index(name)] += value.detach() if isinstance(value, torch.Tensor) else value
        return loss

    def _reference(self, line: PlanLine, encoded: Encoded) -> torch.Tensor:
        """`reference_logps` of the row, from where they are kept if they are."""
        kept = self.shortcuts.references
        if kept is None:
            return self.reference_logps(encoded)
        content = self.examples.content(line.row_id)
        return kept.get(content, lambda: self.reference_logps(encoded)).to(self.device)

    @torch.no_grad()
    def reference_logps(self, encoded: Encoded) -> torch.Tensor:
        """float32 [T]: log p of the targets under the reference, dropout off."""
        self.keys.set(None)
        if lora.REFERENCE in self.model.peft_config:
            lora.use_reference(self.model)
            try:
                return self._logps(encoded)
            finally:
                lora.use_trained(self.model)
        with self.model.disable_adapter():
            return self._logps(encoded)

    def _write_references(self) -> None:
        if self.shortcuts.references is not None:
            self.shortcuts.references.write()

    def _encoded(self, line: PlanLine) -> Encoded:
        """The row with what the vision tower sees in place of pixels, where the base takes that."""
        encoded = self.examples.encoded(line.row_id)
        return self.screenshots.seen(encoded, self.examples.screenshots(line.row_id))

    def _logps(self, encoded: Encoded, prefix: SharedPrefix | None = None) -> torch.Tensor:
        if prefix is None:
            logits = target_logits(self.model, encoded, self.device)
        else:
            logits = prefix.target_logits(encoded)
        return token_logps(logits, encoded.targets.to(self.device))

    def _set_dropout(self, line: PlanLine, encoded: Encoded, prefix: int) -> None:
        length = len(encoded.input_ids)
        # By content, as in the adapter's key: a source of another name gives the same adapter.
        row = self.examples.content(line.row_id)
        self.keys.set(position_keys(self.recipe.seed, self.step, row, length, prefix, self.device))

    def update(self, batch: Sequence[PlanLine], sums: torch.Tensor) -> dict[str, Any]:
        """One optimizer step on the gradients of all processes; returns what the log says of it."""
        for parameter in self.parameters:
            if parameter.grad is None:  # no row of this process yet
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in self.parameters])
        both = torch.cat([flat.double(), sums]) if self.processes.count > 1 else None
        if both is not None:
            self.processes.sum(both)
            flat, sums = both[: len(flat)].to(flat.dtype), both[len(flat) :]
            self._spread(flat)
        total = dict(zip(SUMS, sums.tolist(), strict=True))
        if total["interrupted"]:
            raise Interrupted("a signal to one of the processes")
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, CLIP_NORM))
        if total["not_finite"] or not math.isfinite(norm):
            what = "loss" if total["not_finite"] else "gradient"
            rows = "\n".join(f"  {line.row_id} ({line.kind})" for line in batch)
            raise Refusal(
                f"the {what} is not finite at step {self.step}, in the batch of\n{rows}\n"
                "The last good checkpoint is kept. Look at these rows, or lower learning_rate."
            )
        rate = self.recipe.learning_rate * multiplier(self.step, len(self.batches))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return {
            "ce": _ratio(total["ce"], total["ce_rows"]),
            "anchor": _ratio(total["anchor"], total["anchor_rows"]),
            "clamped": _ratio(total["clamped"], total["anchor_tokens"]),
            "lr": rate,
            "grad_norm": norm,
        }

    def _spread(self, flat: torch.Tensor) -> None:
        """Writes a flat gradient back to the parameters."""
        at = 0
        for parameter in self.parameters:
            size = parameter.numel()
            parameter.grad.copy_(flat[at : at + size].view_as(parameter))
            at += size

    # ---- state ---------------------------------------------------------------------------------

    def _rows_done(self) -> int:
        return min(self.step * self.recipe.batch_rows, len(self.plan))

    def _keep_epochs(self, batch: Sequence[PlanLine]) -> bool:
        """Keeps the adapter when the batch holds the last row of an epoch; True if it did."""
        last = self.step == len(self.batches)
        following = None if last else self.batches[self.step][0].epoch
        ended = [epoch for epoch in {line.epoch for line in batch} if last or epoch < following]
        for epoch in ended:
            lora.save(self.model, self.state.folder / "epochs" / str(epoch + 1))
        return bool(ended)

    def checkpoint(self) -> None:
        """Writes the state after the last finished step."""
        if self.saved_step == self.step:
            return
        content = {
            "key": self.key,
            "adapter": [parameter.detach().cpu() for parameter in self.parameters],
            "optimizer": self.optimizer.state_dict(),
        }
        self.state.save(self.step, content)
        self.saved_step = self.step

    def resume(self) -> None:
        """Goes on from the newest checkpoint that all processes agree on."""
        self.state.check_not_refused()
        found = self.state.load(self.key) if self.processes.is_first else None
        content = self.processes.agree(found)
        if content is None:
            if self.processes.is_first:
                self.state.cut_log(0)
            return
        assert isinstance(content, dict)
        with torch.no_grad():
            for parameter, saved in zip(self.parameters, content["adapter"], strict=True):
                parameter.copy_(saved)
        self.optimizer.load_state_dict(content["optimizer"])
        self.step = self.saved_step = content["step"]
        if self.processes.is_first:
            self.state.cut_log(self.step)
            print(f"resuming after step {self.step} of {len(self.batches)}", flush=True)

    def _check_moved(self) -> None:
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters):
            raise Refusal("the adapter holds a value that is not finite; it is not written")
        change = lora.relative_change(self.model)
        if change < LEAST_CHANGE:
            raise Refusal(
                f"the adapter did not move (relative change {change:.1e}, at least "
                f"{LEAST_CHANGE:.0e} is wanted); it is not written. Raise learning_rate or epochs"
            )


def _ratio(value: float, count: float) -> float | None:
    return value / count if count else None
