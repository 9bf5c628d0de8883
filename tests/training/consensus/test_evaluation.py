"""Adapters per node are evaluated each on its own messages."""

import json

import pytest
import torch
from peft import PeftModel

from adaptermill.errors import UserError
from adaptermill.evaluation.nodes import NodeAdapters
from adaptermill.evaluation.subject import load_subject, subject_key
from adaptermill.evaluation.teacher_forced import score
from adaptermill.models.base import load_model
from adaptermill.rows.dataset import open_sources


@pytest.mark.parametrize("arm", [{}, {"partition": "anchor", "n_partitions": 2}])
def test_every_message_is_scored_under_its_own_nodes_adapter(agents, tmp_path, arm):
    nonsink = {"trajectories": {"examples": "sft", "adapt_roles": "nonsink"}}
    job = agents.job(tmp_path, local_only=True, learning_rate=0.05, **nonsink, **arm)
    assert job.run() == 0
    assert subject_key(job.output) == job.record["key"]
    model = load_subject(agents.ref, job.output, "cpu", torch.float32)
    nodes = NodeAdapters.of(job.output)
    rows, _ = open_sources([agents.project.data])
    found = {}
    for number in range(24):
        name = sorted(rows._index.places)[number * 16 % 384 + number % 4]
        row = rows.get(name)
        encoded = agents.encoder.encode(row.messages, row.target, [])
        with nodes.switched(model, nodes.name_for(row)):
            found.setdefault(nodes.name_for(row), []).append(
                (encoded, score(model, encoded, "cpu"))
            )
    sink = None if not arm else "part_0"  # by query, every message has a node
    assert len(found) > 1 and sink in found
    for name, scored in found.items():
        alone = load_model(agents.ref)
        if name is not None:
            alone = PeftModel.from_pretrained(alone, str(job.output / "nodes" / name))
        for encoded, expected in scored:
            assert torch.equal(score(alone, encoded, "cpu").logps, expected.logps)
    # Under another node's adapter a message has other figures.
    encoded, expected = next(iter(found.values()))[0]
    assert not torch.equal(score(alone, encoded, "cpu").logps, expected.logps)


def test_one_adapter_for_all_has_no_nodes(agents, tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"deploy": "one", "key": "k"}))
    assert NodeAdapters.of(tmp_path) is None and NodeAdapters.of(None) is None
    nodes = [{"name": "seat_0"}]
    record = {"deploy": "per-node", "nodes": nodes, "recipe": {}, "key": "k"}
    (tmp_path / "training.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="seat_0 is no finished adapter"):
        subject_key(tmp_path)
