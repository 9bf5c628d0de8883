"""The arms of consensus training side by side, on the same held-out messages.

`arms`, a line per adapter of `method: consensus`, behind a line of the base (`base`):

    arm                 what is done, in a few words; `objective` is dpo, rsft or sft
    partition, nodes    seat or anchor, and how many nodes; `deploy` is `one` or `per-node`
    rounds, best_round  how many, and the one with the lowest held-out NLL where a share is held out
    objective_value     the nodes' mean objective in the last round, over its minibatches
    primal_residual, dual_residual, disagreement   after the last round; empty without coupling
    bytes_per_node      the most that one node sent in the whole run; `bytes_sent` is all nodes'
    nll, low, high      mean NLL of held-out messages with its 95 % interval over queries; of
                        adapters per node, each message under its own node's adapter
    difference, difference_low, difference_high    to the base, paired
    rows, queries       held-out messages, and the queries that these are of
    right, right_rows   teacher-forced share of right answers: of the held-out last messages whose
                        rollout was right (reward 1), those whose every token is the most likely one
    growing             the first round at which x and z were drifting apart, a sign of divergence
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from adaptermill.consensus.telemetry import first_growing
from adaptermill.evaluation.markdown import number, table, with_interval
from adaptermill.evaluation.predictions import Predictions
from adaptermill.evaluation.tables import BASE, HeldOut
from adaptermill.training.consensus.naming import arm

ARMS_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("adapter", "arm", "objective", "partition", "deploy")],
        *[(name, pa.int64()) for name in ("nodes", "rounds", "best_round")],
        *[(name, pa.float64()) for name in ("objective_value", "primal_residual")],
        *[(name, pa.float64()) for name in ("dual_residual", "disagreement")],
        *[(name, pa.int64()) for name in ("bytes_per_node", "bytes_sent")],
        *[(name, pa.float64()) for name in ("nll", "low", "high")],
        *[(name, pa.float64()) for name in ("difference", "difference_low", "difference_high")],
        *[(name, pa.int64()) for name in ("rows", "queries")],
        *[("right", pa.float64()), ("right_rows", pa.int64()), ("growing", pa.int64())],
        *[(name, pa.string()) for name in ("split_hash", "base_hash", "adapter_key")],
    ]
)
_RIGHT = 1.0


def arms_table(
    records: Sequence[Mapping[str, Any]],
    files: Sequence[Predictions],
    held_out: HeldOut,
    messages: pd.DataFrame,
) -> pa.Table:
    """From `training.json` of each adapter, the predictions that `held_out` was made of, messages.

    `messages` are those of all sources (`read_messages`); adapters that were not evaluated have no
    held-out figures.
    """
    by_name = {file.name: file for file in files}
    lines = []
    for record in [None, *records]:
        name = BASE if record is None else record["adapter"]
        line = {"adapter": name, **({} if record is None else _trained(record))}
        if name in by_name:
            line |= _evaluated(by_name[name], held_out, messages)
        lines.append(line)
    return pa.Table.from_pylist(lines, schema=ARMS_SCHEMA)


def _trained(record: Mapping[str, Any]) -> dict[str, Any]:
    recipe, rounds = record["recipe"], record["rounds"]
    last = rounds[-1]
    sent = [sum(counts) for counts in zip(*(told["bytes_sent"] for told in rounds), strict=True)]
    return {
        "arm": arm(recipe),
        "objective": recipe["examples"],
        "partition": "pooled" if recipe["pooled"] else recipe["partition"],
        "deploy": record["deploy"],
        "nodes": len(record["nodes"]),
        "rounds": len(rounds),
        "best_round": record["best_round"],
        "objective_value": sum(last["objective"]) / len(last["objective"]),
        **{name: last.get(name) for name in ("primal_residual", "dual_residual", "disagreement")},
        "bytes_per_node": max(sent),
        "bytes_sent": sum(sent),
        "growing": first_growing(rounds),
        "adapter_key": record["key"],
    }


def _evaluated(file: Predictions, held_out: HeldOut, messages: pd.DataFrame) -> dict[str, Any]:
    frame = file.rows.select(["row_id", "family", "greedy_match"]).to_pandas()
    frame = frame.merge(messages[["row_id", "rollout_id", "seat", "reward"]], on="row_id")
    origin = {"split_hash": file.origin.split_hash, "base_hash": file.origin.base_hash}
    if frame.empty:
        return {**origin, "rows": 0, "queries": 0, "right_rows": 0}
    families = sorted(set(frame["family"]))
    nll = held_out.figure(file.name, "nll", families)
    found = {
        **origin,
        **{"nll": nll.value, "low": nll.low, "high": nll.high},
        **{"rows": nll.rows, "queries": nll.episodes},
    }
    if file.name != BASE and BASE in held_out.adapters:
        change = held_out.difference(file.name, BASE, "nll", families)
        names = ("difference", "difference_low", "difference_high")
        found |= dict(zip(names, (change.value, change.low, change.high), strict=True))
    last = frame["seat"] == frame["rollout_id"].map(_last_seats(messages))
    right = frame[last & (frame["reward"] == _RIGHT)]
    found["right_rows"] = len(right)
    found["right"] = float(right["greedy_match"].mean()) if len(right) else None
    return found


def _last_seats(messages: pd.DataFrame) -> pd.Series:
    """Rollout -> the seat that gives its answer."""
    return messages.groupby("rollout_id")["seat"].max()


def arms_markdown(arms: pa.Table) -> str:
    lines = arms.to_pylist()
    base, adapters = lines[0], lines[1:]
    shown = [
        [
            line["adapter"],
            line["arm"] or "–",
            with_interval(line["nll"], line["low"], line["high"], False),
            with_interval(
                line["difference"], line["difference_low"], line["difference_high"], False, True
            ),
            "–" if line["right"] is None else f"{line['right']:.0%}",
            number(line["primal_residual"]),
            number(line["disagreement"]),
            _megabytes(line["bytes_per_node"]),
        ]
        for line in lines
    ]
    header = ["adapter", "arm", "held-out NLL", "to the base", "right"]
    header += ["primal residual", "disagreement", "MB per node"]
    parts = [
        "# Arms of consensus training\n",
        f"On {base['rows'] or 0} held-out messages of {base['queries'] or 0} queries. `right`: of "
        f"the {base['right_rows'] or 0} held-out last messages of right rollouts, those whose "
        "every token is the most likely one (teacher-forced).\n",
        table(header, shown),
    ]
    parts += [
        f"\n{line['adapter']}: x and z drifted apart up to round {line['growing']}; it diverges.\n"
        for line in adapters
        if line["growing"] is not None
    ]
    return "\n".join(parts)


def _megabytes(count: int | None) -> str:
    return "–" if count is None else number(count / 1e6)
