"""Selection: every row of the data set is kept for one adapter, or dropped with a reason.

The steps run in a fixed order; the first that a row fails is its reason. What is left of the
adapter's own families are its cross-entropy rows, what is left of the anchor families its pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from adaptermill.errors import UserError
from adaptermill.fitsets.plan import draw
from adaptermill.splits import in_fraction

DEDUP_COLUMNS = {
    "target": ["target_hash"],
    "prompt+target": ["text_hash", "target_hash"],
    "prompt+target+images": ["content_hash"],
}
# More of the pool than this being copies of the adapter's own rows means mislabelled families.
MOST_TWINS = 0.05


class Selection:
    """Rows on their way into one adapter's fit set.

    `rows` is the row index joined with the token counts, in its order; `kept` are the rows still
    in, with their `kind`; `dropped` lists (row_id, stage, reason, detail).
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows
        self.kept = rows.assign(kind="")
        self.dropped: list[pd.DataFrame] = []

    def drop(
        self, out: pd.Series, stage: str, reason: str, detail: pd.Series | str | None = None
    ) -> None:
        """Takes the rows where `out` is true out of `kept`."""
        gone = self.kept.loc[out, ["row_id"]].assign(stage=stage, reason=reason, detail=None)
        if isinstance(detail, pd.Series):
            gone["detail"] = detail[out]
        elif detail is not None:
            gone["detail"] = detail
        self.dropped.append(gone)
        self.kept = self.kept[~out]

    def of_kind(self, kind: str) -> pd.DataFrame:
        return self.kept[self.kept["kind"] == kind]

    def dropped_table(self) -> pd.DataFrame:
        columns = ["row_id", "stage", "reason", "detail"]
        return pd.concat(self.dropped, ignore_index=True)[columns].sort_values(
            "row_id", ignore_index=True
        )


def select(rows: pd.DataFrame, settings: Mapping[str, Any]) -> Selection:
    """Chooses cross-entropy rows and the anchor pool of one adapter.

    `rows` is the row index (see scripts/split.py) joined with MEASURE_SCHEMA by row_id. `UserError`
    when the adapter names a family that no row has, when nothing is left to train on, or when over
    5 % of the anchor pool are copies of its own rows.
    """
    recipe = settings["recipe"]
    own = set(settings["own_families"])
    anchors = set(settings["anchor_families"]) - own
    _check_families(rows, settings)
    chosen = Selection(rows)
    _take_sides(chosen, recipe, own, anchors)
    _take_shares(chosen, recipe)
    _take_encodable(chosen, settings["max_tokens"])
    chosen.kept = chosen.kept.assign(
        kind=["ce" if family in own else "anchor" for family in chosen.kept["family"]]
    )
    _drop_duplicates(chosen, recipe["dedup"])
    _drop_twins(chosen, settings["adapter"])
    if recipe["limit"] is not None:
        ce = list(chosen.of_kind("ce")["row_id"])
        inside = set(draw(ce, recipe["limit"], "limit", recipe["seed"]))
        over = (chosen.kept["kind"] == "ce") & ~chosen.kept["row_id"].isin(inside)
        chosen.drop(over, "selection", "limit")
    if chosen.of_kind("ce").empty:
        raise UserError(_nothing_left(chosen, settings["adapter"]))
    return chosen


def _check_families(rows: pd.DataFrame, settings: Mapping[str, Any]) -> None:
    recipe = settings["recipe"]
    there = rows["family"].value_counts().sort_index()
    for setting in ("families", "anchor_families"):
        named = recipe[setting]
        if not isinstance(named, list):
            continue
        unknown = [family for family in named if family not in there.index]
        if unknown:
            known = "\n".join(f"  {count:>8}  {family}" for family, count in there.items())
            raise UserError(
                f"adapters.{settings['adapter']}.{setting}: no row has the family "
                f"{', '.join(map(repr, unknown))}. The data has\n{known}"
            )


def _take_sides(
    chosen: Selection, recipe: Mapping[str, Any], own: set[str], anchors: set[str]
) -> None:
    if isinstance(recipe["sources"], list):
        chosen.drop(~chosen.kept["source"].isin(recipe["sources"]), "selection", "source")
    chosen.drop(~chosen.kept["trainable"].astype(bool), "selection", "injected")
    reasons = {"validation": "held_out", "test": "test_side", "mixed": "mixed_chain"}
    for side, reason in reasons.items():
        chosen.drop(chosen.kept["side"] == side, "split", reason)
    chosen.drop(~chosen.kept["family"].isin(own | anchors), "selection", "other_family")


def _take_shares(chosen: Selection, recipe: Mapping[str, Any]) -> None:
    kept = chosen.kept
    out = kept["variant"].isin(recipe["exclude_variants"])
    chosen.drop(out, "selection", "variant", kept["variant"])
    inside = [in_fraction(key, recipe["fraction"]) for key in chosen.kept["fraction_key"]]
    chosen.drop(~pd.Series(inside, chosen.kept.index, dtype=bool), "selection", "fraction")
    if recipe["episode_ids"] is not None:
        listed = set(Path(recipe["episode_ids"]).read_text(encoding="utf-8").split())
        inside = [listed.issuperset(sources) for sources in chosen.kept["sources"]]
        chosen.drop(~pd.Series(inside, chosen.kept.index, dtype=bool), "selection", "not_listed")
    if recipe["drop_done"]:
        last = chosen.rows.groupby(["source", "task_id"])["step"].transform("max")
        is_last = chosen.kept["step"] == last[chosen.kept.index]
        chosen.drop((chosen.kept["op"] == "done") & is_last, "selection", "done_step")


def _take_encodable(chosen: Selection, max_tokens: int) -> None:
    kept = chosen.kept
    chosen.drop(kept["reason"].notna(), "measure", "template_prefix", kept["detail"])
    total = chosen.kept["prompt_tokens"] + chosen.kept["target_tokens"]
    detail = total.map(lambda count: f"{count:.0f} tokens, base.max_tokens is {max_tokens}")
    chosen.drop(total > max_tokens, "measure", "too_long", detail)


def _drop_duplicates(chosen: Selection, dedup: Mapping[str, Any]) -> None:
    """At most `cap` rows of a kind share a key; the first ones in order are kept."""
    columns = ["kind", *DEDUP_COLUMNS[dedup["key"]]]
    groups = chosen.kept.groupby(columns, sort=False)
    out = groups.cumcount() >= dedup["cap"]
    chosen.drop(out, "dedup", "duplicate", groups["row_id"].transform("first"))


def _drop_twins(chosen: Selection, adapter: str) -> None:
    """A pool row that is also one of the adapter's own rows would pull both ways."""
    ce = chosen.of_kind("ce").drop_duplicates("content_hash").set_index("content_hash")["row_id"]
    pool = chosen.kept["kind"] == "anchor"
    twins = pool & chosen.kept["content_hash"].isin(ce.index)
    if twins.sum() > MOST_TWINS * max(1, pool.sum()):
        pairs = chosen.kept.loc[twins, ["row_id", "content_hash"]].head(5)
        shown = "\n".join(
            f"  {row_id} = {ce[content]}" for row_id, content in pairs.itertuples(index=False)
        )
        raise UserError(
            f"adapters.{adapter}: {twins.sum()} of {pool.sum()} anchor rows are copies of its own "
            f"rows under another family, more than {MOST_TWINS:.0%}:\n{shown}\n"
            "Check the families in the data, or choose anchor_families without them."
        )
    chosen.drop(twins, "anchor", "twin_of_ce_row", chosen.kept["content_hash"].map(ce))


def _nothing_left(chosen: Selection, adapter: str) -> str:
    counts = chosen.dropped_table()["reason"].value_counts()
    listed = "\n".join(f"  {count:>8}  {reason}" for reason, count in counts.items())
    return (
        f"adapters.{adapter}: no row is left to train on. Of {len(chosen.rows)} rows, left out:\n"
        f"{listed}\nWiden its families, fraction or variants, or lower split.validation_fraction."
    )


def fitset_columns(chosen: Selection, kept: Sequence[str]) -> pd.DataFrame:
    """The fit set: CE rows, and the anchor rows among `kept`, a line each."""
    rows = chosen.kept[(chosen.kept["kind"] == "ce") | chosen.kept["row_id"].isin(kept)]
    empty = dict.fromkeys(("seat", "query_id", "pair_id", "reward", "advantage", "judge"))
    return rows.assign(**empty)
