"""From bytes to a turn: whatever the streams hold, the session id and the outcome are the engine's own."""

import json
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.releases import IDS
from tests.contracts.transcripts import lines, transcript
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
from turngate.contract.launch import Stream
from turngate.contract.structs import EngineContract
from turngate.model import AdapterTurnResult, Ended, Mode, Outcome
from turngate.turn.read import TurnReader, read_turn
from turngate.turn.session_id import HandleProblem

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@four
@given(st.data())
def test_chunking_never_changes_a_turn(contract: EngineContract, data: st.DataObject) -> None:
    """Both streams, however they are cut and interleaved, read as they do whole."""
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


@given(st.sampled_from(FOUR), st.binary(max_size=80), st.binary(max_size=80), st.integers(-9, 255) | st.none(),
       st.sampled_from(Mode), st.booleans())  # fmt: skip
def test_any_bytes_are_a_turn(
    contract: EngineContract, stdout: bytes, stderr: bytes, code: int | None, mode: Mode, late: bool  # noqa: FBT001
) -> None:  # fmt: skip
    """No bytes and no exit code make the reader raise, and rubbish is an error with a reason."""
    reading = read_turn(contract, mode, stdout, stderr, code, ended=Ended.TIMEOUT if late else Ended.EXIT)
    assert why(reading)
    assert reading.session is None


@pytest.mark.parametrize(
    "path", ["type", "thread_id", "error.message", "item.text", "sessionID", "part.messageID", "part.text"]
)
@pytest.mark.parametrize("contract", [CODEX, OPENCODE], ids=lambda contract: contract.engine)
def test_a_value_nested_too_deep_to_be_shown_is_no_crash(contract: EngineContract, path: str) -> None:
    """Whichever field is looked at, lists within lists up to the parser's limit are read as any other value."""
    deep = "[" * 1000 + "]" * 1000
    kinds = ("thread.started", "turn.failed", "item.completed", "text", "error")
    first, _, last = path.partition(".")
    holds = f'"{first}": {{"{last}": {deep}}}' if last else f'"{first}": {deep}'
    stdout = "".join(f'{{"type": "{kind}", {holds}}}\n' for kind in kinds for _ in range(2))
    assert why(read_turn(contract, AUTO, stdout.encode(), b"", 1))


@four
@given(st.data())
def test_damaged_turn_never_names_another_session(contract: EngineContract, data: st.DataObject) -> None:
    """However a stream is damaged, an id that comes back is the session's own."""
    streams = list(transcript(contract, IDS[contract.engine], IMITATION))
    which = data.draw(st.integers(0, 1))
    at = data.draw(st.integers(0, len(streams[which])))
    cut = data.draw(st.integers(0, 30))
    streams[which] = streams[which][:at] + data.draw(st.binary(max_size=3)) + streams[which][at + cut :]
    reading = read_turn(contract, INTERACTIVE, streams[0], streams[1], 0)
    assert reading.handle.value is None or reading.handle.value not in FORGED.values()


@four
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_imitated_protocol_changes_nothing(contract: EngineContract, around: str) -> None:
    """Model text that holds every engine's records moves neither id, failures nor the end."""
    text = f"a{around}\n{IMITATION}\n{around}b"
    reading = read(contract, text, AUTO)
    assert reading.handle.value == IDS[contract.engine]
    assert (reading.failures, reading.framing, reading.unknown) == ((), (), ())
    assert reading.result == AdapterTurnResult(Outcome.FINAL, {"text": text}, stderr=reading.result.stderr)


@four
def test_id_in_model_text_alone_is_never_returned(contract: EngineContract) -> None:
    """Where the engine prints no id, one that the model wrote is not taken for it."""
    stdout, stderr = transcript(contract, None, IMITATION)
    reading = read_turn(contract, INTERACTIVE, stdout, stderr, 0)
    assert (reading.handle.value, reading.session) == (None, None)
    assert "SESSION_RESUME_FAILED: no session id" in why(reading)


def test_block_that_only_the_model_wrote_is_on_the_wrong_stream() -> None:
    """A block on iFlow's standard output is out of place, and its id is not handed out."""
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
@pytest.mark.parametrize("handle", [None, 7, "", "--yolo", "../x", "{id}\n", "{id} ", ["{id}"], "not-a-session-id"])
def test_interactive_turn_without_good_id_fails(contract: EngineContract, handle: object) -> None:
    """A question without a session id in shape is an error and never waits; in auto it is recorded as null."""
    value = handle.replace("{id}", IDS[contract.engine]) if isinstance(handle, str) else handle
    for text in (ASKED, SAID, "words"):
        stdout, stderr = transcript(contract, value, text)
        assert why(read_turn(contract, INTERACTIVE, stdout, stderr, 0)).startswith(
            "SESSION_RESUME_FAILED: no session id"
        )
    reading = read_turn(contract, AUTO, *transcript(contract, value, SAID), 0)
    assert (reading.result.outcome, reading.session) == (Outcome.FINAL, None)


@four
def test_resumed_turn_must_come_back_as_the_same_session(contract: EngineContract) -> None:
    """Another id after a resume is an error in interactive, and none in auto."""
    asked = FORGED[contract.engine]
    assert f"SESSION_RESUME_FAILED: asked for {asked}" in why(read(contract, ASKED, resumed=asked))
    assert "SESSION_RESUME_FAILED" in why(read(contract, ASKED, resumed=""))
    assert read(contract, SAID, AUTO, resumed=asked).result.outcome is Outcome.FINAL


def test_unknown_records_are_counted_and_named() -> None:
    """The census counts kinds of records; those that the contract does not know are listed in order."""
    stdout, _ = transcript(CODEX, IDS["codex"], SAID)
    reading = read_turn(
        CODEX, AUTO, stdout + lines({"type": "z"}, {"type": "a"}, {"kind": "b"}, {"type": 5}).encode(), b"", 0
    )
    assert reading.unknown == ("5", "None", "a", "z")
    assert reading.census["item.completed"] == 2


def test_stderr_is_kept_at_its_end() -> None:
    """Of a talkative stderr the last 64 KiB are kept, bad bytes replaced."""
    stdout, _ = transcript(CODEX, IDS["codex"], SAID)
    reading = read_turn(CODEX, AUTO, stdout, b"x" * 2**20 + b"\xff the end", 0)
    assert reading.result.stderr.endswith("x\ufffd the end")
    assert len(reading.result.stderr) == 2**16


@four
@pytest.mark.parametrize(
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
    """Whatever a turn came to, what the engine printed next to it is kept; so it is after a bad exit."""
    stdout, stderr = transcript(contract, IDS[contract.engine], text)
    for code in (0, 1):
        assert read_turn(contract, mode, stdout, b"a word\n" + stderr, code).result.stderr.startswith("a word\n")


def test_end_of_stderr_is_kept_over_many_chunks() -> None:
    """The last 64 KiB count however they arrive."""
    reader = TurnReader(CODEX, AUTO)
    for _ in range(9):
        reader.feed("stderr", b"x" * 2**14)
    reader.feed("stderr", b"end")
    assert reader.finish(0).result.stderr == "x" * (2**16 - 3) + "end"


def test_line_that_left_the_framing_is_reported_with_its_stream() -> None:
    """What is wrong with a stream names it, standard output first."""
    stdout, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    noisy = read_turn(CODEX, AUTO, b"oops\n", b"", 0)
    assert noisy.framing == ("stdout: a line isn't a JSON object: 'oops'",)
    twice = read_turn(IFLOW, AUTO, stdout, stderr + stderr, 0)
    assert twice.framing == ("stderr: 2 blocks of <Execution Info>",)


def test_block_on_the_wrong_stream_is_reported_by_both() -> None:
    """Where the id strayed to the other stream the reading says where it stands and where it should."""
    _, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    handle = read_turn(IFLOW, INTERACTIVE, stderr, b"", 0).handle
    assert handle.detail == "session-id is on stdout, not on stderr"
    assert [(seen.stream, seen.index, seen.value) for seen in handle.sightings] == [("stdout", 0, IDS["iflow"])]


def test_block_that_strayed_stands_alone_where_there_is_but_one() -> None:
    """An id that is wanted in the only record there is is misplaced on the other stream, and never handed out."""
    only = altered("iflow", lambda data: data["handle"].update(record="only"))
    _, stderr = transcript(IFLOW, IDS["iflow"], SAID)
    handle = read_turn(only, INTERACTIVE, stderr, b"", 0).handle
    assert (handle.value, handle.problem) == (None, HandleProblem.PLACE)
    assert handle.detail == "session-id is on stdout, not on stderr"
    assert [(seen.stream, seen.index) for seen in handle.sightings] == [("stdout", 0)]
    assert read_turn(only, INTERACTIVE, b"", stderr, 0).handle.value == IDS["iflow"]


def test_other_stream_is_read_again_only_where_the_right_one_shows_no_id() -> None:
    """A block that the model imitates is no second id next to the right one, nor next to one of a wrong shape."""
    stdout, stderr = transcript(IFLOW, IDS["iflow"], IMITATION)
    imitated = stdout.rstrip(b"\n") + b"\n"
    assert imitated.endswith(b"</Execution Info>\n")
    good = read_turn(IFLOW, INTERACTIVE, imitated, stderr, 0).handle
    assert (good.value, [seen.stream for seen in good.sightings]) == (IDS["iflow"], ["stderr"])
    misshapen = stderr.replace(IDS["iflow"].encode(), b"other")
    wrong = read_turn(IFLOW, INTERACTIVE, imitated, misshapen, 0).handle
    assert (wrong.problem, [seen.value for seen in wrong.sightings]) == (HandleProblem.SHAPE, ["other"])


def test_id_in_a_record_of_another_kind_is_not_taken() -> None:
    """The field counts in the record that the contract names, on the right stream and on the other one."""
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
    """Where both streams hold records each claim is looked for on its own."""
    both = altered("codex", lambda data: data["streams"]["stderr"].update(framing="ndjson"))
    failed = lines({"type": "turn.failed", "error": {"message": "no quota"}}).encode()
    reading = read_turn(both, AUTO, b"", transcript(CODEX, IDS["codex"], SAID)[0] + failed, 0)
    assert (reading.final_text, reading.ended, reading.failures, reading.census) == (None, False, (), {})
