import json
from collections.abc import Iterator

import pytest

from turngate_probes.simulate.backend import Called, Failed, ModelRequest, ModelText, alone, ask, backend
from turngate_probes.stub_model import Cut, Refuse, Rule, StubBackend, Text, ToolCall, refused_port

HELLO = ModelRequest("some/model", [{"role": "user", "content": "hello"}], ["read_file"])


@pytest.fixture(name="stub")
def _stub() -> Iterator[StubBackend]:
    with StubBackend() as running:
        yield running


def test_the_backend_sees_model_history_and_tools(stub: StubBackend) -> None:
    """A request carries the whole conversation, the model's name and the tools on offer, and its text comes back."""
    stub.script(Rule(Text("an answer")))
    assert ask(stub.url, HELLO) == ModelText("an answer")
    (seen,) = stub.exchanges()
    assert (seen.protocol, seen.model, seen.user_texts, seen.tools) == (
        "openai.chat", "some/model", ("hello",), ("read_file",),
    )  # fmt: skip


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_refusal_is_told_with_its_status_and_message(stub: StubBackend, status: int) -> None:
    """An HTTP error is a failure of the kind of its status."""
    stub.script(Rule(Refuse(status, "no")))
    assert ask(stub.url, HELLO) == Failed(str(status), "no", status)


def test_a_cut_answer_and_a_backend_that_is_away_are_told_apart(stub: StubBackend) -> None:
    """A connection that ends in the middle is `cut`, one that is refused `away`."""
    stub.script(Rule(Cut()))
    cut = ask(stub.url, HELLO)
    with refused_port() as port:
        away = ask(f"http://127.0.0.1:{port}", HELLO)
    assert isinstance(cut, Failed)
    assert isinstance(away, Failed)
    assert (cut.kind, away.kind) == ("cut", "away")


def test_a_tool_call_comes_with_the_message_that_history_keeps(stub: StubBackend) -> None:
    """A call names the tool and its id, and its message can be sent back."""
    stub.script(Rule(ToolCall("touch", {"path": "x"})))
    called = ask(stub.url, HELLO)
    assert isinstance(called, Called)
    assert called.tool == "touch"
    assert called.message["tool_calls"][0]["id"] == called.call_id


def test_without_a_backend_it_asks_first_and_ends_then() -> None:
    """The first turn asks the user, a later one is final, and a reply of the user's choice replaces both."""
    later = ModelRequest("m", [*HELLO.messages, {"role": "assistant", "content": ""}, *HELLO.messages], [])
    outcomes = [json.loads(alone(each, None).text)["outcome"] for each in (HELLO, later)]  # type: ignore[union-attr]
    assert outcomes == ["ask_user", "final"]
    assert alone(HELLO, "mine") == ModelText("mine")
    assert backend({"TURNGATE_SIMULATE_REPLY": "mine"})(HELLO) == ModelText("mine")


def test_the_environment_names_the_backend(stub: StubBackend) -> None:
    """With the variable that a sandbox sets the backend is asked."""
    assert backend({"TURNGATE_SIMULATE_URL": stub.url})(HELLO) == ModelText("ok")
    assert len(stub.exchanges()) == 1
