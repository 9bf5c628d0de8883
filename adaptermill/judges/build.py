"""From a judge's settings (as the configuration has them) to the judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from adaptermill.errors import UserError
from adaptermill.judges.judge import Judge


@dataclass(frozen=True)
class Surroundings:
    """What judges may need beside their settings.

    `base` is the file that describes the configured base, `image` gives the picture of a SHA-256,
    `hash_cache` is where hashes of a local model's files are kept, `endpoint` says how requests
    travel.
    """

    base: Path
    image: Callable[[str], Image.Image]
    hash_cache: Path
    endpoint: dict[str, Any]


def build(settings: dict[str, Any], around: Surroundings) -> tuple[Judge, str | None]:
    """The judge, and the identity of the model that it runs here (None when it runs none)."""
    # Each kind brings its own libraries; only the one that is asked for is loaded.
    kind, own = settings["kind"], settings["settings"]
    if kind == "recorded":
        from adaptermill.judges.recorded import Recorded

        return Recorded(own["low"], own["high"]), None
    if kind == "episode_success":
        from adaptermill.judges.episode_success import EpisodeSuccess

        return EpisodeSuccess(own["unrecorded"]), None
    if kind == "action_format":
        from adaptermill.judges.action_format import ActionFormat

        return ActionFormat(own["actions"], own["coordinates"]), None
    if kind == "outcome":
        from adaptermill.judges.outcome import Outcome

        return Outcome(own["compare"]), None
    if kind == "gold_likelihood":
        from adaptermill.judges.gold_likelihood import GoldLikelihood
        from adaptermill.models.base import BaseRef

        ref = BaseRef.read(around.base)
        return GoldLikelihood(own["ask"], ref, around.image), ref.identity
    return _llm(settings, around)


def _llm(settings: dict[str, Any], around: Surroundings) -> tuple[Judge, str | None]:
    from adaptermill.judges.llm import Llm
    from adaptermill.judges.template import Template

    own = settings["settings"]
    template = Template(settings["template_text"], own["system"])
    if own["provider"] == "endpoint":
        return Llm(template, own, endpoint_model(own, around.endpoint)), None
    from adaptermill.judges.local_model import LocalModel
    from adaptermill.models.base import resolve

    ref = resolve(own["model"], own["revision"], None, around.hash_cache)
    return Llm(template, own, LocalModel(ref, own["max_tokens"])), ref.identity


def endpoint_model(own: dict[str, Any], endpoint: dict[str, Any]) -> Any:
    """The model behind the endpoint; address and key come from the environment."""
    from adaptermill.judges.endpoint import Access, EndpointModel

    address = endpoint["base_url"] or os.environ.get(endpoint["base_url_variable"])
    if not address:
        raise UserError(
            "the judge's endpoint has no address: set endpoint.base_url, or the environment "
            f"variable {endpoint['base_url_variable']} (for instance http://localhost:8000/v1)"
        )
    key = os.environ.get(endpoint["key_variable"], "").strip()
    said = {name: own[name] for name in ("temperature", "max_tokens", "seed")}
    body = {name: value for name, value in said.items() if value is not None}
    if own["extra"]:
        body["extra_body"] = own["extra"]
    return EndpointModel(
        Access(address, key),
        {"model": own["model"], **body},
        endpoint["in_flight"],
        endpoint["timeout"],
        endpoint["attempts"],
    )
