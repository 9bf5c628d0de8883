"""Global batches, their common prefix, and how rows are shared out over processes."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from adaptermill.fitsets.plan import PLAN_SCHEMA
from adaptermill.models.encode import Encoded
from adaptermill.models.prefix import common_prefix
from adaptermill.training.batches import cut, read_plan, share_out
from adaptermill.training.checkpoint import Refusal
from tests.training.world import lines


def row(ids: list[int], prompt: int, first_image: int | None = None) -> Encoded:
    return Encoded(
        input_ids=torch.tensor(ids),
        prompt_length=prompt,
        action_mask=torch.ones(len(ids) - prompt, dtype=torch.bool),
        has_action_key=False,
        image_tokens=0,
        first_image=first_image,
    )


def test_the_plan_is_cut_into_consecutive_batches_and_no_line_is_lost():
    plan = lines(10)
    batches = cut(plan, 4)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert list(chain(*batches)) == plan


def test_a_plan_is_read_in_its_order_and_an_empty_one_is_refused(tmp_path):
    path = tmp_path / "plan.parquet"
    for plan in (lines(5), []):
        table = pa.Table.from_pylist([vars(line) for line in plan], schema=PLAN_SCHEMA)
        pq.write_table(table, path)
        if plan:
            assert read_plan(path) == plan
        else:
            with pytest.raises(Refusal, match="nothing to train on"):
                read_plan(path)


def test_the_common_prefix_is_what_all_rows_begin_with():
    rows = [row([1, 2, 3, 4, 9], 5 - 1), row([1, 2, 3, 5, 9, 9], 4), row([1, 2, 3, 4, 4, 4], 5)]
    assert common_prefix(rows) == 3
    assert common_prefix([row([1, 2, 3], 2), row([2, 2, 3], 2)]) == 0


def test_the_common_prefix_leaves_each_prompt_a_token():
    """The token that predicts a target's first one is always a row's own."""
    same = [1, 2, 3, 4, 5, 6]
    assert common_prefix([row(same, 4), row(same, 5)]) == 3
    assert common_prefix([row(same, 4)]) == 3


def test_the_common_prefix_ends_before_the_first_image():
    same = [1, 2, 7, 7, 5, 6]
    assert common_prefix([row(same, 5, first_image=2), row(same, 5, first_image=2)]) == 2
    assert common_prefix([row(same, 5, first_image=2), row(same, 5)]) == 2


@pytest.mark.parametrize("processes", [1, 2, 3, 5, 16])
def test_every_row_has_one_process_and_loads_are_nearly_equal(processes):
    lengths = [400, 90, 310, 90, 250, 260, 70]
    shares = share_out(lengths, processes)
    assert shares == share_out(lengths, processes)
    assert len(shares) == processes
    assert sorted(chain(*shares)) == list(range(len(lengths)))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(lengths[place] for place in share) for share in shares]
    assert max(loads) - min(loads) <= max(lengths)
    assert (0 in loads) == (processes > len(lengths))
