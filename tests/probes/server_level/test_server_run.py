"""The server's cases on a simulated engine: the real server over HTTP, restarts included."""

import os
from pathlib import Path

import psutil
import pytest

from tests.probes import engines
from tests.probes import turns as t
from tests.probes.simulate.played import at_known_release
from turngate.argv.file_slot import as_in_contract
from turngate.contract.clauses import Reason, Result
from turngate.contract.load import catalogue
from turngate_probes.clauses.checks import CHECKS
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import ANSWER, QUESTION
from turngate_probes.harness.interrupt import Interrupt, Obstacle
from turngate_probes.harness.observations import Observation
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.harness.server_calls import RACERS, REPEATS
from turngate_probes.server_level.cases import RESUMED_CASES, STICKY_CASES, SURROUNDED_CASES
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import Exchange

pytestmark = pytest.mark.long

# a launcher that drops the resume, so that each turn is a new session; it doesn't change the help page
FORGETFUL = """#!/bin/sh
for word; do
    shift
    case "$dropped$word" in
        resume) dropped=yes ;;
        yes--help) set -- "$@" resume --help ;;
        yes*) dropped= ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec '{engine}' "$@"
"""


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all tests here share, since each start of the server takes a second."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(name="played", scope="module")
def _played(folder: Path) -> engines.Spectator:
    """Run all cases on a simulated codex."""
    return engines.play(install(t.CODEX, folder / "engine"), folder, *RESUMED_CASES)


def test_every_clause_passes(played: engines.Spectator) -> None:
    """Every clause of the server level passes, through the real server."""
    assert played.observed.stopped == {}
    results = played.judged()
    reported = {name: (result.result.value, result.detail) for name, result in results.items()}
    assert set(results) == {clause.id for clause in catalogue().at_level("server") if clause.id.startswith("server.")}
    assert {result for result, _ in reported.values()} == {Result.PASS.value}, reported


@pytest.mark.parametrize(
    "engine, cases", [("codex", STICKY_CASES), ("gemini", STICKY_CASES[:1]), ("claude", STICKY_CASES[:1])]
)
def test_every_clause_of_a_sticky_process_passes(engine: str, cases: tuple[Case, ...], folder: Path) -> None:
    """Every clause of sticky processes passes on each protocol, including a timeout, a kill and a server shutdown."""
    contract = at_known_release(engine)
    place = folder / f"sticky-{engine}"
    played = engines.play(install(contract, place / "engine"), place, *cases, contract=contract)
    assert played.observed.stopped == {}
    reported = {name: (result.result.value, result.detail) for name, result in played.judged().items()}
    not_asked = {"sticky.text-before-end"} if contract.sticky.transport != "acp" else set()
    assert {name for name, said in reported.items() if said[0] != Result.PASS.value} == not_asked, reported
    about = {case.name for case in cases}
    assert set(reported) >= {name for name, check in CHECKS.items() if check.cases and about.issuperset(check.cases)}
    assert "sticky.permission-asked" in reported


def test_a_setting_that_nothing_outranks_takes_no_run(folder: Path) -> None:
    """The server of a probe rejects it too, since the contract declares no deviation that it must allow."""
    contract, place = at_known_release("codex"), folder / "own-settings"
    cases = (STICKY_CASES[0], SURROUNDED_CASES[0])
    played = engines.play(install(contract, place / "engine"), place, *cases, contract=contract)
    found = played.judged()["sticky.settings-cannot-widen"]
    assert (found.result, "the server takes no run with allow-rules" in found.detail) == (Result.PASS, True), found


def test_as_many_turns_are_seen_as_were_planned(played: engines.Spectator) -> None:
    """Each start of the engine is a recorded turn, with its output and its model requests."""
    planned = {f"{case.name}/turn-{i}" for case in RESUMED_CASES for i in range(1, case.turns(t.CODEX) + 1)}
    # its second turn starts another session
    planned = planned - {"dead-handle/turn-2"} | {"dead-handle/another"}
    assert {name: turn.argv for name, turn in played.observed.turns.items() if name not in planned} == {}
    assert set(played.observed.turns) == planned
    first, again = played.observed.turn("loop/turn-1"), played.observed.turn("loop/turn-2")
    assert (first.scripted, again.scripted) == (QUESTION, ANSWER)
    assert (first.reading.final_text, again.reading.final_text) == (QUESTION, ANSWER)
    assert as_in_contract(first.argv, t.CODEX) == ("codex", *first.own_arguments)
    assert again.resumed == first.session
    assert first.seconds > 0
    assert first.sent()
    assert again.sent()


def test_the_refused_replies_are_refused_for_their_reason(played: engines.Spectator) -> None:
    """All replies at once but one are rejected, since the run has another question by then, or none."""
    codes = [played.observed.call(f"one-reply/reply-{i}").document.get("code") for i in range(1, RACERS + 1)]
    assert codes.count(None) == 1
    assert set(codes) <= {None, "NOT_WAITING", "INTERACTION_STALE"}
    answers = [played.observed.call(f"one-reply/repeated-{i}").answer for i in range(1, REPEATS + 1)]
    assert answers == answers[:1] * REPEATS


def test_the_second_life_of_the_server_follows_a_kill(played: engines.Spectator) -> None:
    """The first server process was killed by SIGKILL, the second one shut down normally."""
    assert [played.observed.page(f"loop/serve-{i}").exit_code for i in (1, 2)] == [-9, 0]


def test_an_engine_that_forgets_is_caught(folder: Path) -> None:
    """An engine that starts a fresh session on resume fails the clause about context, through the whole server."""
    engine = install(t.CODEX, folder / "forgetful" / "engine")
    launcher = folder / "forgetful" / "codex"
    launcher.write_text(FORGETFUL.format(engine=engine))
    launcher.chmod(0o755)
    loop = [case for case in RESUMED_CASES if case.name == "loop"]
    results = engines.play(launcher, folder / "forgetful", *loop).judged()
    failing = engines.failing(results)
    assert failing == {"server.context-carried", "server.final-data"}
    assert "SESSION_RESUME_FAILED" in results["server.final-data"].detail


def test_an_interrupt_in_the_middle_leaves_nothing(folder: Path) -> None:
    """An interrupt while the engine hangs ends engine and server, and the case says so."""
    interrupt, began = Interrupt(), list[int]()

    class Impatient(engines.Spectator):
        def saw(self, item: Observation, box: Sandbox) -> None:
            super().saw(item, box)
            if item.name == "cancel/create":
                box.backend.on_exchange(meet)

    def meet(_: Exchange) -> None:
        began.append(len(below()))
        interrupt.set()

    def below() -> set[psutil.Process]:
        return set(psutil.Process(os.getpid()).children(recursive=True)) - before

    before = set(psutil.Process(os.getpid()).children(recursive=True))
    spectator = Impatient(t.CODEX)
    cancel = [case for case in RESUMED_CASES if case.name == "cancel"]
    executable = install(t.CODEX, folder / "impatient" / "engine")
    CaseRunner.of(folder / "impatient" / "sandboxes", 1, interrupt).play(t.CODEX, executable, cancel, spectator)
    assert began[0]  # at least the server: the engine below it may be missed while the process tree changes
    assert not below()
    assert spectator.observed.stopped == {"cancel": Obstacle("interrupted", Reason.INTERRUPTED)}
