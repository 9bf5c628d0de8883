"""A node's objective and gradient over a minibatch, and its NLL over held-out examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from adaptermill.models.encode import Encoded
from adaptermill.training import lora
from adaptermill.training.consensus.answers import (
    Answers,
    is_text,
    logps_one_by_one,
    logps_together,
)
from adaptermill.training.consensus.basis import Basis
from adaptermill.training.consensus.examples import Answer, Example, Minibatches, Node
from adaptermill.training.consensus.objectives import example_loss
from adaptermill.training.consensus.recipe import ConsensusRecipe
from adaptermill.training.dropout import position_keys
from adaptermill.training.references import References

# What is told of every x-step: f_i over its minibatches, the part without the penalty, the penalty.
FIGURES = ("objective", "loss", "penalty")
# Padded tokens of one forward; a longer answer is run by itself. It changes floats by rounding, so
# it is fixed.
TOGETHER = 2048


@dataclass
class Fitting:
    """The objectives of all nodes, on one model. `Gradient` of consensus/local.py is `gradient`."""

    basis: Basis
    answers: Answers
    nodes: Sequence[Node]
    recipe: ConsensusRecipe
    device: torch.device
    references: References | None = None
    together: int = TOGETHER

    def __post_init__(self) -> None:
        self.batches = [
            Minibatches(node.fitted, self.recipe.batch_examples, self.recipe.seed, self._balanced)
            for node in self.nodes
        ]
        self._known: dict[str, torch.Tensor] = {}

    @property
    def _balanced(self) -> bool:
        return self.recipe.role_balance

    def gradient(
        self, node: int, step: int, x: torch.Tensor
    ) -> tuple[dict[str, float], torch.Tensor]:
        """FIGURES and the gradient [P] of f_node at x over the minibatch of that local step."""
        self.basis.put(x)
        self.basis.clear_gradient()
        batch = self.batches[node].batch(step)
        # References first: they are run with the adapter off, and not inside another's graph.
        references = {a.content: self.reference(a) for a in self._referred(batch)}
        sums = dict.fromkeys(FIGURES, 0.0)
        for part in self._parts(batch):
            logps = self._logps(part, step)
            losses = []
            for example in part:
                chosen, rejected = example.chosen, example.rejected
                losses.append(
                    example_loss(
                        logps[chosen.content],
                        None if rejected is None else logps[rejected.content],
                        references.get(chosen.content),
                        None if rejected is None else references[rejected.content],
                        self.recipe.beta_dpo,
                        self.recipe.beta_kl,
                    )
                )
            totals = [torch.stack(each).sum() / len(batch) for each in zip(*losses, strict=True)]
            totals[0].backward()
            for name, total in zip(FIGURES, totals, strict=True):
                sums[name] += float(total.detach())
        return sums, self.basis.gradient()

    @torch.no_grad()
    def held_out_nll(self, node: int, z: torch.Tensor) -> tuple[float, int]:
        """Sum over the node's held-out examples of the chosen answer's NLL, and how many they are.

        NLL is the mean -log p of its tokens.
        """
        self.basis.put(z)
        self.basis.keys.set(None)
        total = 0.0
        for example in self.nodes[node].held_out:
            (logps,) = logps_one_by_one(
                self.basis.model, [self.answers.encoded(example.chosen)], self.device
            )
            total -= float(logps.double().mean())
        return total, len(self.nodes[node].held_out)

    # ---- log p ---------------------------------------------------------------------------------

    def _parts(self, batch: Sequence[Example]) -> Iterator[list[Example]]:
        """The batch in parts of whole examples that fit into one forward each."""
        part: list[Example] = []
        for example in sorted(batch, key=self._longest):
            tried = [*part, example]
            answers = {answer.content for each in tried for answer in each.answers}
            fits = len(answers) * self._longest(example) <= self.together
            if part and not (fits and self._can_be_padded(tried)):
                yield part
                part = []
            part.append(example)
        yield part

    def _longest(self, example: Example) -> int:
        return max(len(self.answers.encoded(answer).input_ids) for answer in example.answers)

    def _can_be_padded(self, part: Sequence[Example]) -> bool:
        return all(is_text(self.answers.encoded(a)) for each in part for a in each.answers)

    def _logps(self, part: Sequence[Example], step: int) -> dict[str, torch.Tensor]:
        """float [T] by content: log p of each answer's tokens; of equal answers one is run."""
        answers = {answer.content: answer for example in part for answer in example.answers}
        rows = {content: self.answers.encoded(answer) for content, answer in answers.items()}
        if self.recipe.dropout == 0 and self._can_be_padded(part):
            found = logps_together(self.basis.model, list(rows.values()), self.device)
            return dict(zip(rows, found, strict=True))
        return {content: self._alone(row, content, step) for content, row in rows.items()}

    def _alone(self, row: Encoded, content: str, step: int) -> torch.Tensor:
        """A row by itself, with the dropout masks of this row and step."""
        length = len(row.input_ids)
        masks = position_keys(self.recipe.seed, step, content, length, 0, self.device)
        with self.basis.keys.being(masks if self.recipe.dropout > 0 else None):
            return logps_one_by_one(self.basis.model, [row], self.device)[0]

    # ---- references ----------------------------------------------------------------------------

    def _referred(self, batch: Sequence[Example]) -> list[Answer]:
        """The answers whose reference is asked for."""
        if self.recipe.beta_kl == 0 and batch[0].rejected is None:
            return []
        return [answer for example in batch for answer in example.answers]

    def reference(self, answer: Answer) -> torch.Tensor:
        """float32 [T]: log p of the answer under the reference, computed once, by itself."""
        if answer.content not in self._known:
            if self.references is None:
                found = self._reference(answer)
            else:
                found = self.references.get(answer.content, lambda: self._reference(answer))
            self._known[answer.content] = found.to(self.device)
        return self._known[answer.content]

    @torch.no_grad()
    def _reference(self, answer: Answer) -> torch.Tensor:
        self.basis.keys.set(None)
        row = self.answers.encoded(answer)
        with self._reference_model() as model:
            return logps_one_by_one(model, [row], self.device)[0].float()

    @contextmanager
    def _reference_model(self) -> Iterator[torch.nn.Module]:
        """The base with the adapter off, or the adapter that was begun with (it collected)."""
        model = self.basis.model
        if self.recipe.kl_ref == "collect" and lora.REFERENCE in model.peft_config:
            lora.use_reference(model)
            try:
                yield model
            finally:
                lora.use_trained(model)
                self._freeze()
        else:
            with model.disable_adapter():
                yield model
            self._freeze()

    def _freeze(self) -> None:
        """PEFT makes all of an adapter trainable again when it is switched on."""
        for _, layer in lora.lora_layers(self.basis.model):
            layer.lora_A["default"].weight.requires_grad_(False)
