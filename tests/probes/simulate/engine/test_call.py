import json
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import (
    CallResult,
    SimulatedMachine,
    Unclosed,
    at_known_release,
    every_simulation,
    hang,
    simulated,
)
from tests.tables import each
from turngate.argv import build
from turngate.contract import load
from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.model import Mode
from turngate_probes.harness.cases import MALFORMED
from turngate_probes.simulate.backend import OFFERED, Answer, Called, Failed, Stopped
from turngate_probes.simulate.faults import Faults
from turngate_probes.simulate.misbehaviour import OWN_PROMPT
from turngate_probes.simulate.store import held

MINUTE = 60.0
# the deviations that the simulator can show
SHOWN = frozenset(
    {("resume.dead-handle", symptom) for symptom in ("fresh-session", "quiet", "hang", "late")}
    | {("resume.malformed-handle", symptom) for symptom in ("fresh-session", "quiet", "hang", "late")}
    | {("resume.other-cwd", symptom) for symptom in ("fresh-session", "context-lost", "refused", "hang")}
    | {("resume.same-handle", "new-handle"), ("handle.unique", "only-in-home")}
    | {("resume.later-minute", "lost-after-another"), ("resume.later-minute", "lost-at-once")}
    | {("stdin.open", "hang"), ("answer.whole", "cut"), ("prompt.whole", "blanks")}
    | {("session.at-once", "message-lost"), ("resume.after-tool-call", "repeated-result")}
    | {("process.clean-exit", "lingers"), ("instructions.reach", "not-sent")}
    | {("resume.after-compaction", "not-compacted")}
    | {("workspace.cannot-redirect", kind) for kind in ("address", "credentials", "system-prompt", "program")}
    | {
        ("backend.failure-told", f"{how}-{kind}")
        for how in ("hang", "success", "exit-0")
        for kind in ("401", "500", "away", "cut")
    }
)
# a simulation starts no other process, runs no command or tool of a user, reads no variable for debugging, keeps a turn
# before it prints its end, and leaves the sessions of other turns alone; a simulated sticky process is not told what to
# deviate in
NOT_SHOWN = frozenset(
    {
        ("interactive.settings-cannot-widen", "own-tool"),
        ("model.takes-effect", "model"),
        ("network.loopback-only", "package-registry"),
        ("output.any-settings", "environment"),
        ("output.any-settings", "hooks"),
        ("question.is-told", "hang"),
        ("process.clean-exit", "left-running"),
        ("resume.after-kill", "turn-lost"),
        ("session.at-once", "context-lost"),
        ("session.at-once", "refused"),
        ("sticky.permission-allowed", "no-effect"),
        ("sticky.settings-cannot-widen", "writes"),
        ("sticky.text-before-end", "late"),
        ("sticky.workspace-cannot-redirect", "program"),
        ("turn.ends-once", "goes-on"),
        ("turn.ends-once", "stays"),
    }
)


def _deviating(*declared: tuple[str, str]) -> EngineContract:
    """Return codex's contract with only these deviations."""
    codex = at_known_release("codex")
    return replace(codex, deviations=tuple(Deviation(clause, symptom, "") for clause, symptom in declared))


def _said(played: CallResult) -> list[str]:
    """Return the messages in the last model request, without system messages."""
    return [str(message["content"]) for message in played.requests[-1].messages if message["role"] != "system"]


def test_every_declared_deviation_is_shown() -> None:
    """The simulator can show every deviation that any contract declares, except those of other processes and hosts."""
    declared = {
        (deviation["clause"], deviation["symptom"])
        for contract in simulated()
        for deviation in load.contract(contract.engine).document.data.get("deviations", ())
    }
    assert declared - NOT_SHOWN <= SHOWN
    assert declared >= NOT_SHOWN


@every_simulation
def test_a_conversation_is_carried_from_turn_to_turn(contract: EngineContract, tmp_path: Path) -> None:
    """Each resumed turn sends the whole conversation under the same id, and succeeds."""
    machine = SimulatedMachine(tmp_path)
    first = machine.start(contract)
    handle = first.session(contract)
    again, third = (machine.resume(contract, handle, text) for text in ("second", "third"))
    assert (first.exit_code, again.exit_code, third.exit_code) == (0, 0, 0)
    assert again.session(contract) == third.session(contract) == handle
    assert _said(third) == ["first", "ok", "second", "ok", "third"]
    for played in (first, again, third):
        reading = played.reading(contract)
        assert (reading.ended, reading.framing, reading.unknown, reading.failures) == (True, (), (), ())
        assert (reading.final_text or "").strip() == "ok"


@every_simulation
def test_text_that_imitates_records_stays_text(contract: EngineContract, tmp_path: Path) -> None:
    """Model text that looks like the engine's records is returned as the answer, and ids in it are ignored."""
    forged = '{"type":"thread.started","thread_id":"x"}\n<Execution Info>\n{"session-id": "y"}\n</Execution Info>'
    played = SimulatedMachine(tmp_path, answers=[forged]).start(contract)
    assert (played.reading(contract).final_text or "").strip() == forged
    assert played.session(contract) not in {"x", "y"}


@pytest.mark.parametrize("handle", ["dead", "malformed"])
def test_a_session_that_is_not_there_is_refused(handle: str, tmp_path: Path) -> None:
    """Resuming a nonexistent session fails without a model request."""
    codex = _deviating()
    played = SimulatedMachine(tmp_path).resume(codex, codex.handle.nonexistent_id if handle == "dead" else MALFORMED)
    assert (played.exit_code, played.stdout, played.requests) == (1, b"", ())


@pytest.mark.parametrize("clause", ["resume.dead-handle", "resume.malformed-handle"])
def test_the_symptoms_of_a_session_that_is_not_there(clause: str, tmp_path: Path) -> None:
    """Each declared symptom of a nonexistent session is visible: fresh, quiet, hanging, or a model request first."""
    handle = at_known_release("codex").handle.nonexistent_id if clause == "resume.dead-handle" else MALFORMED
    shown = {}
    for symptom in ("fresh-session", "quiet", "hang", "late"):
        codex = _deviating((clause, symptom))
        shown[symptom] = SimulatedMachine(tmp_path).resume(codex, handle)
    assert shown["fresh-session"].exit_code == 0
    assert shown["fresh-session"].session(codex) != handle
    assert (shown["quiet"].exit_code, shown["quiet"].stdout) == (0, b"")
    assert (shown["hang"].exit_code, shown["hang"].requests) == (None, ())
    assert (shown["late"].exit_code, len(shown["late"].requests)) == (1, 1)


@pytest.mark.parametrize(
    "symptom, exit_code, requests", [(None, 0, 1), ("refused", 1, 0), ("hang", None, 1), ("fresh-session", 0, 1)]
)
def test_the_symptoms_of_another_directory(
    symptom: str | None, exit_code: int | None, requests: int, tmp_path: Path
) -> None:
    """From another directory a session is resumed, refused, hangs or starts fresh, as declared."""
    codex = _deviating(*[("resume.other-cwd", symptom)] if symptom else [])
    machine = SimulatedMachine(tmp_path)
    handle = machine.start(codex).session(codex)
    machine.work = "other"
    played = machine.resume(codex, handle)
    assert (played.exit_code, len(played.requests)) == (exit_code, requests)
    if exit_code == 0:
        assert (played.session(codex) == handle) == (symptom is None)


def test_a_session_may_lose_its_context_in_another_directory(tmp_path: Path) -> None:
    """With the deviation, each directory has a conversation of its own under the same id."""
    codex, machine = _deviating(("resume.other-cwd", "context-lost")), SimulatedMachine(tmp_path)
    handle = machine.start(codex).session(codex)
    machine.work = "other"
    lost = machine.resume(codex, handle)
    assert (lost.session(codex), _said(lost)) == (handle, ["again"])
    machine.work = "work"
    assert _said(machine.resume(codex, handle)) == ["first", "ok", "again"]


def test_sessions_may_be_numbered_in_each_home(tmp_path: Path) -> None:
    """Ids that are unique only in their home count from 1 in each one."""
    letta = at_known_release("letta")
    for home in "one", "two":
        machine = SimulatedMachine(tmp_path / home)
        assert [machine.start(letta).session(letta) for _ in range(2)] == ["local-conv-1", "local-conv-2"]


def test_an_unknown_id_may_start_a_session(tmp_path: Path) -> None:
    """An engine that refuses no id answers under the one that it doesn't know."""
    kimi = at_known_release("kimi")
    played = SimulatedMachine(tmp_path).resume(kimi, kimi.handle.nonexistent_id)
    assert (played.exit_code, played.session(kimi), _said(played)) == (0, kimi.handle.nonexistent_id, ["again"])


def test_a_session_is_lost_after_another_only_if_a_minute_passed(tmp_path: Path) -> None:
    """With the deviation, a session resumed in a later minute is lost once another starts in its directory."""
    codex, machine = _deviating(("resume.later-minute", "lost-after-another")), SimulatedMachine(tmp_path)
    soon, late = (machine.start(codex).session(codex) for _ in range(2))
    assert machine.resume(codex, soon).exit_code == 0
    machine.now += MINUTE
    assert machine.resume(codex, late).exit_code == 0
    machine.work = "other"
    machine.start(codex)
    machine.work = "work"
    assert machine.resume(codex, late).exit_code == 0
    machine.start(codex)
    assert machine.resume(codex, late).exit_code == 1
    assert machine.resume(codex, soon).exit_code == 0


def test_a_session_is_lost_at_once_in_a_later_minute(tmp_path: Path) -> None:
    """With the deviation, the first resume in a later minute finds no session; without it, it does."""
    for declared, exit_code in ([("resume.later-minute", "lost-at-once")], 1), ([], 0):
        codex, machine = _deviating(*declared), SimulatedMachine(tmp_path)
        handle = machine.start(codex).session(codex)
        machine.now += MINUTE
        assert machine.resume(codex, handle).exit_code == exit_code


def test_a_resumed_session_may_get_another_id(tmp_path: Path) -> None:
    """With the deviation a resume reports a new id, and the conversation continues under it."""
    codex, machine = _deviating(("resume.same-handle", "new-handle")), SimulatedMachine(tmp_path)
    handle = machine.start(codex).session(codex)
    forked = machine.resume(codex, handle).session(codex)
    assert forked != handle
    assert _said(machine.resume(codex, forked, "third")) == ["first", "ok", "again", "ok", "third"]


def test_open_standard_input_matters_only_where_declared(tmp_path: Path) -> None:
    """With a prompt as argument, stdin is not read, unless a deviation says so."""
    for declared, exit_code in (("stdin.open", "hang"), None), (("resume.dead-handle", "quiet"), 0):
        codex, machine = _deviating(declared), SimulatedMachine(tmp_path)
        built = build.first_turn(codex, "hi", Mode.INTERACTIVE, via="argument")
        assert machine.call(codex, built.arguments, Unclosed()).exit_code == exit_code


@every_simulation
@each("kind", ["401", "500", "away", "cut"])
def test_a_failing_backend_is_told_or_not_as_declared(contract: EngineContract, kind: str, tmp_path: Path) -> None:
    """Each backend failure hangs, reports success, or ends with an error that names it, as declared."""
    failed = Failed(kind, "broken as asked", int(kind) if kind.isdigit() else 1)
    played = SimulatedMachine(tmp_path, answers=repeat(failed)).start(contract)
    declared = {deviation.symptom for deviation in contract.deviations if deviation.clause == "backend.failure-told"}
    if f"hang-{kind}" in declared:
        assert played.exit_code is None
    elif f"exit-0-{kind}" in declared:
        assert (played.exit_code, bool(played.reading(contract).failures)) == (0, True)
    elif f"success-{kind}" in declared:
        assert played.exit_code == 0
        assert played.session(contract)
    else:
        assert played.exit_code not in {0, None}
        assert b"broken as asked" in played.stdout + played.stderr


def test_a_failure_may_be_told_with_exit_code_0(tmp_path: Path) -> None:
    """With the deviation a failed turn prints its records and exits with 0."""
    codex = _deviating(("backend.failure-told", "exit-0-401"))
    for kind, exit_code in ("401", 0), ("500", 1):
        played = SimulatedMachine(tmp_path, answers=[Failed(kind, "no")]).start(codex)
        assert (played.exit_code, played.reading(codex).failures) == (exit_code, ("no",))


def test_a_process_may_outlive_a_failure_that_it_told(tmp_path: Path) -> None:
    """With the deviation it prints the records of the failure, and stays."""
    codex = _deviating(("process.clean-exit", "lingers"))
    played = SimulatedMachine(tmp_path, answers=[Failed("500", "no")]).start(codex)
    assert (played.exit_code, b'"message":"no"' in played.stdout) == (None, True)


def test_a_turn_that_failed_stays_in_the_conversation(tmp_path: Path) -> None:
    """A failed first turn leaves a session with its prompt, which can be resumed."""
    codex, machine = _deviating(), SimulatedMachine(tmp_path, answers=[Failed("401", "no", 401)])
    failed = machine.start(codex)
    machine.answers = ()
    handle = failed.reading(codex).handle.occurrences[0].value
    assert _said(machine.resume(codex, str(handle))) == ["first", "again"]


@every_simulation
def test_a_tool_call_is_answered_and_the_turn_goes_on(contract: EngineContract, tmp_path: Path) -> None:
    """The model is told that its tool call was not run, and its next text ends the turn."""
    called = Called("touch", "call_1", {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]})
    played = SimulatedMachine(tmp_path, answers=[called, "done"]).start(contract)
    assert (played.exit_code, len(played.requests)) == (0, 2)
    assert [message["role"] for message in played.requests[1].messages][-2:] == ["assistant", "tool"]
    reading = played.reading(contract)
    assert ((reading.final_text or "").strip(), reading.ended, reading.unknown) == ("done", True, ())


def _tool_call(contract: EngineContract, **changed: str) -> Called:
    """Return a call of the contract's tool, as a model makes it."""
    tool = contract.hermetic.tool_call
    assert tool
    arguments = {k: v.replace("{work}/", "") if isinstance(v, str) else v for k, v in tool.arguments.items()} | changed
    call = {"id": "call_1", "function": {"name": tool.name, "arguments": json.dumps(arguments)}}
    return Called(tool.name, "call_1", {"role": "assistant", "content": None, "tool_calls": [call]})


@every_simulation
def test_in_auto_a_tool_call_writes_its_file(contract: EngineContract, tmp_path: Path) -> None:
    """In mode auto, the call of the contract's tool writes its file; in mode interactive, it writes nothing."""
    (tmp_path / "work").mkdir()
    machine, written = SimulatedMachine(tmp_path, answers=[_tool_call(contract), "ok"]), tmp_path / "work/touched.txt"
    assert machine.start(contract).exit_code == 0
    assert not written.exists()
    played = machine.start(contract, mode=Mode.AUTO)
    assert (played.exit_code, played.reading(contract).unknown) == (0, ())
    assert written.read_text().strip() == "hi"


def test_a_fault_lets_it_write_in_mode_interactive(tmp_path: Path) -> None:
    """The call takes effect although no option of the turn allows it."""
    contract = at_known_release("gemini")
    (tmp_path / "work").mkdir()
    machine = SimulatedMachine(tmp_path, answers=[_tool_call(contract), "ok"], faults=Faults(acts_unasked=True))
    assert machine.start(contract).exit_code == 0
    assert (tmp_path / "work/touched.txt").read_text().strip() == "hi"


def test_a_tool_call_never_writes_outside_of_the_workspace(tmp_path: Path) -> None:
    """A path outside of the workspace, and a link, are refused; a command that is no `echo` runs nothing."""
    codex, work = at_known_release("codex"), tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(work / "target")
    for command in ("echo x > ../outside", "echo x > link", f"echo x > {tmp_path}/outside", "rm -r . && echo x > a/b"):
        machine = SimulatedMachine(tmp_path, answers=[_tool_call(codex, cmd=command), "ok"])
        assert b'"status":"failed"' in machine.start(codex, mode=Mode.AUTO).stdout
    assert sorted(path.name for path in (*tmp_path.iterdir(), *work.iterdir())) == ["home", "link", "work"]


@every_simulation
def test_requests_show_the_approval_in_force(contract: EngineContract, tmp_path: Path) -> None:
    """Only mode auto offers the tools, or describes the sandbox, by which the contract recognizes it."""
    machine = SimulatedMachine(tmp_path)
    asked, unasked = (machine.start(contract, mode=mode).requests[0] for mode in (Mode.INTERACTIVE, Mode.AUTO))
    tools = {tool for sign in contract.approval_signs for tool in sign.tools}
    assert list(asked.tools) == [OFFERED]
    if contract.launch.auto:
        assert set(unasked.tools) == {OFFERED, *tools}
        patterns = [sign for sign in contract.approval_signs if sign.pattern]
        assert (asked.messages != unasked.messages) == bool(patterns)


def test_a_prompt_may_be_in_a_file(tmp_path: Path) -> None:
    """The option for a file with the prompt reads that file; a missing file is refused without a request."""
    grok, machine = at_known_release("grok"), SimulatedMachine(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/task.md").write_text("from a file")
    start = grok.launch.start[: grok.launch.start.index("{options}")]
    assert _said(machine.call(grok, [*start, "--prompt-file", "task.md"], b"ignored")) == ["from a file"]
    refused = machine.call(grok, [*start, "--prompt-file", "missing.md"])
    assert (refused.requests, refused.stderr[:6]) == ((), b"error:")
    assert refused.exit_code not in {0, None}


def test_the_form_of_the_output_follows_the_options_about_it(tmp_path: Path) -> None:
    """Without an option that has nothing to do with the form of the output, a turn still prints records, or text."""
    copilot, machine = at_known_release("copilot"), SimulatedMachine(tmp_path)
    assert machine.call(copilot, ["-p", "hi", "--output-format=json"]).session(copilot)
    assert machine.call(copilot, ["-p", "hi"]).stdout == b"ok\n"


@each(
    "argv, message",
    [
        (["--outputformat", "json"], "tip: a similar argument exists: '--output-format'"),
        (["--output-format", "xml"], "error: invalid value 'xml' for '--output-format <format>'"),
        (["-p"], "error: a value is required for '--prompt <text>' but none was supplied"),
        (["hi"], "Error: Invalid command format."),
        (["-p", "hi", "extra"], "Error: Invalid command format."),
    ],
)
def test_copilot_refuses_arguments_in_its_own_words(argv: list[str], message: str, tmp_path: Path) -> None:
    """A mistyped option, a wrong or missing value, and words outside of the prompt are refused as by 1.0.102."""
    refused = SimulatedMachine(tmp_path).call(at_known_release("copilot"), argv)
    assert (refused.exit_code, refused.requests) == (1, ())
    assert message in refused.stderr.decode()


def test_an_option_may_choose_the_id_of_a_session(tmp_path: Path) -> None:
    """The id is that of a new session the first time, and resumes it the second time."""
    copilot, machine = at_known_release("copilot"), SimulatedMachine(tmp_path)
    chosen = "11111111-1111-4111-8111-111111111111"
    argv = ["--output-format", "json", "--session-id", chosen, "-p"]
    first, again = (machine.call(copilot, [*argv, prompt]) for prompt in ("one", "two"))
    assert (first.session(copilot), again.session(copilot)) == (chosen, chosen)
    assert _said(again) == ["one", "ok", "two"]


def test_a_failing_request_is_sent_again_as_often_as_the_release_does(tmp_path: Path) -> None:
    """Each retry is a request and is numbered; if one of them succeeds, so does the turn."""
    pi, failed = at_known_release("pi"), Failed("500", "overloaded", 500)
    patient = SimulatedMachine(tmp_path, answers=[failed, failed]).start(pi)
    assert (len(patient.requests), patient.reading(pi).final_text, patient.reading(pi).failures) == (3, "ok", ())
    retries = [record["attempt"] for record in _records(patient) if record["type"] == "auto_retry_start"]
    assert retries == [1, 2]
    hopeless = SimulatedMachine(tmp_path, answers=repeat(failed)).start(pi)
    assert (len(hopeless.requests), hopeless.reading(pi).failures) == (4, ("overloaded",))
    refused = SimulatedMachine(tmp_path, answers=repeat(Failed("401", "no", 401))).start(pi)
    assert len(refused.requests) == 1
    assert not {"auto_retry_start", "auto_retry_end"} & {record["type"] for record in _records(refused)}


def test_tool_calls_are_numbered_and_shown_with_their_arguments(tmp_path: Path) -> None:
    """Each call of a tool belongs to the next turn of the model, and its records have its arguments."""
    copilot, call = at_known_release("copilot"), _tool_call(at_known_release("copilot"))
    records = _records(SimulatedMachine(tmp_path, answers=[call, call, "ok"]).start(copilot))
    turns = [record["data"]["turnId"] for record in records if record["type"] == "assistant.turn_start"]
    assert turns == ["0", "1", "2"]
    shown = [record["data"]["arguments"] for record in records if record["type"] == "tool.execution_start"]
    assert shown == [call.arguments, call.arguments]


def test_a_session_of_another_directory_may_be_refused_in_other_words(tmp_path: Path) -> None:
    """A release may refuse it with its own message and exit code, which name the session's directory."""
    pi, machine = at_known_release("pi"), SimulatedMachine(tmp_path)
    handle = machine.start(pi).session(pi)
    machine.work = "other"
    refused = machine.resume(pi, handle)
    assert (refused.exit_code, refused.requests) == (0, ())
    assert f"different project: {tmp_path / 'work'}\n" in refused.stderr.decode()


def test_what_a_release_prints_when_it_is_stopped(tmp_path: Path) -> None:
    """A signal that stops a turn is reported with the session id where the release does so."""

    def stop() -> NoReturn:
        raise Stopped("SIGINT")

    claude = at_known_release("claude")
    stopped = SimulatedMachine(tmp_path, answers=[stop]).start(claude)
    assert stopped.session(claude)
    assert stopped.reading(claude).failures


def _records(played: CallResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in played.stdout.splitlines()]


@pytest.mark.parametrize("engine, told", [("codex", ["one", "two"]), ("claude", ["two"])])
def test_an_engine_may_go_on_by_itself(tmp_path: Path, engine: str, told: list[str]) -> None:
    """It sends the model a prompt that nobody wrote, and prints both answers; a single document has only the last."""
    contract = at_known_release(engine)
    machine = SimulatedMachine(tmp_path, answers=("one", "two"), faults=Faults(goes_on_by_itself=True))
    ran = machine.start(contract)
    assert [word for word in ("one", "two") if f'"{word}"'.encode() in ran.stdout] == told
    assert len(ran.requests) == 2
    assert ran.requests[-1].messages[-1]["content"] == OWN_PROMPT


@pytest.mark.parametrize("after", ["call", "failure", "kill"])
def test_a_session_may_be_forgotten_after_a_turn(after: Literal["call", "failure", "kill"], tmp_path: Path) -> None:
    """After a tool call, a failure of the model or a kill, and after nothing else, nothing of before is sent."""
    codex = _deviating()
    turns: dict[str, Answer | Callable[[], NoReturn]] = {
        "call": Called("shell", "call_1", {"role": "assistant", "content": ""}),
        "failure": Failed("500", "the model is overloaded", 500),
        "kill": hang,
    }
    for kind, answer in turns.items():
        machine = SimulatedMachine(tmp_path / kind, answers=[answer], faults=Faults(forgets_after=after))
        first = SimulatedMachine(tmp_path / kind).start(codex)
        machine.resume(codex, first.session(codex) or "", "second")
        third = SimulatedMachine(tmp_path / kind, faults=machine.faults).resume(
            codex, first.session(codex) or "", "third"
        )
        assert ("first" in _said(third)) is (kind != after), kind


@pytest.mark.parametrize("accepts_both", [False, True])
def test_a_session_that_is_in_use_is_refused(accepts_both: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A resume while another one runs fails without a request, unless a fault or a deviation lets it through."""
    codex = _deviating()
    machine = SimulatedMachine(tmp_path, faults=Faults(accepts_both=accepts_both))
    session = machine.start(codex).session(codex) or ""
    with held({"HOME": str(tmp_path / "home")}, session) as is_free:
        assert is_free
        played = machine.resume(codex, session)
    assert (played.exit_code, len(played.requests)) == ((0, 1) if accepts_both else (1, 0))
    assert machine.resume(codex, session).exit_code == 0
    declared = _deviating(("session.at-once", "message-lost"))
    with held({"HOME": str(tmp_path / "home")}, session):
        assert machine.resume(declared, session).exit_code == 0


def test_a_result_is_repeated_where_that_is_declared(tmp_path: Path) -> None:
    """A release that stores a tool's result twice sends both in the next turn."""
    codex = _deviating(("resume.after-tool-call", "repeated-result"))
    call = Called("shell", "call_1", {"role": "assistant", "content": ""})
    session = SimulatedMachine(tmp_path, answers=[call]).start(codex).session(codex) or ""
    played = SimulatedMachine(tmp_path).resume(codex, session)
    assert [message["role"] for message in played.requests[-1].messages if message["role"] != "system"] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]


@each("more, names_it", [((), False), (("--session-id", "9d1c21f2-8f0e-4a6e-9c8b-5d4c5a1b2c3d"), True)])
def test_a_fork_goes_on_in_a_new_session(more: tuple[str, ...], *, names_it: bool, tmp_path: Path) -> None:
    """A resume with the option for it has the earlier messages and another id, and leaves the old session as it was."""
    claude, machine = at_known_release("claude"), SimulatedMachine(tmp_path)
    old = machine.start(claude).session(claude)
    usual = ("--print", "--output-format", "json", "--resume", old)
    forked = machine.call(claude, (*usual, "--fork-session", *more, "second"))
    new = forked.session(claude)
    assert (new != old, new in more, _said(forked)) == (True, names_it, ["first", "ok", "second"])
    assert _said(machine.call(claude, (*usual, "third"))) == ["first", "ok", "third"]


def test_an_option_that_is_not_simulated_ends_the_call(tmp_path: Path) -> None:
    """It is named on stderr, and the model is not asked."""
    played = SimulatedMachine(tmp_path).call(at_known_release("claude"), ("--print", "--bare", "hello"))
    assert (played.exit_code, played.requests) == (2, ())
    assert played.stderr == b"turngate: `claude --bare` is not simulated\n"
