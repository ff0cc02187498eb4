"""Tests of how forms become API requests."""

import pytest

from tests.tables import each
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store.events import AskedQuestion
from turngate_reference.server.store.runs import StoredQuestion
from turngate_reference.server.web.page.routes import idempotency_key, reply_request, run_request


def question(*options: str, fields: tuple[str, ...] = (), kind: str = "choose_one") -> StoredQuestion:
    """Return a question."""
    return StoredQuestion("q", "r", 1, AskedQuestion(kind, "?", options, fields, {}), None, "", None, None)


def reply(asked: StoredQuestion | None, **form: str) -> str:
    """Return the text of the reply that a form sends."""
    request = reply_request({"interaction_id": "q", **form}, asked)
    assert request["interaction_id"] == "q"
    return str(request["response"])


def test_a_run_is_asked_for_by_what_was_filled_in() -> None:
    """Empty fields are left out, numbers and JSON are parsed, and each line of options is one option."""
    form = {
        "engine": "codex",
        "prompt": "a\r\nb",
        "execution_mode": "auto",
        "model": " ",
        "workspace": "door",
        "session_timeout_sec": "60",
        "engine_options": "--add-dir\r\n../my docs\r\n",
        "output_schema": '{"type": "object"}',
        "interactive_profile": "",
        "form_id": "x",
    }
    assert run_request(form) == {
        "engine": "codex",
        "prompt": "a\nb",
        "execution_mode": "auto",
        "workspace": "door",
        "session_timeout_sec": 60,
        "engine_options": ["--add-dir", "../my docs"],
        "output_schema": {"type": "object"},
    }


@each(
    "wrong",
    [
        {"prompt": ""},
        {"prompt": " \n"},
        {"output_schema": "{"},
        {"session_timeout_sec": "1.5"},
        {"session_timeout_sec": "86401"},
        {"execution_mode": "yolo"},
    ],
)
def test_an_invalid_run_is_refused(wrong: dict[str, str]) -> None:
    """The API's schema rejects an invalid run."""
    with pytest.raises(ApiError, match="INVALID_REQUEST"):
        run_request({"engine": "codex", "prompt": "x"} | wrong)


def test_a_blank_prompt_is_named() -> None:
    """It was filled in, so it isn't missing."""
    with pytest.raises(ApiError, match="prompt: must not be only white space"):
        run_request({"engine": "codex", "prompt": " \n"})


def test_an_option_is_sent_as_the_agent_wrote_it() -> None:
    """Browsers would change an option's line breaks, so the form sends its number."""
    assert reply(question("a\nb", " c "), option="0") == "a\nb"
    assert reply(question("a\nb", " c "), option="1") == " c "


def test_a_question_for_a_yes_or_a_no_has_both() -> None:
    """Without options of the agent, the buttons of a `confirm` send `yes` and `no`."""
    assert [reply(question(kind="confirm"), option=number) for number in "012"] == ["yes", "no", "option 2"]
    assert reply(question("sure", kind="confirm"), option="0") == "sure"
    assert reply(question(kind="open_text"), option="0") == "option 0"


@each("number", ["2", "-1", "x", "", "\u0661", "9" * 5000])
def test_an_unknown_option_is_none(number: str) -> None:
    """An unknown option number is passed on, and rejected later, since its question is closed."""
    assert reply(question("a", "b"), option=number) == f"option {number}"
    assert reply(None, option="0") == "option 0"


def test_fields_become_lines() -> None:
    """Each field is a line after the chosen option, if there is one."""
    asked = question("new", "old", fields=("name", "e-mail"))
    assert (
        reply(asked, option="1", **{"field-0": "Ada", "field-1": "a@b.example"})
        == "old\nname: Ada\ne-mail: a@b.example"
    )
    assert reply(asked, **{"field-0": "", "field-1": "x"}) == "e-mail: x"
    with pytest.raises(ApiError, match="INVALID_REQUEST"):
        reply(asked)


def test_the_key_is_that_of_one_form_and_its_content() -> None:
    """Different forms, or different contents of a form, have different keys."""
    keys = {idempotency_key({"form_id": form}, {"response": text}) for form in "ab" for text in "xy"}
    assert len(keys) == 4
    assert idempotency_key({"form_id": "a"}, {"response": "x"}) in keys
