"""How runs on a simulated and on a real engine are compared, and what the page shows of it."""

import json
from itertools import product
from pathlib import Path

from tests.conform.likeness import (
    ENGINES,
    OF_TEXT,
    PAGE,
    SCENARIOS,
    CallFacts,
    Difference,
    Driver,
    Facts,
    Found,
    Reason,
    Row,
    differences,
    facts,
    handles_in,
    kinds,
    load_rows,
    reasons,
    rendered,
    stored_sessions,
    texts_in,
    why,
)
from tests.tables import each
from turngate import load_contract
from turngate_probes.conform.calls import AskedModel, CallRecord, Started, calls
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.plan import Conversation
from turngate_probes.simulate.faults import changed
from turngate_probes.simulate.simulated_process import Kind
from turngate_probes.simulate.store import SimulatedSession, store

RECORDS = ("thread.started", "turn.completed")
CALL = CallFacts("turn", 0, ("new",), RECORDS, ("question",), stored=("True",), complains=False)
TALKS = tuple(Conversation(name, (f"red ({name})", f"--yes ({name})"), "amber", "/work") for name in ("a", "b"))
TWO_HOURS = 7200


def test_each_difference_is_found() -> None:
    """What a run is about, the number of calls, and every field of a call, are compared."""
    other = CallFacts("turn", 1, ("session 1",), ("thread.started",), (), stored=(), complains=True)
    run = Facts(("0",), ("answer",), ("default: prompt",), 1, (CALL, CALL))
    found = [*differences(run, Facts(("1",), ("nothing",), (), 2, (CALL, other, other)))]
    assert [(one.call, one.what) for one in found] == [
        *((0, name) for name in ("ended", "printed", "requests", "sessions", "calls")),
        *((2, name) for name in ("exit_code", "session", "records", "said", "stored", "complains")),
    ]
    assert found[2] == Difference(0, "requests", "default: prompt", "none")
    assert found[7] == Difference(2, "records", "thread.started, turn.completed", "thread.started")
    assert not [*differences(run, run)]


def test_what_belongs_to_one_of_two_conversations_stays_together(tmp_path: Path) -> None:
    """In whatever order they run. A model is named if the driver asked for it."""
    first, other = (talk.prompts for talk in TALKS)
    asked = [AskedModel("m", other[:1]), AskedModel("n", first[:1]), AskedModel("m", other), AskedModel("m", first)]
    argv = {other[0]: ("-m", "m"), first[0]: (), other[1]: (), first[1]: ()}
    for text, words in argv.items():
        record = CallRecord(tmp_path)
        record.begin(Started(1, words, "/work", (), "pipe", 0.0, "turn", prompt=text))
        record.end(f"session-{text[-2]}", 0, b"", b"")
    ran = [
        Ran(talk, at, printed, "", 0.0, (), 0.0)
        for at, (talk, printed) in enumerate(zip(TALKS, ("amber", "x"), strict=True))
    ]
    evidence = Evidence(scenarios()["two-conversations"], tuple(ran), calls(tmp_path))
    seen = facts(evidence, asked, load_contract("codex", "0.169.0"), {"HOME": str(tmp_path)})
    assert (seen.ended, seen.printed, seen.sessions) == (("0", "1"), ("answer", "other"), 0)
    assert seen.requests == (
        "default: prompt",
        "m: prompt + reply",
        "m: other prompt",
        "m: other prompt + other reply",
    )
    assert [call.session for call in seen.calls] == [("new",), ("session 1",), ("new",), ("session 2",)]


def test_a_call_that_was_refused_before_it_read_the_words_keeps_its_place(tmp_path: Path) -> None:
    """In the only conversation of a run, calls are compared in the order in which they ran."""
    talk = TALKS[0]
    ran_in_order: tuple[tuple[Kind, str], ...] = (("turn", talk.prompts[0]), ("refused", ""))
    for kind, text in ran_in_order:
        record = CallRecord(tmp_path)
        record.begin(Started(1, (), "/work", (), "pipe", 0.0, kind, prompt=text))
        record.end(None, 0, b"", b"")
    ran = Ran(talk, 0, "", "", 0.0, (), 0.0)
    evidence = Evidence(scenarios()["two-turns"], (ran,), calls(tmp_path))
    seen = facts(evidence, (), load_contract("codex", "0.169.0"), {"HOME": str(tmp_path)})
    assert [call.kind for call in seen.calls] == ["turn", "refused"]


def test_a_question_that_both_of_two_conversations_ask_counts_once(tmp_path: Path) -> None:
    """Each may find that the other one has asked."""
    for argv in (("--version",), ("--version",), ("login", "status")):
        CallRecord(tmp_path).begin(Started(1, argv, "/work", (), "pipe", 0.0, "query"))
    ran = tuple(Ran(talk, 0, "", "", 0.0, (), 0.0) for talk in TALKS)
    evidence = Evidence(scenarios()["two-conversations"], ran, calls(tmp_path))
    seen = facts(evidence, (), load_contract("codex", "0.169.0"), {"HOME": str(tmp_path)})
    assert [call.kind for call in seen.calls] == ["query", "query"]


@each(
    "text, named",
    [
        ("red (a)", ["prompt"]),
        ("It said: red (a)\n--yes (a)", ["prompt & reply"]),
        ("yes (a)", ["part of the reply"]),
        ("--yes (b)", ["other reply"]),
        ("<environment/>", []),
        ("re", []),
    ],
)
def test_the_texts_of_the_user_are_found_in_requests(text: str, named: list[str]) -> None:
    """Whole or in part, and not what the engine adds."""
    assert [*texts_in([text], TALKS)] == named


def test_messages_name_sessions() -> None:
    """In the words of each protocol, each once."""
    messages: tuple[dict[str, object], ...] = (
        {"id": 1, "result": {"sessionId": "a"}},
        {"method": "session/update", "params": {"sessionId": "a"}},
        {"id": 2, "result": {"thread": {"id": "b"}}},
        {"method": "turn/started", "params": {"threadId": "b", "turn": {"id": "t"}}},
        {"type": "result", "session_id": "c", "result": "done"},
    )
    assert handles_in("\n".join(map(json.dumps, messages))) == ("b", "a", "c")


def test_stored_sessions_are_counted(tmp_path: Path) -> None:
    """In files and in a database."""
    for engine, release in (("codex", "0.169.0"), ("opencode", "1.18.33")):
        contract, home = load_contract(engine, release), {"HOME": str(tmp_path)}
        assert contract.store
        assert stored_sessions(contract.store, home, "/work") == 0
        for number in (1, 2):
            store(contract, home, "/work").keep(SimulatedSession(f"s{number}", "/work", 0.0))
            assert stored_sessions(contract.store, home, "/work") == number


def test_a_session_with_two_files_is_one(tmp_path: Path) -> None:
    """Gemini begins another file if a resume comes in another minute."""
    contract, chats = load_contract("gemini", "0.61.0"), tmp_path / ".gemini/tmp/work/chats"
    chats.mkdir(parents=True)
    for name in ("08-49-4be3917a", "08-50-4be3917a", "08-50-0cbaa872"):
        (chats / f"session-2026-11-28T{name}.jsonl").touch()
    assert contract.store
    assert stored_sessions(contract.store, {"HOME": str(tmp_path)}, "/work") == 2


def test_a_wrong_driver_plays_a_scenario_about_texts_only_if_it_fails_there() -> None:
    """It handles any other text as a right one does."""
    wrong = Driver("a", (), ("codex",), ("prompt-200-kb",))
    assert [name for name in (*SCENARIOS, *OF_TEXT) if wrong.plays(name)] == [*SCENARIOS, "prompt-200-kb"]
    assert all(Driver("a", (), ("codex",)).plays(name) for name in OF_TEXT)


def test_each_scenario_without_a_fault_is_measured() -> None:
    """One in which conversations only begin at once has none."""
    assert {*SCENARIOS, *OF_TEXT} == {
        one.id
        for one in scenarios().values()
        if one.expect == "success" and all(changed(play).keys() <= {"together"} for play in one.plays)
    }


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
    row = Row("codex", "1.0.0", "2026-01-01", "two-turns", 9, ("a", "b"), ())
    found = Found("a", 1, "records", "x", "x, y")
    for reason, covers in (
        (Reason("codex", "records", "why"), True),
        (Reason("codex", "records", "why", real="y", drivers=("a",)), True),
        (Reason("codex", "records", "why", real="z"), False),
        (Reason("codex", "records", "why", drivers=("b",)), False),
        (Reason("codex", "", "why"), True),
        (Reason("claude", "records", "why"), False),
        (Reason("codex", "said", "why"), False),
        (Reason("codex", "records", "why", scenario="two-turns"), True),
        (Reason("codex", "records", "why", scenario="three-turns"), False),
    ):
        assert reason.covers(row, found) is covers, reason


def test_drivers_may_be_measured_again_alone() -> None:
    """Those of the same release stay beside them, and so does when and how long all were measured."""
    found = [Found(name, 1, "records", "x", "y") for name in ("a", "b", "b")]
    kept = Row("codex", "1.0.0", "2026-01-01", "two-turns", 9, ("a", "b"), (found[0], found[1]))
    again = Row("codex", "1.0.0", "2026-01-02", "two-turns", 2, ("b", "c"), (found[2],))
    assert again.beside([kept]) == Row(
        "codex", "1.0.0", "2026-01-01", "two-turns", 9, ("a", "b", "c"), (found[0], found[2])
    )
    for other in (("claude", "1.0.0", "two-turns"), ("codex", "0.9.0", "two-turns"), ("codex", "1.0.0", "three-turns")):
        assert again.beside([Row(*other[:2], "2026-01-01", other[2], 9, ("a",), ())]) == again


def test_the_page_is_what_the_json_gives() -> None:
    """Every difference on it has a reason, and every reason is on it; all of it took two hours at most."""
    rows, page = load_rows(), PAGE.read_text("utf-8")
    assert page == rendered(rows)
    assert [found for row in rows for found in row.differences if not why(row, found)] == []
    assert [reason for reason in reasons() if reason.why not in page] == []
    assert {(row.engine, row.scenario) for row in rows} == {*product(ENGINES, (*SCENARIOS, *OF_TEXT))}
    assert sum(row.cpu_seconds for row in rows) <= TWO_HOURS
