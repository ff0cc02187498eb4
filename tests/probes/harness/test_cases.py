"""The cases: what they send to the engine."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.probes import engines
from tests.tables import each
from turngate.argv.auto_flags import auto_flags_in
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.model import Ended, Mode
from turngate.turn.envelope import BadEnvelope, read_envelope
from turngate_probes.clauses import CHECKS
from turngate_probes.harness import cases
from turngate_probes.harness.cases import CASES, FAILING, IMITATION, LARGE_PROMPT
from turngate_probes.harness.driver import ABSENT_TOOL, ANSWER, QUESTION, Ask, EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Observations
from turngate_probes.simulate import simulated_process

# they try what surrounds or disturbs an engine, in both modes and without guards
SURROUNDED = (
    *("artifacts", "own-settings", "workspace", "file-marks", "any-settings", "sandbox"),
    *("disturbed", "at-once"),
)
PLAYED = [case for case in CASES if case.level != "long"]
ENGINES = [load.contract(name).at() for name in load.engine_names()]


@pytest.fixture(name="observed", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    """All observations of an honest engine in all cases, without waiting for a later minute."""
    folder = tmp_path_factory.mktemp("cases")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineDriver, "until_later_minute", lambda *_: None)
        return engines.play(engines.install(folder), folder, *(case.name for case in PLAYED)).observed


def test_names_are_unique_and_failing_backends_are_cases() -> None:
    """Case names are unique, and every failing backend has a case."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert set(FAILING) <= set(names)


@pytest.mark.long
def test_each_case_runs_as_many_turns_as_it_says(observed: Observations) -> None:
    """Each case runs as many steps as it announces."""
    played = [name.partition("/")[0] for name in observed.turns]
    assert {case.name: played.count(case.name) for case in PLAYED} == {
        case.name: case.turns(observed.contract) for case in PLAYED
    }


@pytest.mark.long
@each("faults, symptoms", [((), ()), (("loses-summary",), ("context-lost",))])
def test_a_session_gets_too_long(tmp_path: Path, faults: tuple[str, ...], symptoms: tuple[str, ...]) -> None:
    """The model is asked for a summary in the turn that gets too long, and the next turn shows whether it was kept."""
    contract = load.contract("codex").at("0.169.0")
    executable = simulated_process.install(contract, tmp_path / "engine", faults)
    seen = engines.play(executable, tmp_path, "compaction", contract=contract).observed
    assert [request.reply for request in seen.turns["compaction/again"].watched] == [
        f"tool_call {ABSENT_TOOL}",
        "text",
        "summary",
    ]
    finding = CHECKS["resume.after-compaction"].run(seen)
    assert (finding.ok, finding.symptoms) == (not faults, symptoms), finding.detail


@pytest.mark.long
def test_a_long_session_ends_with_the_turn_that_breaks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn follows one that didn't reach the model, and the clause names that one."""
    monkeypatch.setattr(cases, "LONG_SESSION", 4)
    contract = load.contract("codex").at("0.169.0")
    executable = simulated_process.install(contract, tmp_path / "engine", ("session=lost",))
    seen = engines.play(executable, tmp_path, "long-session", contract=contract).observed
    assert sorted(seen.turns) == ["long-session/turn-1", "long-session/turn-2"]
    assert CHECKS["resume.long-session"].run(seen).symptoms == ("refused",)


@pytest.mark.long
def test_every_turn_has_a_nonce_of_its_own(observed: Observations) -> None:
    """Each turn has a unique nonce in its prompt, except for prompts that must look like flags or be equal."""
    nonces = [turn.nonce for turn in observed.turns.values() if turn.nonce]
    assert len(set(nonces)) == len(nonces)
    without = {turn.name for turn in observed.turns.values() if not turn.nonce or turn.nonce not in turn.prompt}
    assert without == {"flag-prompts/first", "flag-prompts/again", "main/same", "main/same-again"}


@pytest.mark.long
def test_only_the_case_of_mode_auto_a_tool_call_and_a_control_run_in_it(observed: Observations) -> None:
    """Only these four turns run in auto mode; the others get no auto-approve flag."""
    auto = {turn.name for turn in observed.turns.values() if turn.mode is Mode.AUTO}
    plain = {name for name in auto if name.partition("/")[0] not in SURROUNDED}
    assert plain == {"auto/first", "auto/again", "tool-call/auto", "canaries/control"}
    for name in observed.turns.keys() - auto:
        assert auto_flags_in(observed.turns[name].own_arguments, observed.contract) == ()


@pytest.mark.long
def test_sessions_are_resumed_as_the_story_goes(observed: Observations) -> None:
    """Each resumed turn resumes the session that its case specifies."""
    resumed = {
        turn.name: turn.resumed for turn in observed.turns.values() if turn.resumed and turn.case not in SURROUNDED
    }
    main, minute = observed.turns["main/first"].session, "later-minute"
    a, b = observed.turns[f"{minute}/a-first"].session, observed.turns[f"{minute}/b-first"].session
    assert resumed == {
        "main/again": main,
        "main/third": main,
        "main/same": main,
        "main/same-again": main,
        "main/elsewhere": main,
        f"{minute}/a-again": a,
        f"{minute}/a-third": a,
        f"{minute}/b-again": b,
        "bad-handles/dead": observed.contract.handle.nonexistent_id,
        "bad-handles/malformed": cases.MALFORMED,
        "canaries/again": observed.turns["canaries/first"].session,
        "ends-once/again": observed.turns["ends-once/first"].session,
        "asked-model/again": observed.turns["asked-model/first"].session,
        "auto/again": observed.turns["auto/first"].session,
        "flag-prompts/again": observed.turns["flag-prompts/first"].session,
        "large-prompt/again": observed.turns["large-prompt/first"].session,
        "tool-call/again": observed.turns["tool-call/first"].session,
    }


@pytest.mark.long
def test_the_large_prompt_is_large(observed: Observations) -> None:
    """The large prompt exceeds the limit and has a nonce at both ends."""
    line = max(observed.turns["large-prompt/first"].prompt.split("\n"), key=len)
    assert len(line) > LARGE_PROMPT
    assert line.startswith("tgn-")
    assert line[-20:].startswith("tgn-")


def test_the_longest_wait_comes_from_cases_and_contract() -> None:
    """The longest of all waits is named: the next minute, a backend that is retried, or a declared hang."""
    codex, slow = load.contract("codex").at("0.169.0"), load.contract("copilot").at()
    named = {case.name: case for case in CASES}
    every = cases.longest_wait(CASES, codex)
    assert every == "up to 60 s to resume a session in a later clock minute, and 120 s per turn that hangs"
    assert cases.longest_wait(CASES, slow).startswith("up to 100 s for the engine to give up on a failing model, and")
    assert cases.longest_wait([named["backend-401"]], codex).startswith("up to 20 s for the engine to give up")
    assert cases.longest_wait([named["stdin-open"]], codex).startswith("up to 20 s because the engine hangs")
    assert cases.longest_wait([named["static"], named["main"]], codex) == ""


def test_the_scripted_answers_are_envelopes() -> None:
    """The scripted question and answer are valid envelopes; the imitation is none."""
    question, answer = read_envelope(QUESTION), read_envelope(ANSWER)
    assert question is not None
    assert not isinstance(question, BadEnvelope)
    assert question.interaction is not None
    assert answer is not None
    assert not isinstance(answer, BadEnvelope)
    assert answer.final_data == {"colour": "blue"}
    assert read_envelope(IMITATION) is None


@each("contract", ENGINES, shown=lambda contract: contract.engine)
def test_every_engine_has_a_flag_that_a_prompt_may_look_like(contract: EngineContract) -> None:
    """Every contract's first auto-approve flag begins with a dash, so a prompt can look like it."""
    assert contract.auto_flags[0].flag.startswith("-")


class Asked:
    """Notes what a case asks of its driver, and runs nothing."""

    def __init__(self, contract: EngineContract) -> None:
        self.contract, self.asked = contract, dict[str, Ask]()
        self.sandbox = SimpleNamespace(other=Path())

    def start(self, step: str, asked: Ask) -> SimpleNamespace:
        """Note a first turn."""
        self.asked[step] = asked
        return SimpleNamespace(session="id", finished_at=0.0)

    def stored(self, _session: str) -> None:
        """Note nothing of a session."""

    def resume(self, step: str, _session: str, asked: Ask) -> SimpleNamespace:
        """Note a resumed turn."""
        return self.start(step, asked)


@each(
    "engine, version, hanging",
    [
        ("codex", "0.169.0", {"stdin-open/first", "backend-500/first", "backend-away/first"}),
        (
            "opencode",
            "1.18.33",
            {
                "main/elsewhere",
                "stdin-open/first",
                "backend-500/first",
                "backend-away/first",
                "backend-cut/first",
            },
        ),
        ("gemini", "0.34.0", {"backend-500/first"}),  # its other hang is flaky
        ("gemini", "0.21.3", {"main/elsewhere", "bad-handles/dead", "bad-handles/malformed"}),
        ("iflow", "0.5.19", set[str]()),
    ],
)
def test_a_turn_knows_whether_its_contract_declares_that_it_hangs(engine: str, version: str, hanging: set[str]) -> None:
    """Only turns that miss their deadline according to the contract, every time, need no longer wait."""
    contract, asked = load.contract(engine).at(version), dict[str, Ask]()
    for name in ("main", "bad-handles", "stdin-open", *FAILING):
        driver: Any = Asked(contract)
        # an engine that must prove its guard gets no prompt as an argument
        with nullcontext() if name != "stdin-open" or not contract.guards.proof else pytest.raises(CaseStoppedError):
            engines.named(name)[0].play(driver)
        asked |= {f"{name}/{step}": turn for step, turn in driver.asked.items()}
    assert {name for name, turn in asked.items() if turn.hangs} == hanging
    assert all(asked[name].patience for name in hanging)


@pytest.mark.long
def test_a_later_minute_is_waited_for_after_the_first_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for a later minute counts from the end of the session's first turn."""
    waited: list[float] = []
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda _, since: waited.append(since))
    observed = engines.play(engines.install(tmp_path), tmp_path, "later-minute").observed
    assert waited == [observed.turns["later-minute/a-first"].finished_at]


def test_the_help_pages_of_all_subcommands_are_asked_for(tmp_path: Path) -> None:
    """A page that a parser shows again for a subcommand that it doesn't know has no subcommands of its own."""
    pages = {"--help": "Commands:\n  a  x\n  b  x\n", "a --help": "Commands:\n  c  x\n", "a c --help": "c\n"}
    pages["b --help"] = pages["--help"]
    printed = "".join(f"  '{argv}') printf '%s' '{text}';;\n" for argv, text in pages.items())
    program = tmp_path / "codex"
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{printed}  *) exit 2;;\nesac\n')
    program.chmod(0o755)
    played = engines.play(program, tmp_path, "listings").observed
    pages_of = {name: page.exit_code for name, page in played.pages.items() if name.startswith("listings/1")}
    assert pages_of == dict.fromkeys(("listings/1", "listings/1-a", "listings/1-b", "listings/1-a-c"), 0)


def test_a_list_that_does_not_end_is_the_last_one() -> None:
    """An engine that waits for a user at one page may do so at each of them."""
    asked = list[tuple[str, ...]]()

    def page(_step: str, argv: tuple[str, ...], *_: object) -> Any:
        asked.append(argv)
        return SimpleNamespace(ended=Ended.TIMEOUT)

    (case,) = (case for case in CASES if case.name == "listings")
    case.play(SimpleNamespace(contract=load.contract("codex").at(), page=page))  # type: ignore[arg-type]
    assert asked == [("--help",)]
