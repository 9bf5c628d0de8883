"""A judge behind a real server of a real small model: faults, limits, secrets, and early ends."""

import pytest

from adaptermill.errors import UserError
from adaptermill.judges.endpoint import Access, EndpointModel
from adaptermill.judges.llm import Llm
from adaptermill.judges.run import judge_all
from adaptermill.judges.store import Verdicts
from adaptermill.judges.template import Template
from tests.judges.building import example
from tests.judges.serving import (
    BROKEN,
    BUSY,
    HANGS,
    KEY,
    NO_CHOICES,
    NO_JSON,
    TOO_LONG,
    Proxy,
    needs_server,
    saying,
)

PROMPT = "{{ query }} Somebody answers {{ output }}. Is that right? Say yes or no."
EXAMPLES = [example(str(k), f"What is {k} + 1?") for k in range(6)]


def judge(url, model="m", *, in_flight=3, timeout=60.0, attempts=4, answer="yes_no", key=KEY):
    endpoint = EndpointModel(
        Access(url, key),
        {"model": model, "temperature": 0, "max_tokens": 6},
        in_flight=in_flight,
        timeout=timeout,
        attempts=attempts,
    )
    settings = {"answer": answer, "good": "yes", "scale": (0, 10)}
    return Llm(Template(PROMPT, None), settings, endpoint)


def run(asked, store, examples=EXAMPLES):
    with Verdicts(store, "f") as verdicts:
        return judge_all(asked, "f", examples, verdicts)


def texts_below(folder):
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@needs_server
@pytest.mark.slow
def test_a_real_model_answers_and_is_asked_once(server, tmp_path):
    url, model = server
    proxy = Proxy(url, lambda prompt, number: None)
    with proxy.open() as address:
        asked = judge(address, model)
        found = run(asked, tmp_path)
        again = run(judge(address, model), tmp_path)
    assert found.new == 6 and again.new == 0
    assert again.table().equals(found.table())
    assert set(proxy.asked.values()) == {1} and len(proxy.asked) == 6
    assert 1 < proxy.most_at_once <= 3
    assert asked.model.usage.prompt_tokens > 6 * 10
    assert 0 < asked.model.usage.answer_tokens <= 6 * 6
    assert set(found.counts()) <= {"yes", "no", "unreadable"}
    for line in found.table().to_pylist():
        assert line["detail"], "the model's own words are kept"


@needs_server
@pytest.mark.slow
def test_passing_faults_of_all_kinds_are_asked_again(server, tmp_path):
    url, model = server
    kinds = [BUSY, BROKEN, NO_JSON, NO_CHOICES, HANGS]

    def fault(prompt, number):
        place = int(prompt.split()[2])
        return kinds[place] if place < len(kinds) and number == 0 else None

    with Proxy(url, lambda *_: None).open() as address:
        plain = run(judge(address, model), tmp_path / "plain")
    proxy = Proxy(url, fault)
    with proxy.open() as address:
        asked = judge(address, model, timeout=20)
        found = run(asked, tmp_path / "faults")
    assert found.table().equals(plain.table())
    assert sorted(proxy.asked.values()) == [1, 2, 2, 2, 2, 2]
    assert asked.model.usage.repeated == 5


def test_garbage_is_a_counted_verdict_that_is_not_asked_again(tmp_path):
    said = {0: saying("yes"), 1: saying("No!"), 2: saying("perhaps"), 3: saying(""), 4: NO_JSON}
    proxy = Proxy("", lambda prompt, number: said.get(int(prompt.split()[2]), saying("yes no")))
    with proxy.open() as address:
        found = run(judge(address, attempts=2), tmp_path)
        assert run(judge(address, attempts=2), tmp_path).new == 0
    rewards = [line["reward"] for line in found.table().to_pylist()]
    assert rewards == [1.0, 0.0, None, None, None, 1.0]
    assert found.counts() == {"unreadable": 3, "yes": 2, "no": 1}


def test_a_prompt_that_is_refused_has_no_reward_but_refusing_all_is_an_error(tmp_path):
    refuse = {2}
    answer = lambda prompt, _: TOO_LONG if int(prompt.split()[2]) in refuse else saying("yes")  # noqa: E731
    with Proxy("", answer).open() as address:
        found = run(judge(address), tmp_path / "one")
        assert found.counts() == {"yes": 5, "refused": 1}
        assert "too long" in found.table().to_pylist()[2]["detail"]
        refuse = set(range(6))
        with pytest.raises(UserError, match="too long"):
            run(judge(address), tmp_path / "all")
        refuse = {0}
        assert run(judge(address, in_flight=1), tmp_path / "first").counts()["refused"] == 1
    assert "too long" not in texts_below(tmp_path / "all")


def test_an_endpoint_that_stays_away_ends_with_an_error_that_keeps_what_was_said(tmp_path):
    gone = {1, 4}
    answer = lambda prompt, _: BROKEN if int(prompt.split()[2]) in gone else saying("no")  # noqa: E731
    proxy = Proxy("", answer)
    with proxy.open() as address:
        with pytest.raises(UserError, match="4 answered") as error:
            run(judge(address, attempts=2), tmp_path)
        assert "500" in str(error.value) and "asks only for what is missing" in str(error.value)
        assert sorted(proxy.asked.values()) == [1, 1, 1, 1, 2, 2]
        gone.clear()
        assert run(judge(address), tmp_path).new == 2
    nobody = "http://127.0.0.1:9/v1"
    with pytest.raises(UserError, match="Connection error"):
        run(judge(nobody, attempts=1), tmp_path / "nobody")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_stops_at_once(tmp_path, status):
    body = b'{"error": {"message": "you may not"}}'
    proxy = Proxy("", lambda *_: (status, {}, body))
    with proxy.open() as address, pytest.raises(UserError, match="you may not"):
        run(judge(address, in_flight=2), tmp_path)
    assert proxy.asked.total() <= 2


def test_keys_and_passwords_are_sent_and_never_said(tmp_path, capfd, caplog):
    echo = f'{{"error": {{"message": "Incorrect API key: {KEY}"}}}}'.encode()
    caplog.set_level("DEBUG")
    with Proxy("", lambda *_: (401, {}, echo)).open() as address:
        address = address.replace("://", "://user:pa55word@")
        with pytest.raises(UserError) as error:
            run(judge(address), tmp_path)
    assert "[redacted]" in str(error.value)
    proxy = Proxy("", lambda *_: saying(f"yes, and your key is {KEY}"))
    with proxy.open() as address:
        found = run(judge(address), tmp_path)
    assert proxy.keys == {f"Bearer {KEY}"}
    out = capfd.readouterr()
    told = [str(error.value), repr(judge(address).model.access), out.out, out.err, caplog.text]
    told += [texts_below(tmp_path), str(found.table().to_pylist())]
    assert found.counts() == {"yes": 6}
    for text in told:
        assert KEY not in text and "pa55word" not in text
    with pytest.raises(UserError) as error:
        judge(address, key=f"{KEY}\nX-Other: 1")
    assert KEY not in str(error.value)


def test_without_a_key_the_endpoint_is_asked_all_the_same(tmp_path):
    with Proxy("", lambda *_: saying("yes")).open() as address:
        assert run(judge(address, key=""), tmp_path).new == 6


def test_scores_are_read_on_their_scale(tmp_path):
    answer = lambda prompt, _: saying(f"Score: {int(prompt.split()[2]) * 3}")  # noqa: E731
    with Proxy("", answer).open() as address:
        lines = run(judge(address, answer="score"), tmp_path).table().to_pylist()
    assert [line["reward"] for line in lines] == [0.0, 0.3, 0.6, 0.9, None, None]
