"""Selection: every row of the data set is kept for one adapter, or dropped with a reason.

The steps run in a fixed order; the first that a row fails is its reason. What is left of the
adapter's own families are its cross-entropy rows, what is left of the anchor families its pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from adaptermill.errors import UserError
from adaptermill.fitsets.dedup import exact_duplicates, near_duplicates
from adaptermill.fitsets.labels import LABELS, rejections, with_labels
from adaptermill.fitsets.plan import draw, names_of
from adaptermill.signatures import Signed
from adaptermill.splits import in_fraction

# Why rows are left out -> the setting by which fewer are.
MENDED_BY = {
    "source": "recipe.sources",
    "held_out": "split.validation_fraction",
    "test_side": "split.test_fraction",
    "mixed_chain": "split.mixed_chains, split.group_by",
    "variant": "recipe.exclude_variants",
    "fraction": "recipe.fraction",
    "not_listed": "recipe.episode_ids",
    "done_step": "recipe.drop_done",
    "too_long": "base.max_tokens",
}
# More of the pool than this being copies of the adapter's own rows means mislabelled families.
MOST_TWINS = 0.05


# Row ids -> their signatures, in that order.
Sign = Callable[[list[str]], Signed]


class Selection:
    """Rows on their way into one adapter's fit set.

    `rows` is the row index joined with its lengths, in its order; `kept` are the rows still
    in, with their `kind`; `dropped` lists (row_id, stage, reason, detail).
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows
        self.kept = rows.assign(kind="")
        self.dropped: list[pd.DataFrame] = []

    def drop(
        self,
        out: pd.Series,
        stage: str,
        reason: pd.Series | str,
        detail: pd.Series | None = None,
    ) -> None:
        """Takes the rows where `out` is true out of `kept`; series are read line by line."""
        gone = pd.DataFrame({"row_id": self.kept.loc[out, "row_id"]}, dtype=object)
        gone["stage"] = stage
        # Cut to the same lines first: a longer series would lengthen a frame without lines.
        gone["reason"] = reason if isinstance(reason, str) else reason[out]
        gone["detail"] = None if detail is None else detail[out]
        self.dropped.append(gone.astype(object))
        self.kept = self.kept[~out]

    def of_kind(self, kind: str) -> pd.DataFrame:
        return self.kept[self.kept["kind"] == kind]

    def contents(self, kind: str) -> dict[str, str]:
        """Row id -> content hash of the rows of that kind, in order."""
        rows = self.of_kind(kind)
        return dict(zip(rows["row_id"], rows["content_hash"], strict=True))

    def dropped_table(self) -> pd.DataFrame:
        columns = ["row_id", "stage", "reason", "detail"]
        return pd.concat(self.dropped, ignore_index=True)[columns].sort_values(
            "row_id", ignore_index=True
        )


def candidates(rows: pd.DataFrame, settings: Mapping[str, Any]) -> Selection:
    """The rows that one adapter could be trained on, before any is judged or found a duplicate."""
    recipe = settings["recipe"]
    own = set(settings["own_families"])
    anchors = set(settings["anchor_families"]) - own
    _check_families(rows, settings)
    chosen = Selection(rows)
    _take_sides(chosen, recipe, own, anchors)
    _take_shares(chosen, recipe)
    chosen.drop(
        chosen.kept["unfit"].notna(), "measure", chosen.kept["unfit"], chosen.kept["unfit_detail"]
    )
    kinds = chosen.kept["family"].isin(own).map({True: "ce", False: "anchor"})
    chosen.kept = chosen.kept.assign(kind=kinds.astype(object))
    return chosen


def select(
    rows: pd.DataFrame,
    settings: Mapping[str, Any],
    labels: pd.DataFrame | None = None,
    *,
    sign: Sign | None = None,
) -> Selection:
    """Chooses cross-entropy rows and the anchor pool of one adapter.

    `rows` is the row index of scripts/split.py with lengths (lengths.py), `labels` the verdicts of
    the recipe's judge (labels.py), if it has one. Shares, variants, listed episodes, `drop_done`,
    the judge and the cap hold for the pool too; `limit` is for CE rows alone. `sign` is asked for
    the signatures of rows where `dedup.near` is set.
    `UserError` when the adapter names a family that no row has, when nothing is left to train on,
    or when over 5 % of the anchor pool are copies of its own rows.
    """
    recipe = settings["recipe"]
    chosen = candidates(rows, settings)
    if labels is not None:
        chosen.kept = with_labels(chosen.kept, labels)
        rejected = rejections(chosen.kept, recipe)
        chosen.drop(rejected["out"], "judge", rejected["reason"], rejected["detail"])
    _drop_duplicates(chosen, recipe["dedup"], sign)
    if recipe["limit"] is not None:
        inside = draw(names_of(chosen.contents("ce")), recipe["limit"], "limit", recipe["seed"])
        over = (chosen.kept["kind"] == "ce") & ~chosen.kept["row_id"].isin(inside)
        chosen.drop(over, "selection", "limit")
    _drop_twins(chosen, settings["adapter"])
    if chosen.of_kind("ce").empty:
        raise UserError(_nothing_left(chosen, settings["adapter"], set(settings["own_families"])))
    return chosen


def _check_families(rows: pd.DataFrame, settings: Mapping[str, Any]) -> None:
    recipe = settings["recipe"]
    there = set(rows["family"])
    for setting in ("families", "anchor_families"):
        named = recipe[setting]
        if not isinstance(named, list):
            continue
        unknown = [family for family in named if family not in there]
        if unknown:
            raise UserError(
                f"adapters.{settings['adapter']}.{setting}: no row has the family "
                f"{', '.join(map(repr, unknown))}. {_families(rows)}"
            )


def _take_sides(
    chosen: Selection, recipe: Mapping[str, Any], own: set[str], anchors: set[str]
) -> None:
    if isinstance(recipe["sources"], list):
        chosen.drop(~chosen.kept["source"].isin(recipe["sources"]), "selection", "source")
    untrainable = chosen.kept["untrainable"]
    chosen.drop(untrainable.notna(), "selection", untrainable)
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
        listed = listed_sources(Path(recipe["episode_ids"]))
        inside = [listed.issuperset(sources) for sources in chosen.kept["sources"]]
        chosen.drop(~pd.Series(inside, chosen.kept.index, dtype=bool), "selection", "not_listed")
    if recipe["drop_done"]:
        done = chosen.rows[chosen.rows["op"] == "done"]
        last = done.loc[done.groupby(["source", "task_id"])["step"].idxmax(), "row_id"]
        chosen.drop(chosen.kept["row_id"].isin(last), "selection", "done_step")


def listed_sources(path: Path) -> set[str]:
    """The sources that a file names, one per line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"episode_ids: {path} cannot be read ({error}); it names one source per line"
        ) from None
    return {line.strip() for line in lines if line.strip()}


def _drop_duplicates(chosen: Selection, dedup: Mapping[str, Any], sign: Sign | None) -> None:
    repeats = exact_duplicates(chosen.kept, dedup)
    chosen.drop(repeats.notna(), "dedup", "duplicate", repeats)
    if dedup["near"] is not None:
        signed = sign(list(chosen.kept["row_id"]))
        repeats = near_duplicates(chosen.kept, dedup, signed)
        chosen.drop(repeats.notna(), "dedup", "near_duplicate", repeats)


def _drop_twins(chosen: Selection, adapter: str) -> None:
    """A pool row with prompt and answer of one of the adapter's own rows would pull both ways."""
    answers = chosen.kept["text_hash"] + chosen.kept["target_hash"]
    pool = chosen.kept["kind"] == "anchor"
    own = dict(zip(answers[~pool], chosen.kept.loc[~pool, "row_id"], strict=True))
    twin_of = answers.map(own)
    twins = pool & twin_of.notna()
    if twins.sum() > MOST_TWINS * pool.sum():
        pairs = zip(chosen.kept.loc[twins, "row_id"], twin_of[twins], strict=True)
        shown = "\n".join(f"  {row_id} = {own_id}" for row_id, own_id in list(pairs)[:5])
        raise UserError(
            f"adapters.{adapter}: {twins.sum()} of {pool.sum()} anchor rows are copies of its own "
            f"rows under another family, more than {MOST_TWINS:.0%}:\n{shown}\n"
            "Check the families in the data, or choose anchor_families without them."
        )
    chosen.drop(twins, "anchor", "twin_of_ce_row", twin_of)


def _nothing_left(chosen: Selection, adapter: str, own: set[str]) -> str:
    rows = chosen.rows.loc[chosen.rows["family"].isin(own), "row_id"]
    if rows.empty:
        return f"adapters.{adapter}: no row has a family of its own. {_families(chosen.rows)}"
    dropped = chosen.dropped_table()
    counts = dropped.loc[dropped["row_id"].isin(rows), "reason"].value_counts()
    listed = "\n".join(
        f"  {count:>8}  {reason}{' (' + MENDED_BY[reason] + ')' if reason in MENDED_BY else ''}"
        for reason, count in counts.items()
    )
    return (
        f"adapters.{adapter}: no row is left to train on. Of {len(rows)} rows of its families, "
        f"left out:\n{listed}\n"
        "Change the settings in brackets, or give the data more rows of these families."
    )


def _families(rows: pd.DataFrame) -> str:
    counts = rows["family"].value_counts().sort_index()
    return "The data has\n" + "\n".join(f"  {n:>8}  {family}" for family, n in counts.items())


def fitset_columns(chosen: Selection, kept: Sequence[str]) -> pd.DataFrame:
    """The fit set: CE rows, and the anchor rows among `kept`, a line each."""
    rows = chosen.kept[(chosen.kept["kind"] == "ce") | chosen.kept["row_id"].isin(kept)]
    # What only trajectories have, or only judged rows.
    names = ("seat", "query_id", "pair_id", "advantage", *LABELS)
    return rows.assign(**{name: None for name in names if name not in rows})
