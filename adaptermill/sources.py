"""Where rows come from: the entries of `sources` in the configuration, one model per format."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

NAME = r"[a-z0-9_]+"


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


Int = Annotated[int, BeforeValidator(_not_bool)]
Float = Annotated[float, BeforeValidator(_not_bool), Field(allow_inf_nan=False)]
Count = Annotated[Int, Field(ge=1)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values cannot change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplaySource(Section):
    """Episode folders that an agent's runs left on disk."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    format: Literal["replay"] = "replay"
    path: str | list[str] = Field(description="a folder, a list of folders, or globs")
    family: str | None = Field(None, description="family of rows that name none")
    action_schema: str | None = None

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else list(self.path)


class Families(Section):
    """Which family rows belong to, for formats that know none: exactly one of the three."""

    constant: str | None = Field(None, description="one family for all rows", min_length=1)
    column: str | None = Field(None, description="the key of a line that names it", min_length=1)
    ops: Annotated[dict[str, str], Field(min_length=1)] | None = Field(
        None, description="name of the answer's first action -> family"
    )

    @model_validator(mode="after")
    def _one_rule(self) -> Families:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give one of constant, column, ops")
        return self


class FileSource(Section):
    """Files in a format that others write too."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    path: str | list[str] = Field(description="a file, a folder of files, a list of them, or globs")
    families: Families
    action_schema: str | None = None

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else list(self.path)


class JsonlSource(FileSource):
    """One conversation a line."""

    episode: str | None = Field(
        None,
        description="the key of a line that names its source episode; null takes the first there "
        "is of task_id, episode_id, conversation_id and id, or else the line",
        min_length=1,
    )


class OpenaiSource(JsonlSource):
    format: Literal["openai"]


class SharegptSource(JsonlSource):
    format: Literal["sharegpt"]


class TrlSource(JsonlSource):
    format: Literal["trl"]


class BrowserUseSource(FileSource):
    format: Literal["browser_use"]
    system_prompt: str | None = Field(
        None, description="a file with the system prompt, which histories do not hold"
    )


class ExampleSource(Section):
    """Episodes that the pipeline draws itself."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    format: Literal["example"]
    episodes: Count = 400
    seed: Int = 0
    family: None = None
    action_schema: None = None


class TrajectoriesSource(Section):
    """Rollouts of a multi-agent system."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    format: Literal["trajectories"]
    path: str | list[str] = Field(
        description="a run's folder, a folder of runs, a file, a list of them, or globs"
    )
    action_schema: None = None

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else list(self.path)


class ExampleTrajectoriesSource(Section):
    """Rollouts of four agents on questions of arithmetic, which the pipeline makes itself."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    format: Literal["example_trajectories"]
    queries: Annotated[Int, Field(ge=1, le=1_000_000)] = 60
    rollouts: Count = Field(4, description="per query")
    seed: Int = 0
    action_schema: None = None


def models_by(discriminator: str, union: Any) -> dict[str, type[Section]]:
    """The models of an annotated union by what each has as its discriminator."""
    return {
        model.model_fields[discriminator].annotation.__args__[0]: model
        for model in get_args(get_args(union)[0])
    }


Source = Annotated[
    ReplaySource
    | ExampleSource
    | OpenaiSource
    | SharegptSource
    | TrlSource
    | BrowserUseSource
    | TrajectoriesSource
    | ExampleTrajectoriesSource,
    Field(discriminator="format"),
]

# The models of sources by their `format`.
SOURCE_MODELS = models_by("format", Source)


def is_trajectories(source: Section) -> bool:
    """Whether the source holds rollouts of a multi-agent system."""
    return isinstance(source, (TrajectoriesSource, ExampleTrajectoriesSource))
