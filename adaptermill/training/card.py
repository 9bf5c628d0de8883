"""The model card that lies beside the adapter: what it is, and the command that serves it."""

from __future__ import annotations

from typing import Any

# Ranks that vLLM takes for --max-lora-rank.
SERVER_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


def serving_command(record: dict[str, Any]) -> str:
    """How vLLM serves the adapter; the smallest legal rank that holds it."""
    base = record["base"]
    rank = next((r for r in SERVER_RANKS if r >= record["recipe"]["rank"]), SERVER_RANKS[-1])
    revision = f" --revision {base['revision']}" if base["revision"] else ""
    name = record["adapter"]
    return (
        f"vllm serve {base['model']}{revision} --enable-lora --max-lora-rank {rank} "
        f"--lora-modules {name}=results/adapters/{name}"
    )


def general_notes(record: dict[str, Any]) -> list[str]:
    """What a user of the adapter must know, whatever it was trained by."""
    notes = []
    if record["images_dropped"]:
        notes.append(
            "The base is text only: screenshots were left out of the prompts in training, and must "
            "be left out when it is served."
        )
    if record["code_trusted"]:
        notes.append(
            "Built with `trust_code: true`: its key names the training code that was trusted, "
            "which need not be the code that ran."
        )
    notes.append(
        "Text in a prompt that looks like a control token of the base (for instance "
        f"`{record['end_of_turn']}`) was cut in two before it was tokenised, so that it stays "
        "text. A server that tokenises such text whole will read a control token; send it token "
        "ids made by `adaptermill.models.encode`, or keep such text out of prompts."
    )
    return notes


def model_card(record: dict[str, Any]) -> str:
    """The card of the adapter that `record` (training.json) describes."""
    recipe, base = record["recipe"], record["base"]
    rows = ", ".join(f"{count} {kind}" for kind, count in record["rows"].items())
    start = "" if recipe["init_from"] is None else f" Branched from `{recipe['init_from']}`."
    notes = general_notes(record)
    listed = "\n".join(f"- {note}" for note in notes)
    return f"""---
base_model: {base["model"]}
library_name: peft
tags:
- lora
- adaptermill
- {recipe["method"]}
---

# {record["adapter"]}

A LoRA adapter (rank {recipe["rank"]}, alpha {recipe["alpha"]:g}) on `{base["model"]}`, trained by \
the {recipe["method"]} recipe.{start}

- Rows of the plan: {rows}
- Optimizer steps: {record["steps"]} of {recipe["batch_rows"]} rows, \
learning rate {recipe["learning_rate"]:g}, dropout {recipe["dropout"]:g}
- Anchor penalty: beta {recipe["beta"]:g}
- Key: `{record["key"]}`

## Serve it

```bash
{serving_command(record)}
```

Or load it with PEFT:

```python
from peft import PeftModel

model = PeftModel.from_pretrained(base, "results/adapters/{record["adapter"]}")
```

## Notes

{listed}
"""
