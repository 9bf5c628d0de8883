"""Messages under another prompt, or with their visible text alone; the rest stays as it was."""

import pytest

from adaptermill.trajectories.seats import adapted_seats
from adaptermill.trajectories.thinking import after, is_unclosed, split
from adaptermill.trajectories.view import NothingVisible, View

PROMPT = [
    {"role": "system", "content": "You judge."},
    {"role": "user", "content": "Planner: {role}\nWhat is 1 + 1?"},
]
GIVEN = {"role": "assistant", "content": "<think>", "prefill": True}


def record(target: str = "2", messages: list | None = None) -> dict:
    return {
        "family": "judger",
        "messages": PROMPT if messages is None else messages,
        "target": target,
        "rollout": {"query": "What is 1 + 1?"},
    }


def view(fit_prompt=None, target_span="full") -> View:
    return View.from_settings({"fit_prompt": fit_prompt, "target_span": target_span})


def test_without_settings_nothing_changes():
    messages = [*PROMPT, GIVEN]
    assert view().apply(record(messages=messages)) == (messages, "2")


def test_a_deployment_prompt_with_its_places_filled_in():
    prompt = [
        {"role": "system", "content": "{system} As {role}, {who}."},
        {"role": "user", "content": "{query} | {context}"},
    ]
    messages, target = view(prompt).apply(record(messages=[*PROMPT, GIVEN]))
    assert target == "2"
    assert messages == [
        {"role": "system", "content": "You judge. As judger, {who}."},
        # What was filled in is not read again.
        {"role": "user", "content": "What is 1 + 1? | Planner: {role}\nWhat is 1 + 1?"},
        GIVEN,
    ]


def test_a_prompt_for_one_role_leaves_the_others():
    prompts = {"planner": [{"role": "user", "content": "{query}"}]}
    assert view(prompts).apply(record()) == (PROMPT, "2")
    judged = view({"judger": prompts["planner"]}).apply(record())
    assert judged == ([{"role": "user", "content": "What is 1 + 1?"}], "2")


def test_parts_and_a_missing_system_message():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x.png"}}]
    prompt = [{"role": "user", "content": "{system}{context}"}]
    messages, _ = view(prompt).apply(record(messages=[{"role": "user", "content": parts}]))
    assert messages == [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("given", "target", "prefill", "text"),
    [
        ("", "2", "", "2"),
        ("", "<think>so</think> 2", "<think>so</think>", " 2"),
        ("<think>", "so</think>\n2", "<think>so</think>", "\n2"),
        ("", "a</think>b</think>c", "a</think>b</think>", "c"),
        ("<think>all</think>", " 2", "<think>all</think>", " 2"),
        ("<think>", "so", None, None),
        ("", "<think>so", None, None),
        ("", "<think>so</think> \n", None, None),
    ],
)
def test_only_the_visible_text_is_learned(given, target, prefill, text):
    messages = [*PROMPT, {**GIVEN, "content": given}] if given else PROMPT
    shown = view(target_span="visible")
    if text is None:
        with pytest.raises(NothingVisible):
            shown.apply(record(target, messages))
        return
    made, learned = shown.apply(record(target, messages))
    assert learned == text
    last = made[-1] if made[-1].get("prefill") else {"content": ""}
    assert last["content"] == prefill and last["content"] + learned == given + target


def test_thoughts():
    assert is_unclosed("<think>a") and not is_unclosed("<think>a</think>")
    assert not is_unclosed("a</think>") and not is_unclosed("a")
    assert split("<think>a</think> b") == ("<think>a</think>", " b")
    assert split("b") == ("", "b") and split("<think>b") == ("<think>b", "")
    assert after("<think>a</think> b\n") == after(" b") == "b"


def test_seats():
    assert adapted_seats([2, 0, 1, 3], "all") == [0, 1, 2, 3]
    assert adapted_seats([0, 1, 2, 3], "nonsink") == [0, 1, 2]
    assert adapted_seats([0, 1, 2, 3], "middle") == [1, 2]
    assert adapted_seats([5], "nonsink") == adapted_seats([5, 7], "middle") == []
    assert adapted_seats([0, 1, 2, 3], "nonsink", [2, 3]) == [2]
