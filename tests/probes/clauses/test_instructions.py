"""Whether the instruction file of the workspace reaches the model, in each mode and on each turn."""

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate import EngineContract, Mode
from turngate.contract.home_and_workspace import InstructionFile
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn

CLAUSE = "instructions.reach"
NAMES = ("file-marks/first", "file-marks/again", "auto/first", "auto/again")


def observed(*without: str, instructed: bool | None = True) -> list[Turn]:
    """Return the turns; the instructions reached the model in all but `without`."""
    modes = {"file-marks": Mode.INTERACTIVE, "auto": Mode.AUTO}
    return [
        t.turn(name, mode=modes[name.partition("/")[0]], instructed=instructed and name not in without)
        for name in NAMES
    ]


def leaving_out(*modes: Mode) -> EngineContract:
    """Return the contract of an engine with an option that leaves the file out."""
    file = InstructionFile("ACME.md", left_out=dict.fromkeys((mode.value for mode in modes), "--safe"))
    return replace(t.CODEX, instruction_files=(file,))


def test_it_reaches_the_model_in_every_turn() -> None:
    """A turn of either mode without it fails the clause, with the symptom that a contract may declare."""
    assert t.check(CLAUSE, *observed()).evidence == NAMES
    for name in NAMES:
        finding = t.check(CLAUSE, *observed(name))
        assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("not-sent",), (name,))


def test_what_the_contract_leaves_out_must_stay_out() -> None:
    """It names the option, and fails without a symptom if the file is sent all the same."""
    contract = leaving_out(Mode.INTERACTIVE)
    finding = t.check(CLAUSE, *observed(*NAMES[:2]), contract=contract)
    assert (finding.ok, "--safe leaves it out in mode interactive" in finding.detail) == (True, True)
    finding = t.check(CLAUSE, *observed(NAMES[0]), contract=contract)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (), (NAMES[1],))


def test_a_file_that_never_reaches_the_model_shows_nothing() -> None:
    """Where it is left out in both modes, or there is none, the clause is unsupported and says why."""
    for contract in (leaving_out(*Mode), replace(t.CODEX, instruction_files=())):
        with pytest.raises(SkippedError, match=r"does not reach the model: --safe|names no instruction file"):
            t.check(CLAUSE, *observed(), contract=contract)


def test_without_a_request_nothing_is_shown() -> None:
    """A turn that sent no prompt is the engine's failure; a recording without the file is nobody's."""
    lost = t.turn(NAMES[0], requests=(), instructed=False)
    with pytest.raises(NotObservedError, match="not sent") as unseen:
        t.check(CLAUSE, lost, *observed()[1:])
    assert unseen.value.obstacle.by_engine
    with pytest.raises(NotObservedError, match=r"the recording of file-marks/first has no AGENTS\.md"):
        t.check(CLAUSE, *observed(instructed=None))
