"""From a row to tokens: the same for measuring, training, evaluation and serving.

    encoder = Encoder(load_processor(ref))
    encoded = encoder.encode(row.messages, row.target, images)

The prompt is the chat template over the messages with the generation prompt; the target and the
end-of-turn token follow, and only they are supervised. Text that merely looks like a control token
of the base is cut in two before it is tokenised, so it reaches the model as text.

Messages may end with an assistant's message marked `"prefill": true`: the beginning of the answer,
which was given. It belongs to the prompt, and the target goes on from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from PIL import Image

from adaptermill.errors import UserError
from adaptermill.models.base import Processor

Messages = Sequence[dict[str, Any]]
# Marks where text is cut: hieroglyphs, of which one that the row does not hold is taken. (Printable
# and without case, so that no filter of a template changes them.)
_MARKS = [chr(code) for code in range(0x13000, 0x13040)]
_PROBE = "Xyzzy"


class TemplatePrefixError(Exception):
    """The chat template makes no prompt of a row's messages that its target could follow."""


@dataclass
class Encoded:
    """One row in tokens.

    `input_ids`: int64 [L], prompt and (for a full row) target with its end-of-turn token.
    `prompt_length`: tokens of the prompt. `action_mask`: bool [T] over the T target tokens.
    `model_inputs`: what else the model's forward takes, as a batch of one (pixels, grids, …).
    `first_image`: position of the first image token, None without images.
    """

    input_ids: torch.Tensor
    prompt_length: int
    action_mask: torch.Tensor
    has_action_key: bool
    image_tokens: int
    first_image: int | None
    model_inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def targets(self) -> torch.Tensor:
        """int64 [T]: the supervised tokens, end-of-turn last."""
        return self.input_ids[self.prompt_length :]


@dataclass(frozen=True)
class Measured:
    """How long a row is, in tokens; the target counts its end-of-turn token."""

    prompt_tokens: int
    target_tokens: int
    image_tokens: int
    has_action_key: bool

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.target_tokens


class Encoder:
    """Encodes rows for one base; `thinking` is what its chat template is told."""

    def __init__(self, processor: Processor, thinking: bool = False) -> None:
        self.thinking = thinking
        self.tokenizer = processor.tokenizer
        self.multimodal = processor.multimodal
        self.image_token: str | None = getattr(self.multimodal, "image_token", None)
        self.chat_template = (
            getattr(self.multimodal, "chat_template", None) or self.tokenizer.chat_template
        )
        if self.chat_template is None:
            raise UserError("the base has no chat template; adapters need one to render prompts")
        self._control = self._control_pattern()
        self._expansions: dict[tuple[int, int], str] = {}
        self._content_as_list = self.multimodal is not None and not self._takes_strings()
        self.end_of_turn, self.end_of_turn_id = self._find_end_of_turn()

    @property
    def drops_images(self) -> bool:
        """True for a text-only base: screenshots are left out of the prompt."""
        return self.multimodal is None

    # ---- what the base's tokenizer and template do ---------------------------------------------

    def _control_pattern(self) -> re.Pattern[str]:
        """Matches every string that the tokenizer or processor would take for a control token."""
        strings = {t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special}
        for name in ("image_token", "video_token"):
            token = getattr(self.multimodal, name, None)
            if isinstance(token, str):
                strings.add(token)
        longest_first = sorted((s for s in strings if len(s) > 1), key=len, reverse=True)
        return re.compile("|".join(re.escape(s) for s in longest_first) or r"(?!)")

    def _takes_strings(self) -> bool:
        try:
            return _PROBE in self._apply([{"role": "user", "content": _PROBE}])
        except Exception:  # a template may fail in any way on content it was not written for
            return False

    def _find_end_of_turn(self) -> tuple[str, int]:
        turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
        content = self._contents(turn) if self._content_as_list else turn
        try:
            after = self._apply(content, generation_prompt=False).rpartition(_PROBE)[2]
        except TemplateError as error:
            raise UserError(f"the base's chat template takes no conversation: {error}") from None
        for token in self.tokenizer(after, add_special_tokens=False)["input_ids"]:
            added = self.tokenizer.added_tokens_decoder.get(token)
            if added is not None and added.special:
                return added.content, token
        if self.tokenizer.eos_token is None:
            raise UserError("the base's chat template ends no turn and its tokenizer has no eos")
        return self.tokenizer.eos_token, self.tokenizer.eos_token_id

    def _apply(self, messages: Messages, generation_prompt: bool = True) -> str:
        return self.tokenizer.apply_chat_template(
            list(messages),
            chat_template=self.chat_template,
            tokenize=False,
            add_generation_prompt=generation_prompt,
            enable_thinking=self.thinking,
        )

    # ---- text ----------------------------------------------------------------------------------

    def has_look_alikes(self, text: str) -> bool:
        """Whether the text holds what the tokenizer would take for a control token."""
        return self._control.search(text) is not None

    def _marked(self, text: str, mark: str) -> str:
        # Again until none is left: the rest of a broken one may be the start of the next.
        while self._control.search(text):
            text = self._control.sub(lambda found: f"{found[0][0]}{mark}{found[0][1:]}", text)
        return text

    def _marked_within(self, value: Any, mark: str) -> Any:
        """A JSON value with the look-alikes of all its strings marked."""
        if isinstance(value, str):
            return self._marked(value, mark)
        if isinstance(value, dict):
            return {name: self._marked_within(held, mark) for name, held in value.items()}
        if isinstance(value, list):
            return [self._marked_within(held, mark) for held in value]
        return value

    def _contents(self, messages: Messages, mark: str = "") -> list[dict[str, Any]]:
        """Messages as the template takes them: image parts bare, look-alikes marked."""
        made = []
        for message in messages:
            content = message["content"]
            if mark:  # tool calls, names: whatever else the template may show
                message = self._marked_within({**message, "content": None}, mark)
            if isinstance(content, str):
                content = self._marked(content, mark) if mark else content
                if self._content_as_list:
                    content = [{"type": "text", "text": content}]
            else:
                content = self._parts(content, mark)
            made.append({**message, "content": content})
        return made

    def _parts(self, parts: Sequence[dict[str, Any]], mark: str) -> Any:
        made: list[dict[str, Any]] = []
        before = ""
        for part in parts:
            if part["type"] == "text":
                text = self._marked(part["text"], mark) if mark else part["text"]
                if mark and self._crosses(before, part["text"]):
                    text = mark + text
                made.append({"type": "text", "text": text})
                before += part["text"]
            else:
                before = ""
                if self.multimodal is not None:
                    made.append({"type": "image"})
        if self.multimodal is None:
            # As servers do for text-only templates.
            return "\n".join(part["text"] for part in made)
        return made

    def _crosses(self, before: str, text: str) -> bool:
        """Whether a look-alike begins in one text part and ends in the next."""
        border = len(before)
        return any(
            found.start() < border < found.end() for found in self._control.finditer(before + text)
        )

    def _pieces(self, messages: Messages, target: str | None) -> tuple[list[str], list[str]]:
        """Prompt and target (with end-of-turn), cut where a look-alike must be broken."""
        mark = _unused_mark(messages, target or "")
        given = prefill_of(messages)
        if given:
            messages = messages[:-1]
        try:
            prompt = self._apply(self._contents(messages, mark))
        except (TemplateError, TypeError) as error:  # of roles or parts that it does not know
            raise TemplatePrefixError(f"the chat template refuses the messages: {error}") from None
        prompt = (prompt + self._marked(given, mark)).split(mark)
        if target is None:
            return prompt, []
        return prompt, (self._marked(target, mark) + self.end_of_turn).split(mark)

    def render(self, messages: Messages) -> str:
        """The prompt's text, each image as its one placeholder."""
        return "".join(self._pieces(messages, None)[0])

    # ---- images --------------------------------------------------------------------------------

    def _process(self, images: Sequence[Image.Image]) -> tuple[dict[str, torch.Tensor], list[str]]:
        """Model inputs of the images, and the text that stands for each in the prompt."""
        assert self.multimodal is not None and self.image_token is not None
        made = self.multimodal(
            text=[self.image_token * len(images)],
            images=list(images),
            return_tensors="pt",
            return_text_replacement_offsets=True,
        )
        places = made.pop("text_replacement_offsets", None)
        if places is None:
            raise UserError(
                f"the base's {type(self.multimodal).__name__} puts no image tokens into the prompt "
                "(its model looks at images by cross-attention); such bases are not supported"
            )
        expansions = [place["replacement"] for place in places[0]]
        for name in ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"):
            made.pop(name, None)
        return dict(made), expansions

    def _expansion(self, size: tuple[int, int]) -> str:
        """The text that stands for an image of (width, height); it depends on the size alone."""
        if size not in self._expansions:
            try:
                self._expansions[size] = self._process([Image.new("RGB", size)])[1][0]
            except ValueError as error:  # for instance a shape beyond what it resizes
                raise TemplatePrefixError(
                    f"the image processor refuses {size[0]}x{size[1]} pixels: {error}"
                ) from None
        return self._expansions[size]

    def _expand(self, pieces: Sequence[str], expansions: Sequence[str]) -> list[str]:
        """The pieces with every placeholder of the template replaced by its image's text."""
        if self.image_token is None:
            return list(pieces)
        slots = sum(piece.count(self.image_token) for piece in pieces)
        if slots != len(expansions):
            raise TemplatePrefixError(
                f"the chat template makes {slots} image slots for {len(expansions)} images"
            )
        waiting = iter(expansions)
        return [
            re.sub(re.escape(self.image_token), lambda _: next(waiting), piece) for piece in pieces
        ]

    # ---- rows ----------------------------------------------------------------------------------

    def encode(
        self, messages: Messages, target: str | None, images: Sequence[Image.Image]
    ) -> Encoded:
        """Tokens and model inputs of a row; without a target, of its prompt alone.

        `images` are RGB images in order of appearance. Raises `TemplatePrefixError`.
        """
        encoded = self.tokens(messages, target, [image.size for image in images])
        if self.multimodal is not None and images:
            encoded.model_inputs |= self._process(images)[0]
        return encoded

    def measure(
        self, messages: Messages, target: str, sizes: Sequence[tuple[int, int]]
    ) -> Measured:
        """Token counts of a row from its images' (width, height), without their pixels."""
        encoded = self.tokens(messages, target, sizes)
        return Measured(
            prompt_tokens=encoded.prompt_length,
            target_tokens=len(encoded.targets),
            image_tokens=encoded.image_tokens,
            has_action_key=encoded.has_action_key,
        )

    def tokens(
        self, messages: Messages, target: str | None, sizes: Sequence[tuple[int, int]]
    ) -> Encoded:
        """A row in tokens without pixels; `sizes` are its images' (width, height)."""
        expansions = [] if self.drops_images else [self._expansion(size) for size in sizes]
        prompt, answer = self._pieces(messages, target)
        prompt = self._expand(prompt, expansions)
        prompt_ids, _ = self._tokenise(prompt)
        if target is None:
            ids, ends = prompt_ids, []
        elif prefill_of(messages):
            # What was given was tokens already when the answer began.
            ids, ends = self._tokenise([*prompt, *answer])
        else:
            # Prompt and target meet inside one piece: the full text is tokenised as it stands.
            ids, ends = self._tokenise([*prompt[:-1], prompt[-1] + answer[0], *answer[1:]])
        if ids[: len(prompt_ids)] != prompt_ids:
            raise TemplatePrefixError("the prompt's tokens change when the target follows it")
        start = None if target is None else action_key_position(target)
        if start is not None:
            start += sum(map(len, prompt))
        mask = [start is None or end > start for end in ends[len(prompt_ids) :]]
        image_ids = self._image_token_ids()
        positions = [place for place, token in enumerate(prompt_ids) if token in image_ids]
        return Encoded(
            input_ids=torch.tensor(ids, dtype=torch.int64),
            prompt_length=len(prompt_ids),
            action_mask=torch.tensor(mask, dtype=torch.bool),
            has_action_key=start is not None,
            image_tokens=len(positions),
            first_image=positions[0] if positions else None,
            model_inputs=self._token_types(ids),
        )

    def _tokenise(self, pieces: Sequence[str]) -> tuple[list[int], list[int]]:
        """Token ids of the pieces one after the other, and where each token ends in their text."""
        ids: list[int] = []
        ends: list[int] = []
        begin = 0
        for piece in pieces:
            made = self.tokenizer(piece, add_special_tokens=False, return_offsets_mapping=True)
            ids += made["input_ids"]
            ends += [begin + end for _, end in made["offset_mapping"]]
            begin += len(piece)
        return ids, ends

    def _image_token_ids(self) -> set[int]:
        if self.multimodal is None:
            return set()
        return {token for token in self.multimodal.image_token_ids if token is not None}

    def _token_types(self, ids: list[int]) -> dict[str, torch.Tensor]:
        """Which tokens are an image's, for the architectures that ask for it."""
        if self.multimodal is None:
            return {}
        return {
            name: torch.tensor(self.multimodal.create_mm_token_type_ids([ids]), dtype=torch.int64)
            for name in ("mm_token_type_ids", "token_type_ids")
            if name in self.multimodal.model_input_names
        }


def prefill_of(messages: Messages) -> str:
    """The beginning of the answer that the messages end with; empty where none is given."""
    last = messages[-1] if messages else {}
    given = last.get("content")
    marked = last.get("prefill") is True and last["role"] == "assistant"
    return given if marked and isinstance(given, str) else ""


def _unused_mark(messages: Messages, target: str) -> str:
    held = target + json.dumps(messages, ensure_ascii=False)
    for mark in _MARKS:
        if mark not in held:
            return mark
    raise TemplatePrefixError("the row holds every character that could mark a cut")


def action_key_position(answer: str) -> int | None:
    """Where the opening quote of the answer's top-level "action" key stands; None without one.

    A string that merely holds the word does not count: keys are found by reading the JSON object.
    """
    decoder = json.JSONDecoder()
    position = _skip_space(answer, 0)
    if answer[position : position + 1] != "{":
        return None
    position = _skip_space(answer, position + 1)
    try:
        while answer[position : position + 1] == '"':
            start = position
            name, position = decoder.raw_decode(answer, position)
            if name == "action":
                return start
            position = _skip_space(answer, position)
            if answer[position : position + 1] != ":":
                return None
            _, position = decoder.raw_decode(answer, _skip_space(answer, position + 1))
            position = _skip_space(answer, position)
            if answer[position : position + 1] != ",":
                return None
            position = _skip_space(answer, position + 1)
    except (ValueError, RecursionError):  # no JSON, or a number too long for Python
        return None
    return None


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
