"""The keys of a recipe that `method: consensus` has and no other method.

These models are only read by the configuration; the code that trains gets plain JSON.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from adaptermill.sources import Count, Float, Int, Section

# Keys that both methods have, with another default here.
DEFAULTS = {"alpha": 16.0, "dropout": 0.0, "learning_rate": 1e-3}
# Keys that `method: anchored` alone has.
ONLY_ANCHORED = (
    *("epochs", "batch_rows", "beta", "anchor_ratio", "anchor_families", "ce_on", "max_steps"),
)
Positive = Annotated[Float, Field(gt=0)]


class ConsensusSettings(Section):
    """How nodes of a multi-agent system agree on one adapter."""

    rounds: Count = 20
    local_steps: Count = Field(16, description="Adam steps of a node in a round")
    batch_examples: Count = Field(8, description="examples (messages or pairs) in a local step")
    rho: Positive = Field(0.03, description="how strongly a node is held to the consensus")
    grad_clip: Positive = Field(0.01, description="largest norm of a node's whole gradient")
    beta_dpo: Positive = Field(0.1, description="dpo: scale of the margin")
    beta_kl: Annotated[Float, Field(ge=0)] = Field(0.1, description="weight of the penalty")
    kl_ref: Literal["frozen", "collect"] = Field(
        "frozen", description="the reference: the base, or the policy that collected the rollouts"
    )
    consensus: Literal["ring", "coordinator", "gossip"] = "ring"
    topology: Literal["ring", "complete", "chain", "grid", "expander"] = Field(
        "ring", description="gossip: the graph that nodes exchange along"
    )
    gossip_steps: Count = Field(1, description="gossip: exchanges in a round")
    partition: Literal["seat", "anchor"] = Field(
        "seat", description="a node per seat, or examples dealt out by a hash of their query"
    )
    n_partitions: Count = Field(4, description="partition: anchor: how many nodes")
    dual: bool = Field(True, description="false keeps the dual variable u at 0")
    pooled: bool = Field(False, description="all examples on one node")
    local_only: bool = Field(False, description="no coupling: an adapter of its own for each node")
    keep_adam: bool = Field(False, description="go on with Adam's moments in the next round")
    role_balance: bool = Field(True, description="minibatches hold roles in equal parts")
    layers_last: Count | None = Field(None, description="adapt the last layers only; null is all")
    basis_seed: Annotated[Int, Field(ge=0)] | None = Field(
        None, description="the seed that the frozen A is drawn from; null is `seed`"
    )
    heldout_fraction: Annotated[Float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of queries kept out of the fit, to find the best round by"
    )
    dry_run: bool = Field(False, description="make the fit set and its composition, and stop")


def is_per_node(recipe: ConsensusSettings) -> bool:
    """Whether it ends in an adapter for each node, where there are several nodes."""
    return not recipe.pooled and (recipe.local_only or recipe.consensus == "gossip")
