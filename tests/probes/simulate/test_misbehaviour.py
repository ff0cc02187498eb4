"""From the output of a good turn to that of a bad one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate import EngineContract, load_contract
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.misbehaviour import (
    BOM,
    FLOOD_LINE,
    INTERIM,
    FaultyOutput,
    Halt,
    heartbeat,
    preamble,
    steps,
)

CODEX = load_contract("codex", "0.169.0")
GEMINI = load_contract("gemini", "0.61.0")
ID = "0198c6a1-6d70-7000-8000-000000000001"
RECORDS = (
    {"type": "thread.started", "thread_id": ID},
    {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "grün"}},
    {"type": "turn.completed", "usage": {}},
)
GOOD = tuple(FaultyOutput("stdout", json.dumps(record, ensure_ascii=False).encode() + b"\n") for record in RECORDS)
DOCUMENT = (FaultyOutput("stdout", json.dumps({"session_id": ID, "response": "yes"}, indent=2).encode()),)


def played(
    faults: Faults, outputs: tuple[FaultyOutput, ...] = GOOD, contract: EngineContract = CODEX
) -> tuple[bytes, bytes, list[str]]:
    """Return what goes to stdout and to stderr, and what else happens."""
    done = list(steps(contract, outputs, ID, faults))
    streams = [
        b"".join(s.data for s in done if isinstance(s, FaultyOutput) and s.stream == name)
        for name in ("stdout", "stderr")
    ]
    return streams[0], streams[1], [step.how for step in done if isinstance(step, Halt)]


def test_without_a_fault_nothing_changes() -> None:
    """The output of the engine is passed on."""
    assert played(NONE) == (b"".join(row.data for row in GOOD), b"", [])


@each("outputs, contract", [(GOOD, CODEX), (DOCUMENT, GEMINI)])
def test_the_session_id_can_be_absent_or_elsewhere(outputs: tuple[FaultyOutput, ...], contract: EngineContract) -> None:
    """It is then nowhere else, and all other values stay."""
    absent, _, _ = played(Faults(session_id="absent"), outputs, contract)
    assert ID.encode() not in absent
    stdout, stderr, _ = played(Faults(session_id="stderr"), outputs, contract)
    assert (ID.encode() in stdout, ID.encode() in stderr) == (False, True)
    stdout, _, _ = played(Faults(session_id="last"), outputs, contract)
    assert ID.encode() in stdout.splitlines()[-1] or contract is GEMINI


def test_the_end_and_half_of_the_output_can_be_missing() -> None:
    """A crash and a hang cut a line."""
    assert b"turn.completed" not in played(Faults(omits_end=True))[0]
    assert played(Faults(omits_end=True), DOCUMENT, GEMINI)[0] == b""
    whole = b"".join(row.data for row in GOOD)
    for faults, how in ((Faults(crash=True), "crash"), (Faults(hang="during"), "hang")):
        stdout, _, halts = played(faults)
        assert (whole.startswith(stdout), 0 < len(stdout) < len(whole), halts) == (True, True, [how])
    assert played(Faults(hang="after")) == (whole, b"", ["hang"])
    assert next(steps(CODEX, GOOD, ID, Faults(hang="before"))) == Halt("hang")


def test_what_precedes_or_repeats_the_answer() -> None:
    """Another id, another message, and a second end; each at its place."""
    stdout, stderr, _ = played(Faults(decoy=True))
    decoy = CODEX.handle.nonexistent_id.encode()
    assert (decoy in stdout.splitlines()[0], decoy in stderr, stdout.index(decoy) < stdout.index(ID.encode())) == (
        True,
        True,
        True,
    )
    texts = [
        json.loads(line).get("item", {}).get("text") for line in played(Faults(several_messages=True))[0].splitlines()
    ]
    assert texts == [None, INTERIM, "grün", None]
    assert played(Faults(repeats_end=True))[0].count(b"turn.completed") == 2


def test_a_turn_without_an_answer_has_an_empty_text() -> None:
    """Claude Code prints the text in an `assistant` record, too, and reading it there is no mistake."""
    message = {"type": "assistant", "message": {"content": [{"type": "text", "text": "grün"}]}}
    end = {"type": "result", "subtype": "success", "is_error": False}
    outputs = tuple(
        FaultyOutput("stdout", json.dumps(record).encode() + b"\n") for record in (message, end | {"result": "grün"})
    )
    claude = load_contract("claude", "2.1.330").in_output("stream-json")
    assert json.loads(played(Faults(omits_answer=True), outputs, claude)[0]) == end | {"result": ""}
    messages = [json.loads(line).get("item") for line in played(Faults(omits_answer=True))[0].splitlines()]
    assert {"id": "i", "type": "agent_message", "text": ""} in messages


def test_a_plain_text_has_records_too() -> None:
    """The line with the id, and the lines that end a turn."""
    text = CODEX.in_output("text")
    told = f"OpenAI Codex\nsession id: {ID}\n--------\nuser\nhi\ncodex\nyes\ntokens used\n12\n"
    outputs = (FaultyOutput("stderr", told.encode()), FaultyOutput("stdout", b"yes\n"))
    _, stderr, _ = played(Faults(session_id="absent"), outputs, text)
    assert stderr.decode() == told.replace(f"session id: {ID}\n", "")
    _, stderr, _ = played(Faults(session_id="last"), outputs, text)
    assert stderr.decode().splitlines()[-1] == f"session id: {ID}"
    _, stderr, _ = played(Faults(omits_end=True), outputs, text)
    assert stderr.decode() == told.replace("tokens used\n12\n", "")


def test_a_heartbeat_never_ends_a_hang() -> None:
    """The output is cut, and signs of life follow."""
    stdout, _, halts = played(Faults(hang="heartbeat"))
    assert (b"turn.completed" in stdout, halts) == (False, ["heartbeat"])
    assert [heartbeat(contract).stream for contract in (CODEX, GEMINI)] == ["stdout", "stderr"]


def test_output_gets_noise() -> None:
    """A flood on stderr comes first, and unknown records between the known ones."""
    stdout, stderr, _ = played(Faults(stderr_bytes=10_000, unknown=True, padding=5000, bom=True))
    assert len(stderr) in range(10_000 - len(FLOOD_LINE), 10_001)
    assert stdout.startswith(BOM)
    lines = [json.loads(line) for line in stdout.removeprefix(BOM).splitlines()]
    assert [line["type"] for line in lines] == [
        "thread.started",
        "turngate.unknown",
        "item.completed",
        "turn.completed",
    ]
    assert len(lines[1]["padding"]) == 5000
    assert [step.how for step in steps(CODEX, GOOD, ID, Faults(pause=1)) if isinstance(step, Halt)] == ["pause"]
    assert played(Faults(banner="hello\n"))[0].startswith(b"hello\n{")


def test_a_long_text_is_longer_than_the_lines_that_readers_take() -> None:
    """Also where a protocol sends it in two pieces."""
    assert len(preamble(Faults(says="long"), "")) > 2 * 2**16


@given(st.integers(1, 50))
def test_pieces_add_up(size: int) -> None:
    """Each piece has the size of the play at most, and together they are the whole."""
    pieces = [step.data for step in steps(CODEX, GOOD, ID, Faults(chunk=size)) if isinstance(step, FaultyOutput)]
    assert max(map(len, pieces)) <= size
    assert b"".join(pieces) == b"".join(row.data for row in GOOD)
    assert played(Faults(crlf=True))[0] == b"".join(pieces).replace(b"\n", b"\r\n")
