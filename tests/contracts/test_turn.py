"""From bytes to a turn: session id and outcome come from the engine's own records, whatever the streams hold."""

import json
import tracemalloc
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.releases import IDS
from tests.contracts.transcripts import lines, transcript
from tests.contracts.turn.plain import plain
from tests.contracts.turns import (
    ASKED,
    AUTO,
    CODEX,
    FORGED,
    FOUR,
    IFLOW,
    IMITATION,
    INTERACTIVE,
    OPENCODE,
    SAID,
    altered,
    four,
    read,
    why,
)
from tests.tables import each
from tests.tools.bench.transcript import RECORDED, chunks, printed, turn
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Stream
from turngate.model import AdapterTurnResult, Ended, Mode, Outcome
from turngate.turn.read import TurnReader, TurnReading, read_turn
from turngate.turn.session_id import HandleProblem

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
per_engine = pytest.mark.parametrize("contract", FOUR, ids=lambda contract: contract.engine)  # for property tests


@per_engine
@given(st.data())
def test_chunking_never_changes_a_turn(contract: EngineContract, data: st.DataObject) -> None:
    """Both streams give the same turn, however they are split and interleaved."""
    stdout, stderr = transcript(contract, IDS[contract.engine], data.draw(TEXTS))
    reader = TurnReader(contract, AUTO)
    sizes = data.draw(st.lists(st.integers(1, 80), min_size=2, max_size=6))
    left: dict[Stream, bytes] = {"stdout": stdout, "stderr": stderr}
    for stream, size in cycle(zip(cycle(left), sizes, strict=False)):
        if not any(left.values()):
            break
        reader.feed(stream, left[stream][:size])
        left[stream] = left[stream][size:]
    assert reader.finish(0) == read_turn(contract, AUTO, stdout, stderr, 0)


@given(
    st.sampled_from(FOUR),
    st.binary(max_size=80),
    st.binary(max_size=80),
    st.integers(-9, 255) | st.none(),
    st.sampled_from(Mode),
    st.booleans(),
)
def test_any_bytes_are_a_turn(
    contract: EngineContract,
    stdout: bytes,
    stderr: bytes,
    code: int | None,
    mode: Mode,
    late: bool,  # noqa: FBT001
) -> None:
    """No bytes and no exit code make the reader raise; invalid output is an error with a reason."""
    reading = read_turn(contract, mode, stdout, stderr, code, ended=Ended.TIMEOUT if late else Ended.EXIT)
    assert why(reading)
    assert reading.session is None


@each("path", ["type", "thread_id", "error.message", "item.text", "sessionID", "part.messageID", "part.text"])
@each("contract", [CODEX, OPENCODE], shown=lambda contract: contract.engine)
def test_a_value_nested_too_deep_to_be_shown_is_no_crash(contract: EngineContract, path: str) -> None:
    """A value nested up to the parser's limit is read like any other, in any field."""
    deep = "[" * 1000 + "]" * 1000
    kinds = ("thread.started", "turn.failed", "item.completed", "text", "error")
    first, _, last = path.partition(".")
    holds = f'"{first}": {{"{last}": {deep}}}' if last else f'"{first}": {deep}'
    stdout = "".join(f'{{"type": "{kind}", {holds}}}\n' for kind in kinds for _ in range(2))
    assert why(read_turn(contract, AUTO, stdout.encode(), b"", 1))


@per_engine
@given(st.data())
def test_damaged_turn_never_names_another_session(contract: EngineContract, data: st.DataObject) -> None:
    """If a damaged stream gives an id, it is the session's own."""
    streams = list(transcript(contract, IDS[contract.engine], IMITATION))
    which = data.draw(st.integers(0, 1))
    at = data.draw(st.integers(0, len(streams[which])))
    cut = data.draw(st.integers(0, 30))
    streams[which] = streams[which][:at] + data.draw(st.binary(max_size=3)) + streams[which][at + cut :]
    reading = read_turn(contract, INTERACTIVE, streams[0], streams[1], 0)
    assert reading.handle.value is None or reading.handle.value not in FORGED.values()


@per_engine
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_imitated_protocol_changes_nothing(contract: EngineContract, around: str) -> None:
    """Model text that imitates every engine's records changes neither id, failures nor end."""
    text = f"a{around}\n{IMITATION}\n{around}b"
    reading = read(contract, text, AUTO)
    assert reading.handle.value == IDS[contract.engine]
    assert (reading.failures, reading.framing, reading.unknown) == ((), (), ())
    assert reading.result == AdapterTurnResult(Outcome.FINAL, {"text": text}, stderr=reading.result.stderr)


@four
def test_id_in_model_text_alone_is_never_returned(contract: EngineContract) -> None:
    """If the engine prints no id, one in model text is not returned."""
    stdout, stderr = transcript(contract, None, IMITATION)
    reading = read_turn(contract, INTERACTIVE, stdout, stderr, 0)
    assert (reading.handle.value, reading.session) == (None, None)
    assert "SESSION_RESUME_FAILED: no session id" in why(reading)


def test_block_that_only_the_model_wrote_is_on_the_wrong_stream() -> None:
    """A block that imitates iFlow's on stdout is reported as misplaced, and its id is not returned."""
    stdout, _ = transcript(
        IFLOW, None, f"done\n<Execution Info>\n{json.dumps({'session-id': IDS['iflow']})}\n</Execution Info>"
    )
    reading = read_turn(IFLOW, INTERACTIVE, stdout, b"", 0)
    assert (reading.handle.value, reading.handle.problem) == (None, HandleProblem.PLACE)


def test_records_that_moved_to_the_other_stream_are_out_of_place() -> None:
    """An id on stderr is reported as misplaced, not as missing."""
    stdout, _ = transcript(CODEX, IDS["codex"], "hello")
    reading = read_turn(CODEX, INTERACTIVE, b"", stdout, 0)
    assert (reading.handle.value, reading.handle.problem) == (None, HandleProblem.PLACE)


@four
@each("handle", [None, 7, "", " ", "--yolo", "{id}\n", "{id}\0", ["{id}"], "x" * 513])
def test_interactive_turn_without_good_id_fails(contract: EngineContract, handle: object) -> None:
    """A question without a valid session id is an error in interactive; in auto the id is recorded as null."""
    value = handle.replace("{id}", IDS[contract.engine]) if isinstance(handle, str) else handle
    for text in (ASKED, SAID, "words"):
        stdout, stderr = transcript(contract, value, text)
        assert why(read_turn(contract, INTERACTIVE, stdout, stderr, 0)).startswith(
            "SESSION_RESUME_FAILED: no session id"
        )
    reading = read_turn(contract, AUTO, *transcript(contract, value, SAID), 0)
    assert (reading.result.outcome, reading.session) == (Outcome.FINAL, None)


@four
@each("handle", ["{ID}", "{id} ", "../x", "not-a-session-id", "ses_01/Ä", "x" * 512])
def test_id_of_an_unfamiliar_shape_is_taken_and_noted(contract: EngineContract, handle: str) -> None:
    """An id is opaque: one that stands in its place and can be passed on is the session's, whatever it looks like."""
    value = handle.replace("{id}", IDS[contract.engine]).replace("{ID}", IDS[contract.engine].upper())
    reading = read_turn(contract, INTERACTIVE, *transcript(contract, value, ASKED), 0)
    assert (reading.result.outcome, reading.handle.problem) == (Outcome.ASK_USER, None)
    assert reading.session
    assert reading.session.handle_value == value
    assert reading.handle.unfamiliar == f"{value!r} doesn't match {contract.handle.shape}"
    assert not read_turn(contract, INTERACTIVE, *transcript(contract, IDS[contract.engine], ASKED), 0).handle.unfamiliar


@four
def test_resumed_turn_must_come_back_as_the_same_session(contract: EngineContract) -> None:
    """Another id after a resume is an error in interactive, but not in auto."""
    asked = FORGED[contract.engine]
    assert f"SESSION_RESUME_FAILED: asked for {asked}" in why(read(contract, ASKED, resumed=asked))
    assert "SESSION_RESUME_FAILED" in why(read(contract, ASKED, resumed=""))
    assert read(contract, SAID, AUTO, resumed=asked).result.outcome is Outcome.FINAL


def test_unknown_records_are_counted_and_named() -> None:
    """Kinds of records are counted, and those that the contract doesn't know are listed in order."""
    stdout, _ = transcript(CODEX, IDS["codex"], SAID)
    reading = read_turn(
        CODEX, AUTO, stdout + lines({"type": "z"}, {"type": "a"}, {"kind": "b"}, {"type": 5}).encode(), b"", 0
    )
    assert reading.unknown == ("5", "None", "a", "z")
    assert reading.census["item.completed"] == 2


def test_stderr_is_kept_at_its_end() -> None:
    """The last 64 KiB of a long stderr are kept, with invalid bytes replaced."""
    stdout, _ = transcript(CODEX, IDS["codex"], SAID)
    reading = read_turn(CODEX, AUTO, stdout, b"x" * 2**20 + b"\xff the end", 0)
    assert reading.result.stderr.endswith("x\ufffd the end")
    assert len(reading.result.stderr) == 2**16


@four
@each(
    "mode, text",
    [
        (AUTO, "words"),
        (AUTO, SAID),
        (AUTO, "{}"),
        (INTERACTIVE, ASKED),
        (INTERACTIVE, "words"),
        (INTERACTIVE, '{"outcome": 1}'),
    ],
)
def test_stderr_stands_in_every_result(contract: EngineContract, mode: Mode, text: str) -> None:
    """Every result has the engine's stderr, also after a failed exit."""
    stdout, stderr = transcript(contract, IDS[contract.engine], text)
    for code in (0, 1):
        assert read_turn(contract, mode, stdout, b"a word\n" + stderr, code).result.stderr.startswith("a word\n")


def test_end_of_stderr_is_kept_over_many_chunks() -> None:
    """The last 64 KiB of stderr are kept, in any chunks."""
    reader = TurnReader(CODEX, AUTO)
    for _ in range(9):
        reader.feed("stderr", b"x" * 2**14)
    reader.feed("stderr", b"end")
    assert reader.finish(0).result.stderr == "x" * (2**16 - 3) + "end"


def test_line_that_left_the_framing_is_reported_with_its_stream() -> None:
    """A problem of framing names its stream, stdout first."""
    stdout, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    noisy = read_turn(CODEX, AUTO, b"oops\n", b"", 0)
    assert noisy.framing == ("stdout: a line isn't a JSON object: 'oops'",)
    twice = read_turn(IFLOW, AUTO, stdout, stderr + stderr, 0)
    assert twice.framing == ("stderr: 2 blocks of <Execution Info>",)


def test_block_on_the_wrong_stream_is_reported_by_both() -> None:
    """If the id is on the wrong stream, the reading says where it is and where it should be."""
    _, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    handle = read_turn(IFLOW, INTERACTIVE, stderr, b"", 0).handle
    assert handle.detail == "session-id is on stdout, not on stderr"
    assert [(seen.stream, seen.index, seen.value) for seen in handle.occurrences] == [("stdout", 0, IDS["iflow"])]


def test_block_that_strayed_stands_alone_where_there_is_but_one() -> None:
    """A misplaced id in the only record is reported as misplaced, and not returned."""
    only = altered("iflow", lambda data: data["handle"].update(record="only"))
    _, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    handle = read_turn(only, INTERACTIVE, stderr, b"", 0).handle
    assert (handle.value, handle.problem) == (None, HandleProblem.PLACE)
    assert handle.detail == "session-id is on stdout, not on stderr"
    assert [(seen.stream, seen.index) for seen in handle.occurrences] == [("stdout", 0)]
    assert read_turn(only, INTERACTIVE, b"", stderr, 0).handle.value == IDS["iflow"]


def test_other_stream_is_read_again_only_where_the_right_one_shows_no_id() -> None:
    """A block on the other stream doesn't count as a second id, whether the right one is valid or not."""
    stdout, stderr = transcript(IFLOW, IDS["iflow"], IMITATION)
    imitated = stdout.rstrip(b"\n") + b"\n"
    assert imitated.endswith(b"</Execution Info>\n")
    good = read_turn(IFLOW, INTERACTIVE, imitated, stderr, 0).handle
    assert (good.value, [seen.stream for seen in good.occurrences]) == (IDS["iflow"], ["stderr"])
    misshapen = stderr.replace(IDS["iflow"].encode(), b"other")
    other = read_turn(IFLOW, INTERACTIVE, imitated, misshapen, 0).handle
    assert (other.value, [seen.value for seen in other.occurrences]) == ("other", ["other"])


def test_id_in_a_record_of_another_kind_is_not_taken() -> None:
    """The id field counts only in the kind of record that the contract names, on either stream."""
    stdout = transcript(CODEX, IDS["codex"], SAID)[0].replace(b'"thread.started"', b'"thread.named"')
    assert read_turn(CODEX, INTERACTIVE, stdout, b"", 0).handle.problem is HandleProblem.MISSING
    matching = altered("iflow", lambda data: data["handle"].update(match={"kind": "session"}))
    _, block = transcript(IFLOW, IDS["iflow"], SAID)
    assert read_turn(matching, INTERACTIVE, block, b"", 0).handle.problem is HandleProblem.MISSING
    telling = altered("opencode", lambda data: data["handle"].update(match={"type": "text"}))
    assert read_turn(telling, INTERACTIVE, *transcript(OPENCODE, IDS["opencode"], SAID), 0).handle.detail == (
        "1 records lack sessionID"
    )


def test_records_of_the_other_stream_are_no_answer_no_end_and_no_failure() -> None:
    """Answer, end and failures are read only from their own stream, even if both hold records."""
    both = altered("codex", lambda data: data["streams"]["stderr"].update(framing="ndjson"))
    failed = lines({"type": "turn.failed", "error": {"message": "no quota"}}).encode()
    reading = read_turn(both, AUTO, b"", transcript(CODEX, IDS["codex"], SAID)[0] + failed, 0)
    assert (reading.final_text, reading.ended, reading.failures, reading.census) == (None, False, (), {})


NDJSON = [name for name in RECORDED if load.contract(name).at().stream("stdout").framing == "ndjson"]
LINES = {
    name: [
        line
        for recording in ("main-first", "tool-call-first", "backend-500-first")
        for line in printed(name, "stdout", recording).splitlines(keepends=True)
    ]
    for name in NDJSON
}
ODD = (
    *(b"\n", b"{}\n", b'{"type":7}\n', b'{"type":null}\n', b"[]\n", b"oops\n", b'{"type":"text"}\n', b'{"type":"x"'),
    *(b" ", b"\r\n", b"{", b"}", b'{"type":"\xff"}\n'),
    *rb"""{"type":["text"]}
{"type":{"text":1}}
{"type":"7"}
{"type":"text","part":[{"text":"a"}]}
{"type":"text","part":"text"}
{"type":"text","part":{"text":"\ud83d","messageID":"m"}}
{"type":"text","part":{"text":"x","text":"y","messageID":"m"}}
{"type":"text","part":{"text":"z","messageID":1}}
{"type":"text","part":{"text":"z","messageID":true}}
{"type":"text","part":{"text":"z","messageID":[]}}
{"type":"text","part":{"messageID":"m"},"sessionID":"other"}
{"type":"item.completed","item":"agent_message"}
{"type":"item.completed","item":{"type":"agent_message","text":"\udc00"}}
{"type":"step_finish","part":{"reason":["stop"]}}
{"type":"result","session_id":7,"result":"\ud83d\ude00"}
{"part":{"text":"a"}}
""".splitlines(keepends=True),
)


def read_parts(contract: EngineContract, parts: list[bytes]) -> TurnReading:
    """Read a turn from parts of its stdout."""
    reader = TurnReader(contract, AUTO)
    for part in parts:
        reader.feed("stdout", part)
    return reader.finish(0)


@given(st.sampled_from(NDJSON), st.data())
def test_any_records_are_read_as_by_a_plain_reading(name: str, data: st.DataObject) -> None:
    """Recorded lines in any order, among odd ones and in any chunks, mean what their paths say."""
    contract = load.contract(name).at()
    stdout = b"".join(data.draw(st.lists(st.sampled_from([*LINES[name], *ODD]), max_size=30)))
    size = data.draw(st.integers(1, 2000))
    reading = read_parts(contract, [stdout[start : start + size] for start in range(0, len(stdout), size)])
    ids = [(occurrence.index, occurrence.value) for occurrence in reading.handle.occurrences]
    seen = (reading.census, reading.ended, len(reading.failures), reading.final_text, ids)
    assert seen == plain(contract, stdout)


@pytest.mark.long
@pytest.mark.parametrize("name", NDJSON)
def test_a_long_turn_is_read_in_bounded_memory(name: str) -> None:
    """Reading 100 MB in chunks takes less than 4 MB."""
    parts = [*chunks(turn(name, 10**6)), b"\n"]
    reader = TurnReader(load.contract(name).at(), AUTO)
    tracemalloc.start()
    for part in islice(cycle(parts), 100 * len(parts)):
        reader.feed("stdout", part)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.finish(0).ended
    assert peak < 4 * 2**20
