"""How runs on a simulated and on a real engine are compared, and what the page shows of it."""

import json

from tests.conform.likeness import (
    PAGE,
    CallFacts,
    Difference,
    Facts,
    Found,
    Reason,
    Row,
    differences,
    kinds,
    load_rows,
    rendered,
    why,
)

CALL = CallFacts("turn", 0, "new", ("thread.started", "turn.completed"), "question", stored=True, complains=False)


def test_each_difference_is_found() -> None:
    """The number of calls, and every field of a call, are compared."""
    other = CallFacts("turn", 1, "session 1", ("thread.started",), "", stored=None, complains=True)
    found = [*differences(Facts(0, "answer", (CALL, CALL)), Facts(1, "", (CALL, other, other)))]
    assert [(one.call, one.what) for one in found] == [
        (0, "ended"),
        (0, "printed"),
        (0, "calls"),
        *((2, name) for name in ("exit_code", "session", "records", "said", "stored", "complains")),
    ]
    assert found[5] == Difference(2, "records", "thread.started, turn.completed", "thread.started")
    assert not [*differences(Facts(0, "answer", (CALL,)), Facts(0, "answer", (CALL,)))]


def test_a_message_has_the_kind_of_what_it_is_about() -> None:
    """Those of every protocol, each once; what is no message is none."""
    messages = (
        {"id": 1, "result": {"type": "x"}},
        {"id": 2, "error": {"message": "no"}},
        {"method": "item/started", "params": {"item": {"type": "agentMessage"}}},
        {"method": "item/started", "params": {"item": {"type": "agentMessage"}}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk"}}},
        {"type": "result", "subtype": "success", "result": "done"},
    )
    assert kinds("\n".join(["listening", *map(json.dumps, messages)])) == (
        "result",
        "error",
        "item/started agentMessage",
        "session/update agent_message_chunk",
        "result success",
    )


def test_a_reason_covers_what_it_names() -> None:
    """An engine, what differs, a part of what the real engine did, and the drivers, if any are named."""
    row = Row("codex", "1.0.0", "2026-01-01", "two-turns", ("a", "b"), ())
    found = Found("a", 1, "records", "x", "x, y")
    for reason, covers in (
        (Reason("codex", "records", "why"), True),
        (Reason("codex", "records", "why", real="y", drivers=("a",)), True),
        (Reason("codex", "records", "why", real="z"), False),
        (Reason("codex", "records", "why", drivers=("b",)), False),
        (Reason("codex", "", "why"), True),
        (Reason("claude", "records", "why"), False),
        (Reason("codex", "said", "why"), False),
    ):
        assert reason.covers(row, found) is covers, reason


def test_drivers_may_be_measured_again_alone() -> None:
    """Those of the same release stay beside them, and so does the day on which the first was measured."""
    found = [Found(name, 1, "records", "x", "y") for name in ("a", "b", "b")]
    kept = Row("codex", "1.0.0", "2026-01-01", "two-turns", ("a", "b"), (found[0], found[1]))
    again = Row("codex", "1.0.0", "2026-01-02", "two-turns", ("b", "c"), (found[2],))
    assert again.beside([kept]) == Row(
        "codex", "1.0.0", "2026-01-01", "two-turns", ("a", "b", "c"), (found[0], found[2])
    )
    for other in (("claude", "1.0.0", "two-turns"), ("codex", "0.9.0", "two-turns"), ("codex", "1.0.0", "three-turns")):
        assert again.beside([Row(*other[:2], "2026-01-01", other[2], ("a",), ())]) == again


def test_the_page_is_what_the_json_gives() -> None:
    """Every difference on it has a reason."""
    rows = load_rows()
    assert PAGE.read_text("utf-8") == rendered(rows)
    assert [found for row in rows for found in row.differences if not why(row, found)] == []
