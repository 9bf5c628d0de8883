"""Selection: every row of the data set becomes an example of one adapter, or is left out.

The steps run in a fixed order; the first that a row fails is its reason. Rewards, groups and pass
rates are those of all rollouts of a query, whatever is left out of its messages afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from adaptermill.errors import UserError
from adaptermill.fitsets.labels import rejections
from adaptermill.fitsets.plan import draw, names_of
from adaptermill.fitsets.select import Selection, listed_sources
from adaptermill.splits import in_fraction
from adaptermill.trajectories import queries
from adaptermill.trajectories.advantages import advantages
from adaptermill.trajectories.caps import over_cap
from adaptermill.trajectories.pairing import pair_up
from adaptermill.trajectories.seats import adapted_seats
from adaptermill.trajectories.thinking import is_unclosed

_SIDES = {"validation": "held_out", "test": "test_side", "mixed": "mixed_chain"}
_ORDER = ["source", "query_id", "query", "system", "rollout", "step", "row_id"]


class MessageSelection(Selection):
    """A selection of messages, with what was found on the way.

    `found` goes into the composition as it stands; `systems` has all seats that speak in each.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        super().__init__(rows)
        self.found: dict[str, Any] = {}
        self.systems: dict[str, list[int]] = {}

    def drop_queries(self, out: Mapping[str, str], stage: str) -> None:
        """Drops the messages of the queries that `out` names, each for the reason it gives."""
        reasons = self.kept["query_id"].map(out)
        self.drop(reasons.notna(), stage, reasons)

    def rewarded(self) -> pd.DataFrame:
        return queries.rollouts_of(self.kept)


def message_candidates(
    rows: pd.DataFrame, messages: pd.DataFrame, settings: Mapping[str, Any]
) -> MessageSelection:
    """The messages of one adapter's training queries, before their rewards decide anything."""
    recipe, making = settings["recipe"], settings["recipe"]["trajectories"]
    chosen = MessageSelection(rows)
    chosen.drop(~chosen.kept["source"].isin(recipe["sources"]), "selection", "source")
    joined = chosen.kept.merge(messages, on="row_id", how="left", validate="one_to_one")
    chosen.kept = joined.sort_values(_ORDER, ignore_index=True)
    spoken = chosen.kept.groupby("system", sort=True)["seat"].unique()
    chosen.systems = {str(system): [int(seat) for seat in own] for system, own in spoken.items()}
    for side, reason in _SIDES.items():
        chosen.drop(chosen.kept["side"] == side, "split", reason)
    _take_shares(chosen, recipe)
    firsts = _first_of_copies(chosen.kept)
    copies = firsts != chosen.kept["rollout_id"]
    chosen.drop(copies, "selection", "duplicate_rollout", firsts)
    if making["windows"] is not None:
        out = queries.outside_windows(chosen.kept["query_id"], making["windows"])
        chosen.drop_queries(out, "queries")
    return chosen


def select_messages(
    rows: pd.DataFrame, messages: pd.DataFrame, settings: Mapping[str, Any]
) -> MessageSelection:
    """Makes the examples of one adapter.

    `rows` is the row index of scripts/split.py with lengths (lengths.py), `messages` what
    `read_messages` found in the adapter's sources, with the labels of the recipe's judge
    (judging.py) if it has one. `UserError` when nothing is left, or when
    rewards are wanted and none is there.
    """
    recipe, making = settings["recipe"], settings["recipe"]["trajectories"]
    chosen = message_candidates(rows, messages, settings)
    if recipe["judge"] is not None:
        # The judge's reward is the message's: only where it could not say is there none.
        silent = rejections(chosen.kept, {**recipe, "judge_threshold": 0})
        chosen.drop(silent["out"], "judge", silent["reason"], silent["detail"])
    _take_queries(chosen, making, recipe["seed"], settings["adapter"])
    _take_seats(chosen, making, settings["anchor_families"])
    _take_whole(chosen, making)
    if making["examples"] == "rsft":
        below = (chosen.kept["kind"] == "ce") & (chosen.kept["reward"] < making["tau"])
        chosen.drop(below, "examples", "below_tau")
    if making["examples"] == "dpo":
        chosen.found["pairs"] = pair_up(chosen, making, recipe)
    else:
        _cap_and_limit(chosen, making, recipe)
        _drop_twins(chosen)
    if not chosen.kept["kind"].isin(["ce", "chosen"]).any():
        raise UserError(_nothing_left(chosen, settings["adapter"], making["examples"]))
    return chosen


def _take_shares(chosen: MessageSelection, recipe: Mapping[str, Any]) -> None:
    inside = [in_fraction(key, recipe["fraction"]) for key in chosen.kept["fraction_key"]]
    chosen.drop(~pd.Series(inside, chosen.kept.index, dtype=bool), "selection", "fraction")
    if recipe["episode_ids"] is not None:
        listed = listed_sources(Path(recipe["episode_ids"]))
        chosen.drop(~chosen.kept["query_id"].isin(listed), "selection", "not_listed")


def _take_queries(
    chosen: MessageSelection, making: Mapping[str, Any], seed: int, adapter: str
) -> None:
    """Rewards, pass band and prescreen, in this order."""
    wants = [name for name in ("pass_band", "prescreen") if making[name] is not None]
    if making["examples"] != "sft":
        wants.append(f"examples: {making['examples']}")
    if wants:
        _require_rewards(chosen, adapter, wants)
    chosen.kept = chosen.kept.assign(advantage=advantages(chosen.kept))
    if making["pass_band"] is not None:
        out = queries.outside_band(chosen.rewarded(), making["pass_band"], making["tau"])
        outside = chosen.kept["query_id"].map(out)
        chosen.drop(outside.notna(), "queries", "pass_band", outside)
    if making["prescreen"] is not None:
        screened = queries.prescreen(chosen.rewarded(), making["prescreen"], making["tau"], seed)
        chosen.found["prescreen"] = screened.counts()
        chosen.drop_queries(screened.out, "queries")


def _first_of_copies(messages: pd.DataFrame) -> pd.Series:
    """The first rollout that is word for word, number and seed the same as each message's own."""
    whole = messages.groupby("rollout_id", sort=False).agg(
        **{name: (name, "first") for name in ("query_id", "system", "rollout", "seed")},
        said=("content_hash", "".join),
    )
    columns = list(whole.columns)
    firsts = whole.reset_index().groupby(columns, sort=False)["rollout_id"].transform("first")
    return messages["rollout_id"].map(dict(zip(whole.index, firsts, strict=True)))


def _require_rewards(chosen: MessageSelection, adapter: str, wants: list[str]) -> None:
    """Drops messages without a reward; `UserError` where none has one."""
    missing = chosen.kept["reward"].isna()
    if missing.all() and len(missing):
        raise UserError(
            f"adapters.{adapter}.trajectories: {' and '.join(wants)} needs rewards, and no rollout "
            "of its sources has one. Record a `reward` with each rollout, name a `judge`, or train "
            "on `examples: sft`."
        )
    chosen.drop(missing, "selection", "no_reward")


def _take_seats(
    chosen: MessageSelection,
    making: Mapping[str, Any],
    anchor_families: list[str],
) -> None:
    """Messages of adapted seats become examples, those of anchor roles the pool."""
    adapted = pd.Series(False, chosen.kept.index)
    for system, seats in chosen.systems.items():
        mine = adapted_seats(seats, making["adapt_roles"], making["seats"])
        adapted |= (chosen.kept["system"] == system) & chosen.kept["seat"].isin(mine)
    pool = ~adapted & chosen.kept["family"].isin(anchor_families)
    kinds = adapted.map({True: "ce", False: "anchor"}).astype(object)
    chosen.kept = chosen.kept.assign(kind=kinds)
    chosen.drop(~(adapted | pool), "selection", "seat")


def _take_whole(chosen: MessageSelection, making: Mapping[str, Any]) -> None:
    """Outputs that were cut while they thought, and rows that are too long."""
    if making["drop_unclosed_think"]:
        outputs = chosen.kept["prefill"] + chosen.kept["target"]
        chosen.drop(outputs.map(is_unclosed).astype(bool), "filter", "unclosed_think")
    unfit = chosen.kept["unfit"]
    chosen.drop(unfit.notna(), "measure", unfit, chosen.kept["unfit_detail"])
    for name in ("prompt", "target"):
        most, counts = making[f"max_{name}_tokens"], chosen.kept[f"{name}_tokens"]
        said = [f"{count:.0f} tokens, max_{name}_tokens is {most}" for count in counts]
        details = pd.Series(said, counts.index, dtype=object)
        chosen.drop(counts > most, "length", f"{name}_too_long", details)


def _cap_and_limit(
    chosen: MessageSelection, making: Mapping[str, Any], recipe: Mapping[str, Any]
) -> None:
    best = over_cap(chosen.kept, making["dedup"], ["kind", "seat"])
    chosen.drop(best.notna(), "dedup", "duplicate", best)
    if recipe["limit"] is not None:
        inside = draw(names_of(chosen.contents("ce")), recipe["limit"], "limit", recipe["seed"])
        over = (chosen.kept["kind"] == "ce") & ~chosen.kept["row_id"].isin(inside)
        chosen.drop(over, "selection", "limit")


def _drop_twins(chosen: MessageSelection) -> None:
    """A pool row with prompt and answer of an example would pull both ways."""
    own = chosen.of_kind("ce")
    examples = dict(zip(own["content_hash"], own["row_id"], strict=True))
    twins = chosen.kept["content_hash"].map(examples).where(chosen.kept["kind"] == "anchor")
    chosen.drop(twins.notna(), "anchor", "twin_of_ce_row", twins)


def _nothing_left(chosen: MessageSelection, adapter: str, examples: str) -> str:
    dropped = chosen.dropped_table()
    counts = dropped.loc[dropped["reason"] != "source", "reason"].value_counts()
    listed = "\n".join(f"  {count:>8}  {reason}" for reason, count in counts.items())
    what = "no pair" if examples == "dpo" else "no message"
    return (
        f"adapters.{adapter}: {what} is left to train on. Of {counts.sum()} messages of its "
        f"sources, left out:\n{listed}\n"
        "Widen its trajectories settings (seats, windows, pass_band, tau, token limits), or lower "
        "split.validation_fraction."
    )
