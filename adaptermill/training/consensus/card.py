"""The model card of a consensus adapter, or of a folder with an adapter per node."""

from __future__ import annotations

from typing import Any

from adaptermill.evaluation.markdown import table
from adaptermill.rows.nodes import PER_NODE
from adaptermill.training.card import general_notes, serving_command
from adaptermill.training.consensus.naming import arm

_OBJECTIVES = {
    "dpo": "preference pairs (DPO, beta {beta_dpo:g})",
    "rsft": "messages of rollouts that were right (NLL)",
    "sft": "messages (NLL)",
}


def consensus_card(record: dict[str, Any]) -> str:
    """The card of what `record` (training.json) describes."""
    recipe, base, name = record["recipe"], record["base"], record["adapter"]
    start = "" if recipe["init_from"] is None else f" Branched from `{recipe['init_from']}`."
    objective = _OBJECTIVES[recipe["examples"]].format(**recipe)
    per_node = record["deploy"] == PER_NODE
    last = record["rounds"][-1]
    figures = [
        f"{label}: {last[key]:.3g}"
        for key, label in (
            ("primal_residual", "primal residual"),
            ("dual_residual", "dual residual"),
            ("disagreement", "disagreement"),
        )
        if key in last
    ]
    lines = [[n["name"], n["examples"], ", ".join(n["roles"])] for n in record["nodes"]]
    if per_node:
        first = record["nodes"][0]["name"]
        loaded = f"results/adapters/{name}/nodes/{first}"
        told = (
            "The nodes' states differ, so there is an adapter for each node and none for all: "
            "serve each agent with its own (`nodes/<name>/`)."
        )
    else:
        loaded = f"results/adapters/{name}"
        told = "The nodes agree on one adapter, z."
    notes = "\n".join(f"- {note}" for note in [*record["warnings"], *general_notes(record)])
    command = serving_command(record)
    if per_node:
        modules = " ".join(
            f"{n['name']}=results/adapters/{name}/nodes/{n['name']}" for n in record["nodes"]
        )
        command = command.partition("--lora-modules ")[0] + f"--lora-modules {modules}"
    return f"""---
base_model: {base["model"]}
library_name: peft
tags:
- lora
- adaptermill
- consensus
---

# {name}

A LoRA adapter (rank {recipe["rank"]}, alpha {recipe["alpha"]:g}, A frozen and B trained) on \
`{base["model"]}`, trained by consensus ADMM on {objective}.{start} {told}

- Arm: {arm(recipe)}; {recipe["rounds"]} rounds of {recipe["local_steps"]} steps of \
{recipe["batch_examples"]} examples, learning rate {recipe["learning_rate"]:g}, \
rho {recipe["rho"]:g}
- Penalty: beta_kl {recipe["beta_kl"]:g} ({recipe["kl_ref"]})
- After the last round: {"; ".join(figures)}
- Key: `{record["key"]}`

{table(["node", "examples", "roles"], lines)}
## Serve it

```bash
{command}
```

Or load it with PEFT:

```python
from peft import PeftModel

model = PeftModel.from_pretrained(base, "{loaded}")
```

## Notes

{notes}
"""
