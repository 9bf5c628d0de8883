"""What jobs ask of a machine or a cluster: `resources` of the configuration, as Snakemake takes it.

    resources:
      train: {threads: 8, gpus: 1, mem_mb: 64000, runtime: 600, adapters: {pooled: {runtime: 1800}}}

Memory and time grow with every further attempt at a job. Nothing here changes a result or enters a
key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from adaptermill.sources import Count, Float, Int, Section

# Every rule that runs as a job of its own, and those of them that are about one adapter.
RULES = (
    *("example_source", "example_trajectories", "example_base"),
    *("scan", "ingest", "summarize_ingest", "combine_ingest"),
    *("split", "base", "measure", "merge_measures", "heldout"),
    *("judge", "view_messages", "fitset", "train", "evaluate"),
    *("tables", "card", "report", "export_adapter", "export_shard"),
)
PER_ADAPTER = ("view_messages", "fitset", "train", "evaluate", "card", "export_adapter")
GROWING = ("mem_mb", "runtime")


class Asked(Section):
    """Resources; any further one that Snakemake or its SLURM plugin knows may be given too."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, str | int]

    threads: Count | None = Field(None, description="cores; null is the rule's own number")
    gpus: Annotated[Int, Field(ge=0)] | None = Field(None, description="GPUs of a cluster job")
    mem_mb: Count | None = Field(None, description="memory in MB")
    runtime: Count | None = Field(None, description="time limit in minutes")
    slurm_partition: str | None = None
    slurm_account: str | None = None


class RuleResources(Asked):
    """Resources of one rule."""

    nodes: Count = Field(1, description="cluster nodes of one training job (train alone)")
    retry_growth: Annotated[Float, Field(ge=1)] = Field(
        1.5, description="mem_mb and runtime are multiplied by it for each further attempt"
    )
    adapters: dict[str, Asked] = Field({}, description="what differs for single adapters")

    def of(self, name: str | None) -> dict[str, str | int]:
        """What the job of adapter `name` (None: any job) asks for."""
        own = self.adapters.get(name) if name is not None else None
        rule = self.model_dump(exclude_none=True, exclude={"nodes", "retry_growth", "adapters"})
        return {**rule, **(own.model_dump(exclude_none=True) if own is not None else {})}

    def problems(self, rule: str, known: Mapping[str, Any], processes: int) -> list[str]:
        """What is wrong with this as `resources.<rule>`, a line each."""
        where = f"resources.{rule}"
        if rule not in RULES:
            return [f"{where}: there is no such rule; there are {', '.join(RULES)}"]
        found = []
        if self.adapters and rule not in PER_ADAPTER:
            found.append(f"{where}.adapters: jobs of {rule} are not about single adapters")
        for name, own in self.adapters.items():
            if name not in known and not (name == "base" and rule == "evaluate"):
                found.append(f"{where}.adapters.{name}: no such adapter; there are {list(known)}")
            # Elsewhere the profile's default would be lost.
            for each in own.model_dump(exclude_none=True).keys() - self.of(None).keys():
                found.append(f"{where}.adapters.{name}.{each}: give {where}.{each} too")
        if rule != "train":
            return found + ([f"{where}.nodes: is for train alone"] if self.nodes > 1 else [])
        if processes % self.nodes:
            found.append(
                f"{where}.nodes: {self.nodes} nodes cannot share training.processes ({processes})"
            )
        for asked in {self.gpus, *(own.gpus for own in self.adapters.values())} - {None, 0}:
            if asked != processes:
                found.append(
                    f"{where}.gpus: {asked} is not training.processes ({processes}), of which each "
                    "takes one GPU"
                )
        return found


def threads(asked: RuleResources, default: int, name: str | None = None) -> int:
    return int(asked.of(name).get("threads", default))


def for_snakemake(
    asked: RuleResources, adapter_of: Callable[[Any], str | None]
) -> dict[str, Callable[..., Any]]:
    """Resource -> function of a job's wildcards and its attempt (from 1 on).

    `adapter_of` names the adapter that the wildcards are about, or gives None.
    """

    def value(resource: str) -> Callable[..., Any]:
        def of_job(wildcards: Any, attempt: int) -> Any:
            found = _as_slurm(asked.of(adapter_of(wildcards)), asked.nodes).get(resource)
            if resource in GROWING and found is not None:
                return math.ceil(found * asked.retry_growth ** (attempt - 1))
            return found

        return of_job

    names = {
        name for own in (None, *asked.adapters) for name in _as_slurm(asked.of(own), asked.nodes)
    }
    return {name: value(name) for name in sorted(names)}


def _as_slurm(asked: dict[str, str | int], nodes: int) -> dict[str, str | int]:
    """The same in the words of Snakemake's SLURM plugin."""
    found = {name: value for name, value in asked.items() if name not in ("threads", "gpus")}
    gpus = int(asked.get("gpus", 0))
    if nodes == 1:
        # No `tasks`: one task has all GPUs, as torchrun wants them.
        return {**found, "gpu": gpus} if gpus else found
    found |= {"mpi": "srun", "nodes": nodes, "tasks": nodes}
    return {**found, "gres": f"gpu:{gpus // nodes}", "tasks_per_gpu": 0} if gpus else found
