"""Tries an unknown CLI against the stub model in a sandbox: version, help, first turns and resumes.

It guesses no argument: a turn runs with the templates that the user gives. Without any, the prompt is the only
argument, or comes through standard input, which shows only whether it reaches the model.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import Ended, ProcessOutcome, ProcessRequest
from turngate.contract.hermetic import Hermetic
from turngate.process.execution import Stdin, run
from turngate_probes.clauses.prompt import arrived
from turngate_probes.draft.reading import OutputReading, id_values, read
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import NONCE, Exchange, StubRule, Text, new_nonce

TIMEOUT = 90.0
MOST_CANDIDATES = 4
LONGEST_STORED = 64 * 2**20  # bytes of a file in which a session is looked for
REPLY = "The sky is blue today."
VARIABLES: Mapping[str, Mapping[str, str]] = {
    "openai": {
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_API_BASE": "{url}/v1",
        "OPENAI_API_KEY": "stub",
        "OPENAI_MODEL": "stub",
    },
    "anthropic": {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "stub"},
    "gemini": {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "stub"},
}


class Channel(Struct, frozen=True):
    """A way to pass a prompt, as in a contract: `tokens` take its place in the template, {text} is the prompt."""

    via: str
    tokens: tuple[str, ...]


ARGUMENT, STDIN = Channel("argument", ("{text}",)), Channel("stdin", ())
CHANNELS = (STDIN, Channel("stdin", ("-",)), ARGUMENT, Channel("argument", ("--", "{text}")))


class Command(Struct, frozen=True):
    """An unknown CLI: its executable, the sandbox's variables and files, and the given templates (empty: unknown)."""

    executable: Path
    hermetic: Hermetic
    start: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()


class Page(Struct, frozen=True):
    """The output of a plain command, and the stream that it came on."""

    argv: tuple[str, ...]
    stream: str
    text: str


class TrialTurn(Struct, frozen=True):
    """One turn: how its prompt was passed, how it ended, and its requests. `session` is the id that it resumed."""

    argv: tuple[str, ...]
    channel: Channel
    prompt: str
    outcome: ProcessOutcome
    output: OutputReading
    requests: tuple[Exchange, ...]
    session: str = ""

    @property
    def nonce(self) -> str:
        """The word by which the prompt is recognised in a request."""
        return next(found[0] for found in NONCE.finditer(self.prompt))

    @property
    def is_dashed(self) -> bool:
        """Whether its prompt looks like a flag."""
        return self.prompt.startswith("-")

    @property
    def asked(self) -> bool:
        """Whether it asked the model for an answer."""
        return any(request.reply == "text" for request in self.requests)

    @property
    def went_well(self) -> bool:
        """Whether it asked the model, and exited with 0."""
        return self.asked and self.outcome.ended is Ended.EXIT and self.outcome.exit_code == 0

    @property
    def arrived(self) -> bool:
        """Whether the model got the prompt verbatim."""
        return arrived(self.prompt, self.requests)


class Trial(Struct, frozen=True):
    """Everything that was seen; None or empty: nothing.

    `start` and `resume` are the templates that were given, `hermetic` is what was set. `is_guess`: its variables are
    those of known vendors, and no turn showed which of them the CLI needs. `turns` are first turns: with an
    ordinary prompt, then with some that begin with a dash. `resumes` continue the first that went well, each with
    another candidate for the session id; if the last one carried on the conversation, `session` is its id. `stored` is
    the folder below the home that holds the prompts.
    """

    start: tuple[str, ...]
    resume: tuple[str, ...]
    hermetic: Hermetic
    version: Page | None
    pages: tuple[Page, ...]
    turns: tuple[TrialTurn, ...]
    resumes: tuple[TrialTurn, ...] = ()
    session: str | None = None
    stored: str | None = None
    hosts: tuple[str, ...] = ()
    is_guess: bool = False

    @property
    def good(self) -> tuple[TrialTurn, ...]:
        """The first turns that went well, and the resume that continued the first one."""
        resumed = self.resumes[-1:] if self.session else ()
        return tuple(turn for turn in (*self.turns, *resumed) if turn.went_well)


def attempt(command: Command, box: Sandbox, interrupt: Interrupt) -> Trial:
    """Run the commands one after the other, and return what they show."""
    version = _page(command, box, interrupt, (("--version",), ("version",), ("-v",)), r"\d+\.\d+")
    pages = [*_pages(command, box, interrupt)]
    turns = [*_turns(command, box, interrupt)]
    first = next((turn for turn in turns if turn.went_well), None)
    needed = _needed(command, box, interrupt, turns)
    command = replace(command, hermetic=needed or command.hermetic)
    resumes = [*_resumes(command, box, interrupt, turns, first)] if command.resume and first else []
    carried = bool(resumes) and first is not None and _carried(first, resumes[-1])
    return Trial(
        command.start,
        command.resume,
        command.hermetic,
        version,
        tuple(pages),
        tuple(turns),
        tuple(resumes),
        resumes[-1].session if carried else None,
        _stored(box.home, [turn.nonce for turn in (*turns, *resumes) if turn.asked]),
        tuple(dict.fromkeys(egress.host for egress in box.backend.egress())),
        needed is None,
    )


def subcommands(template: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with which a template begins before its first option or slot."""
    return tuple(takewhile(lambda word: re.fullmatch("[a-z][a-z-]*", word), template))


def _pages(command: Command, box: Sandbox, interrupt: Interrupt) -> Iterator[Page]:
    """Return the help page of the command, and those of subcommands in the templates that have their own."""
    paths = [subcommands(template) for template in (command.start, command.resume)]
    below = [((*path[:depth], "--help"),) for path in paths for depth in range(1, len(path) + 1)]
    texts = set[str]()
    for choices in dict.fromkeys(((("--help",), ("help",), ("-h",)), *below)):
        page = _page(command, box, interrupt, choices, r"\S")
        if page and page.text not in texts:
            texts.add(page.text)
            yield page


def _turns(command: Command, box: Sandbox, interrupt: Interrupt) -> Iterator[TrialTurn]:
    """Run a first turn with an ordinary prompt; if that works, one for each way to pass one that begins with a dash."""
    template = command.start or ("{prompt}",)
    for channel in (ARGUMENT, STDIN):
        turn = _turn(command, box, interrupt, template, channel, f"Which colour is the sky? {new_nonce()}")
        yield turn
        if turn.asked:
            break
    else:
        return
    for channel in CHANNELS if command.start else ():
        yield _turn(command, box, interrupt, template, channel, f"--{new_nonce()}")


def _resumes(
    command: Command, box: Sandbox, interrupt: Interrupt, turns: list[TrialTurn], first: TrialTurn
) -> Iterator[TrialTurn]:
    """Resume a first turn with each value that may be its session id, until one continues its conversation."""
    for session in _ids(turns, first):
        prompt = f"Which colour is the grass? {new_nonce()}"
        resumed = _turn(command, box, interrupt, command.resume, first.channel, prompt, session)
        yield resumed
        if _carried(first, resumed):
            return


def _ids(turns: list[TrialTurn], first: TrialTurn) -> list[str]:
    """Return the values of a turn that may be its session id: each looks like one, and is in no other turn."""
    others = {value for turn in turns if turn is not first for value in id_values(turn.output)}
    return [value for value in id_values(first.output) if value not in others][:MOST_CANDIDATES]


def _carried(first: TrialTurn, resumed: TrialTurn) -> bool:
    """Whether a request of a resume has the prompt of the first turn."""
    return any(first.nonce in request.nonces for request in resumed.requests)


def _needed(command: Command, box: Sandbox, interrupt: Interrupt, turns: list[TrialTurn]) -> Hermetic | None:
    """Leave out the variables of all vendors without which a turn asks the model for the same, if all were set.

    None: no turn asked the model and exited with 0, so leaving one out shows nothing.
    """
    hermetic, first = command.hermetic, next((turn for turn in turns if turn.went_well), None)
    if hermetic.env != every_variable():
        return hermetic
    requests = [request for turn in turns for request in turn.requests]
    spoken = {(request.protocol or "").partition(".")[0] for request in requests} & VARIABLES.keys()
    if first is None or not spoken:
        return None
    env = {name: value for vendor in sorted(spoken) for name, value in VARIABLES[vendor].items()}
    template = command.start or ("{prompt}",)
    for name in list(env):
        fewer = {other: value for other, value in env.items() if other != name}
        without = replace(command, hermetic=replace(hermetic, env=fewer))
        turn = _turn(without, box, interrupt, template, first.channel, f"Which colour is the sea? {new_nonce()}")
        if turn.went_well and turn.arrived and _wanted(turn) == _wanted(first):
            env = fewer
    return replace(hermetic, env=env)


def _wanted(turn: TrialTurn) -> set[tuple[str | None, str | None]]:
    """Return which protocols the requests of a turn speak, and which models they name."""
    return {(request.protocol, request.model) for request in turn.requests}


def every_variable() -> dict[str, str]:
    """Return the variables by which the known vendors' clients find a model."""
    return {name: value for variables in VARIABLES.values() for name, value in variables.items()}


def _stored(home: Path, words: list[str]) -> str | None:
    """Return the deepest folder that holds all files with one of these words, such as `{HOME}/.acme`."""
    folders = [file.parent for file in _files(home) if any(word.encode() in file.read_bytes() for word in words)]
    if not folders:
        return None
    common = folders[0]
    while not all(folder.is_relative_to(common) for folder in folders):
        common = common.parent
    return "/".join(("{HOME}", *common.relative_to(home).parts))


def _files(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LONGEST_STORED:
            yield path


def _page(
    command: Command, box: Sandbox, interrupt: Interrupt, choices: tuple[tuple[str, ...], ...], sign: str
) -> Page | None:
    """Return the output of the first of these commands that exits with 0 and prints something like `sign`."""
    for argv in choices:
        done = _run(command, box, interrupt, argv)
        for stream, data in (("stdout", done.stdout), ("stderr", done.stderr)):
            text = data.decode("utf-8", "replace")
            if done.exit_code == 0 and re.search(sign, text):
                return Page(argv, stream, text)
    return None


def _turn(
    command: Command,
    box: Sandbox,
    interrupt: Interrupt,
    template: tuple[str, ...],
    channel: Channel,
    prompt: str,
    session: str = "",
) -> TrialTurn:
    """Run a turn with a prompt, and note its requests to the model."""
    tokens = tuple(token.replace("{text}", prompt) for token in channel.tokens)
    slots = {"{options}": (), "{prompt}": tokens}
    filled = ((token, box.fill(token).replace("{handle}", session)) for token in template)
    argv = tuple(word for token, text in filled for word in slots.get(token, (text,)))
    box.backend.script(StubRule(Text(REPLY)))
    before = len(box.backend.exchanges())
    done = _run(command, box, interrupt, argv, prompt.encode() if channel.via == "stdin" else Stdin.CLOSED)
    return TrialTurn(argv, channel, prompt, done, read(done.stdout), box.backend.exchanges()[before:], session)


def _run(
    command: Command, box: Sandbox, interrupt: Interrupt, argv: tuple[str, ...], stdin: bytes | Stdin = Stdin.CLOSED
) -> ProcessOutcome:
    env = box.env(command.hermetic, box.work)
    with interrupt.scope() as stop:
        return run(ProcessRequest((str(command.executable), *argv), box.work, env, stdin, TIMEOUT), stop=stop)
