"""What the arguments of a simulated engine ask for.

They are split into commands, options and words as the real CLI does. It accepts the options of its contract, and those
that its simulation adds.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, takewhile

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract, UsageError
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import without_guards
from turngate.argv.file_slot import as_in_contract
from turngate.contract.launch import PromptChannel
from turngate.contract.simulation import ArgumentSyntax, Ending, QueryAnswer
from turngate_probes.simulate.printing import simulation

_SHOWN = re.compile(r"(?P<names>-[^<\[]*?)\s*(?P<value>[<\[].*?[>\]])?(?P<again>\.\.\.)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HELP = ("-h", "--help")
_HANDLE, _TEXT = "{handle}", ("text", "default")
_BY_OPTION = (
    "working_directory",
    "newest",
    "new_session",
    "settings",
    "prompt_file",
    "answer_file",
    "existing_file",
    "unkept",
    "no_settings",
    "fork",
)
DEFAULT_MODEL = "default"  # what a simulated release takes by itself


class AcceptedOption(Struct, frozen=True):
    """An option: its usual name, and the name of its value as messages show it, empty for a switch."""

    name: str
    value: str = ""
    optional: bool = False
    several: bool = False
    repeatable: bool = False

    @property
    def shown(self) -> str:
        """The option with its value, as messages show it."""
        return f"{self.name} {self.value}".strip()


Accepted = Mapping[str, AcceptedOption]


def accepted(contract: EngineContract, syntax: ArgumentSyntax) -> Accepted:
    """Return every option by each of its spellings."""
    options = dict[str, AcceptedOption]()
    for text in syntax.options:
        names, option = _parsed(text)
        options |= dict.fromkeys(names, option)
    for spelled, value, repeatable in (*_listed(contract), *_in_templates(contract)):
        known = next((options[name] for name in spelled if name in options), None)
        option = known or AcceptedOption(spelled[0], "<value>" if value else "")
        option = replace(option, repeatable=option.repeatable or repeatable)
        spellings = [name for name, other in options.items() if other == known]
        options |= dict.fromkeys((*spelled, *spellings), option)
    for text in syntax.unplayed:
        names, option = _parsed(text)
        options |= {name: option for name in names if name not in options}
    for spelling, usual in syntax.spellings.items():
        if usual in options:
            options[spelling] = options[usual]
    return options


def _parsed(text: str) -> tuple[list[str], AcceptedOption]:
    """Read an option as help pages show it."""
    match = _SHOWN.fullmatch(text)
    names = re.split(r"[,\s]+", match["names"].strip()) if match else [text]
    value = match["value"] or "" if match else ""
    name = next((name for name in names if name.startswith("--")), names[0])
    several = value.endswith(("...>", "...]"))
    again = several or bool(match and match["again"])
    return names, AcceptedOption(name, value, value.startswith("["), several, again)


def _listed(contract: EngineContract) -> Iterator[tuple[tuple[str, ...], bool, bool]]:
    """Yield the options that the contract lists: spellings, whether it has a value, and whether it may be repeated."""
    for option in contract.options:
        yield (option.flag, *option.aliases), option.value != "none", option.value == "many"
    listed = {name for option in contract.options for name in (option.flag, *option.aliases)}
    for flag in contract.auto_flags:
        if flag.flag not in listed:
            yield (flag.flag, *flag.aliases), flag.safe_values is not None or bool(flag.keys), bool(flag.keys)


def template_options(template: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the options of a template, with their values (None: a switch)."""
    options: list[tuple[str, str | None]] = []
    for token, following in pairwise((*template, "--")):
        if token.startswith("-") and token not in ("-", "--"):
            name, equals, value = token.partition("=")
            slot = following in ("{options}", "{prompt}")
            options.append((name, value if equals else None if slot or following.startswith("-") else following))
    return options


def commands(template: Iterable[str]) -> tuple[str, ...]:
    """Return the commands in a template: its words that are neither slots nor options nor their values."""
    tokens = tuple(template)
    values = {value for _, value in template_options(tokens)}
    return tuple(token for token in tokens if not token.startswith(("-", "{")) and token not in values)


def _in_templates(contract: EngineContract) -> Iterator[tuple[tuple[str, ...], bool, bool]]:
    """Yield the options that the contract's own templates use."""
    launch, sticky = contract.launch, contract.sticky
    approvals = [approval.options for approval in (sticky.interactive, sticky.auto) if approval]
    prompts = [channel.tokens for channel in launch.prompt]
    templates: Iterable[Iterable[str]] = (
        launch.start,
        launch.resume,
        launch.auto,
        launch.interactive,
        contract.artifacts.options if contract.artifacts else (),
        launch.model,
        sticky.argv,
        _service(contract),
        *prompts,
        *approvals,
    )
    for template in templates:
        yield from (((name,), value is not None, False) for name, value in template_options(template))


class UsageProblem(Exception):  # noqa: N818 - what a user did, not an error of ours
    """The engine refuses its arguments; `kind` is one of REFUSALS, `slots` are values for its message.

    `ending` is how it refuses them, if the kind does not tell.
    """

    ending: Ending | None = None

    def __init__(self, kind: str, words: str, **slots: str) -> None:
        super().__init__(words)
        self.kind, self.slots = kind, slots


class CommandLine(Struct):
    """Arguments that were read: commands, options with their values (None: a switch) in order, and other words."""

    accepted: Accepted
    commands: tuple[str, ...] = ()
    options: list[tuple[str, str | None]] = []
    words: list[str] = []

    @property
    def tokens(self) -> list[str]:
        """The options as separate arguments, under their usual names; a value that looks like an option is attached."""
        looks = [value is not None and value.startswith("-") for _, value in self.options]
        parts = [
            (f"{name}={value}",) if attached else (name, value)
            for (name, value), attached in zip(self.options, looks, strict=True)
        ]
        return [token for part in parts for token in part if token is not None]

    def has(self, name: str, value: str | None) -> bool:
        """Whether an option has a value; None: whether it is there at all."""
        last = self.last(name)
        return last is not None and value in (None, last)

    def has_all(self, arguments: Sequence[str]) -> bool:
        """Whether all of these options have these values."""
        return all(self.has(*option) for option in template_options(arguments))

    def last(self, name: str | None) -> str | None:
        """Return the last value of an option, empty for a switch; None if it is missing."""
        usual = self.accepted[name].name if name is not None and name in self.accepted else name
        return next((value or "" for option, value in reversed(self.options) if option == usual), None)


class LineReader:
    """Reads arguments; `paths` are the commands that may follow each other, such as (exec, resume)."""

    def __init__(self, accepted: Accepted, syntax: ArgumentSyntax, paths: Collection[tuple[str, ...]]) -> None:
        self.accepted, self.syntax, self.paths = accepted, syntax, paths
        self.line = CommandLine(accepted)

    def read(self, argv: Sequence[str]) -> CommandLine:
        """Read all arguments; UsageProblem for the first that is refused."""
        self.line = CommandLine(self.accepted)
        rest = list(argv)
        while rest:
            token = rest.pop(0)
            if token == "--":
                self.line.words += rest
                break
            if token.startswith("-") and token != "-":
                self._option(token, rest)
            elif not self._command(self.syntax.spellings.get(token, token)):
                self.line.words.append(token)
        return self.line

    def _command(self, word: str) -> bool:
        """Whether a word is the next command; later ones are words of a prompt."""
        longer = (*self.line.commands, word)
        if self.line.words or not any(path[: len(longer)] == longer for path in self.paths):
            return False
        self.line.commands = longer
        return True

    def _option(self, token: str, rest: list[str]) -> None:
        """Take an option, with its value if it has one."""
        typed, equals, value = token.partition("=")
        option, attached = self._known(typed), None
        if option is None and self.syntax.attached and not token.startswith("--"):
            option, attached = self._known(token[:2]), token[2:].removeprefix("=")
        if option is None or self._misplaced(option):
            keys = self._keys(typed)
            raise UsageProblem(
                "unknown", f"unexpected argument '{typed}'", name=typed, key=", ".join(keys), s="s" * (len(keys) > 1)
            )
        if not option.repeatable and self.syntax.repeated == "refused" and self.line.last(option.name) is not None:
            self._refuse("repeated", option)
        if not option.value:
            if equals and "unexpected" in self.syntax.refusals:
                self._refuse("unexpected", option, value)
            self.line.options.append((option.name, None))
            if attached:  # short options in one word
                rest.insert(0, f"-{attached}")
            return
        given = [attached] if attached else [value] if equals else self._values(option, rest)
        if not given and not option.optional and self.syntax.no_value == "refused":
            self._refuse("missing", option, key=typed.lstrip("-"))
        for value in given or [""]:
            self._check_value(option, value)
            self.line.options.append((option.name, value))

    def _known(self, typed: str) -> AcceptedOption | None:
        if typed in self.accepted or not self.syntax.camel_case or not typed.startswith("--"):
            return self.accepted.get(typed)
        return self.accepted.get(_HUMP.sub("-", typed).lower())

    def _misplaced(self, option: AcceptedOption) -> bool:
        """Whether the option is unknown at this place, or to this release."""
        names = {name for name, other in self.accepted.items() if other is option}
        lacking = self.syntax.lacking
        return not names.isdisjoint(lacking.get(" ".join(self.line.commands), lacking.get("", ()))) or any(
            names & {*options}
            for placed, after in ((self.syntax.not_before, False), (self.syntax.not_after, True))
            for command, options in placed.items()
            if (command in self.line.commands) is after
        )

    def _values(self, option: AcceptedOption, rest: list[str]) -> list[str]:
        """Take the following arguments that are values of an option."""
        values: list[str] = []
        while rest and (option.several or not values):
            if rest[0].startswith("-") and rest[0] != "-" and (values or option.optional or not self.syntax.dashes):
                break
            values.append(rest.pop(0))
        return values

    def _check_value(self, option: AcceptedOption, value: str) -> None:
        choices, pattern = self.syntax.choices.get(option.name), self.syntax.patterns.get(option.name)
        if choices is not None and value not in choices:
            quoted = ", ".join(f'"{choice}"' for choice in choices)
            self._refuse("choice", option, value, choices=", ".join(choices), quoted=quoted)
        if pattern is not None and not re.fullmatch(pattern, value, re.DOTALL):
            self._refuse("malformed", option, value)

    def _refuse(self, kind: str, option: AcceptedOption, value: str = "", **slots: str) -> None:
        about = {"name": option.name, "option": option.shown, "key": option.name.lstrip("-"), "value": value}
        raise UsageProblem(kind, f"{kind} value {value!r} of {option.shown}", **about | slots)

    def _keys(self, typed: str) -> list[str]:
        """Return an unknown option without dashes; where spellings are equivalent, with its other spelling."""
        key = typed.lstrip("-")
        if not self.syntax.camel_case:
            return [key]
        key = key.removeprefix("no-")
        first, *humps = key.split("-")
        return list(dict.fromkeys((key, first + "".join(hump.title() for hump in humps))))


class Asked(Struct, frozen=True):
    """What the arguments of a turn ask for.

    `handle` is the session to resume; `by_order` are the words that choose it by its order instead, and `place` is then
    its place among the sessions, from 1 (0: it is the newest). `prompt` is None if it is on standard input;
    `plain` says that the output is only text, `listed` that it is one list of all records; `line` is all that was read.
    """

    handle: str | None
    by_order: str
    place: int
    prompt: str | None
    channel: PromptChannel
    model: str
    auto: bool
    plain: bool
    line: CommandLine
    listed: bool = False


def in_chosen_output(contract: EngineContract, argv: Sequence[str]) -> EngineContract:
    """Return the contract for the output mode that arguments choose, which may be the default one."""
    if not contract.outputs:
        return contract
    try:
        line = _reader(contract).read(argv)
    except UsageProblem:
        return contract
    if line.commands not in (commands(contract.launch.start), commands(contract.launch.resume)):
        return contract

    listed = simulation(contract).arguments.as_list
    if listed and line.has_all(listed.options):
        return contract.in_output(listed.records)
    modes = contract.outputs
    chosen = (mode.name for mode in modes if line.has_all(mode.arguments) and not line.has_all(mode.replaces))
    return contract.in_output(next(chosen, contract.launch.output))


def in_plain_text(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Return whether arguments of a turn ask for an output that no output mode of the contract describes."""
    try:
        asked = read(in_chosen_output(contract, argv), argv)
    except (UsageProblem, UsageError):
        return False
    return asked.plain or asked.listed


def read(contract: EngineContract, argv: Sequence[str]) -> Asked:
    """Read the arguments of a turn, with or without those that guard it; UsageProblem if the engine refuses them."""
    plain = without_guards(contract)
    reader = _reader(plain)
    with _explained(reader):
        line = reader.read(argv)
        auto = bool(auto_flags_in(as_in_contract(tuple(line.tokens), contract), contract))
        return _asked(plain, reader.syntax, line, auto=auto)


def _asked(contract: EngineContract, syntax: ArgumentSyntax, line: CommandLine, *, auto: bool) -> Asked:
    """Return what arguments ask for once they are read."""
    started, resumed = commands(contract.launch.start), commands(contract.launch.resume)
    if line.commands not in (started, resumed):
        word = next(iter(line.words), "")
        raise UsageProblem("command", f"unexpected argument '{word}'" if word else "arguments are missing", name=word)
    _require(syntax, line)
    named = next((name for name, value in template_options(contract.launch.resume) if value == _HANDLE), None)
    newest = line.last(syntax.newest) is not None
    handle = line.last(named)
    ordered = handle is not None and syntax.by_order and re.fullmatch(syntax.by_order, handle)
    by_order = f"{named} {handle}".strip() if ordered else str(syntax.newest) if newest else ""
    place = int(handle) if ordered and handle and handle.isdecimal() else 0
    if named is None and line.commands == resumed and line.words and not newest:
        handle = line.words.pop(0)
    prompt, channel = _prompt(contract, syntax, line)
    listed = syntax.as_list is not None and line.has_all(syntax.as_list.options)
    plain = not listed and _is_plain(contract, syntax, line)
    return Asked(handle, by_order, place, prompt, channel, _model(contract, line), auto, plain, line, listed)


def _require(syntax: ArgumentSyntax, line: CommandLine) -> None:
    """Refuse options that need another one beside them."""
    for required in syntax.required:
        if required.beside and line.has_all(required.beside) and not line.has(required.option, None):
            problem = UsageProblem("incomplete", f"{required.option} is missing")
            problem.ending = required.refusal
            raise problem


def unplayed(contract: EngineContract, argv: Sequence[str]) -> str:
    """Return which option the simulation doesn't play, and why; empty: none, or the engine refuses the arguments."""
    syntax = simulation(contract).arguments
    try:
        line = _reader(contract).read(argv)
    except UsageProblem:
        return ""
    passed = [name for name, _ in line.options]
    if untested := next((name for name in passed if name in syntax.untested), ""):
        return f"turngate doesn't know whether {contract.engine} {contract.version} has {untested}"
    played = _played(contract, syntax)
    other = next((name for name in passed if line.accepted[name].name not in played), "")
    return f"`{contract.executable} {other}` is not simulated" if other else ""


def _played(contract: EngineContract, syntax: ArgumentSyntax) -> set[str]:
    """Return the options, by their usual names, that have their effect in the simulation, or none."""
    described = simulation(contract)
    outputs = (described, *map(described.in_output, described.outputs))
    kinds = (lines for one in outputs for lines in (one.started, one.called, one.answered, one.failed.lines))
    facts = (fact for lines in kinds for line in lines for fact in (*line.when, *line.unless))
    effort, sticky = contract.hermetic.effort, described.sticky
    messages, service = sticky.stream_json, sticky.service
    named = {
        *syntax.harmless,
        *(required.option for required in syntax.required),
        *(value for value in (getattr(syntax, field) for field in _BY_OPTION) if value),
        *(name for option in contract.options for name in (option.flag, *option.aliases)),
        *(name for flag in contract.auto_flags for name in (flag.flag, *flag.aliases)),
        *(name for spelled, _, _ in _in_templates(contract) for name in spelled),
        *(name for name, _ in template_options(syntax.as_list.options if syntax.as_list else ())),
        *(name for name, _ in template_options(effort.options if effort else ())),
        *(name for mode in contract.outputs for name, _ in template_options(mode.arguments)),
        *(name for name, _ in template_options(messages.argv if messages else ())),
        *(filter(None, (messages.mode, messages.session, messages.partial_option) if messages else ())),
        *(filter(None, (service.host, service.port) if service else ())),
        *(
            word.partition("=")[0]
            for canary in contract.canaries
            for word in (*canary.options, *canary.control.options)
        ),
        *facts,
    }
    options = accepted(contract, syntax)
    return {options[name].name for name in named if name in options}


def starts(contract: EngineContract, argv: Sequence[str], kept: Sequence[str]) -> bool:
    """Whether the arguments start a sticky process: they have what only those of such a process, `kept`, have."""
    launch = contract.launch
    try:
        line = _reader(contract).read(argv)
    except UsageProblem:
        words = tuple(takewhile(lambda word: word != "{options}", kept))
        return bool(words) and tuple(argv[: len(words)]) == words
    headless = template_options(launch.start)
    only = [option for option in template_options(kept) if option not in headless]
    named = commands(kept) not in (commands(launch.start), commands(launch.resume))
    return bool(kept and (only or named)) and line.commands == commands(kept) and all(line.has(*one) for one in only)


def read_sticky(contract: EngineContract, argv: Sequence[str]) -> tuple[CommandLine, str]:
    """Return the arguments and the model of a sticky process; UsageProblem if it does not accept its arguments."""
    reader = _reader(contract)
    with _explained(reader):
        line = reader.read(argv)
        if line.words:
            raise _extra(line.words[0])
        _require(reader.syntax, line)
    return line, _model(contract, line)


class QueryCommand(Struct, frozen=True):
    """A command that runs no turn, and how it answers; None: the simulation doesn't play it, and `problem` says why."""

    words: str
    answer: QueryAnswer | None
    problem: str = ""


def query(contract: EngineContract, argv: Sequence[str]) -> QueryCommand | None:
    """Return the command that the arguments run instead of a turn; None: they run none."""
    syntax = simulation(contract).arguments
    if not syntax.commands and not syntax.queries:
        return None
    before = list(takewhile(lambda token: token != "--", argv))
    reader = _reader(contract)
    with suppress(UsageProblem):  # for an option of that command
        reader.read(before)
    known = {*syntax.commands, *syntax.queries} - {path[0] for path in reader.paths if path}
    words = [token for token in before if token.startswith("-") and token in known]
    words = words or [*reader.line.commands, *reader.line.words]
    for end in range(len(words), 0, -1):
        if (name := " ".join(words[:end])) in known:
            answer, why = syntax.queries.get(name), f"`{contract.executable} {name}` is not simulated"
            if name in syntax.untested:
                why = f"turngate doesn't know whether {contract.engine} {contract.version} has `{name}`"
            return QueryCommand(name, answer, "" if answer else why)
    return None


def asks_for_help(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments ask for a help page, whatever the command."""
    known = accepted(contract, simulation(contract).arguments)
    return any(token in _HELP and token not in known for token in takewhile(lambda token: token != "--", argv))


def forgotten(contract: EngineContract, line: CommandLine) -> tuple[str, ...]:
    """Return the options, given as such or as a setting, that hold only for this turn of the session."""
    settings = _settings(contract, line)
    options = simulation(contract).arguments.forgotten.items()
    return tuple(name for name, key in options if line.last(name) is not None or key in settings)


def spread(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the values of long options as words of their own."""
    return [word for token in argv for word in (token.split("=", 1) if token.startswith("--") else [token])]


def refusal(channel: PromptChannel, prompt: str) -> str | None:
    """Return why its channel can't carry a prompt, if the contract says so."""
    return next((refusal.why for refusal in channel.refuses if re.search(refusal.pattern, prompt)), None)


@contextmanager
def _explained(reader: LineReader) -> Iterator[None]:
    """Add to a refusal what its message may name: the usage of the command, and a similar option."""
    try:
        yield
    except UsageProblem as problem:
        import difflib  # noqa: PLC0415 - slow to import, and rarely needed

        name, usage = problem.slots.get("name", ""), reader.syntax.usage.get(" ".join(reader.line.commands), "")
        similar = difflib.get_close_matches(name, {*reader.accepted} - {name}, 1, 0.8)
        problem.slots |= {"usage": usage, "similar": next(iter(similar), "")}
        raise


def _service(contract: EngineContract) -> Sequence[str]:
    """Return the arguments that start a service for many sessions; empty: it has none."""
    service = simulation(contract).sticky.service
    return service.argv if service else ()


def _reader(contract: EngineContract) -> LineReader:
    syntax = simulation(contract).arguments
    templates = (contract.launch.start, contract.launch.resume, contract.sticky.argv, _service(contract))
    paths = {commands(template) for template in templates}
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
    """Whether the output is text; UsageError if it has a form that the simulation does not describe."""
    needed = {*syntax.incidental, *(required.option for required in syntax.required if not required.beside)}
    missing = [(n, v) for n, v in template_options(contract.launch.start) if n not in needed and not line.has(n, v)]
    for name, _ in missing:
        if (other := line.last(name)) and other not in _TEXT:
            hint = f"the simulator prints what {' '.join(contract.launch.start[:-2])} prints, or text"
            raise UsageError(f"the simulator doesn't print {name} {other}", hint)
    return bool(missing)


def _model(contract: EngineContract, line: CommandLine) -> str:
    """Return the model that the options ask for, or the one that the release takes by itself."""
    by_itself = DEFAULT_MODEL if contract.hermetic.default_model else contract.hermetic.model
    if not contract.launch.model:
        return by_itself
    flag = contract.launch.model[0].partition("=")[0]
    return line.last(flag) or _settings(contract, line).get("model", "") or by_itself


def _settings(contract: EngineContract, line: CommandLine) -> dict[str, str]:
    """Return the settings in `key=value` options."""
    flag = simulation(contract).arguments.settings
    pairs = (value.partition("=") for name, value in line.options if name == flag and value)
    return {key.strip(): value.strip(" \"'") for key, _, value in pairs}


def _extra(word: str) -> UsageProblem:
    return UsageProblem("extra", f"unexpected argument '{word}'", name=word, key=word)
