"""The entries of `judges` in the configuration, one model per kind."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from adaptermill.sources import Count, Float, Int, Section, models_by

# The variables that are asked where the configuration leaves a setting of an endpoint null.
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MODEL_VARIABLE = "OPENAI_MODEL"
# The type of errors about a value that must not be repeated in a message.
SECRET = "secret"


def _secret(message: str) -> PydanticCustomError:
    return PydanticCustomError(SECRET, message)  # type: ignore[arg-type]


class RecordedJudge(Section):
    """The reward or success that came with the data."""

    kind: Literal["recorded"]
    low: Float = Field(0, description="the recorded reward that stands for 0")
    high: Float = Field(1, description="the recorded reward that stands for 1")

    @model_validator(mode="after")
    def _ascending(self) -> RecordedJudge:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        return self


class EpisodeSuccessJudge(Section):
    """Rejects rows of episodes whose recorded gate failed."""

    kind: Literal["episode_success"]
    unrecorded: Literal["keep", "drop"] = Field(
        "keep", description="what becomes of episodes that record no success"
    )


class ActionFormatJudge(Section):
    """Rejects answers that the agent's environment could not carry out."""

    kind: Literal["action_format"]
    actions: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="the known actions; null takes those of the source's action_schema, or else "
        "the names that its rows have as `op`",
    )
    coordinates: Literal["viewport", "thousand", "any"] = Field(
        "viewport", description="where points may lie: in the screenshot, in 0 to 1000, anywhere"
    )

    @field_validator("actions")
    @classmethod
    def _sorted_actions(cls, value: list[str] | None) -> list[str] | None:
        # Order and repeats mean nothing, so they must not make another fingerprint.
        return value and sorted(set(value))


class OutcomeJudge(Section):
    """Compares the final answer with the gold one."""

    kind: Literal["outcome"]
    compare: Literal["exact", "choice", "math", "code_output"] | None = Field(
        None, description="how; null follows each example's answer_type"
    )


class Price(Section):
    """Prices per million tokens, for the cost line."""

    input: Annotated[Float, Field(ge=0)]
    output: Annotated[Float, Field(ge=0)]


class Endpoint(Section):
    """How requests travel; nothing here changes a verdict or enters the fingerprint."""

    base_url: str | None = Field(
        None, description=f"null takes the environment variable {BASE_URL_VARIABLE}"
    )
    key_variable: str = Field(
        "OPENAI_API_KEY",
        description="the environment variable that holds the key; the key itself is never written",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
    )
    in_flight: Count = Field(8, description="requests under way at a time")
    timeout: Annotated[Float, Field(gt=0)] = Field(120, description="seconds for one request")
    attempts: Count = Field(6, description="tries of one request, with growing pauses between")
    price: Price | None = None

    @field_validator("base_url")
    @classmethod
    def _without_secrets(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                "an http:// or https:// address, for instance http://localhost:8000/v1"
            )
        if parts.username or parts.password or parts.query:
            raise _secret(
                "an address with a password or a query does not belong in a file; put it into the "
                f"environment ({BASE_URL_VARIABLE}) and leave base_url null"
            )
        return value.rstrip("/")


def _word(value: Any) -> Any:
    # YAML reads a bare yes or no as true or false.
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


class LlmJudge(Section):
    """A model's verdict on prompt and output."""

    kind: Literal["llm"]
    provider: Literal["endpoint", "local"] = Field(
        "endpoint", description="an OpenAI-compatible server, or a transformers model run here"
    )
    model: str | None = Field(
        None,
        description=f"its name at the endpoint (null takes {MODEL_VARIABLE} from the environment), "
        "or a local folder or hub id",
        min_length=1,
    )
    revision: str | None = Field(
        None, description="of a hub model; for an endpoint any text that marks another model"
    )
    template: str | None = Field(
        None, description="a shipped template (harmbench, helpful, score) or a file", min_length=1
    )
    prompt: str | None = Field(
        None, description="the template itself, instead of a file", min_length=1
    )
    system: str | None = Field(None, description="a system message before it", min_length=1)
    answer: Literal["yes_no", "score"] = "yes_no"
    good: Annotated[Literal["yes", "no"], BeforeValidator(_word)] = Field(
        "yes", description="the word that earns reward 1 (yes_no)"
    )
    scale: tuple[Float, Float] = Field((0, 10), description="scores that stand for 0 and 1 (score)")
    temperature: Annotated[Float, Field(ge=0)] | None = Field(
        0, description="null leaves it out of the request"
    )
    max_tokens: Count | None = Field(
        256, description="longest answer; null leaves it out of the request"
    )
    seed: Int | None = Field(None, description="null leaves it out of the request")
    extra: dict[str, Any] = Field({}, description="more fields of the request's body")
    endpoint: Endpoint = Endpoint()

    @field_validator("scale")
    @classmethod
    def _ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value[0] >= value[1]:
            raise ValueError("the first number must be below the second")
        return value

    @field_validator("extra")
    @classmethod
    def _nothing_said_elsewhere(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in ("model", "messages", "stream", "n", "temperature", "max_tokens", "seed"):
                raise ValueError(f"{name} is no extra field; it has a key of its own or is fixed")
            if re.search(r"api.?key|secret|password|authorization", name, re.IGNORECASE):
                raise _secret(f"{name} looks like a key; keys come from the environment")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> LlmJudge:
        if (self.template is None) == (self.prompt is None):
            raise ValueError(
                "give one of template (a shipped name or a file) and prompt (the text)"
            )
        unused = {"scale": "score", "good": "yes_no"}
        for name, answer in unused.items():
            if name in self.model_fields_set and self.answer != answer:
                raise ValueError(f"{name} has a meaning for `answer: {answer}` only")
        if self.provider == "local":
            if self.model is None:
                raise ValueError("a local judge needs a model (a folder or hub id)")
            for name in ("endpoint", "extra"):
                if name in self.model_fields_set:
                    raise ValueError(f"{name} has a meaning for `provider: endpoint` only")
            if self.temperature != 0 or self.seed is not None:
                raise ValueError("a local judge answers greedily; leave temperature and seed")
            if self.max_tokens is None:
                raise ValueError("a local judge needs max_tokens")
        return self


class GoldLikelihoodJudge(Section):
    """How likely the base finds the gold answer after the rollout so far."""

    kind: Literal["gold_likelihood"]
    ask: str = Field(
        "What is the final answer? Reply with the answer alone.",
        description="the user turn between the rollout and the gold answer",
        min_length=1,
    )


JudgeSettings = Annotated[
    RecordedJudge
    | EpisodeSuccessJudge
    | ActionFormatJudge
    | OutcomeJudge
    | LlmJudge
    | GoldLikelihoodJudge,
    Field(discriminator="kind"),
]

# The models of judges by their `kind`.
JUDGE_MODELS = models_by("kind", JudgeSettings)
# Those that look at a step of a browser agent.
NOT_FOR_ROLLOUTS = ("action_format", "episode_success")
