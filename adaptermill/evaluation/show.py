"""The held-out evaluation at a glance, for a terminal: the base beside each adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adaptermill.evaluation.markdown import number, table, with_interval
from adaptermill.evaluation.tables import ALL, BASE, Figure, HeldOut


def at_a_glance(held_out: HeldOut, own_families: Mapping[str, Sequence[str]]) -> str:
    """A table and a verdict per adapter. `own_families`: those that an adapter was trained on."""
    names = [name for name in held_out.adapters if name != BASE]
    if BASE not in held_out.adapters or not names:
        parts = [_alone(held_out)]
    else:
        parts = [_beside_base(held_out, name, own_families.get(name, ())) for name in names]
    notes = [
        "own: the family it was trained on; the others show what it lost or won elsewhere.",
        "NLL: mean -log p of the recorded answer's tokens (lower is better).",
        "greedy match: share of rows whose recorded action is the most likely one, token by token.",
    ]
    if "step_success" in held_out.metrics:
        notes.append("step success: share of rows whose generated answer is right.")
    notes.append(
        "[low, high]: 95 % bootstrap interval over episodes. *: few held-out episodes, a weak "
        "figure."
    )
    return "\n".join([*parts, *notes])


def _alone(held_out: HeldOut) -> str:
    metrics = [name for name in ("nll", "greedy_match", "step_success") if name in held_out.metrics]
    lines = []
    for name in held_out.adapters:
        for family, chosen in _families(held_out):
            figures = [held_out.figure(name, metric, chosen) for metric in metrics]
            shown = [with_interval(f.value, f.low, f.high, f.weak) for f in figures]
            lines.append([name, family, figures[0].rows, figures[0].episodes, *shown])
    return table(["adapter", "family", "rows", "episodes", *metrics], lines)


def _families(held_out: HeldOut) -> list[tuple[str, list[str] | None]]:
    return [*((family, [family]) for family in held_out.families), (ALL, None)]


def _beside_base(held_out: HeldOut, name: str, own: Sequence[str]) -> str:
    shares = [m for m in ("greedy_match", "step_success") if m in held_out.metrics]
    header = ["family", "rows", "episodes", "NLL", "NLL difference"]
    lines = []
    for family, chosen in _families(held_out):
        base, ours = (held_out.figure(which, "nll", chosen) for which in (BASE, name))
        change = held_out.difference(name, BASE, "nll", chosen)
        lines.append(
            [
                *(f"{family}{' (own)' if family in own else ''}", base.rows, base.episodes),
                "–" if base.value is None else f"{number(base.value)} -> {number(ours.value)}",
                with_interval(change.value, change.low, change.high, change.weak, sign=True),
                *(_change(held_out, name, metric, chosen) for metric in shares),
            ]
        )
    title = f"Held-out rows, base -> {name}\n"
    header += [metric.replace("_", " ") for metric in shares]
    return "\n".join([title, table(header, lines), verdict(held_out, name, own), ""])


def _change(held_out: HeldOut, name: str, metric: str, families: Sequence[str] | None) -> str:
    before, after = (held_out.figure(which, metric, families).value for which in (BASE, name))
    if before is None or after is None:
        return "–"
    return f"{before:.0%} -> {after:.0%}"


def verdict(held_out: HeldOut, name: str, own: Sequence[str]) -> str:
    """Sentences on whether the adapter beats the base on its own families, and what it lost."""
    if not own:
        change = held_out.difference(name, BASE, "nll")
        return f"Over all held-out rows, {_sentence(name, change)}"
    mine = held_out.difference(name, BASE, "nll", own)
    others = [family for family in held_out.families if family not in own]
    where = "its own family" if len(own) == 1 else f"its own {len(own)} families"
    said = [f"On {where} ({', '.join(own)}), {_sentence(name, mine)}"]
    rest = held_out.difference(name, BASE, "nll", others) if others else None
    if rest is not None and rest.value is not None:
        said.append(f"On the other families, {_sentence(name, rest)}")
    return "\n".join(said)


def _sentence(name: str, change: Figure) -> str:
    if change.value is None:
        return "nothing is held out, so nothing can be said."
    shown = with_interval(change.value, change.low, change.high, False, sign=True)
    basis = f"NLL difference {shown} over {change.episodes} episodes"
    if change.low is None or change.high is None:
        return f"one episode is too little to tell {name} from the base ({basis})."
    if change.high < 0:
        verb = f"{name} beats the base"
    elif change.low > 0:
        verb = f"{name} is worse than the base"
    else:
        verb = f"{name} and the base cannot be told apart"
    doubt = "; few episodes, so take it with care" if change.weak else ""
    return f"{verb}: {basis}{doubt}."
