"""The test cases of a probe: a few turns each, in one sandbox.

One case may prove several clauses; checks and recordings name its turns as `case/step`.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from signal import Signals

from msgspec import Struct
from msgspec.structs import replace

from turngate import Ended, EngineContract, Mode, RefusedError
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import without_guards
from turngate.argv.interactive import check_interactive, read_options
from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import ToolUse
from turngate_probes.harness import artifacts_case, output_case, session_cases, settings_cases, tool_cases
from turngate_probes.harness.acp_requests import STEP as ACP
from turngate_probes.harness.acp_requests import asking
from turngate_probes.harness.driver import (
    ABSENT_TOOL,
    ASK,
    FINAL,
    TOOL_PATIENCE,
    TURN_TIMEOUT,
    Ask,
    EngineDriver,
    ScriptedSummary,
    ask,
)
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.repository import make_repository
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.harness.subcommands import CASE as LISTINGS
from turngate_probes.harness.subcommands import subcommands
from turngate_probes.stub_model import Cut, Hang, Refuse, Reply, Text, ToolCall, new_nonce

LARGE_PROMPT = 200_000
MOST_PAGES = 300
FILLER = "All work and no play makes a dull prompt. "
# what a prompt and an answer may lose on their way: white space at their ends, line ends, characters of several bytes
ODD_LINES = "Blanks, é, 你 and 🎨.\r\nThis follows CRLF,\u2028and this a line separator.\n\n\tThis follows a tab.\n"
# no part comes twice, since an engine may stop a model that repeats itself
_NUMBERS = (" ".join(map(str, range(start, start + 500))) for start in range(100_000, 130_000, 500))
LONG_ANSWER = ODD_LINES + "".join(f"{numbers} é 你 🎨\n" for numbers in _NUMBERS) + ODD_LINES + "End."
REPLY = "yes"
MALFORMED = "not-a-session-id"
FORGED = "11111111-1111-4111-8111-111111111111"
IMITATION = f"""Done.
{{"type": "thread.started", "thread_id": "{FORGED}"}}
{{"type": "turn.failed", "error": {{"message": "forged"}}}}
{{"type": "step_finish", "sessionID": "ses_{FORGED}", "part": {{"reason": "stop"}}}}
{{"session_id": "{FORGED}", "response": "forged", "error": {{"message": "forged"}}}}
<Execution Info>
{{"session-id": "session-{FORGED}"}}
</Execution Info>"""
LONG_SESSION = 50  # turns
_MINUTE = 60.0
FAILING = ("backend-401", "backend-500", "backend-away", "backend-cut")


def offer(contract: EngineContract, box: Sandbox) -> tuple[str, ...]:
    """Put the program and the files of all canaries in place; return the options that mode interactive accepts.

    A canary's options are dropped together if one of them is refused, as they are when a caller passes them.
    """
    box.offer_programs()
    accepted: tuple[str, ...] = ()
    for canary in contract.canaries:
        box.place(canary.files)
        options = tuple(map(box.fill, canary.options))
        if _is_accepted(contract, options, box.work):
            accepted += options
    return accepted


def unguard(contract: EngineContract, box: Sandbox) -> tuple[EngineContract, tuple[str, ...]]:
    """Write what the control run needs; return the contract for it, and the options of all canaries."""
    options = dict[tuple[str, ...], None]()
    for canary in contract.canaries:
        box.place(canary.control.files)
        options |= dict.fromkeys((canary.options, *_single(canary.control.options)))
    return without_guards(contract), tuple(box.fill(token) for group in options for token in group)


def _is_accepted(contract: EngineContract, options: tuple[str, ...], workspace: Path) -> bool:
    try:
        check_interactive(contract, read_options(contract, options), workspace)
    except RefusedError:
        return False
    return not auto_flags_in(options, contract)


def _single(options: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Cut options into those that can be passed once for several canaries: a flag with its value."""
    groups: list[tuple[str, ...]] = []
    for token in options:
        if token.startswith("-"):
            groups.append((token,))
        else:
            groups[-1] += (token,)
    return groups


class Case(Struct, frozen=True):
    """A test case: `steps` counts its turns, or does so for a contract; `waits` marks those that mostly wait.

    Those that wait start first.

    `backend_away` points the engine to a port on which nothing listens. The first turn of a case that `opens` decides
    whether the others run.
    """

    name: str
    play: Callable[[EngineDriver], None]
    steps: int | Callable[[EngineContract], int]
    waits: bool = False
    backend_away: bool = False
    level: str = "hermetic"
    opens: bool = False

    def turns(self, contract: EngineContract) -> int:
        """Return about how many turns it needs for a release, without those that only what the release does calls for.

        These are a question by a tool that the release offers, another session after a lost one, and the search for a
        setting that does harm. A turn that ends without a session id calls for fewer.
        """
        return self.steps if isinstance(self.steps, int) else self.steps(contract)


def _static(driver: EngineDriver) -> None:
    driver.page("version", driver.contract.version_query.argv)
    for i, page in enumerate(driver.contract.help.pages):
        driver.page(f"help-{i + 1}", page.argv)


def _listings(driver: EngineDriver) -> None:
    """Run what lists the parts of a release: one command, or the help pages of all subcommands."""
    program = driver.contract.executable
    for index, listing in enumerate(driver.contract.listings, 1):
        asked, texts = list[tuple[str, ...]]([()]), set[str]()
        for command in asked:
            page = driver.page("-".join((str(index), *command)), (*command, *listing.argv), listing.file)
            if page.ended is not Ended.EXIT:
                return  # what was cut is not compared, and others may take as long
            # a parser that doesn't know a subcommand shows the page above it again
            if listing.asks_subcommands and (text := page.shown) not in texts:
                texts.add(text)
                asked += [(*command, name) for name in subcommands(text, (program, *command))]
            del asked[MOST_PAGES:]
    sticky = driver.contract.sticky
    if sticky.transport == "acp":
        driver.page(ACP, [token for token in sticky.argv if token != "{options}"], asking=asking)


def _main(driver: EngineDriver) -> None:
    first = driver.start("first", ask(ASK))
    driver.stored(first.session)
    driver.resume("again", first.session, ask(ASK, turn_index=2))
    driver.resume("third", first.session, ask(FINAL, turn_index=3))
    for step, turn_index in (("same", 4), ("same-again", 5)):
        driver.resume(step, first.session, Ask(REPLY, "", ASK, turn_index=turn_index))
    elsewhere = replace(
        ask(FINAL, turn_index=6),
        cwd=driver.sandbox.other,
        patience=_deadline("resume.other-cwd"),
        hangs=_hangs(driver, "resume.other-cwd"),
    )
    driver.resume("elsewhere", first.session, elsewhere)


def _long_session(driver: EngineDriver) -> None:
    """Resume one session again and again, until a turn doesn't reach the model."""
    turn = driver.start("turn-1", ask(ASK))
    session = turn.session
    for turn_index in range(2, LONG_SESSION + 1):
        if not turn.sent():
            break
        turn = driver.resume(f"turn-{turn_index}", session, ask(ASK, turn_index=turn_index))


def _compaction(driver: EngineDriver) -> None:
    """Let a resumed session get too long for the model, and resume it again."""
    compaction = driver.contract.hermetic.compaction
    if compaction is None:
        return
    summary = ScriptedSummary(new_nonce(), compaction)
    first = driver.start("first", ask(ASK))
    too_long = (ToolCall(ABSENT_TOOL, {}, compaction.tokens),)
    driver.resume("again", first.session, replace(ask(ASK, turn_index=2), summary=summary, calls=too_long))
    driver.resume("third", first.session, replace(ask(FINAL, turn_index=3), summary=summary))


def _resume_once(driver: EngineDriver) -> None:
    first = driver.start("first", ask(ASK))
    driver.resume("again", first.session, ask(FINAL, turn_index=2))


def _later_minute(driver: EngineDriver) -> None:
    a = driver.start("a-first", ask(ASK))
    driver.until_later_minute(a.finished_at)
    driver.resume("a-again", a.session, ask(ASK, turn_index=2))
    b = driver.start("b-first", ask(ASK))
    driver.resume("a-third", a.session, ask(FINAL, turn_index=3))
    driver.resume("b-again", b.session, ask(FINAL, turn_index=2))


def _bad_handles(driver: EngineDriver) -> None:
    driver.start("first", ask(ASK))
    dead = _may_hang(driver, "resume.dead-handle", ask(FINAL, turn_index=2))
    driver.resume("dead", driver.contract.handle.nonexistent_id, dead)
    malformed = _may_hang(driver, "resume.malformed-handle", ask(FINAL, turn_index=2))
    driver.resume("malformed", MALFORMED, malformed)


def _auto(driver: EngineDriver) -> None:
    text = settings_cases.instruct(driver)
    first = driver.start("first", replace(ask(FINAL, mode=Mode.AUTO), instructions=text))
    driver.resume("again", first.session, replace(ask(FINAL, mode=Mode.AUTO, turn_index=2), instructions=text))


def _asked_model(driver: EngineDriver) -> None:
    """Ask for another model than the release takes by itself, and for another effort.

    Where all other turns run with the release's own model, this one asks for tools too.
    """
    hermetic, model = driver.contract.hermetic, driver.contract.launch.model
    if not model:
        return
    options = hermetic.effort.options if hermetic.effort else ()
    asked = replace(ask(ASK), model=hermetic.model, options=options)
    again = replace(ask(FINAL, turn_index=2), model=hermetic.model, options=options)
    tool = hermetic.tool_call if settings_cases.asks_for_another_model(driver.contract) else None
    if tool:
        asked = replace(asked, tool=tool, patience=TOOL_PATIENCE)
        writes = driver.contract.artifacts is not None
        again = artifacts_case.with_writes(driver, tool, again) if writes else replace(again, tool=tool)
    first = driver.start("first", asked)
    driver.resume("again", first.session, again)
    if tool and driver.contract.artifacts is None:
        control = replace(ask(FINAL, mode=Mode.AUTO), model=hermetic.model, tool=tool, patience=TOOL_PATIENCE)
        driver.start("auto", control)


def _asked_model_turns(contract: EngineContract) -> int:
    hermetic, turns = contract.hermetic, 2 if contract.launch.model else 0
    calls = settings_cases.asks_for_another_model(contract) and hermetic.tool_call is not None
    return turns + (calls and contract.artifacts is None)


def _flag_prompts(driver: EngineDriver) -> None:
    first = driver.start("first", Ask("--help", "", ASK))
    like_flag = next((auto.flag for auto in driver.contract.auto_flags), "--yes")
    driver.resume("again", first.session, Ask(like_flag, "", FINAL, turn_index=2))


def _large_prompt(driver: EngineDriver) -> None:
    nonce, text = _large(driver)
    driver.start("first", Ask(text, nonce, FINAL))


def _whole(driver: EngineDriver) -> None:
    """Let a long prompt and answer, and a reply with odd characters, pass; a slow caller reads the answer from a pipe.

    Of an engine that must print into a file instead, it does so only on the resume, since the first turn's session id
    would be lost, too.
    """
    is_large = driver.contract.launch.accepts(LARGE_PROMPT)
    nonce, text = _large(driver) if is_large else (new_nonce(), f"A prompt. {new_nonce()}")
    into_file = driver.contract.streams.stdout_file
    answer = Text(LONG_ANSWER)
    first = driver.start("first", Ask(_odd(nonce, text), nonce, answer, slow_pipe=not into_file))
    nonce = new_nonce()
    reply = Ask(_odd(nonce, f"A reply. {new_nonce()}"), nonce, answer if into_file else FINAL, turn_index=2)
    driver.resume("again", first.session, replace(reply, slow_pipe=into_file))


def _large(driver: EngineDriver) -> tuple[str, str]:
    """Return a nonce, and a large text of one line between it and another one."""
    if not driver.contract.launch.accepts(LARGE_PROMPT):
        raise CaseStoppedError("the contract limits prompts to fewer bytes", Reason.CONTRACT)
    nonce, text = new_nonce(), (FILLER * (LARGE_PROMPT // len(FILLER) + 1))[:LARGE_PROMPT]
    return nonce, f"{nonce} {text} {new_nonce()}"


def _odd(nonce: str, line: str) -> str:
    """Return a prompt with a nonce in its first line, with another line, and with some that are easily altered."""
    return f"  {nonce} {ODD_LINES}{line}\nThe last line ends in two blanks.  "


def _open_stdin(driver: EngineDriver) -> None:
    if not _open_stdin_turns(driver.contract):
        raise CaseStoppedError("the prompt is passed only on standard input", Reason.CONTRACT)
    nonce, patience = new_nonce(), _deadline("stdin.open")
    # no space in it: some engines quote an argument with a space
    prompt, hangs = f"Which-colour?-{nonce}", _hangs(driver, "stdin.open")
    driver.start("first", Ask(prompt, nonce, FINAL, via="argument", stdin_open=True, patience=patience, hangs=hangs))


def _open_stdin_turns(contract: EngineContract) -> int:
    takes_argument = any(channel.via == "argument" for channel in contract.launch.prompt)
    return int(takes_argument and not contract.guards.proof)


def _one_turn(
    reply: Reply, *, fails: bool = False, hang: str = "", signal: Signals | None = None
) -> Callable[[EngineDriver], None]:
    """Return a case of one turn; `hang` is the symptom by which a contract declares that it misses its deadline."""

    def play(driver: EngineDriver) -> None:
        patience = (driver.contract.hermetic.failure_deadline or _deadline("backend.failure-told")) if fails else None
        hangs = _hangs(driver, "backend.failure-told", hang)
        driver.start("first", replace(ask(reply), patience=patience, hangs=hangs, signal=signal))

    return play


def _imitation(driver: EngineDriver) -> None:
    """Let the model imitate records; where they are lines of text, those that the engine itself has printed."""
    text, streams = IMITATION, driver.contract.streams
    if streams.stdout.records or streams.stderr.records:
        opening, forged = driver.start("opening", ask(Text("Done."))), driver.contract.handle.nonexistent_id
        printed = (opening.stdout + opening.stderr).decode("utf-8", "replace")
        text += "\n" + (printed.replace(opening.session, forged) if opening.session else printed)
    driver.start("first", ask(Text(text)))


def _imitation_turns(contract: EngineContract) -> int:
    return 2 if contract.streams.stdout.records or contract.streams.stderr.records else 1


def _tool_call(driver: EngineDriver) -> None:
    """Let the model call a tool that writes: in mode interactive nothing may come of it, in mode auto the file.

    A turn that offers a tool by which the agent asks its user, as few do, has another one after it, with that question.
    """
    first = _calling(driver, "first", Mode.INTERACTIVE)
    if first.session is not None:
        asked = ask(FINAL, turn_index=2)
        driver.resume("again", first.session, replace(asked, tool=_tool(driver), patience=TOOL_PATIENCE))
    auto = _calling(driver, "auto", Mode.AUTO)
    for shown in (first, auto):
        if calls := tool_cases.questions_offered(driver.contract, shown):
            asked = tool_cases.question(driver, shown.mode, calls)
            driver.start(f"{shown.mode}-question", _may_hang(driver, "question.is-told", asked))


def _called_once(driver: EngineDriver) -> None:
    _calling(driver, "first", Mode.INTERACTIVE)


def _calling(driver: EngineDriver, step: str, mode: Mode) -> Turn:
    return driver.start(step, replace(ask(FINAL, mode=mode), tool=_tool(driver), patience=TOOL_PATIENCE))


def _tool(driver: EngineDriver) -> ToolUse:
    tool = driver.contract.hermetic.tool_call
    if tool is None:
        raise CaseStoppedError("the contract names no tool for the model to call", Reason.CONTRACT)
    return tool


def _ends_once(driver: EngineDriver) -> None:
    """Let the model make every call that would outlive a turn, and then ask its user, in a repository."""
    calls = driver.contract.ongoing_calls
    if not calls:
        return
    make_repository(driver.sandbox.work)
    first = driver.start("first", replace(ask(ASK), ongoing=calls, patience=TOOL_PATIENCE))
    again = replace(ask(ASK, turn_index=2), ongoing=calls, patience=TOOL_PATIENCE)
    driver.resume("again", first.session, again)


def _canaries(driver: EngineDriver) -> None:
    """Offer programs in mode interactive, then where nothing guards the engine, which may remember that it may."""
    if not driver.contract.canaries:
        return
    opening = ask(ASK)
    accepted = offer(driver.contract, driver.sandbox)
    first = driver.start("first", replace(opening, options=accepted))
    driver.resume("again", first.session, replace(ask(FINAL, turn_index=2), options=accepted))
    # what the workspace names may be fetched from a package registry, and nothing guards the engine from it now
    driver.sandbox.backend.ignore_egress()
    contract, options = unguard(driver.contract, driver.sandbox)
    control = replace(ask(FINAL, mode=Mode.AUTO), options=options)
    replace(driver, contract=contract).start("control", control)


def _may_hang(driver: EngineDriver, clause_id: str, asked: Ask) -> Ask:
    """Return the turn with the deadline of a clause if the contract declares that it hangs, else as it is."""
    return replace(asked, patience=_deadline(clause_id), hangs=True) if _hangs(driver, clause_id) else asked


def _hangs(driver: EngineDriver, clause_id: str, symptom: str = "hang") -> bool:
    """Return whether the contract declares that the engine always shows this symptom."""
    deviations = driver.contract.deviations
    return any((d.clause, d.symptom) == (clause_id, symptom) and not d.flaky for d in deviations)


def _deadline(clause_id: str) -> float | None:
    return load.catalogue()[clause_id].deadline


# what a probe of resuming alone runs, under the name that the checks look for
RESUME = Case("main", _resume_once, 2, opens=True)
# cases that may wait longest come first
CASES = (
    Case("long-session", _long_session, LONG_SESSION, level="long"),
    Case("compaction", _compaction, lambda contract: 3 if contract.hermetic.compaction else 0, level="long"),
    Case("later-minute", _later_minute, 5, waits=True),
    Case("stdin-open", _open_stdin, _open_stdin_turns, waits=True),
    Case("backend-away", _one_turn(Text(""), fails=True, hang="hang-away"), 1, waits=True, backend_away=True),
    Case("backend-500", _one_turn(Refuse(500), fails=True, hang="hang-500"), 1, waits=True),
    Case("backend-cut", _one_turn(Cut(), fails=True, hang="hang-cut"), 1, waits=True),
    Case("backend-401", _one_turn(Refuse(401), fails=True, hang="hang-401"), 1, waits=True),
    Case("disturbed", session_cases.disturbed, session_cases.disturbed_turns, waits=True),
    Case("static", _static, 0, level="static"),
    Case(LISTINGS, _listings, 0, level="static"),
    Case("main", _main, 6, opens=True),
    Case("bad-handles", _bad_handles, 3),
    Case("auto", _auto, 2),
    Case("asked-model", _asked_model, _asked_model_turns),
    Case("flag-prompts", _flag_prompts, 2),
    Case("large-prompt", _whole, 2),
    Case("imitation", _imitation, _imitation_turns),
    Case("ends-once", _ends_once, lambda contract: 2 if contract.ongoing_calls else 0),
    Case("canaries", _canaries, 3),
    Case("own-settings", settings_cases.own_settings, settings_cases.own_settings_turns),
    Case("workspace", settings_cases.workspace, settings_cases.workspace_turns),
    Case("artifacts", artifacts_case.artifacts, artifacts_case.turns),
    Case("any-settings", output_case.any_settings, output_case.any_settings_turns),
    Case("file-marks", settings_cases.file_marks, settings_cases.file_marks_turns),
    Case("sandbox", tool_cases.sandboxed, tool_cases.sandboxed_turns),
    Case("at-once", session_cases.at_once, 6),
    Case("tool-call", _tool_call, 3),
)
# for levels without another plain turn; no clause reads it
FIRST_TURN = Case("first-turn", _one_turn(ASK), 1, level="server", opens=True)


def longest_wait(cases: Iterable[Case], contract: EngineContract) -> str:
    """Say how long cases wait at most rather than work, and what for; empty: they don't wait.

    Their waits overlap. A hang that the contract doesn't declare is not among them, since it can come in any turn.
    """
    names = {case.name for case in cases}
    waits = list[tuple[float, str]]()
    if "later-minute" in names:
        waits.append((_MINUTE, "to resume a session in a later clock minute"))
    if not names.isdisjoint(FAILING):
        seconds = contract.hermetic.failure_deadline or _deadline("backend.failure-told") or 0.0
        waits.append((seconds, "for the engine to give up on a failing model"))
    if "stdin-open" in names and any(d.clause == "stdin.open" for d in contract.deviations):
        waits.append((_deadline("stdin.open") or 0.0, "because the engine hangs on an open standard input"))
    seconds, why = max(waits, default=(0.0, ""))
    return f"up to {seconds:.0f} s {why}, and {TURN_TIMEOUT:.0f} s per turn that hangs" if why else ""


# only for recordings; no clause reads them
RECORDED_ONLY = (
    Case("backend-429", _one_turn(Refuse(429), fails=True), 1, waits=True),
    Case("backend-hang", _one_turn(Hang(), fails=True), 1, waits=True),
    Case("interrupted", _one_turn(Hang(), fails=True, signal=Signals.SIGINT), 1, waits=True),
    Case("killed", _one_turn(Hang(), fails=True, signal=Signals.SIGKILL), 1, waits=True),
    Case("final", _one_turn(FINAL), 1),
)
# a call that needs no approval shows nothing about streams
_CALLED_ONCE = Case("tool-call", _called_once, 1)
# what a pipe loses is not in its recording
_LARGE_PROMPT = Case("large-prompt", _large_prompt, 1)
# streams do not show which programs were started, and those of a killed turn depend on the moment
_SURROUNDED = ("canaries", "own-settings", "workspace", "artifacts", "file-marks", "asked-model", "any-settings")
_NOT_RECORDED = (LISTINGS, "ends-once", "disturbed", "at-once", *_SURROUNDED)
_REDUCED = (_CALLED_ONCE, _LARGE_PROMPT)
_LEFT_OUT = {*_NOT_RECORDED, *(case.name for case in _REDUCED)}
RECORDED = (
    *(case for case in CASES if case.level != "long" and case.name not in _LEFT_OUT),
    *_REDUCED,
    *RECORDED_ONLY,
)
