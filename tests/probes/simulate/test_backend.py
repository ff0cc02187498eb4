import json
from collections.abc import Iterator

import pytest

from tests.probes.simulate.played import at_known_release
from turngate_probes.simulate.backend import Acted, Called, Failed, Message, Model, ModelRequest, alone, ask, backend
from turngate_probes.stub_model import Cut, Refuse, StubBackend, StubRule, Text, ToolCall, refused_port

HELLO = ModelRequest("some/model", [{"role": "user", "content": "hello"}], ["read_file"])


@pytest.fixture(name="stub")
def _stub() -> Iterator[StubBackend]:
    with StubBackend() as running:
        yield running


def test_a_call_comes_with_the_tokens_of_its_request(stub: StubBackend) -> None:
    """What the model counts is read, so that a conversation can get too long."""
    stub.script(StubRule(ToolCall("read_file", {}, 990000)))
    called = ask(stub.url, HELLO)
    assert isinstance(called, Called)
    assert called.tokens == 990000


def test_the_backend_sees_model_history_and_tools(stub: StubBackend) -> None:
    """A request has the whole conversation, the model's name and the offered tools; the response's text is returned."""
    stub.script(StubRule(Text("an answer")))
    assert ask(stub.url, HELLO) == "an answer"
    (observed,) = stub.exchanges()
    assert (observed.protocol, observed.model, observed.user_texts, observed.tools) == (
        "openai.chat",
        "some/model",
        ("hello",),
        ("read_file",),
    )


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_refusal_is_told_with_its_status_and_message(stub: StubBackend, status: int) -> None:
    """An HTTP error becomes a failure whose kind depends on its status."""
    stub.script(StubRule(Refuse(status, "no")))
    assert ask(stub.url, HELLO) == Failed(str(status), "no", status)


def test_a_cut_answer_and_a_backend_that_is_away_are_told_apart(stub: StubBackend) -> None:
    """A connection that ends within the response is `cut`, a refused one is `away`."""
    stub.script(StubRule(Cut()))
    cut = ask(stub.url, HELLO)
    with refused_port() as port:
        away = ask(f"http://127.0.0.1:{port}", HELLO)
    assert isinstance(cut, Failed)
    assert isinstance(away, Failed)
    assert (cut.kind, away.kind) == ("cut", "away")


def test_a_tool_call_comes_with_the_message_that_history_keeps(stub: StubBackend) -> None:
    """A tool call has the tool's name, its id, and a message that can be sent back."""
    stub.script(StubRule(ToolCall("touch", {"path": "x"})))
    called = ask(stub.url, HELLO)
    assert isinstance(called, Called)
    assert called.tool == "touch"
    assert called.message["tool_calls"][0]["id"] == called.call_id


def test_without_a_backend_it_asks_first_and_ends_then() -> None:
    """Without a backend the first turn asks the user, and a later one is final, unless the user sets a reply."""
    later = ModelRequest("m", [*HELLO.messages, {"role": "assistant", "content": ""}, *HELLO.messages], [])
    outcomes = [json.loads(str(alone(request, None)))["outcome"] for request in (HELLO, later)]
    assert outcomes == ["ask_user", "final"]
    assert alone(HELLO, "mine") == "mine"
    assert backend({"TURNGATE_SIMULATE_REPLY": "mine"})(HELLO) == "mine"


@pytest.mark.parametrize(
    "reply, colour",
    [
        ("blue", "blue"),
        ("rather red, I think", "red"),
        ("green, please", "green, please"),
        ("The user's reply:\n\ngreen\n\nEnd with an envelope.", "green"),
        ("green\n\nEnd with an envelope.", "green"),
        ("x" * 999, f"{'x' * 150}[… 799 characters left out …]{'x' * 50}"),
    ],
)
def test_the_final_data_have_the_reply(reply: str, colour: str) -> None:
    """An option that the reply has counts, else the reply itself, without the text around it."""
    told = {"role": "user", "content": reply}
    later = ModelRequest("m", [*HELLO.messages, {"role": "assistant", "content": ""}, told], [])
    assert json.loads(str(alone(later, None)))["final_data"] == {"colour": colour}


def test_the_environment_names_the_backend(stub: StubBackend) -> None:
    """The backend's address is read from the variable that a sandbox sets, with or without `/v1`."""
    for url in stub.url, f"{stub.url}/", f"{stub.url}/v1", f"{stub.url}/v1/":
        assert backend({"TURNGATE_SIMULATE_URL": url})(HELLO) == "ok"
    assert len(stub.exchanges()) == 4


def test_a_model_that_only_calls_tools_is_stopped() -> None:
    """After twenty tool calls in a turn, the last one becomes the answer."""
    call = Called("touch", "call_1", {"role": "assistant", "content": None})
    messages: list[Message] = [{"role": "user", "content": "hello"}]
    model = Model(at_known_release("codex"), lambda _: call, "m", auto=False)
    assert model.ask(messages, lambda _: Acted("done")) is call
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["done"] * 20


def test_a_call_that_ends_the_turn_is_the_answer() -> None:
    """A tool call that ends the turn is its answer; the model gets no further request."""
    call = Called("touch", "call_1", {"role": "assistant", "content": None})
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Called:
        requests.append(request)
        return call

    model = Model(at_known_release("codex"), answer, "m", auto=False)
    assert model.ask([], lambda _: Acted("refused", ends=True)) is call
    assert len(requests) == 1


@pytest.mark.parametrize(
    "arguments, text", [({"command": ["touch", "a b"]}, "touch 'a b'"), ({"path": "x"}, "x"), ({}, ""), ({"n": 1}, "1")]
)
def test_a_call_says_in_short_what_it_is_about(arguments: dict[str, object], text: str) -> None:
    """A call is described by its first argument, as text, command line or JSON."""
    function = {"name": "touch", "arguments": json.dumps(arguments)}
    assert Called("touch", "1", {"tool_calls": [{"id": "1", "function": function}]}).text == text


def test_a_call_in_a_program_is_carried_out(stub: StubBackend) -> None:
    """The engine runs the call that a program makes; a program of another form is a call of the tool that takes it."""
    codex = at_known_release("codex")
    through = codex.hermetic.calls_through
    assert through
    given = {"path": "x"}
    programs = (through.program("touch", given), "touch()")
    calls = [ToolCall("touch", given, through=through.name, program=program) for program in programs]
    stub.script(*(StubRule(call, times=1) for call in calls))
    acted = list[tuple[str, Message]]()

    def act(call: Called) -> Acted:
        acted.append((call.tool, call.arguments))
        return Acted("done")

    assert Model(codex, lambda request: ask(stub.url, request), "m", auto=False).ask([*HELLO.messages], act) == "ok"
    assert acted == [("touch", given), ("exec", {})]
