"""Protects scripts/evaluate.py: true figures of the right model, in order, none computed twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from peft import PeftModel

from adaptermill.errors import UserError
from adaptermill.evaluation import predictions
from adaptermill.evaluation.metrics import anchor_penalties
from adaptermill.evaluation.state import CHUNK_ROWS
from adaptermill.evaluation.subject import load_subject, subject_key
from adaptermill.models.base import load_model, load_processor, resolve
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import forward_inputs
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode
from scripts import evaluate
from tests.evaluation.conftest import write_adapter, write_heldout
from tests.rows.building import SHARED, Ingested

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS = 35


@pytest.fixture(scope="module")
def base_file(place, tmp_path_factory):
    output = tmp_path_factory.mktemp("base") / "base.parquet"
    evaluate.main(place.arguments(output))
    return output


@pytest.fixture(scope="module")
def drag_file(place, tmp_path_factory):
    output = tmp_path_factory.mktemp("drag") / "drag.parquet"
    evaluate.main([*place.arguments(output), "--adapter", str(place.adapter)])
    return output


def encoded_rows(place):
    encoder = Encoder(load_processor(place.ref))
    rows, images = open_sources([place.ingested.folder])
    for line in sorted(place.ingested.table("shards"), key=lambda line: line["row_id"]):
        row = rows.get(line["row_id"])
        screens = [decode(images.bytes(name)) for name in row.images]
        yield encoder.encode(row.messages, row.target, screens)


def test_the_file_says_what_it_is_of(place, base_file, drag_file):
    base, drag = predictions.read(base_file), predictions.read(drag_file)
    assert (base.name, drag.name) == ("base", "drag")
    assert base.origin.split_hash == drag.origin.split_hash == "0123"
    assert base.origin.base_hash == place.ref.identity
    assert (base.origin.adapter_key, drag.origin.adapter_key) == (None, "0f3a")
    assert (base.origin.dtype, base.origin.device) == ("float32", "cpu")
    assert not base_file.with_suffix(".state").exists()


def test_every_held_out_row_is_there_once_in_order(place, base_file):
    table = predictions.read(base_file).rows
    expected = sorted(line["row_id"] for line in place.ingested.table("shards"))
    assert table["row_id"].to_pylist() == expected
    assert len(expected) == ROWS > 2 * CHUNK_ROWS
    assert table["predicted"].null_count == ROWS
    assert set(table["screen_width"].to_pylist()) == {64, 96}


@pytest.mark.parametrize("name", ["base", "drag"])
def test_figures_are_those_of_a_plain_forward(place, base_file, drag_file, name):
    model = load_model(place.ref)
    if name == "drag":
        model = PeftModel.from_pretrained(model, place.adapter)
    table = predictions.read(base_file if name == "base" else drag_file).rows
    for line, encoded in zip(table.to_pylist(), encoded_rows(place), strict=True):
        with torch.no_grad():
            logits = model(**forward_inputs(encoded, "cpu")).logits[0].float()
        start, mask = encoded.prompt_length, encoded.action_mask
        logps = logits[start - 1 : -1].log_softmax(-1)
        own = logps[torch.arange(len(encoded.targets)), encoded.targets]
        assert np.allclose(line["logps"], own, atol=1e-5)
        assert line["nll"] == pytest.approx(-own.mean().item(), abs=1e-5)
        assert line["nll_sum"] == pytest.approx(-own.sum().item(), abs=1e-4)
        assert line["nll_action"] == pytest.approx(-own[mask].mean().item(), abs=1e-5)
        assert line["target_tokens"] == len(own) > line["action_tokens"] == mask.sum()
        matched = (logps.argmax(-1) == encoded.targets)[mask].all()
        assert line["greedy_match"] == matched.item()


def test_the_adapter_changes_figures_and_the_base_is_at_no_distance(base_file, drag_file):
    base, drag = predictions.read(base_file), predictions.read(drag_file)
    assert (anchor_penalties(base, base) == 0).all()
    assert (anchor_penalties(drag, base) > 1e-3).all()


def test_earlier_epochs_are_scored_and_leave_the_adapter_as_it_is(place, drag_file, tmp_path):
    shutil.copytree(place.adapter, tmp_path / "drag")
    for epoch, seed in (("1", 3), ("2", 4), ("10", 1)):
        write_adapter(place.ref, tmp_path / "drag" / "epochs" / epoch, seed, 0.5)
    curve, one = tmp_path / "curve.parquet", tmp_path / "one.parquet"
    evaluate.main([*place.arguments(curve), "--adapter", str(tmp_path / "drag")])
    evaluate.main([*place.arguments(one), "--adapter", str(tmp_path / "drag" / "epochs" / "2")])
    found = predictions.read(curve).rows
    assert found["nll"] == predictions.read(drag_file).rows["nll"]
    epochs = np.array(found["epochs_nll"].to_pylist())
    assert epochs.shape == (ROWS, 2)
    assert np.allclose(epochs[:, 1], predictions.read(one).rows["nll"].to_numpy(), atol=1e-6)
    off = tmp_path / "off.parquet"
    evaluate.main([*place.arguments(off, curve=False), "--adapter", str(tmp_path / "drag")])
    assert not any(predictions.read(off).rows["epochs_nll"].to_pylist())


def test_an_adapter_that_does_nothing_is_the_base(place, base_file, tmp_path):
    write_adapter(place.ref, tmp_path / "none", 2, 0.0)
    output = tmp_path / "none.parquet"
    evaluate.main([*place.arguments(output), "--adapter", str(tmp_path / "none")])
    none, base = predictions.read(output), predictions.read(base_file)
    assert none.rows.equals(base.rows)
    assert none.origin.adapter_key == subject_key(tmp_path / "none") != "0f3a"


def test_a_second_run_gives_the_same_bytes(place, drag_file, tmp_path):
    output = tmp_path / "drag.parquet"
    evaluate.main([*place.arguments(output), "--adapter", str(place.adapter)])
    assert output.read_bytes() == drag_file.read_bytes()


def test_families_are_those_of_the_held_out_list(place, tmp_path):
    arguments = place.arguments(tmp_path / "base.parquet")
    write_heldout(place.ingested, tmp_path / "heldout.parquet", renamed="Other")
    arguments[arguments.index("--heldout") + 1] = str(tmp_path / "heldout.parquet")
    evaluate.main(arguments)
    table = predictions.read(tmp_path / "base.parquet").rows
    assert set(table["family"].to_pylist()) == {"Other"}


def test_only_missing_chunks_are_computed(place, drag_file, tmp_path, monkeypatch, capsys):
    output = tmp_path / "drag.parquet"
    arguments = [*place.arguments(output), "--adapter", str(place.adapter)]
    computed = []

    def lines(self, chunk, progress, original=evaluate.Evaluator.lines):
        if len(computed) == 2 * CHUNK_ROWS and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        computed.extend(listed["row_id"] for listed in chunk)
        return original(self, chunk, progress)

    interrupted: list[bool] = []
    monkeypatch.setattr(evaluate.Evaluator, "lines", lines)
    with pytest.raises(KeyboardInterrupt):
        evaluate.main(arguments)
    state = output.with_suffix(".state")
    assert len(list(state.glob("chunk_*.parquet"))) == 2
    # A chunk that is damaged counts as not computed.
    (state / "chunk_000000.parquet").write_bytes(b"PAR1")
    computed.clear()
    evaluate.main(arguments)
    assert len(computed) == ROWS - CHUNK_ROWS
    assert f"{CHUNK_ROWS} of them done before" in capsys.readouterr().out
    assert output.read_bytes() == drag_file.read_bytes()


@pytest.mark.slow
def test_killed_and_started_again(place, drag_file, tmp_path):
    output = tmp_path / "drag.parquet"
    command = [sys.executable, "scripts/evaluate.py", *place.arguments(output)]
    command += ["--adapter", str(place.adapter)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    running = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL)
    first = output.with_suffix(".state") / "chunk_000000.parquet"
    while not first.exists() and running.poll() is None:
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    finished = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    assert "done before" in finished.stdout or running.returncode == 0
    assert predictions.read(output).rows.equals(predictions.read(drag_file).rows)


def test_state_of_another_evaluation_is_not_used(place, base_file, drag_file, tmp_path, capsys):
    output = tmp_path / "base.parquet"
    arguments = place.arguments(output)
    state = output.with_suffix(".state")
    state.mkdir()
    (state / "identity.json").write_text(json.dumps({"split_hash": "other"}))
    drag = pq.read_table(drag_file)
    pq.write_table(drag.slice(0, CHUNK_ROWS), state / "chunk_000000.parquet")
    evaluate.main(arguments)
    assert "starting anew" in capsys.readouterr().out
    assert output.read_bytes() == base_file.read_bytes()


def test_nothing_held_out_is_an_empty_table(place, tmp_path):
    arguments = place.arguments(tmp_path / "base.parquet")
    heldout = tmp_path / "heldout.parquet"
    empty = pq.read_table(place.folder / "heldout.parquet").slice(0, 0)
    pq.write_table(empty, heldout)
    heldout.with_suffix(".json").write_text(json.dumps({"digest": "none"}))
    arguments[arguments.index("--heldout") + 1] = str(heldout)
    evaluate.main(arguments)
    assert len(predictions.read(tmp_path / "base.parquet").rows) == 0


def with_heldout(place, tmp_path, change):
    """Arguments for a held-out list of one line, changed."""
    arguments = place.arguments(tmp_path / "base.parquet")
    lines = pq.read_table(place.folder / "heldout.parquet").to_pylist()[:1]
    pq.write_table(pa.Table.from_pylist([{**lines[0], **change}]), tmp_path / "heldout.parquet")
    (tmp_path / "heldout.json").write_text(json.dumps({"digest": "one"}))
    arguments[arguments.index("--heldout") + 1] = str(tmp_path / "heldout.parquet")
    return arguments


def test_a_row_that_is_gone_or_changed_is_named(place, tmp_path):
    with pytest.raises(UserError, match="main/gone/0"):
        evaluate.main(with_heldout(place, tmp_path, {"row_id": "main/gone/0"}))
    with pytest.raises(UserError, match="is not what it was"):
        evaluate.main(with_heldout(place, tmp_path, {"content_hash": "0"}))


def test_a_missing_image_is_an_error_and_not_a_text_only_figure(place, tmp_path):
    data = tmp_path / "main"
    shutil.copytree(place.ingested.folder, data)
    for path in (data / "images").glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.slice(0, 0), path)
    arguments = place.arguments(tmp_path / "base.parquet")
    arguments[arguments.index("--data") + 1] = str(data)
    with pytest.raises(UserError, match="image"):
        evaluate.main(arguments)


def test_an_adapter_that_does_not_fit_is_refused(place, tmp_path):
    with pytest.raises(UserError, match=r"no adapter_model\.safetensors"):
        evaluate.main(
            [*place.arguments(tmp_path / "a.parquet"), "--adapter", str(tmp_path / "nothing")]
        )
    shutil.copytree(place.adapter, tmp_path / "part")
    from safetensors.torch import load_file, save_file

    weights = tmp_path / "part" / "adapter_model.safetensors"
    tensors = load_file(weights)
    tensors.pop(min(tensors))
    save_file(tensors, weights)
    with pytest.raises(UserError, match="does not fit"):
        load_subject(place.ref, tmp_path / "part", "cpu", torch.float32)


def test_a_text_only_base_is_evaluated_without_screenshots(place, tmp_path, capsys):
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = load_processor(place.ref).tokenizer
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "text")
    tokenizer.save_pretrained(tmp_path / "text")
    ref = resolve("text", None, str(tmp_path / "text"), tmp_path / "hashes.parquet")
    assert not ref.multimodal
    ref.write(tmp_path / "base.json")
    arguments = place.arguments(tmp_path / "base.parquet", generate=True, max_new_tokens=4)
    arguments[arguments.index("--base") + 1] = str(tmp_path / "base.json")
    evaluate.main(arguments)
    assert "screenshots are left out" in capsys.readouterr().out
    table = predictions.read(tmp_path / "base.parquet").rows
    assert len(table) == ROWS
    assert set(table["screen_width"].to_pylist()) == {64, 96}


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "replay").is_dir(), reason="the recorded episodes are not here")
def test_recorded_episodes(place, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("book-flight-s01", "choose-list-s01~rec", "chain-000"):
        (raw / name).symlink_to(SHARED / "replay" / name)
    ingested = Ingested(tmp_path / "ingest", raw)
    write_heldout(ingested, tmp_path / "heldout.parquet")
    arguments = place.arguments(tmp_path / "base.parquet", generate=True, max_new_tokens=4)
    arguments[arguments.index("--heldout") + 1] = str(tmp_path / "heldout.parquet")
    arguments[arguments.index("--data") + 1] = str(ingested.folder)
    evaluate.main(arguments)
    table = predictions.read(tmp_path / "base.parquet").rows
    assert len(table) == ingested.summary["rows"] > 10
    assert (table["nll"].to_numpy() > 0).all()
    assert (table["action_tokens"].to_numpy() < table["target_tokens"].to_numpy()).all()
    assert set(table["screen_width"].to_pylist()) == {320}
