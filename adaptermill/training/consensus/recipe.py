"""The settings that decide what consensus training does, as the spec file holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from adaptermill.consensus.admm import Coupling
from adaptermill.training.recipe import Recipe


@dataclass(frozen=True)
class ConsensusRecipe:
    """Settings of `method: consensus`; `examples` is the objective: dpo, rsft or sft."""

    method: str
    examples: str
    rank: int
    alpha: float
    dropout: float
    lora_targets: str
    layers_last: int | None
    rounds: int
    local_steps: int
    learning_rate: float
    batch_examples: int
    rho: float
    grad_clip: float
    beta_dpo: float
    beta_kl: float
    kl_ref: str
    consensus: str
    topology: str
    gossip_steps: int
    partition: str
    n_partitions: int
    dual: bool
    pooled: bool
    local_only: bool
    keep_adam: bool
    role_balance: bool
    heldout_fraction: float
    seed: int
    basis_seed: int | None
    init_from: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ConsensusRecipe:
        """From a spec's settings; what is not a recipe's (recorded versions) is passed over."""
        return cls(**{field.name: settings[field.name] for field in fields(cls)})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def coupling(self) -> Coupling:
        return Coupling(
            rho=self.rho,
            consensus=self.consensus,
            topology=self.topology,
            gossip_steps=self.gossip_steps,
            dual=self.dual,
            coupled=not self.local_only,
        )

    def is_per_node(self, nodes: int) -> bool:
        """Whether the nodes end in different states, so that no adapter is "the" consensus."""
        return nodes > 1 and (self.local_only or self.consensus == "gossip")

    @property
    def adapter(self) -> Recipe:
        """What `lora.attach` reads: the adapter's shape, and the seed that A is drawn from."""
        return Recipe(
            method=self.method,
            rank=self.rank,
            alpha=self.alpha,
            dropout=self.dropout,
            lora_targets=self.lora_targets,
            learning_rate=self.learning_rate,
            batch_rows=self.batch_examples,
            beta=self.beta_kl,
            ce_on="all",
            seed=self.seed if self.basis_seed is None else self.basis_seed,
            init_from=self.init_from,
        )
