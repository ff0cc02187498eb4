"""Which rule supplies the reply."""

import pytest

from turngate_probes.stub_model.protocol import Hang, ModelPrompt, ReplyRules, StubRule, Text

_PLAIN = ModelPrompt((), (), after_tool_result=False)
_RESULT = ModelPrompt((), (), after_tool_result=True)


def test_default() -> None:
    """Without a matching rule the model says "ok"."""
    assert ReplyRules().choose({}, _PLAIN) == Text("ok")
    assert ReplyRules([StubRule(Hang(), contains="x")]).choose({}, _PLAIN) == Text("ok")


def test_first_that_fits() -> None:
    """Of several matching rules the first one is used."""
    assert ReplyRules([StubRule(Text("a")), StubRule(Text("b"))]).choose({}, _PLAIN) == Text("a")


@pytest.mark.parametrize(
    "document, fits",
    [
        ({"a": [{"b": 'say "tgn"\nnow'}]}, True),
        ({"a": "tgn"}, False),
        ({'"tgn"\n': 1}, False),
        ({}, False),
    ],
)
def test_contains(document: dict[str, object], *, fits: bool) -> None:
    """A rule searches its text in every string value, after JSON escapes are decoded."""
    assert StubRule(Hang(), contains='"tgn"\n').fits(document, _PLAIN) is fits


def test_after_tool_result() -> None:
    """A rule may apply only with a fresh tool result, only without one, or always."""
    script = ReplyRules(
        [StubRule(Text("after"), after_tool_result=True), StubRule(Text("before"), after_tool_result=False)]
    )
    assert [script.choose({}, prompted) for prompted in (_PLAIN, _RESULT)] == [Text("before"), Text("after")]
    assert StubRule(Hang()).fits({}, _PLAIN)
    assert StubRule(Hang()).fits({}, _RESULT)


def test_offers_tools() -> None:
    """A rule may apply only if the model is offered tools, only if it is not, or always."""
    offered = ModelPrompt((), ("write",), after_tool_result=False)
    script = ReplyRules([StubRule(Text("act"), offers_tools=True), StubRule(Text("title"), offers_tools=False)])
    assert [script.choose({}, prompted) for prompted in (_PLAIN, offered)] == [Text("title"), Text("act")]
    assert StubRule(Hang()).fits({}, offered)


def test_times() -> None:
    """A rule is used at most `times` times, then the next one; requests that don't match aren't counted."""
    script = ReplyRules([StubRule(Text("a"), contains="x", times=2), StubRule(Text("b"))])
    asked = ["x", "y", "x", "x"]
    assert [script.choose({"p": text}, _PLAIN) for text in asked] == [
        Text("a"),
        Text("b"),
        Text("a"),
        Text("b"),
    ]
