"""Tries an unknown CLI against the stub model in a sandbox: version, help and two turns."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from turngate import Ended, EnvironmentFailed, ProcessOutcome, ProcessRequest
from turngate.contract.hermetic import Hermetic
from turngate.process import run
from turngate.sanitize import quoted_lines, visible
from turngate_probes.draft.arguments import Arguments, completed, guess
from turngate_probes.draft.reading import Candidate, OutputReading, candidates, read
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import Exchange, Rule, Text, new_nonce

TIMEOUT = 90.0
MOST_CANDIDATES = 4
SHOWN = 600
FIRST, SECOND = "The sky is blue today.", "The grass is green today."


@dataclass(frozen=True, slots=True)
class Command:
    """An unknown CLI: its executable, the sandbox's variables and files, and the given templates (empty: a guess)."""

    executable: Path
    hermetic: Hermetic
    start: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The output of a plain command, and the stream that it came on."""

    argv: tuple[str, ...]
    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class TrialTurn:
    """One turn: its output, and the requests that reached the stub model."""

    output: OutputReading
    exit_code: int | None
    requests: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything that was seen. `session` is the id that carried the first turn into `second`, if one did.

    `hosts` are the refused hosts, `tried` the candidates for the id, the likeliest first.
    """

    version: Page
    pages: tuple[Page, ...]
    arguments: Arguments
    first: TrialTurn
    second: TrialTurn | None
    session: Candidate | None
    tried: tuple[Candidate, ...]
    hosts: tuple[str, ...]


def attempt(command: Command, box: Sandbox, interrupt: Interrupt) -> Trial:
    """Run the commands one after the other; EnvironmentFailed if one fails so that nothing can be drafted."""
    version = _page(command, box, interrupt, (("--version",), ("version",), ("-v",)), r"\d+\.\d+")
    pages = [_page(command, box, interrupt, (("--help",), ("help",), ("-h",)), r"\S")]
    if command.start and re.fullmatch("[a-z][a-z-]*", command.start[0]):
        pages.append(_page(command, box, interrupt, ((command.start[0], "--help"),), r"\S"))
    guessed = guess(pages[-1].text)
    arguments = replace(
        guessed, start=completed(command.start) or guessed.start, resume=completed(command.resume) or guessed.resume
    )
    nonce = new_nonce()
    prompt = f"Which colour is the sky? {nonce}"
    first = _turn(command, box, interrupt, _filled(arguments.start, prompt, ""), FIRST)
    hosts = tuple(dict.fromkeys(egress.host for egress in box.backend.egress()))
    tried = tuple(candidates(first.output, (prompt, nonce, FIRST))[:MOST_CANDIDATES])
    for candidate in tried if arguments.resume else ():
        argv = _filled(arguments.resume, "Which colour is the grass?", candidate.value)
        second = _turn(command, box, interrupt, argv, SECOND)
        if any(nonce in request.nonces for request in second.requests):
            return Trial(version, tuple(pages), arguments, first, second, candidate, tried, hosts)
    return Trial(version, tuple(pages), arguments, first, None, None, tried, hosts)


def _page(
    command: Command, box: Sandbox, interrupt: Interrupt, choices: tuple[tuple[str, ...], ...], sign: str
) -> Page:
    """Run the first of these commands that exits with 0 and prints something like `sign`."""
    done = None
    for argv in choices:
        done = _run(command, box, interrupt, argv)
        for stream, data in (("stdout", done.stdout), ("stderr", done.stderr)):
            text = data.decode("utf-8", "replace")
            if done.exit_code == 0 and re.search(sign, text):
                return Page(argv, stream, text)
    assert done  # noqa: S101 - there is always a choice
    hint = f"it printed: {_shown(done)}"
    raise EnvironmentFailed(f"{' '.join((command.executable.name, *choices[0]))} printed nothing useful", hint)


def _turn(command: Command, box: Sandbox, interrupt: Interrupt, argv: tuple[str, ...], reply: str) -> TrialTurn:
    """Run a turn; EnvironmentFailed if it made no request to the model, or did not end."""
    box.backend.script(Rule(Text(reply)))
    before = len(box.backend.exchanges())
    done = _run(command, box, interrupt, argv)
    requests = box.backend.exchanges()[before:]
    asked = tuple(request for request in requests if request.reply == "text")
    shown = " ".join((command.executable.name, *(token or "''" for token in argv)))
    if not asked:
        other = ", ".join(dict.fromkeys(f"{request.method} {visible(request.path)}" for request in requests))
        hosts = ", ".join(dict.fromkeys(egress.host for egress in box.backend.egress()))
        told = [f"it sent the stub model only {other}"] if other else []
        told += [f"connections to {hosts} were refused"] if hosts else []
        told.append(f"it ended with {done.exit_code} and printed: {_shown(done)}")
        hint = (
            "; ".join(told) + "\nSay how it finds its model, such as --env NAME={url}/v1, or with a file: "
            "--file '{home}/.NAME/config.json=config.json'. Check --start-args too"
        )
        raise EnvironmentFailed(f"no request reached the stub model from: {shown}", hint)
    if done.ended is not Ended.EXIT:
        hint = f"it printed: {_shown(done)}"
        raise EnvironmentFailed(f"it did not exit within {TIMEOUT:.0f} s: {shown}", hint)
    return TrialTurn(read(done.stdout), done.exit_code, asked)


def _run(command: Command, box: Sandbox, interrupt: Interrupt, argv: tuple[str, ...]) -> ProcessOutcome:
    env = box.env(command.hermetic, box.work)
    with interrupt.covering() as stop:
        return run(ProcessRequest((str(command.executable), *argv), box.work, env, timeout=TIMEOUT), stop=stop)


def _filled(template: tuple[str, ...], prompt: str, session: str) -> tuple[str, ...]:
    slots = {"{prompt}": prompt, "{handle}": session}
    return tuple(
        slots.get(token, token)
        for token in (word.replace("{handle}", session) for word in template)
        if token != "{options}"
    )


def _shown(done: ProcessOutcome) -> str:
    """Return the end of what a command printed on both streams, on lines of its own, or `nothing`."""
    texts = [data.decode("utf-8", "replace").strip()[-SHOWN:] for data in (done.stdout, done.stderr)]
    return "".join(f"\n{line}" for text in texts if text for line in quoted_lines(text, "  | ")) or "nothing"
