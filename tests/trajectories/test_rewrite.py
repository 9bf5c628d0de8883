"""Rows as an adapter fits them: written for the trainer, measured by the real tokenizer."""

import pandas as pd
import pytest

from adaptermill.errors import UserError
from adaptermill.example.arithmetic import draw_rollouts
from adaptermill.models.base import load_processor
from adaptermill.models.encode import Encoder
from adaptermill.rows.dataset import open_sources
from adaptermill.trajectories.rewrite import rewrite
from adaptermill.trajectories.view import View
from tests.tiny_base import make_tiny_base
from tests.trajectories.building import Project


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Encoder:
    return Encoder(load_processor(make_tiny_base(tmp_path_factory.mktemp("tiny") / "base")))


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project(tmp_path_factory.mktemp("mas"), *draw_rollouts(0, 15, 4))


def written(project: Project, encoder: Encoder, **settings):
    view = View.from_settings({"fit_prompt": None, "target_span": "full", **settings})
    folder = project.folder / "messages"
    return folder, rewrite([project.data], view, encoder, folder)


def test_the_fit_set_names_rows_as_the_trainer_finds_them(project, encoder):
    folder, counts = written(project, encoder, target_span="visible")
    assert counts["no_visible_text"] > 0
    making = {"target_span": "visible", "drop_unclosed_think": False, "dedup": {"cap": 1000}}
    made = project.fitset(view=folder, **making)
    assert made["dropped"] == {"no_visible_text": counts["no_visible_text"]}
    rows, _ = open_sources([folder, project.data])
    before, _ = open_sources([project.data])
    spans = 0
    for line in project.table("fitset/fitset.parquet"):
        row, collected = rows.get(line["row_id"]), before.get(line["row_id"])
        assert row.content_hash == line["content_hash"]
        assert "</think>" not in row.target and collected.target.endswith(row.target)
        encoded = encoder.encode(row.messages, row.target, [])
        assert encoded.prompt_length == line["prompt_tokens"]
        assert len(encoded.targets) == line["target_tokens"]
        spans += row.target != collected.target
        # The model reads the same text; what is learned of it is less.
        whole = encoder.render(row.messages) + row.target
        assert whole == encoder.render(collected.messages) + collected.target
    assert spans > 0


def test_a_deployment_prompt_leaves_the_target(project, encoder):
    prompt = [{"role": "user", "content": "{query}"}]
    folder, _ = written(project, encoder, fit_prompt={"judger": prompt})
    made = project.fitset(view=folder, fit_prompt={"judger": prompt}, seats=[2, 3])
    rows, _ = open_sources([folder, project.data])
    before, _ = open_sources([project.data])
    for line in project.table("fitset/fitset.parquet"):
        row, collected = rows.get(line["row_id"]), before.get(line["row_id"])
        assert row.target == collected.target
        if line["family"] == "judger":
            assert [message["role"] for message in row.messages] == ["user"]
            assert row.messages[0]["content"].startswith("What is")
        else:
            assert row.messages == collected.messages
    # All judgers of a query see one prompt now, so every pair has one.
    making = {"fit_prompt": {"judger": prompt}, "examples": "dpo", "seats": [3], "max_pairs": 100}
    pairs = [
        project.fitset(view=folder, pair_prompt=kind, **making)["pairs"]["candidates"]
        for kind in ("chosen", "same_only")
    ]
    assert pairs[0] == pairs[1] > 0
    assert made["hashes"] != project.fitset(seats=[2, 3])["hashes"]


def test_a_role_that_nobody_has_is_refused(project, encoder):
    prompt = [{"role": "user", "content": "{query}"}]
    with pytest.raises(UserError, match="no message has the role 'judge'; there are critic"):
        written(project, encoder, fit_prompt={"judge": prompt})


def test_measures_of_what_cannot_be_encoded_and_all_others(project, encoder):
    folder, counts = written(project, encoder)
    measures = pd.read_parquet(folder / "measures.parquet")
    assert len(measures) == counts["rows"] == 60 * 4 and measures["reason"].isna().all()
    rows, _ = open_sources([folder])
    for line in measures.head(20).itertuples():
        row = rows.get(line.row_id)
        made = encoder.measure(row.messages, row.target, [])
        assert (made.prompt_tokens, made.target_tokens) == (line.prompt_tokens, line.target_tokens)
