"""Recordings are found and read back."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.contract.verdict import ClauseResult
from turngate.errors import ContractError
from turngate.model import Ended, Outcome
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES
from turngate_probes.record import replay

SHIPPED = Path(__file__).parents[3] / "fixtures"
VERSION = "0.5.19"


@pytest.fixture(name="contract")
def _contract() -> EngineContract:
    """Return the contract of the engine that has only recordings."""
    return load.contract("iflow").at(VERSION)


@pytest.fixture(name="first")
def _first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy one shipped recording into an otherwise empty folder of recordings; return the recording's folder."""
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path))
    place = Path("iflow") / VERSION / "main-first"
    shutil.copytree(SHIPPED / place, tmp_path / place)
    return tmp_path / place


def edit(first: Path, old: str, new: str) -> None:
    """Change the text of a recording."""
    file = first / "recording.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_turn_is_read_as_it_was_recorded(first: Path, contract: EngineContract) -> None:
    """Streams, argv, id, outcome and requests are those of the recorded turn."""
    turn = replay.replay(contract).turn("main/first")
    assert turn.stdout == (first / "stdout").read_bytes()
    assert turn.argv == ("iflow", *turn.own_arguments)
    assert (turn.exit_code, turn.ended, turn.stdin) == (0, Ended.EXIT, "prompt")
    assert [exchange.user_texts[-1] for exchange in turn.sent()] == [turn.prompt]
    assert turn.session is not None
    assert turn.session.startswith("session-")
    assert turn.scripted in turn.stdout.decode()
    assert turn.reading.result.outcome in (Outcome.ASK_USER, Outcome.ERROR)


def test_a_turn_that_was_ended_is_a_timeout(first: Path, contract: EngineContract) -> None:
    """A recorded turn that turngate ended is read as a timeout."""
    edit(first, "ended: exit", "ended: timeout")
    reason = replay.replay(contract).turn("main/first").reading.result.failure_reason
    assert reason is not None
    assert reason.startswith("TURN_TIMEOUT")


@pytest.mark.parametrize(
    "old, new",
    [
        ("mode: interactive", "mode: dreaming"),
        ("turn: main/first", "turn: main"),
        ("exit_code: 0\n", ""),
        ("prompt_at: []", "prompt_at: [7]"),
    ],
    ids=["no mode", "no step", "key missing", "beyond argv"],
)
def test_a_recording_that_breaks_its_schema_is_refused(
    first: Path, contract: EngineContract, old: str, new: str
) -> None:
    """The error names the file."""
    edit(first, old, new)
    with pytest.raises(ContractError) as reported:
        replay.replay(contract)
    assert "recording.yaml" in str(reported.value)


def test_a_page_is_read_as_it_was_recorded(first: Path, contract: EngineContract) -> None:
    """The output of a plain command is read back unchanged; one that breaks its schema is rejected."""
    place = first.with_name("static-version")
    shutil.copytree(SHIPPED / "iflow" / VERSION / place.name, place)
    page = replay.replay(contract).page("static/version")
    assert (page.argv, page.exit_code, page.ended) == (("iflow", "--version"), 0, Ended.EXIT)
    assert (page.stdout, page.stderr) == (b"0.5.19\n", b"")
    edit(place, "page: static/version", "page: static/help-1")
    with pytest.raises(ContractError, match="is in the folder static-version"):
        replay.replay(contract)
    edit(place, "exit_code: 0\n", "")
    with pytest.raises(ContractError, match="'exit_code' is a required property"):
        replay.replay(contract)


def test_shipped_recordings_of_the_withdrawn_engine_are_read(
    contract: EngineContract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All shipped recordings of the withdrawn engine are read, under the names that checks use."""
    monkeypatch.setenv("TURNGATE_FIXTURES", str(SHIPPED))
    assert {"main/first", "main/again", "bad-handles/dead"} <= replay.replay(contract).turns.keys()


def test_what_no_recording_can_show_counts_as_the_contract_declares_it(first: Path, contract: EngineContract) -> None:
    """A declared deviation from such a clause is a known caveat with its action. Without one it stays open."""
    known = Deviation("interactive.settings-cannot-widen", "writes", "run it in a container")
    judged = list[ClauseResult]()
    for deviations in ((), (known,)):
        results = dict[str, ClauseResult]()
        observed = replay.replay(replace(contract, deviations=deviations))
        judge_all(observed, results, ("static", "hermetic"), {case.name for case in CASES} | {EVERYTHING})
        judged.append(results[known.clause])
    assert [clause.result for clause in judged] == [Result.NOT_RUN, Result.DEVIATES]
    assert judged[1].action == known.action
    assert known.symptom in judged[1].detail
