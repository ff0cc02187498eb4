"""Which rule answers."""

import pytest

from turngate_probes.stub_model.protocol import Prompted
from turngate_probes.stub_model.replies import Hang, ReplyRules, Rule, Text

_PLAIN = Prompted((), (), after_tool_result=False)
_RESULT = Prompted((), (), after_tool_result=True)


def test_default() -> None:
    """Without a rule that fits, the model says "ok"."""
    assert ReplyRules().choose({}, _PLAIN) == Text("ok")
    assert ReplyRules([Rule(Hang(), contains="x")]).choose({}, _PLAIN) == Text("ok")


def test_first_that_fits() -> None:
    """Of several rules that fit the first answers."""
    assert ReplyRules([Rule(Text("a")), Rule(Text("b"))]).choose({}, _PLAIN) == Text("a")


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
    """A rule looks for its text in every string value, as it reads without JSON's escapes."""
    assert Rule(Hang(), contains='"tgn"\n').fits(document, _PLAIN) is fits


def test_after_tool_result() -> None:
    """A rule may be for requests with a fresh tool result, for those without, or for both."""
    script = ReplyRules([Rule(Text("after"), after_tool_result=True), Rule(Text("before"), after_tool_result=False)])
    assert [script.choose({}, prompted) for prompted in (_PLAIN, _RESULT)] == [Text("before"), Text("after")]
    assert Rule(Hang()).fits({}, _PLAIN)
    assert Rule(Hang()).fits({}, _RESULT)


def test_times() -> None:
    """A rule used up lets the next one answer; a request that it does not fit uses nothing up."""
    script = ReplyRules([Rule(Text("a"), contains="x", times=2), Rule(Text("b"))])
    asked = ["x", "y", "x", "x"]
    assert [script.choose({"p": text}, _PLAIN) for text in asked] == [
        Text("a"),
        Text("b"),
        Text("a"),
        Text("b"),
    ]
