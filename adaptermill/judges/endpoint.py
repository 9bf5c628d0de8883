"""A judging model behind an OpenAI-compatible endpoint: many requests under way, none lost.

    model = EndpointModel(access, body, in_flight=8, timeout=120, attempts=6)
    model.answer_all(examples, prompt, keep)

A request that fails for a passing reason (no connection, a time-out, 408, 409, 429, 5xx, a body
that is no chat completion) is sent again after a growing pause, or the one that `Retry-After`
asks for. One that the server does not take (another 4xx) is that prompt's answer, `refused`. When
the run must end early (a wrong key, an exhausted quota, an endpoint that is gone, a signal), the
requests under way are waited for, since their answers are paid.

The key is sent, and nothing else: it is cut out of every text that comes back.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from asyncio import Event
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from adaptermill.errors import UserError
from adaptermill.judges.judge import Example
from adaptermill.judges.llm import Answer

Messages = list[dict[str, Any]]

_PASSING = (408, 409, 429)
_FATAL = (401, 403, 404)
# Longest pause that a server's Retry-After is granted, in seconds.
_LONGEST_PAUSE = 300
_grow = wait_random_exponential(multiplier=1, max=60)


class Passing(Exception):
    """A request that failed and may go through when it is sent again."""

    def __init__(self, said: str, pause: float | None = None) -> None:
        super().__init__(said)
        self.pause = pause


class NoCompletion(Passing):
    """The server answered 200 with something that is no chat completion."""


class Fatal(Exception):
    """Why no further request will go through either."""


@dataclass(frozen=True)
class Access:
    """Where an endpoint is and what opens it. Neither the key nor a password is ever shown."""

    base_url: str
    key: str = field(repr=False)

    @property
    def shown(self) -> str:
        parts = urlsplit(self.base_url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

    def redact(self, text: str) -> str:
        """The text without what must stay secret."""
        for secret in (self.key, urlsplit(self.base_url).password):
            if secret:
                text = text.replace(secret, "[redacted]")
        return text


@dataclass
class Usage:
    """What a run took."""

    answered: int = 0
    repeated: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0


class EndpointModel:
    """`body` holds what every request says beside its messages: model, temperature, max_tokens."""

    def __init__(
        self, access: Access, body: dict[str, Any], in_flight: int, timeout: float, attempts: int
    ) -> None:
        if not access.key.isascii() or not access.key.isprintable():
            raise UserError("the endpoint's key holds characters that no HTTP header can carry")
        self.access = access
        self.body = body
        self.in_flight = in_flight
        self.timeout = timeout
        self.attempts = attempts
        self.usage = Usage()
        # Whether it has answered before: then a refusal is about the prompt it refuses.
        self.proven = False
        for name in ("openai", "httpx2", "httpcore2"):
            # Their debug messages show requests.
            logging.getLogger(name).setLevel(logging.WARNING)

    def answer_all(
        self,
        examples: Iterable[Any],
        prompt: Callable[[Any], Messages],
        keep: Callable[[Any, Answer], None],
        body: Callable[[Any], dict[str, Any]] | None = None,
    ) -> None:
        """Asks all; `UserError` when some have no answer, after all others were kept.

        `body` says what an example's request says beside what all requests say.
        """
        asyncio.run(_Run(self, examples, prompt, keep, body or (lambda _: {})).all())

    async def ask(
        self,
        client: openai.AsyncOpenAI,
        messages: Messages,
        ending: Event,
        body: dict[str, Any] | None = None,
    ) -> Answer:
        """One prompt's answer; raises `Passing` when no attempt went through, or `Fatal`.

        Once the run is `ending`, a request that failed is not sent again.
        """
        said = {**self.body, **(body or {}), "messages": messages}

        async def sleep(seconds: float) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), seconds)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Passing),
            stop=stop_after_attempt(self.attempts) | (lambda _: ending.is_set()),
            wait=_pause,
            sleep=sleep,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                self.usage.repeated += attempt.retry_state.attempt_number > 1
                return await self._ask_once(client, said)
        raise AssertionError("tenacity raises when it gives up")

    async def _ask_once(self, client: openai.AsyncOpenAI, said: dict[str, Any]) -> Answer:
        try:
            completion = await client.chat.completions.create(**said)
        except openai.APIStatusError as error:
            return self._refusal(error)
        except openai.APIConnectionError as error:
            raise Passing(self._text(error)) from None
        except (openai.OpenAIError, ValueError) as error:  # a body that is no JSON
            raise NoCompletion(self._text(error)) from None
        return self._answer(completion)

    def _refusal(self, error: openai.APIStatusError) -> Answer:
        status, said = error.status_code, self._text(error)
        if status in _FATAL or error.code == "insufficient_quota":
            raise Fatal(said) from None
        if status in _PASSING or status >= 500:
            raise Passing(said, _retry_after(error)) from None
        return Answer(said, "refused")

    def _answer(self, completion: Any) -> Answer:
        try:
            text = completion.choices[0].message.content or ""
        except (AttributeError, IndexError, TypeError):
            raise NoCompletion("the body is no chat completion") from None
        if not isinstance(text, str):
            raise NoCompletion("the completion's content is no text")
        used = getattr(completion, "usage", None)
        self.usage.prompt_tokens += getattr(used, "prompt_tokens", 0) or 0
        self.usage.answer_tokens += getattr(used, "completion_tokens", 0) or 0
        return Answer(self.access.redact(text))

    def _text(self, error: Exception) -> str:
        return self.access.redact(f"{error}")[:500]


class _Run:
    """One pass over the examples: workers that share them, and what makes them end early."""

    def __init__(
        self,
        model: EndpointModel,
        examples: Iterable[Example],
        prompt: Callable[[Example], Messages],
        keep: Callable[[Example, Answer], None],
        body: Callable[[Example], dict[str, Any]],
    ) -> None:
        self.model = model
        self.body = body
        self.examples = iter(examples)
        self.prompt = prompt
        self.keep = keep
        self.ending = Event()
        self.reason = ""
        self.failed = 0
        self.failed_in_a_row = 0
        # Refusals that came before any answer: perhaps every request is refused.
        self.refused: list[tuple[Example, Answer]] = []

    async def all(self) -> None:
        # The client's own repetitions are off: here they are counted, and cover broken bodies too.
        client = openai.AsyncOpenAI(
            base_url=self.model.access.base_url,
            api_key=self.model.access.key or "none",
            timeout=self.model.timeout,
            max_retries=0,
        )
        async with client:
            with self._ending_gently():
                await asyncio.gather(*(self._work(client) for _ in range(self.model.in_flight)))
        if self.refused or self.failed or self.ending.is_set():
            raise UserError(self._unfinished())

    async def _work(self, client: openai.AsyncOpenAI) -> None:
        for example in self.examples:
            if self.ending.is_set():
                return
            try:
                answer = await self.model.ask(
                    client, self.prompt(example), self.ending, self.body(example)
                )
            except Fatal as error:
                self._end(str(error))
            except NoCompletion as error:
                self._answered(example, Answer(str(error), "unreadable"))
            except Passing as error:
                self._failed(str(error))
            else:
                self._answered(example, answer)

    def _end(self, reason: str) -> None:
        self.reason = reason
        self.ending.set()

    def _answered(self, example: Example, answer: Answer) -> None:
        self.failed_in_a_row = 0
        if answer.fault == "refused" and not self.model.proven:
            self.refused.append((example, answer))
            if len(self.refused) > 2 * self.model.in_flight:
                self._end(answer.text)
            return
        self.model.proven = True
        for kept in [*self.refused, (example, answer)]:
            self.model.usage.answered += 1
            self.keep(*kept)
        self.refused.clear()

    def _failed(self, reason: str) -> None:
        self.failed += 1
        self.failed_in_a_row += 1
        self.reason = self.reason or reason
        if self.failed_in_a_row > self.model.in_flight:
            self._end(reason)

    def _unfinished(self) -> str:
        reason = self.reason or self.refused[0][1].text
        return (
            f"{self.model.access.shown} did not answer all requests ({self.model.usage.answered} "
            f"answered): {reason}\nEvery answer that came is kept. When the cause is mended, start "
            "the same command again: it asks only for what is missing."
        )

    @contextmanager
    def _ending_gently(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the run after the requests under way; a second one at once."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)

        def stop(number: int) -> None:
            self._end(f"stopped by {signal.Signals(number).name}")
            loop.remove_signal_handler(number)

        for number in signals:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def _pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: as the server asks, else random and growing."""
    assert state.outcome is not None
    error = state.outcome.exception()
    asked = error.pause if isinstance(error, Passing) else None
    return min(asked, _LONGEST_PAUSE) if asked is not None else _grow(state)


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds that the server asks to wait; None where it asks for none, or by a date."""
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
