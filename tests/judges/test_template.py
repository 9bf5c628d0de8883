"""Templates show the example and nothing else; mistakes in them are found before anything runs."""

import pytest

from adaptermill.errors import UserError
from adaptermill.judge_specs import TEMPLATES
from adaptermill.judges.judge import message_text
from adaptermill.judges.template import Template
from tests.judges.building import example, settings_of


def test_shipped_templates_show_query_and_output():
    found = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
    assert found == ["harmbench", "helpful", "score"]
    for name in found:
        settings = settings_of({"kind": "llm", "model": "m", "template": name})
        (message,) = Template(settings["template_text"], None).messages(
            example("an <output> & {{ braces }}", "a query")
        )
        assert message["role"] == "user"
        assert "an <output> & {{ braces }}" in message["content"]
        assert "a query" in message["content"]
        assert "{#" not in message["content"] and "HarmBench" not in message["content"]


def test_all_messages_and_the_gold_answer_can_be_shown():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url"}]},
    ]
    template = Template("{{ prompt }} | {{ query }} | {{ output }} | {{ gold }}", "You judge.")
    system, user = template.messages(example("o", messages=messages, gold="g"))
    assert system == {"role": "system", "content": "You judge."}
    assert user["content"] == ("system: Be brief.\n\nuser: Look.\n[image] | Look.\n[image] | o | g")
    assert template.uses_gold and not Template("{{ output }}", None).uses_gold
    assert message_text(messages[0]) == "Be brief."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ output", "not Jinja"),
        ("{{ output }} {{ reward }}", "uses reward; there are query, prompt, output, gold"),
        ("Is it good?", "never shows"),
    ],
)
def test_unusable_templates_are_refused_where_they_stand(tmp_path, text, message):
    path = tmp_path / "t.jinja"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"judges.j.template: .*t.jinja(?s:.)*{message}"):
        settings_of({"kind": "llm", "model": "m", "template": str(path)})
    with pytest.raises(UserError, match=f"judges.j.prompt(?s:.)*{message}"):
        settings_of({"kind": "llm", "model": "m", "prompt": text})


def test_a_template_that_is_not_there_is_an_error_that_names_the_shipped_ones():
    with pytest.raises(UserError, match="harmbench, helpful, score"):
        settings_of({"kind": "llm", "model": "m", "template": "harmbnch"})


def test_templates_cannot_run_code():
    template = Template("{{ output.__class__.__mro__ }}{{ output }}", None)
    with pytest.raises(Exception, match="unsafe"):
        template.messages(example("x"))
