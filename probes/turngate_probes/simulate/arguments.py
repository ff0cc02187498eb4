"""What the arguments of a simulated engine ask for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from msgspec import Struct

from turngate import EngineContract, EnvironmentFailed
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_slot import as_in_contract
from turngate.contract.launch import PromptChannel
from turngate.contract.simulation import ArgumentSyntax
from turngate_probes.simulate.command_line import CommandLine, LineReader, UsageProblem
from turngate_probes.simulate.options import accepted, commands, template_options
from turngate_probes.simulate.printing import simulation

_HANDLE, _TEXT = "{handle}", ("text", "default")


class Asked(Struct, frozen=True):
    """What the arguments of a turn ask for.

    `handle` is the session to resume, `newest` that it is the last one; `prompt` is None if it is on standard input;
    `plain` says that the output is only text; `line` is all that was read.
    """

    handle: str | None
    newest: bool
    prompt: str | None
    channel: PromptChannel
    model: str
    auto: bool
    plain: bool
    line: CommandLine


def read(contract: EngineContract, argv: Sequence[str]) -> Asked:
    """Read the arguments of a turn; UsageProblem if the engine refuses them."""
    reader = _reader(contract)
    with _explained(reader):
        return _asked(contract, reader.syntax, reader.read(argv))


def _asked(contract: EngineContract, syntax: ArgumentSyntax, line: CommandLine) -> Asked:
    """Return what arguments ask for once they are read."""
    started, resumed = commands(contract.launch.start), commands(contract.launch.resume)
    if line.commands not in (started, resumed):
        word = next(iter(line.words), "")
        raise UsageProblem("command", f"unexpected argument '{word}'" if word else "arguments are missing", name=word)
    named = next((name for name, value in template_options(contract.launch.resume) if value == _HANDLE), None)
    newest = line.last(syntax.newest) is not None
    handle = line.last(named)
    if named is None and line.commands == resumed and line.words and not newest:
        handle = line.words.pop(0)
    prompt, channel = _prompt(contract, syntax, line)
    auto = bool(auto_flags_in(as_in_contract(tuple(line.tokens), contract), contract))
    return Asked(handle, newest, prompt, channel, _model(contract, line), auto, _is_plain(contract, syntax, line), line)


def is_sticky(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments start a sticky process: they have what only those of a sticky process have."""
    kept, launch = contract.sticky.argv, contract.launch
    try:
        line = _reader(contract).read(argv)
    except UsageProblem:
        words = tuple(takewhile(lambda word: word != "{options}", kept))
        return bool(words) and tuple(argv[: len(words)]) == words
    headless = template_options(launch.start)
    only = [option for option in template_options(kept) if option not in headless]
    named = commands(kept) not in (commands(launch.start), commands(launch.resume))
    return bool(only or named) and line.commands == commands(kept) and all(line.has(*option) for option in only)


def read_sticky(contract: EngineContract, argv: Sequence[str]) -> tuple[CommandLine, str]:
    """Return the arguments and the model of a sticky process; UsageProblem if it does not accept its arguments."""
    reader = _reader(contract)
    with _explained(reader):
        line = reader.read(argv)
        if line.words:
            raise _extra(line.words[0])
    return line, _model(contract, line)


def refusal(channel: PromptChannel, prompt: str) -> str | None:
    """Return why its channel can't carry a prompt, if the contract says so."""
    return next((refusal.why for refusal in channel.refuses if re.search(refusal.pattern, prompt)), None)


@contextmanager
def _explained(reader: LineReader) -> Iterator[None]:
    """Add to a refusal what its message may name: the usage of the command, and a similar option."""
    try:
        yield
    except UsageProblem as problem:
        usage = reader.syntax.usage.get(" ".join(reader.line.commands), "")
        problem.slots |= {"usage": usage, "similar": _similar(problem.slots.get("name", ""), reader.accepted)}
        raise


def _reader(contract: EngineContract) -> LineReader:
    syntax = simulation(contract).arguments
    paths = {commands(template) for template in (contract.launch.start, contract.launch.resume, contract.sticky.argv)}
    return LineReader(accepted(contract, syntax), syntax, paths)


def _prompt(contract: EngineContract, syntax: ArgumentSyntax, line: CommandLine) -> tuple[str | None, PromptChannel]:
    """Return the prompt, None if it is on standard input, and its channel."""
    channels = contract.launch.prompt
    for channel in channels:
        for token in channel.tokens:
            name, equals, _ = token.partition("=")
            if equals and (text := line.last(name)):
                if line.words:
                    raise _extra(line.words[0])
                return text, channel
    piped = next((channel for channel in channels if channel.via == "stdin"), channels[0])
    if not line.words or [*piped.tokens] == line.words:
        return None, piped
    refused = {"refused": line.words[1:], "none": line.words}.get(syntax.words)
    if refused:
        raise _extra(refused[0])
    words = line.words if syntax.words == "joined" else line.words[:1]
    spaced = [syntax.spaced.replace("{argument}", word) if " " in word else word for word in words]
    return " ".join(spaced), next((channel for channel in channels if channel.via == "argument"), channels[0])


def _is_plain(contract: EngineContract, syntax: ArgumentSyntax, line: CommandLine) -> bool:
    """Whether the output is text; EnvironmentFailed if it has a form that the simulation does not describe."""
    needed = {*syntax.incidental, *(required.option for required in syntax.required)}
    missing = [(n, v) for n, v in template_options(contract.launch.start) if n not in needed and not line.has(n, v)]
    for name, _ in missing:
        if (other := line.last(name)) and other not in _TEXT:
            hint = f"the simulator prints what {' '.join(contract.launch.start[:-2])} prints, or text"
            raise EnvironmentFailed(f"the simulator doesn't print {name} {other}", hint)
    return bool(missing)


def _model(contract: EngineContract, line: CommandLine) -> str:
    """Return the model that the options ask for."""
    syntax, flag = simulation(contract).arguments, contract.launch.model[0].partition("=")[0]
    settings = [value for name, value in line.options if name == syntax.settings and value]
    set_by = [value.partition("=")[2].strip("\"'") for value in settings if value.startswith("model=")]
    return line.last(flag) or next(reversed(set_by), "") or contract.hermetic.model


def _extra(word: str) -> UsageProblem:
    return UsageProblem("extra", f"unexpected argument '{word}'", name=word, key=word)


def _similar(name: str, known: Iterable[str]) -> str:
    """Return the option that a mistyped one may mean, empty if there is none."""
    import difflib  # noqa: PLC0415 - slow to import, and rarely needed

    return next(iter(difflib.get_close_matches(name, {*known} - {name}, 1, 0.8)), "")
