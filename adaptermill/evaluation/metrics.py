"""The figures that the tables show: what each means, and how rows make it up.

The names of the metrics, their meanings and their units stand in METRICS and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adaptermill.evaluation.answers import DEFAULT_TOLERANCE, compare
from adaptermill.evaluation.predictions import Origin, Predictions

# d = log p_ref - log p is clamped to this range, as in training.
ANCHOR_CLAMP = (-20.0, 8.0)


@dataclass(frozen=True)
class Metric:
    """One figure. `better` is `lower`, `higher`, or empty where neither is meant."""

    name: str
    group: str
    meaning: str
    better: str
    per_episode: bool = False


LIKELIHOOD = "How likely the recorded answer is"
DRIFT = "Distance from the base"
GENERATED = "Generated answers"
METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "nll", LIKELIHOOD, "mean over rows of the mean -log p of the answer's tokens", "lower"
        ),
        Metric("nll_token", LIKELIHOOD, "mean -log p over all answer tokens of all rows", "lower"),
        Metric(
            "nll_action",
            LIKELIHOOD,
            "like nll, over the tokens from the action on (without memory and thoughts)",
            "lower",
        ),
        Metric("perplexity", LIKELIHOOD, "exp(nll_token)", "lower"),
        Metric(
            "greedy_match",
            LIKELIHOOD,
            "share of rows whose action tokens are all the most likely ones",
            "higher",
        ),
        Metric(
            "anchor",
            DRIFT,
            "mean over rows of the anchor penalty against the base, 0 for the base itself: with "
            "d = log p_base - log p clamped to [-20, 8], the mean of exp(d) - d - 1 over the "
            "action's tokens",
            "lower",
        ),
        Metric("json_valid", GENERATED, "share of answers that are one JSON object", "higher"),
        Metric(
            "op_match",
            GENERATED,
            "share of answers with the recorded names of actions, in order",
            "higher",
        ),
        Metric(
            "target_match",
            GENERATED,
            "share of answers that act on the recorded elements and points (within the tolerance), "
            "of the rows that have any",
            "higher",
        ),
        Metric(
            "args_match",
            GENERATED,
            "share of answers with the recorded text, option, keys, …, of the rows that have any",
            "higher",
        ),
        Metric("step_success", GENERATED, "share of answers that are right in all of it", "higher"),
        Metric(
            "episode_steps",
            GENERATED,
            "mean over episodes of the share of their steps that are right",
            "higher",
            per_episode=True,
        ),
        Metric(
            "episode_success",
            GENERATED,
            "share of episodes whose steps are all right",
            "higher",
            per_episode=True,
        ),
    )
}
_FROM_ANSWERS = ("json_valid", "op_match", "target_match", "args_match", "step_success")


@dataclass(frozen=True)
class RowFigures:
    """What every row of one adapter adds to every metric.

    `summands[metric]` is (numerators, denominators), float64 [rows] each; a denominator of 0 leaves
    the row out of that metric. `episodes` numbers the rows' episodes.
    """

    name: str
    origin: Origin
    row_ids: list[str]
    episodes: np.ndarray
    families: np.ndarray
    summands: dict[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class EpisodeSums:
    """A metric's summands per episode, of the episodes that have any, and from how many rows."""

    numerators: np.ndarray
    denominators: np.ndarray
    rows: int

    @property
    def episodes(self) -> int:
        return len(self.numerators)


def row_figures(
    predictions: Predictions, base: Predictions | None, tolerance: float = DEFAULT_TOLERANCE
) -> RowFigures:
    """The figures of every row; `anchor` only where the base's predictions are given.

    Both files must be of the same held-out rows.
    """
    table = predictions.rows
    row_ids = table["row_id"].to_pylist()
    ones = np.ones(len(row_ids))

    def column(name: str) -> np.ndarray:
        return table[name].to_numpy().astype(np.float64)

    summands = {
        "nll": (column("nll"), ones),
        "nll_token": (column("nll_sum"), column("target_tokens")),
        "nll_action": (column("nll_action"), ones),
        "perplexity": (column("nll_sum"), column("target_tokens")),
        "greedy_match": (column("greedy_match"), ones),
    }
    if base is not None:
        summands["anchor"] = (anchor_penalties(predictions, base), ones)
    if predictions.origin.generated:
        summands |= _answer_summands(predictions, tolerance)
    # A task id may stand in two sources; the row id begins with both.
    names = [row_id.rpartition("/")[0] for row_id in row_ids]
    episodes = np.unique(np.array(names, dtype=object), return_inverse=True)[1] if names else []
    return RowFigures(
        name=predictions.name,
        origin=predictions.origin,
        row_ids=row_ids,
        episodes=np.asarray(episodes, dtype=np.int64),
        families=np.array(table["family"].to_pylist(), dtype=object),
        summands=summands,
    )


def anchor_penalties(predictions: Predictions, base: Predictions) -> np.ndarray:
    """float64 [rows]: each row's anchor penalty against the base, over its action's tokens."""
    penalties = np.zeros(len(predictions.rows))
    ours, theirs = predictions.rows["logps"], base.rows["logps"]
    masks = predictions.rows["action_mask"]
    for place, (own, reference, mask) in enumerate(zip(ours, theirs, masks, strict=True)):
        chosen = np.array(mask.as_py(), dtype=bool)
        difference = np.array(reference.as_py(), dtype=np.float64) - np.array(own.as_py())
        d = np.clip(difference[chosen], *ANCHOR_CLAMP)
        penalties[place] = np.mean(np.expm1(d) - d)
    return penalties


def _answer_summands(
    predictions: Predictions, tolerance: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    columns = ("predicted", "target", "screen_width", "screen_height")
    found: dict[str, list[bool | None]] = {name: [] for name in _FROM_ANSWERS}
    for line in predictions.rows.select(columns).to_pylist():
        screen = None
        if line["screen_width"] is not None:
            screen = (line["screen_width"], line["screen_height"])
        comparison = compare(line["predicted"], line["target"], screen, tolerance)
        for name in _FROM_ANSWERS:
            found[name].append(getattr(comparison, name))
    summands = {}
    for name, answers in found.items():
        right = np.array([answer is True for answer in answers], dtype=np.float64)
        asked = np.array([answer is not None for answer in answers], dtype=np.float64)
        summands[name] = (right, asked)
    return {
        **summands,
        "episode_steps": summands["step_success"],
        "episode_success": summands["step_success"],
    }


def episode_sums(figures: RowFigures, metric: str, chosen: np.ndarray) -> EpisodeSums:
    """Sums per episode over the `chosen` rows (bool [rows]); episodes without any are left out."""
    if metric not in figures.summands:
        return EpisodeSums(np.empty(0), np.empty(0), 0)
    numerators, denominators = figures.summands[metric]
    counted = chosen & (denominators > 0)
    episodes = figures.episodes[counted]
    count = int(figures.episodes.max(initial=-1)) + 1
    above = np.bincount(episodes, numerators[counted], minlength=count)
    below = np.bincount(episodes, denominators[counted], minlength=count)
    above, below = above[below > 0], below[below > 0]
    if METRICS[metric].per_episode:
        shares = above / below
        above = shares if metric == "episode_steps" else (above == below).astype(np.float64)
        below = np.ones(len(below))
    return EpisodeSums(above, below, int(counted.sum()))


def scale(metric: str, ratios: np.ndarray) -> np.ndarray:
    """From the ratio of sums to the metric itself."""
    return np.exp(ratios) if metric == "perplexity" else ratios
