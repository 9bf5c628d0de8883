"""Log-probabilities of the target tokens are those of an ordinary full forward."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from adaptermill.models.base import load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.scoring import target_logits, token_logps
from tests.models.test_encode import TARGET, ask


@pytest.mark.parametrize("kind", ["tiny", "text_only"])
def test_target_logits_are_those_of_a_full_forward(kind, request):
    ref = request.getfixturevalue(kind)
    model = load_model(ref)
    images = [Image.effect_noise(size, 50).convert("RGB") for size in ((64, 64), (40, 70))]
    encoded = Encoder(load_processor(ref)).encode(ask("a", None, "b", None), TARGET, images)
    with torch.no_grad():
        logits = target_logits(model, encoded, "cpu")
        full = model(input_ids=encoded.input_ids[None], **encoded.model_inputs).logits[0]
    assert logits.dtype == torch.float32
    assert logits.shape == (len(encoded.targets), full.shape[-1])
    wanted = torch.stack(
        [full[place - 1] for place in range(encoded.prompt_length, len(encoded.input_ids))]
    )
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-6)
    logps = token_logps(logits, encoded.targets)
    for place, token in enumerate(encoded.targets.tolist()):
        alone = wanted[place].double()
        assert logps[place].item() == pytest.approx(float(alone[token] - alone.logsumexp(0)))


def test_screenshots_count(tiny):
    model, encoder = load_model(tiny), Encoder(load_processor(tiny))
    made = [
        target_logits(
            model, encoder.encode(ask(None), TARGET, [Image.new("RGB", (64, 64), c)]), "cpu"
        )
        for c in ("navy", "olive")
    ]
    assert not torch.equal(*made)
