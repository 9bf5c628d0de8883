"""The adapter's card with its held-out figures: the README of its folder, and what came out."""

from __future__ import annotations

from collections.abc import Sequence

from adaptermill.evaluation.markdown import count, table, with_interval
from adaptermill.evaluation.metrics import METRICS
from adaptermill.evaluation.show import verdict
from adaptermill.evaluation.tables import ALL, BASE, HeldOut

SHOWN = ("nll", "greedy_match", "anchor", "json_valid", "step_success", "episode_success")


def card(readme: str, held_out: HeldOut, name: str, own_families: Sequence[str]) -> str:
    """`readme` with a section on the held-out evaluation of `name` against the base."""
    metrics = [metric for metric in SHOWN if metric in held_out.metrics]
    origin = held_out.adapters[name].origin
    parts = [
        readme.rstrip("\n"),
        "\n## Held-out evaluation\n",
        verdict(held_out, name, own_families).replace("\n", "  \n"),
        "\nEach figure with its 95 % bootstrap interval over episodes: the base, then the adapter. "
        "`*`: few held-out episodes, a weak figure.\n",
    ]
    for metric in metrics:
        described = METRICS[metric]
        parts.append(f"### {metric}\n\n{described.meaning} ({described.better} is better)\n")
        lines = []
        for family, chosen in [*((f, [f]) for f in held_out.families), (ALL, None)]:
            base, ours = (held_out.figure(which, metric, chosen) for which in (BASE, name))
            change = held_out.difference(name, BASE, metric, chosen)
            lines.append(
                [
                    f"{family}{' (own)' if family in own_families else ''}",
                    f"{count(ours.rows, 'row')}, {count(ours.episodes, 'episode')}",
                    *(with_interval(f.value, f.low, f.high, f.weak) for f in (base, ours)),
                    with_interval(change.value, change.low, change.high, change.weak, sign=True),
                ]
            )
        parts.append(table(["family", "held out", "base", name, "difference"], lines))
    parts.append(
        f"Held-out rows `{origin.split_hash}`, base `{origin.base_hash}`, computed in "
        f"{origin.dtype} on a {origin.device.upper() if origin.device == 'cpu' else 'GPU'}. "
        "Figures of other held-out rows or another base must not be compared with these.\n"
    )
    return "\n".join(parts)
