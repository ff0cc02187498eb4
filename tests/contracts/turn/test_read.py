import json
import tracemalloc
from functools import cache

import pytest
from msgspec.structs import replace

from tests.contracts.releases import IDS, NEWEST
from tests.contracts.transcripts import lines, transcript
from tests.contracts.turns import (
    ASKED,
    AUTO,
    CODEX,
    GEMINI,
    IFLOW,
    INTERACTIVE,
    OPENCODE,
    SAID,
    altered,
    four,
    read,
    why,
)
from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.contract.launch import Stream
from turngate.model import Ended, EngineSessionHandle, Mode, Outcome, Repair, Reported
from turngate.turn import read as turn_read
from turngate.turn.framing import MAX_LINE, MAX_LOOKS
from turngate.turn.read import MAX_REPORT, MAX_REPORTED, NO_ANSWER, TurnReader, read_turn
from turngate_probes.harness.observations import Turn
from turngate_probes.record.replay import replay
from turngate_probes.releases import recorded_releases

SILENT = f"ENGINE_FAILED: {NO_ANSWER}"


@four
def test_good_turn_is_read_in_full(contract: EngineContract) -> None:
    """A question is read with its session id, a proven end, and no problems."""
    reading = read(contract, ASKED, turn_index=3, resumed=IDS[contract.engine])
    assert reading.result.outcome is Outcome.ASK_USER
    assert reading.result.interaction
    assert reading.result.interaction.prompt == "Sure?"
    assert reading.session == EngineSessionHandle(contract.engine, "session_id", IDS[contract.engine], 3)
    assert (reading.ended, reading.failures, reading.framing, reading.unknown) == (True, (), (), ())
    assert reading.final_text == ASKED


@four
@each("mode", Mode)
@each(
    "code, said",
    [
        (1, "exited with 1"),
        (2, "exited with 2"),
        (42, "exited with 42"),
        (-9, "was killed by signal 9"),
        (-15, "was killed by signal 15"),
        (None, "exited with None"),
    ],
)
def test_bad_exit_fails_whatever_was_said(contract: EngineContract, mode: Mode, code: int | None, said: str) -> None:
    """If the engine fails, a good answer becomes an error that names the turn and keeps the session id."""
    streams = transcript(contract, IDS[contract.engine], ASKED)
    first = read_turn(contract, mode, *streams, code)
    again = read_turn(contract, mode, *streams, code, turn_index=2, resumed=IDS[contract.engine])
    assert why(first) == f"ENGINE_FAILED: the engine {said}"
    assert why(again) == f"SESSION_RESUME_FAILED: the engine {said}"
    assert first.session
    assert first.result.interaction is None


@four
def test_first_of_several_failures_names_it(contract: EngineContract) -> None:
    """A timeout is named before the engine's failure, that before a missing id, that before the envelope."""
    stdout, stderr = transcript(contract, None, "no envelope")
    assert why(read_turn(contract, INTERACTIVE, stdout, stderr, 1, ended=Ended.TIMEOUT)).startswith("TURN_TIMEOUT")
    assert why(read_turn(contract, INTERACTIVE, stdout, stderr, 1)).startswith("ENGINE_FAILED")
    assert why(read_turn(contract, INTERACTIVE, stdout, stderr, 0)).startswith("SESSION_RESUME_FAILED")
    assert why(read(contract, "no envelope")) == "ENVELOPE_INVALID: the answer contains no envelope"


@pytest.mark.parametrize(
    "contract, records, said",
    [
        (CODEX, [{"type": "turn.failed", "error": {"message": "no quota"}}], "no quota"),
        (CODEX, [{"type": "turn.failed"}], "no reason given"),
        (CODEX, [{"type": "turn.failed", "error": {"message": {"a": 1}}}], "{'a': 1}"),
        (
            OPENCODE,
            [{"type": "error", "sessionID": IDS["opencode"], "error": {"data": {"message": "no key"}}}],
            "no key",
        ),
    ],
)
def test_failure_that_the_engine_reports_is_an_error(
    contract: EngineContract, records: list[object], said: str
) -> None:
    """A failure that the engine reports is an error, even with exit code 0."""
    stdout, _ = transcript(contract, IDS[contract.engine], SAID)
    reading = read_turn(contract, AUTO, stdout + lines(*records).encode(), b"", 0)
    assert why(reading) == f"ENGINE_FAILED: the engine reported a failure: {said}"


def test_failure_of_a_document_is_an_error() -> None:
    """Gemini's document with an error is a failure, even with an answer."""
    stdout = json.dumps({"session_id": IDS["gemini"], "response": SAID, "error": {"message": "quota"}}).encode()
    assert why(read_turn(GEMINI, AUTO, stdout, b"", 0)) == "ENGINE_FAILED: the engine reported a failure: quota"


def test_retries_and_notices_are_no_failure() -> None:
    """Codex's `error` events for retries, and items of that type in good turns, are no failures."""
    stdout, _ = transcript(CODEX, IDS["codex"], SAID)
    retried = stdout.replace(b'{"type": "turn.started"}', b'{"type": "error", "message": "Reconnecting"}')
    assert read_turn(CODEX, INTERACTIVE, retried, b"", 0).result.outcome is Outcome.FINAL


CLAUDE, QWEN = NEWEST["claude"], NEWEST["qwen"]
DENIED = [{"tool_name": "Write", "tool_input": {"file_path": "x"}}, {"tool_name": "Bash"}, {"tool_name": "Write"}]
RESULT = {"type": "result", "subtype": "success", "is_error": False, "session_id": IDS["codex"], "result": "Done."}
NOTICE = {"type": "item.completed", "item": {"type": "error", "message": "no metadata"}}
TEXT = {"type": "assistant", "message": {"content": [{"type": "thinking"}, {"type": "text", "text": "Here it is."}]}}


@each(
    "contract, records, reported",
    [
        (CODEX, [NOTICE, NOTICE], [Reported("error", "no metadata")]),
        (CODEX, [{"type": "item.completed", "item": {"type": "error", "message": 7}}], []),
        (CLAUDE, [RESULT | {"permission_denials": DENIED}], [Reported("denied", "Write"), Reported("denied", "Bash")]),
        (CLAUDE, [RESULT | {"permission_denials": []}], []),
        (GEMINI, [{"session_id": IDS["gemini"], "response": "", "warnings": ["Loop"]}], [Reported("error", "Loop")]),
        (GEMINI.in_output("stream-json"), [{"type": "error", "message": "Loop"}], [Reported("error", "Loop")]),
        (CLAUDE.in_output("stream-json"), [TEXT, RESULT | {"result": ""}], [Reported("answer", "Here it is.")]),
        (QWEN, [TEXT, RESULT | {"result": "", "permission_denials": DENIED[1:2]}], None),
        (QWEN, [TEXT, RESULT], []),
    ],
)
def test_what_is_reported_beside_the_answer_is_read(
    contract: EngineContract, records: list[dict[str, object]], reported: list[Reported] | None
) -> None:
    """Denied tools, errors of a turn that went on, and an answer that the final record lacks are read, each once."""
    expected = [Reported("answer", "Here it is."), Reported("denied", "Bash")] if reported is None else reported
    assert list(read_turn(contract, AUTO, lines(*records).encode(), b"", 0).reported) == expected


@each(
    "symptom, lacks",
    [("turn-lost", "this turn"), ("context-lost", "what was said so far"), ("hang", None), ("refused", None)],
)
def test_what_a_session_may_lack_is_told_after_turns_that_can_cause_it(symptom: str, lacks: str | None) -> None:
    """The contract says after which turns, a killed engine's or failed ones, and what a resume then lacks."""
    known = tuple(
        Deviation(f"resume.after-{what}", symptom, "tell the user")
        for what in (("kill",) if lacks is None else ("kill", "failure"))
    )
    contract = replace(CLAUDE, deviations=known)
    stdout = lines(RESULT | {"result": "hi"}).encode()

    def caveats(code: int | None, ended: Ended = Ended.EXIT) -> list[str]:
        reported = read_turn(contract, AUTO, stdout, b"", code, ended=ended).reported
        return [one.text for one in reported if one.kind == "session"]

    assert caveats(0) == []
    told = [f"so the session may lack {lacks}"] if lacks else []
    for killed in (caveats(0, Ended.LINGERED), caveats(-9), caveats(None), caveats(143, Ended.TIMEOUT)):
        assert [text.partition(" was killed in this turn, ")[2] for text in killed] == told
    assert [text.partition(" failed in this turn, ")[2] for text in caveats(1)] == told


def test_the_newest_claude_may_lose_the_turn_in_which_it_was_killed() -> None:
    """It writes a turn to its session after it has printed the result."""
    stdout = lines(RESULT | {"result": "hi"}).encode()
    told = Reported("session", "Claude Code was killed in this turn, so the session may lack this turn")
    assert read_turn(CLAUDE, AUTO, stdout, b"", 0, ended=Ended.LINGERED).reported == (told,)
    assert read_turn(CLAUDE, AUTO, stdout, b"", 0).reported == ()


def test_what_is_reported_is_bounded() -> None:
    """Of a long list, and of a long text, only the beginning is kept."""
    many = [{"tool_name": f"{number}{'x' * MAX_REPORT}"} for number in range(MAX_REPORTED + 5)]
    reported = read_turn(CLAUDE, AUTO, lines(RESULT | {"permission_denials": many}).encode(), b"", 0).reported
    assert (len(reported), {len(one.text) for one in reported}) == (MAX_REPORTED, {MAX_REPORT})


@four
@each("mode", Mode)
def test_turn_cut_short_is_an_error(contract: EngineContract, mode: Mode) -> None:
    """Without the record that proves its end, a turn is an error, whatever the exit code."""
    stdout, stderr = transcript(contract, IDS[contract.engine], SAID)
    if contract.end.stream == "stdout":
        cut = stdout[: stdout.rstrip().rindex(b"\n")], stderr
    else:
        cut = stdout, stderr[: stderr.rstrip().rindex(b"\n")]
    reader = TurnReader(contract, mode, needs_handle=False)
    reader.feed("stdout", cut[0])
    reader.feed("stderr", cut[1])
    reading = reader.finish(0)
    assert not reading.ended
    assert why(reading).startswith("ENGINE_FAILED: nothing on")


def test_opencode_turn_that_ends_on_a_tool_call_is_unfinished() -> None:
    """An OpenCode turn whose last step has a reason other than `stop` is unfinished."""
    stdout, _ = transcript(OPENCODE, IDS["opencode"], SAID)
    reading = read_turn(OPENCODE, AUTO, stdout.replace(b'"reason": "stop"', b'"reason": "tool-calls"'), b"", 0)
    assert "proves that the turn ended" in why(reading)


def test_turn_without_answer_is_an_error() -> None:
    """A turn without an answer, as iFlow ends without a backend, is an error despite exit code 0."""
    _, stderr = transcript(IFLOW, IDS["iflow"], "")
    reading = read_turn(IFLOW, AUTO, b"Model x does not support thinking mode\n\n", stderr, 0)
    assert (reading.ended, why(reading)) == (True, SILENT)


@each("mode", Mode)
@each("blank", ["", "\n ", "\r\n\t\u00a0\u3000"], shown=ascii)
@each("engine", NEWEST)
def test_a_blank_answer_is_none(engine: str, blank: str, mode: Mode) -> None:
    """Every engine's recorded turns, first and resumed, fail if their text is blank; the session is intact."""
    contract, turns = recorded(engine)
    for turn in (turns["main/first"], turns["main/again"]):
        streams = (blanked(turn.stdout, turn.scripted, blank), blanked(turn.stderr, turn.scripted, blank))
        assert streams != (turn.stdout, turn.stderr)
        reading = read_turn(contract, mode, *streams, 0, turn_index=turn.turn_index, resumed=turn.resumed)
        assert why(reading).startswith(SILENT), turn.name
        assert (reading.final_text, reading.session) == (None, turn.reading.session)


@cache
def recorded(engine: str) -> tuple[EngineContract, dict[str, Turn]]:
    """Return the contract of an engine's newest recorded release, and its turns."""
    contract = load.contract(engine).at(recorded_releases.newest(engine))
    return contract, replay(contract).turns


def blanked(stream: bytes, text: str, blank: str) -> bytes:
    """Return a stream with another text of the agent, wherever it stands as JSON or as it is."""
    inner, other = (json.dumps(each)[1:-1].encode() for each in (text, blank))
    return stream.replace(inner, other).replace(text.encode(), blank.encode())


CLAUDE = load.contract("claude").at(recorded_releases.newest("claude"))
HOOKED = lines(
    {"type": "system", "subtype": "hook_started", "hook_event": "SessionStart", "session_id": "x"},
    {"type": "system", "subtype": "hook_response", "hook_event": "SessionStart", "stdout": "hi", "session_id": "x"},
).encode()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("step", ["main/first", "main/again"])
def test_a_list_of_records_is_read_as_the_document(mode: Mode, step: str) -> None:
    """Claude Code prints a list if its user's settings are verbose; id, end and text come from their record."""
    turn = replay(CLAUDE.in_output("stream-json")).turns[step]
    listed = b"[" + b",".join(turn.stdout.splitlines()) + b"]\n"
    reader = TurnReader(CLAUDE, mode, turn_index=turn.turn_index, resumed=turn.resumed)
    reader.feed("stdout", listed)
    assert reader.over
    reading = reader.finish(0)
    assert (reading.result.outcome, reading.session) == (turn.reading.result.outcome, turn.reading.session)
    assert (reading.final_text, reading.ended, reading.unmatched) == (turn.reading.final_text, True, {})
    assert "is a list of" in reading.framing[0]
    assert reading.handle.displaced


def test_records_of_hooks_before_the_turn_change_nothing() -> None:
    """The id is that of the first record that matches, whatever records come before."""
    contract = CLAUDE.in_output("stream-json")
    turn = replay(contract).turns["main/first"]
    reading = read_turn(contract, INTERACTIVE, HOOKED + turn.stdout, turn.stderr, 0)
    assert (reading.result, reading.session) == (turn.reading.result, turn.reading.session)
    assert "in record 3, not in the first" in reading.handle.displaced


@each("record", [{}, {"response": None}, {"response": 7}, {"response": ["text"]}, {"answer": "text"}])
def test_answer_of_another_type_is_none(record: dict[str, object]) -> None:
    """If the answer in a document is no text, the turn has no answer."""
    stdout = json.dumps({"session_id": IDS["gemini"], **record}).encode()
    said = why(read_turn(GEMINI, AUTO, stdout, b"", 0))
    assert said.startswith(f"{SILENT}: `response` matched no text in the only record")


def test_last_text_is_the_answer() -> None:
    """Of several Codex messages the last one is the answer, so there is none if it is empty."""
    stdout, _ = transcript(CODEX, IDS["codex"], ASKED)
    message = lines({"type": "item.completed", "item": {"type": "agent_message", "text": SAID}}).encode()
    head, end = stdout.rsplit(b"\n", 2)[0], stdout.rsplit(b"\n", 2)[1] + b"\n"
    assert read_turn(CODEX, INTERACTIVE, head + b"\n" + message + end, b"", 0).final_text == SAID
    empty = message.replace(json.dumps(SAID).encode(), b'""')
    assert why(read_turn(CODEX, INTERACTIVE, head + b"\n" + empty + end, b"", 0)) == SILENT


def test_texts_of_one_message_are_joined() -> None:
    """OpenCode's parts of the last message are joined; parts of an earlier one are not in the answer."""
    session = IDS["opencode"]

    def part(message: str | None, text: str) -> dict[str, object]:
        return {"type": "text", "sessionID": session, "part": {"messageID": message, "text": text}}

    end = {"type": "step_finish", "sessionID": session, "part": {"reason": "stop"}}
    half = len(SAID) // 2
    stdout = lines(part("a", ASKED), part("b", SAID[:half]), part("b", SAID[half:]), end).encode()
    assert read_turn(OPENCODE, INTERACTIVE, stdout, b"", 0).result.final_data == {"colour": "blue"}
    apart = lines(part(None, "one"), part(None, "two"), end).encode()
    assert read_turn(OPENCODE, AUTO, apart, b"", 0).final_text == "two"


@four
@each(
    "text, data",
    [
        ("words", {"text": "words"}),
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ("[1]", {"text": "[1]"}),
        (SAID, {"colour": "blue"}),
    ],
)
def test_auto_needs_no_envelope(contract: EngineContract, text: str, data: object) -> None:
    """In auto an answer without envelope is final: its JSON object, or else its text."""
    result = read(contract, text, AUTO).result
    assert (result.outcome, result.final_data, result.failure_reason) == (Outcome.FINAL, data, None)


@four
@each("mode", Mode)
@each(
    "text",
    [
        f"{ASKED} {SAID}",
        '{"outcome": "ask_user"}',
        ASKED.replace("confirm", "choice"),
        f"{ASKED[:-1]},}}",
        f"{SAID[:-1]},}}",
        ASKED[:-1],
        f"So: {SAID[:-2]}",
    ],
)
def test_bad_envelope_is_an_error_in_both_modes(contract: EngineContract, mode: Mode, text: str) -> None:
    """An invalid envelope is an error in both modes."""
    reading = read(contract, text, mode)
    assert why(reading).startswith("ENVELOPE_INVALID: ")
    assert (reading.result.interaction, reading.result.final_data) == (None, None)
    assert reading.session


def test_a_mode_can_be_written_as_text() -> None:
    """The mode may be text: an interactive turn needs an envelope either way."""
    streams = transcript(CODEX, IDS["codex"], "no envelope")
    assert "ENVELOPE_INVALID" in why(read_turn(CODEX, "interactive", *streams, 0))
    assert read_turn(CODEX, "auto", *streams, 0) == read_turn(CODEX, Mode.AUTO, *streams, 0)
    with pytest.raises(ValueError, match="is not a valid Mode"):
        TurnReader(CODEX, "Interactive")  # type: ignore[arg-type]


def test_control_signal_comes_before_the_result() -> None:
    """A question in mode auto is still a question, and how it was found is reported."""
    result = read(CODEX, f"Well:\n```json\n{ASKED}\n```", AUTO).result
    assert (result.outcome, result.repair_level) == (Outcome.ASK_USER, Repair.EMBEDDED_OBJECT)


LOST = "SESSION_RESUME_FAILED"


STARTED = lines({"type": "thread.started", "thread_id": IDS["codex"]}).encode()


def answers(*texts: str) -> bytes:
    """Return Codex messages, one after the other."""
    items = [{"type": "agent_message", "text": text} for text in texts]
    return lines(*({"type": "item.completed", "item": item} for item in items)).encode()


@pytest.mark.parametrize(
    "contract, streams, expected",
    [
        (CODEX, (answers("one", "two"), b""), ["one", "two"]),
        (OPENCODE, transcript(OPENCODE, IDS["opencode"], "three"), ["three"]),
        (IFLOW, transcript(IFLOW, IDS["iflow"], "four\nfive"), ["four\nfive"]),
        (IFLOW, (b"\n", b""), []),
    ],
)
def test_texts_are_reported_as_they_come(
    contract: EngineContract, streams: tuple[bytes, bytes], expected: list[str]
) -> None:
    """Each text of the agent is passed on once; events without a text pass nothing on."""
    received: list[str] = []
    reader = TurnReader(contract, AUTO, on_text=received.append)
    reader.feed("stdout", streams[0])
    reader.feed("stderr", streams[1])
    reader.finish(0)
    assert received == expected


def test_failures_are_bounded_in_number_and_length() -> None:
    """Of a thousand long failures only some are reported, each shortened."""
    failed = {"type": "turn.failed", "error": {"message": "x" * 2000}}
    reading = read_turn(CODEX, AUTO, lines(*[failed] * 150).encode(), b"", 1)
    assert reading.failures == ("x" * 1000,) * 100
    assert why(reading) == f"ENGINE_FAILED: the engine exited with 1: {'x' * 1000}"


@each(
    "stdout, code, late, resumed, said",
    [
        (b"", 0, True, None, "TURN_TIMEOUT: the engine was still running at its deadline"),
        (STARTED, 0, False, None, "ENGINE_FAILED: nothing on stdout proves that the turn ended"),
        (STARTED, 0, False, IDS["codex"], f"{LOST}: nothing on stdout proves that the turn ended"),
        (STARTED + b'{"type":"turn.completed"}', 0, False, None, SILENT),
        (STARTED + b'{"type":"turn.completed"}', 0, False, IDS["codex"], SILENT),
        (
            answers(SAID) + b'{"type":"turn.completed"}',
            0,
            False,
            None,
            f"{LOST}: no session id (missing): no record of stdout has thread_id where type = 'thread.started'",
        ),
        (
            transcript(CODEX, IDS["codex"], SAID)[0],
            0,
            False,
            "x",
            f"{LOST}: asked for x, came back as {IDS['codex']}",
        ),
        (
            transcript(CODEX, IDS["codex"], '{"outcome": NaN}')[0],
            0,
            False,
            None,
            "ENVELOPE_INVALID: a number that isn't valid JSON",
        ),
    ],
)
def test_reason_says_what_failed(stdout: bytes, code: int, late: bool, resumed: str | None, said: str) -> None:  # noqa: FBT001
    """The reason has the code of the failure and describes the observation."""
    ended = Ended.TIMEOUT if late else Ended.EXIT
    assert why(read_turn(CODEX, INTERACTIVE, stdout, b"", code, ended=ended, resumed=resumed)) == said


@four
def test_turn_is_over_with_its_terminal_event(contract: EngineContract) -> None:
    """A turn is over when its last event is complete, until another one follows."""
    stdout, stderr = transcript(contract, IDS[contract.engine], SAID)
    reader, seen = TurnReader(contract, AUTO), []
    streams: list[tuple[Stream, bytes]] = [("stdout", stdout), ("stderr", stderr)]
    for name, byte in [(name, data[i : i + 1]) for name, data in streams for i in range(len(data))]:
        reader.feed(name, byte)
        seen.append(reader.over)
    assert seen[-1]
    assert seen.index(True) >= len(seen) - 2  # a document is complete without its last newline
    reader.feed(contract.end.stream, b'{"type": "step_start"}\n')
    assert not reader.over


def test_what_the_contract_expects_after_the_end_changes_nothing() -> None:
    """Kinds after the terminal event are listed, except those that the contract expects there and that event again."""
    contract = replace(CODEX, end=replace(CODEX.end, followed_by=("item.updated",)))
    for kind, after in (("turn.completed", ()), ("item.updated", ()), ("item.completed", ("item.completed",))):
        reader = TurnReader(contract, AUTO)
        reader.feed("stdout", lines({"type": "item.completed"}, {"type": "turn.completed"}, {"type": kind}).encode())
        assert reader.over is not bool(after)
        assert reader.finish(0).after_end == after


def test_turn_is_over_with_its_failure() -> None:
    """A failure that the engine reports also ends the turn: as an event, a document, or a field in one."""
    claude = load.contract("claude").at()
    for contract, printed in (
        (CODEX, lines({"type": "turn.failed", "error": {"message": "no"}})),
        (GEMINI, json.dumps({"error": {"message": "no"}}, indent=2)),
        (claude, json.dumps({"type": "result", "is_error": True, "result": "no"})),
    ):
        reader = TurnReader(contract, AUTO)
        reader.feed("stdout", printed.encode())
        assert reader.over


def test_turn_that_never_ends_is_looked_at_few_times() -> None:
    """A stream that repeatedly looks like a complete document is parsed only a few times."""
    reader = TurnReader(GEMINI, AUTO)
    for _ in range(MAX_LOOKS):
        reader.feed("stdout", b"}")
        assert not reader.over
    reader.feed("stdout", b'\n{"response": "late"}')
    assert not reader.over


@four
def test_turn_of_a_process_that_lingers_counts(contract: EngineContract) -> None:
    """If a turn is complete, the exit code of its lingering process doesn't matter; a truncated turn is an error."""
    stdout, stderr = transcript(contract, IDS[contract.engine], SAID)
    assert read_turn(contract, AUTO, stdout, stderr, -15, ended=Ended.LINGERED).result.outcome is Outcome.FINAL
    assert why(read_turn(contract, AUTO, stdout[:9], b"", -15, ended=Ended.LINGERED)).startswith("ENGINE_FAILED")


def test_failure_without_a_place_for_its_reason_gives_none() -> None:
    """If the contract doesn't say where the engine gives its reason, a failure has none."""
    silent = altered("codex", lambda data: [sign.pop("message") for sign in data["failures"]])
    assert read_turn(silent, AUTO, lines({"type": "turn.failed"}).encode(), b"", 0).failures == ("no reason given",)


PARTS = 200_000


def part(text: str, message: str = "m") -> dict[str, object]:
    """Return an OpenCode record with a part of a message."""
    return {"type": "text", "sessionID": IDS["opencode"], "part": {"messageID": message, "text": text}}


def test_small_parts_take_no_more_space_than_one() -> None:
    """Of twenty thousand parts that come at once, only the joined text is kept."""
    printed = lines(*(part(f"{number:06}") for number in range(20000))).encode()
    reader = TurnReader(NEWEST["opencode"], Mode.AUTO)
    tracemalloc.start()
    reader.feed("stdout", printed)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 3 * 6 * 20000
    assert peak < 10 * 6 * 20000


@pytest.mark.long
def test_a_transcript_of_many_small_parts_is_read_whole() -> None:
    """Two hundred thousand parts of one message are joined in order."""
    reader = TurnReader(NEWEST["opencode"], Mode.AUTO)
    for first in range(0, PARTS, 1000):
        reader.feed("stdout", lines(*(part(f"{number:06}|") for number in range(first, first + 1000))).encode())
    said = reader.finish(0).final_text
    assert said == "".join(f"{number:06}|" for number in range(PARTS))


GOES_ON = each("contract", [CODEX, OPENCODE], shown=lambda contract: contract.engine)


def goes_on(contract: EngineContract, *, answer: str = SAID, session: str = "00000000-other") -> bytes:
    """Return stdout of a process that asks its question and then begins a turn of its own."""
    own = transcript(contract, session, answer)[0].replace(b'"messageID": "m"', b'"messageID": "n"')
    return transcript(contract, IDS[contract.engine], ASKED)[0] + own


@GOES_ON
@each("code", [0, 1, -15])
def test_a_question_ends_the_turn_whatever_the_process_does_next(contract: EngineContract, code: int) -> None:
    """A later answer, session id and exit code don't replace the question, however the bytes arrive."""
    heard = list[str]()
    reader = TurnReader(contract, INTERACTIVE, on_text=heard.append)
    stdout = goes_on(contract)
    asked = len(transcript(contract, IDS[contract.engine], ASKED)[0])
    over = list[bool]()
    for at in range(0, len(stdout), 7):
        reader.feed("stdout", stdout[at : at + 7])
        over += [reader.over] if at + 7 >= asked else []
    assert all(over)
    assert heard == [ASKED]
    for reading in (reader.finish(code), read_turn(contract, INTERACTIVE, stdout, b"", code)):
        assert reading.result.interaction
        assert reading.result.interaction.prompt == "Sure?"
        assert reading.session
        assert reading.session.handle_value == IDS[contract.engine]
        assert reading.after_end


def test_a_failure_after_the_question_is_not_of_this_turn() -> None:
    """What the engine reports after its question fails no turn of ours."""
    stdout = goes_on(CODEX) + lines({"type": "turn.failed", "error": {"message": "overloaded"}}).encode()
    assert read_turn(CODEX, INTERACTIVE, stdout, b"", 1).result.outcome is Outcome.ASK_USER


@GOES_ON
def test_in_mode_auto_the_last_answer_counts(contract: EngineContract) -> None:
    """Nobody waits for a question in mode auto."""
    stdout = goes_on(contract, session=IDS[contract.engine])
    assert read_turn(contract, AUTO, stdout, b"", 0).result.final_data == {"colour": "blue"}


def test_an_answer_before_a_question_of_the_engines_own_turn_is_replaced() -> None:
    """Only a question ends a turn for good: the last answer of a process counts."""
    first, _ = transcript(CODEX, IDS["codex"], SAID)
    stdout = first + transcript(CODEX, IDS["codex"], ASKED)[0]
    assert read_turn(CODEX, INTERACTIVE, stdout, b"", 0).result.outcome is Outcome.ASK_USER


def test_a_bad_exit_after_only_the_question_is_a_failure() -> None:
    """An exit code belongs to the turn unless another turn has begun."""
    stdout, _ = transcript(CODEX, IDS["codex"], ASKED)
    end = lines({"type": "turn.completed", "usage": {"input_tokens": 1}}).encode()
    assert why(read_turn(CODEX, INTERACTIVE, stdout + end, b"", 1)) == "ENGINE_FAILED: the engine exited with 1"


def said(text: str) -> bytes:
    """Return Codex's record with a text of the agent."""
    return lines({"type": "item.completed", "item": {"type": "agent_message", "text": text}}).encode()


THREAD = lines({"type": "thread.started", "thread_id": IDS["codex"]}).encode()
ENDED = lines({"type": "turn.completed"}).encode()
FAILED = lines({"type": "turn.failed", "error": {"message": "overloaded"}}).encode()
LOST = "ENGINE_FAILED: a record of its output can't be read: "


@each("mode", Mode)
@each(
    "record, problem",
    [
        (said("x" * (MAX_LINE + 1)), f"longer than {MAX_LINE}"),
        (b"warning: x " + said(ASKED), 'warning: x {"type"'),
        (b"warning: x " + FAILED, "isn't a JSON object"),
        (b"\xef\xbb\xbf" + said(ASKED), "isn't a JSON object"),
        (said(ASKED)[:70] + b"\n" + said(ASKED)[70:], "isn't a JSON object"),
        (FAILED.replace(b"}\n", b"\n"), "isn't a JSON object"),
    ],
    shown=lambda value: repr(value[:40]),
)
def test_no_earlier_text_is_the_answer_if_a_record_after_it_is_lost(mode: Mode, record: bytes, problem: str) -> None:
    """A record that can't be read may be the answer, the question or the failure."""
    reading = read_turn(CODEX, mode, THREAD + said(SAID) + record + ENDED, b"", 0)
    assert why(reading).startswith(LOST)
    assert problem in why(reading)
    assert reading.final_text is None
    assert reading.session


@each("record", [said(ASKED), FAILED, THREAD], shown=repr)
def test_a_byte_that_is_no_character_costs_only_itself(record: bytes) -> None:
    """A record with a byte that isn't UTF-8 is read, and noted."""
    damaged = (
        record.replace(b"Sure", b"Sur\xff").replace(b"overloaded", b"overl\xffaded").replace(b"}\n", b', "a":"\xff"}\n')
    )
    readings = [
        read_turn(CODEX, INTERACTIVE, (b"" if record is THREAD else THREAD) + said(SAID) + one + ENDED, b"", 0)
        for one in (record, damaged)
    ]
    assert (readings[0].result.outcome, readings[0].session) == (readings[1].result.outcome, readings[1].session)
    assert [len(reading.framing) for reading in readings] == [0, 1]


@each("noise", [b"Welcome!\n", b"[1]\n", b"[WARN] { code: 1 }\n", b"warning: x " + said("hm") + said(SAID)], shown=repr)
def test_a_line_that_is_no_record_or_stands_before_the_answer_loses_nothing(noise: bytes) -> None:
    """What holds no record, and what comes before the last text, doesn't change the answer."""
    reading = read_turn(CODEX, INTERACTIVE, THREAD + said(SAID) + noise + ENDED, b"", 0)
    assert reading.result.final_data == {"colour": "blue"}
    assert reading.framing


def test_a_question_that_was_lost_is_not_replaced_by_what_the_engine_does_next() -> None:
    """An engine that goes on by itself after a question that can't be read has no answer; nobody waits in auto."""
    stdout = THREAD + b"x " + said(ASKED) + ENDED + said(SAID) + ENDED
    assert why(read_turn(CODEX, INTERACTIVE, stdout, b"", 0)).startswith(LOST)
    assert read_turn(CODEX, AUTO, stdout, b"", 0).result.final_data == {"colour": "blue"}


def of_message(text: str, message: str) -> bytes:
    """Return the line of a part of a message of OpenCode."""
    return lines(part(text, message)).encode()


@each(
    "texts, is_whole",
    [
        (b"x " + of_message("a", "m") + of_message(SAID, "m"), False),
        (of_message("a", "m") + b"x " + of_message("b", "m") + of_message(SAID, "m"), False),
        (of_message(SAID, "m") + b"x " + of_message("b", "n"), False),
        (b"x " + of_message("a", "m") + of_message("b", "m") + of_message(SAID, "n"), True),
    ],
    shown=repr,
)
def test_an_answer_without_one_of_its_parts_is_lost(texts: bytes, is_whole: bool) -> None:  # noqa: FBT001
    """If a part of an answer can't be read, the others are no answer; those of a later message are."""
    start, _, end = transcript(OPENCODE, IDS["opencode"], SAID)[0].splitlines(keepends=True)
    reading = read_turn(OPENCODE, AUTO, start + texts + end, b"", 0)
    assert (reading.result.outcome is Outcome.FINAL) == is_whole
    assert is_whole or why(reading).startswith(LOST)


def test_an_answer_is_searched_once_however_often_the_turn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated proof of the end doesn't search the same answer again; a new answer is searched."""
    searched = list[str]()

    def look(text: str) -> None:
        searched.append(text)

    monkeypatch.setattr(turn_read, "read_envelope", look)
    reader = TurnReader(CODEX, INTERACTIVE)
    reader.feed("stdout", THREAD + said("one") + ENDED * 60 + said("two") + ENDED * 60)
    assert searched == ["one", "two"]
