"""Orchestrators that keep one process for all turns, or for all conversations."""

import sys
from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import OF_PROCESS, SPOKEN_BY, of_process
from turngate import EngineContract, load_contract
from turngate_probes.conform.answered import NO_THIRD_TURN, ONE_PROCESS
from turngate_probes.conform.catalogue import in_process, scenarios
from turngate_probes.conform.conform_report import ConformReport, ScenarioResult
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases.pins import pinned_version

PROTOCOLS = ("acp", "app_server", "stream_json")
HABITS = ("reconnects", "several-sessions")
WRONG = [
    ("fresh-session", "ignores-ids"),
    ("no-answer", "accepts-silence"),
    ("exit-0-without-end", "accepts-eof"),
    ("split-characters", "decodes-pieces"),
    ("workspace-with-spaces", "opens-elsewhere"),
    ("late-text", "stops-at-the-response"),
    ("two-turns", "resends"),
    ("two-turns", "forgets"),
]


def _contract(protocol: str) -> EngineContract:
    if protocol == "mcp":
        return load_contract("codex", "0.148.0")  # the pinned release has no MCP server
    return load_contract(SPOKEN_BY[protocol], pinned_version(SPOKEN_BY[protocol]))


def _played(folder: Path, protocol: str, names: tuple[str, ...], *mistake: str) -> ConformReport:
    contract = _contract(protocol)
    command = (sys.executable, *of_process(protocol, *mistake))
    chosen = tuple(scenarios()[name] for name in names)
    return ConformSession(command, (contract,), chosen, folder, 2).run(Interrupt(), lambda _: None)


@pytest.mark.long
@pytest.mark.parametrize("protocol", [*PROTOCOLS, "mcp"])
def test_one_that_conforms(protocol: str, tmp_path: Path) -> None:
    """It passes every scenario that a process for several turns plays, which are more than thirty."""
    contract = _contract(protocol)
    names = tuple(name for name, scenario in scenarios().items() if in_process(scenario, contract.sticky.transport))
    report = _played(tmp_path, protocol, names)
    others = [(row.scenario, row.result, row.detail, row.breaches) for row in report.results if row.result != "pass"]
    assert [other for other in others if other[0] != "canceled"] == []
    assert len(names) > 30


@pytest.mark.long
@pytest.mark.parametrize(
    "protocol, right",
    [("acp", "starts-elsewhere"), ("app_server", "starts-elsewhere"), ("serve", "names-it-in-a-header")],
)
def test_its_own_directory_does_not_matter(protocol: str, right: str, tmp_path: Path) -> None:
    """A process that starts elsewhere works where its client opens the session, and that is judged."""
    assert _played(tmp_path / "right", protocol, ("two-turns",), right).results[0].breaches == ()
    wrong = ("opens-elsewhere", *(["turns-elsewhere"] if protocol == "app_server" else []))
    for mistake in wrong:
        (row,) = _played(tmp_path / mistake, protocol, ("two-turns",), mistake).results
        assert [breach.rule for breach in row.breaches] == ["orchestrator.same-directory"]


@pytest.mark.long
@pytest.mark.parametrize(
    "protocol, mistake", [*((one, "lets-act") for one in PROTOCOLS), ("app_server", "leaves-it-to-a-file")]
)
def test_what_lets_the_engine_act_may_be_an_argument_or_a_message_or_missing_in_one(
    protocol: str, mistake: str, tmp_path: Path
) -> None:
    """A client that chooses to act is accused, and one that leaves it to the user's settings, which do."""
    (row,) = _played(tmp_path, protocol, ("two-turns",), mistake).results
    assert [breach.rule for breach in row.breaches] == ["orchestrator.no-auto-approval"]


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize(
    "protocol, name, mistake", [(one, *wrong) for one in PROTOCOLS for wrong in WRONG if wrong[1] in OF_PROCESS[one]]
)
def test_one_that_is_wrong(protocol: str, name: str, mistake: str, tmp_path: Path) -> None:
    """It fails the scenario about its mistake."""
    (row,) = _played(tmp_path, protocol, (name,), mistake).results
    assert row.result is ScenarioResult.FAIL
    assert scenarios()[name].rule in {breach.rule for breach in row.breaches} | {"orchestrator.completes"}


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_is_judged_and_a_third_turn_is_not_needed(protocol: str, tmp_path: Path) -> None:
    """All turns of a process are one call, so they are told apart by what the user says."""
    (row,) = _played(tmp_path / "strips", protocol, ("reply-is-a-flag",), "strips").results
    assert [breach.rule for breach in row.breaches] == ["orchestrator.text-whole"]
    (row,) = _played(tmp_path / "fewer", protocol, ("three-turns",), "two-turns").results
    assert (row.result, row.detail) == (ScenarioResult.SKIPPED, NO_THIRD_TURN)


def test_what_only_another_protocol_plays_is_skipped(tmp_path: Path) -> None:
    """The contract speaks of ACP, where text may follow the end of a turn, but this client of a service does not."""
    (row,) = _played(tmp_path, "serve", ("late-text",)).results
    assert (row.result, row.detail) == (ScenarioResult.SKIPPED, ONE_PROCESS)


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_turns_of_processes_are_judged_by_their_messages(protocol: str, tmp_path: Path) -> None:
    """What a session gets twice is no other attempt, and only one process at a time has a session."""
    for mistake, rule in (
        ("sends-twice", "sent-once"),
        ("repeats-the-prompt", "sent-once"),
        ("opens-twice", "one-turn-at-a-time"),
    ):
        (row,) = _played(tmp_path / mistake, protocol, ("two-turns",), mistake).results
        assert [breach.rule for breach in row.breaches] == [f"orchestrator.{rule}"]


@pytest.mark.long
@pytest.mark.parametrize(
    "mistake, rule",
    [
        ("opens-elsewhere", "same-directory"),
        ("lets-act", "no-auto-approval"),
        ("forgets", "resumes-the-id"),
        ("sends-twice", "sent-once"),
        ("strips", "text-whole"),
    ],
)
def test_calls_of_a_tool_that_runs_turns_are_judged(mistake: str, rule: str, tmp_path: Path) -> None:
    """The first one opens a session, which its answer names."""
    (row,) = _played(tmp_path, "mcp", ("reply-is-a-flag" if mistake == "strips" else "two-turns",), mistake).results
    assert row.breaches[-1].rule == f"orchestrator.{rule}"


@pytest.mark.long
def test_a_process_that_takes_the_arguments_of_a_turn_gets_them_again(tmp_path: Path) -> None:
    """The session forgets them, as between two turns in processes of their own."""
    (row,) = _played(tmp_path, "stream_json", ("two-turns",), "drops-options").results
    assert [breach.rule for breach in row.breaches] == ["orchestrator.keeps-the-options"]


@pytest.mark.long
@pytest.mark.parametrize("protocol, habit", [(p, h) for p in PROTOCOLS for h in HABITS if h in OF_PROCESS[p]])
def test_several_processes_or_sessions_may_follow_or_surround_a_turn(protocol: str, habit: str, tmp_path: Path) -> None:
    """One that loads the session when the process before it has ended is right, and so is one with other sessions."""
    (row,) = _played(tmp_path, protocol, ("three-turns",), habit).results
    assert (row.result, row.breaches) == (ScenarioResult.PASS, ())


@pytest.mark.long
def test_conversations_on_one_server(tmp_path: Path) -> None:
    """Their turns run at once. Whoever takes the events of all sessions for its own gets the wrong answer."""
    names = ("two-turns", "two-conversations")
    right = _played(tmp_path / "right", "serve", names).results
    assert [(row.result, row.breaches, len(row.calls)) for row in right] == [(ScenarioResult.PASS, (), 1)] * 2
    alone, together = _played(tmp_path / "wrong", "serve", names, "mixes-up").results
    assert alone.breaches == ()
    assert [breach.rule for breach in together.breaches] == ["orchestrator.separate-conversations"]
    for mistake in ("sends-twice", "repeats-the-prompt"):
        (row,) = _played(tmp_path / mistake, "serve", ("two-turns",), mistake).results
        assert [breach.rule for breach in row.breaches] == ["orchestrator.sent-once"]
