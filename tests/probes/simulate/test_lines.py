import json
from pathlib import Path

import pytest

from tests.probes.simulate.played import Machine, at_known_release, simulated
from turngate.contract import EngineContract
from turngate.model import Mode
from turngate.turn import read_turn
from turngate_probes.simulate.backend import Failed, Said

KEPT = simulated()


def prompts(*texts: str) -> bytes:
    """Write prompts as `lines` has them."""
    return b"".join(json.dumps(text).encode() + b"\n" for text in texts)


@pytest.mark.parametrize("contract", KEPT, ids=[each.engine for each in KEPT])
def test_each_line_is_a_turn_of_one_session(tmp_path: Path, contract: EngineContract) -> None:
    """The model is asked once a line, each time with all that was said before; a newline stays in its prompt."""
    machine = Machine(tmp_path, answers=[Said("one"), Said("two")])
    done = machine.call(contract, ("--lines",), prompts("a\nb", "c"))
    assert done.exit_code == 0
    asked = [[each["content"] for each in request.messages if each["role"] == "user"] for request in done.requests]
    assert asked == [["a\nb"], ["a\nb", "c"]]


def test_every_turn_is_printed_as_a_headless_one(tmp_path: Path) -> None:
    """What a turn prints is read by the contract, under the same session id each time."""
    codex = at_known_release("codex")
    done = Machine(tmp_path, answers=[Said("one"), Said("two")]).call(codex, ("--lines",), prompts("a", "b"))
    first, end, rest = done.stdout.partition(b'"type":"turn.completed"')
    cut = rest.index(b"\n") + 1
    turns = [first + end + rest[:cut], rest[cut:]]
    readings = [read_turn(codex, Mode.AUTO, turn, b"", 0) for turn in turns]
    assert [reading.final_text for reading in readings] == ["one", "two"]
    assert len({reading.handle.value for reading in readings}) == 1
    assert all(reading.ended for reading in readings)


def test_options_are_read_as_in_a_headless_turn(tmp_path: Path) -> None:
    """A model that is asked for is the one that is asked."""
    codex = at_known_release("codex")
    done = Machine(tmp_path).call(codex, ("--lines", "--model", "m-1"), prompts("a"))
    assert [request.model for request in done.requests] == ["m-1"]


def test_a_turn_that_fails_is_the_last(tmp_path: Path) -> None:
    """The process ends with the exit code of the failure, and the next line is not read."""
    codex = at_known_release("codex")
    done = Machine(tmp_path, answers=[Failed("401", "refused", 401)]).call(codex, ("--lines",), prompts("a", "b"))
    assert done.exit_code == 1
    assert len(done.requests) == 1


@pytest.mark.parametrize(
    "arguments, stdin", [(("--lines", "--what"), b""), (("--lines",), b"[1]\n"), (("--lines",), b"a\n")]
)
def test_what_is_no_line_of_it_is_refused(tmp_path: Path, arguments: tuple[str, ...], stdin: bytes) -> None:
    """An unknown option, and a line that is no JSON string, end it as wrong arguments do; no model is asked."""
    codex = at_known_release("codex")
    done = Machine(tmp_path).call(codex, arguments, stdin)
    assert codex.simulation
    assert done.exit_code == codex.simulation.usage.exit_code
    assert not done.requests
