"""The recipe of an engine: what an orchestrator passes and reads to run it as turngate does, from its contract alone.

It is Markdown, so that a terminal and a page show the same text.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from msgspec import Struct

from turngate import EngineContract, Mode, first_turn, history, load_contract, resumed_turn
from turngate.argv.environment import BASE
from turngate.argv.interactive import allowed
from turngate.contract import load
from turngate.contract.engine_contract import Final as FinalText
from turngate.contract.engine_contract import Framed
from turngate.contract.launch import Guards, PromptChannel
from turngate.contract.values import Match
from turngate.contract.verdict import Verdict
from turngate.files import is_own
from turngate_probes.report.history import check_release

_WIDTH: Final = 120
_PROMPT, _SESSION = "turngate-prompt", "turngate-session"
_SHELL: Final = {"{files}": "$FILES", "{artifacts}": "$ARTIFACTS", "{python}": "$PYTHON"} | {
    _PROMPT: "$PROMPT",
    _SESSION: "$SESSION",
}
_FRAMINGS: Final = {
    "ndjson": "one JSON object per line",
    "json_document": "one JSON object, over one or many lines",
    "tagged_block": "text that ends with one JSON object between `<{tag}>` and `</{tag}>`, each on a line of its own",
    "text": "plain text",
}
_PLACES: Final = {
    "first": "the first record",
    "last": "the last record",
    "every": "each record",
    "only": "the only record",
}
_REDIRECTS: Final = {
    "address": "send requests to another address",
    "credentials": "replace your key",
    "system-prompt": "replace the system prompt",
    "container": "choose a container to run in",
    "program": "start programs",
}
_REPORTS: Final = {
    "denied": "names a tool that was denied",
    "error": "reports an error after which the turn goes on",
    "answer": "has a text of the agent, which is the answer if the final record has none",
}
# of these sections, the notes are for whoever runs the engine
_NOTED: Final = ("launch", "guards", "environment", "streams", "handle", "end", "final", "store")


class RecipeSection(Struct, frozen=True):
    """One part of a recipe; `text` is Markdown."""

    title: str
    text: str


class Recipe(Struct, frozen=True):
    """How to run an engine without turngate; `version` null: the newest release of an engine without a history.

    `verdict` null: turngate has not tested this release, or not by the contract that is used. `why`: why it is broken;
    empty otherwise.
    """

    engine: str
    title: str
    version: str | None
    verdict: Verdict | None
    why: str
    contract_version: str
    sections: tuple[RecipeSection, ...]

    @property
    def markdown(self) -> str:
        """The whole text."""
        named = f"{self.title} ({self.version or 'the newest release'})"
        purpose = f"so that what turngate tested of {named}, which is {self.verdict}, holds for it, too"
        if self.verdict is None:
            purpose = f"to run {named} as turngate would, which has not tested this release"
        elif self.verdict is Verdict.BROKEN:
            purpose = f"to run {named} as turngate does"
        broken = f"This release is **broken**, so don't rely on it: {self.why}"
        intro = (
            f"Let your own orchestrator pass and read the following, {purpose}. This is everything that contract "
            f"{self.contract_version} of `{self.engine}` says about a turn in a process of its own. The commands are "
            "for a POSIX shell in the workspace: `PROMPT` is the prompt, `SESSION` the session id, and `OUT` a folder "
            "outside the workspace for what the engine prints. In mode interactive, the engine does nothing that "
            "needs a permission; in mode auto, it acts without asking."
        )
        parts = (f"## {section.title}\n\n{section.text}" for section in self.sections)
        warned = [_filled(broken)] if self.verdict is Verdict.BROKEN else []
        return "\n\n".join((f"# Run {self.title} as turngate does", *warned, _filled(intro), *parts)) + "\n"


def recipe(engine: str, version: str | None = None) -> Recipe:
    """Return the recipe of a release (None: the newest); ContractError as of `load_contract`.

    NotFoundError: no release has this version.
    """
    known = history.load(engine) if engine in history.engines() else None
    version = version or (known.newest if known else None)
    contract = load_contract(engine, version)
    found = None
    if known and version:
        check_release(known, version)
        found = known.find(version)
    parts = {
        "Files and guards": _guards(contract),
        "Environment": _environment(contract),
        "Start": _commands(contract, resumed=False),
        "Resume": _resume(contract),
        "Session id": _session_id(contract),
        "End of a turn": _end(contract),
        "Limits": _limits(contract),
        "Caveats": _caveats(contract),
    }
    sections = (RecipeSection(title, "\n\n".join(_joined(blocks))) for title, blocks in parts.items())
    verdict, why = (found.verdict, found.why) if found and found.tested and not is_own(engine) else (None, "")
    return Recipe(engine, contract.title, version, verdict, why, contract.contract_version, tuple(sections))


def _joined(blocks: Iterable[str]) -> Iterator[str]:
    """Wrap what is no code, and join the items of a list."""
    items = list[str]()
    for block in blocks:
        if block.startswith("- "):
            items.append(_filled(block, "  "))
            continue
        if items:
            yield "\n".join(items)
            items = []
        yield block if block.startswith("```") else _filled(block)
    if items:
        yield "\n".join(items)


def _filled(text: str, hanging: str = "") -> str:
    spaced = re.sub(r"(`+).*?\1", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    lines = wrap(spaced, _WIDTH, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines).replace("\0", " ")


def _code(*lines: str) -> str:
    return "\n".join(("```sh", *lines, "```"))


def _quoted(token: str) -> str:
    """Return an argument for the shell, with its variables in place of the slots."""
    if not any(slot in token for slot in _SHELL):
        return shlex.quote(token)
    escaped = re.sub(r'(["\\$`])', r"\\\1", token)
    for slot, variable in _SHELL.items():
        escaped = escaped.replace(slot, variable)
    return f'"{escaped}"'


def _guards(contract: EngineContract) -> Iterator[str]:
    guards, means = contract.guards, contract.artifacts
    files = {**guards.files, **(means.files if means else {})}
    if files:
        yield (
            "Write these files into a folder that no workspace and no engine can change. Before each turn, check that "
            "the files are unchanged. The commands below name the folder `FILES`."
        )
        for name, content in files.items():
            yield _code('mkdir -p "$FILES"', f"cat > \"$FILES/{name}\" <<'END'", content.rstrip("\n"), "END")
    if not files:
        yield "The engine needs no files: the options and variables in the commands below guard it."
    kinds = dict.fromkeys(_REDIRECTS[redirect.kind] for redirect in contract.redirects)
    if kinds and contract.guards != Guards():
        yield f"Without what the commands below pass, a workspace can {_listed([*kinds], 'or')}."
    if guards.proof:
        yield (
            f"`{guards.proof}` names a pipe. The file opens the pipe for reading once the guard has had an effect, so "
            "no prompt reaches an engine that runs without its guard, for example behind a wrapper that replaces the "
            "variables below. If the guard is lost, the command waits forever: end it at a deadline, and refuse the "
            "turn. Once opened, the pipe is removed, since the engine's other processes would wait for it, too."
        )
    if settings := [each for each in contract.unsafe_settings if not each.kept_only]:
        yield "No option outranks these settings of the user. Refuse interactive turns while one of them is there:"
        yield from (
            f"- `{each.files}` has a text that matches {_span(each.pattern)}: {each.remedy}." for each in settings
        )
    if contract.instruction_files:
        yield "Refuse a turn if one of these files of the workspace, which the model gets, is a link that leads out:"
        yield from (f"- {name}" for name in _instruction_files(contract))


def _instruction_files(contract: EngineContract) -> Iterator[str]:
    for file in contract.instruction_files:
        name = f"`{file.path}`"
        if file.named_in:
            name = f"each file that `{file.named_in.file}` names, where {_span(file.named_in.pattern)} matches"
        left_out = "; ".join(f"in mode {mode} {why} leaves it out" for mode, why in file.left_out.items())
        yield f"{name}{f' ({left_out})' if left_out else ''}"


def _environment(contract: EngineContract) -> Iterator[str]:
    described = contract.environment
    places = ("HOME", *described.locations)
    yield (
        "Pass only these variables of yours, so that nothing else of your environment reaches the engine. The last "
        "line of names has the variables of this engine."
    )
    own = "|".join(dict.fromkeys((*places, *described.passed)))
    yield _code(
        "for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do",
        '  case "$name" in',
        "    FILES|OUT|PROMPT|SESSION|PWD|LC_*) ;;",
        f"    {'|'.join(sorted(BASE))}) ;;",
        f"    {own}) ;;",
        '    *) unset "$name" ;;',
        "  esac",
        "done",
    )
    named = ", ".join(f"`{name}`" for name in dict.fromkeys(places))
    yield f"Keep the values of {named} for all turns of a conversation: they decide where its session is."


def _commands(contract: EngineContract, *, resumed: bool) -> Iterator[str]:
    for mode in (Mode.INTERACTIVE, Mode.AUTO):
        yield f"In mode {mode}:"
        turn = resumed_turn(contract, _PROMPT, mode, _SESSION) if resumed else first_turn(contract, _PROMPT, mode)
        variables = {**contract.guards.env, **turn.env}
        yield _code(*_command(contract, variables, turn.arguments, from_stdin=turn.stdin is not None))
    if not resumed:
        yield from _choices(contract)


def _command(
    contract: EngineContract, variables: Mapping[str, str], arguments: Sequence[str], *, from_stdin: bool
) -> Iterator[str]:
    set_ = [f"{name}={_quoted(value)}" for name, value in variables.items()]
    if proof := contract.guards.proof:
        set_.append(f'{proof}="$PROOF"')
        yield 'PROOF=$(mktemp -u) && mkfifo -m 600 "$PROOF"'
        yield """{ exec 9> "$PROOF"; rm "$PROOF"; printf %s "$PROMPT" 9>&- & exec 9>&-; wait; } |"""
    elif from_stdin:
        yield """printf %s "$PROMPT" |"""
    indent = "  " if from_stdin or contract.guards.proof else ""
    yield from (f"{indent}{each} \\" for each in set_)
    closed = "" if from_stdin or contract.guards.proof else " < /dev/null"
    yield f'{indent}{contract.executable} {" ".join(map(_quoted, arguments))}{closed} > "$OUT/stdout" 2> "$OUT/stderr"'


def _choices(contract: EngineContract) -> Iterator[str]:
    launch = contract.launch
    at = launch.start.index("{options}")
    after = f"`{launch.start[at - 1] if at else contract.executable}`"
    if launch.model:
        model = " ".join(token.replace("{model}", "NAME") for token in launch.model)
        yield f"To choose a model, put `{model}` after {after}."
    else:
        yield "No option chooses a model: choose it in the settings of the engine."
    if contract.artifacts:
        options = " ".join(map(_quoted, contract.artifacts.options))
        python = ", and `PYTHON` that of a Python interpreter" if "$PYTHON" in options else ""
        yield (
            "To let a turn in mode interactive write below one folder of the workspace and nowhere else, replace "
            f"{_words(launch.interactive)} with these options. `ARTIFACTS` is the absolute path of the folder, without "
            f"links and special characters{python}:"
        )
        yield _code(options)
        if contract.artifacts.yields_to:
            yield f"If a caller passes {_names(contract.artifacts.yields_to, 'or')}, this doesn't work."


def _resume(contract: EngineContract) -> Iterator[str]:
    if why := contract.resume_probe.unsupported:
        yield f"These releases can't be resumed: {why}."
        return
    yield from _commands(contract, resumed=True)
    yield "Pass the options of the first turn again, and run one turn of a session at a time."
    if omitted := [option.flag for option in contract.options if option.on_resume == "omit"]:
        yield f"A resume does not take {_names(omitted, 'or')}."
    if newest := contract.launch.newest_session_options:
        yield f"Never pass {_names(newest, 'or')}: it resumes the newest session, whichever that is."


def _session_id(contract: EngineContract) -> Iterator[str]:
    place = contract.handle
    yield (
        f"The session id is `{place.field}` in {_PLACES[place.record]}{_matching(place.match)} on {place.stream}. Take "
        "it from no other place: a model can print anything that looks like an id."
    )
    yield f"- It looks like `{place.nonexistent_id}`. Store it as it is, and don't check its form."
    yield "- Refuse an id that is blank, begins with a dash, has control characters, or is longer than 512 bytes."
    yield "- Compare the id that a resume prints with the one you passed: another one is another session."
    if contract.store:
        check = contract.store.check
        found = f"`{check.pattern}`, where `{{handle}}` is the id"
        if check.kind == "sqlite":
            found = f"a row of `{check.query}`, with the id in place of `?`, in `{check.file}`"
        defaults = "".join(f"; `{name}` is `{value}` unless set" for name, value in contract.store.locations.items())
        yield f"- The session exists if there is {found}{defaults}."


def _end(contract: EngineContract) -> Iterator[str]:
    end, streams = contract.end, contract.streams
    yield f"Standard output is {_framing(streams.stdout)}, standard error {_framing(streams.stderr)}."
    for name, framed in ("stdout", streams.stdout), ("stderr", streams.stderr):
        yield from (f"- On {name}, skip lines that match {_span(noise)}." for noise in framed.noise)
        for one in framed.records:
            at = "begin" if one.at == "first" else "end"
            yield f"- On {name}, lines that {at} the text and match {_span(one.pattern)} are a record `{one.name}`."
    if streams.stdout_file:
        yield (
            "Give the engine a file as standard output, as the commands do: if it prints into a pipe, the end of its "
            "answer may be lost."
        )
    what = "a record" + _matching(end.match) if end.match else _whole(contract.stream(end.stream))
    yield f"A turn has succeeded if the engine exits with 0, {end.stream} has {what}, and none of these occurs:"
    yield "- another exit code, whatever was printed"
    for sign in contract.failures:
        said = f"; `{sign.message}` has the reason" if sign.message else ""
        has = f" with `{sign.has}`" if sign.has else ""
        yield f"- on {sign.stream}, a record{_matching(sign.match)}{has}{said}"
    if end.followed_by:
        yield f"After the record that ends the turn, records of {_names(end.followed_by, 'or')} may follow."
    yield f"The answer is {_answer(contract.final)}."
    if contract.reports:
        yield "What the engine reports besides the answer neither ends the turn nor makes it fail:"
    for report in contract.reports:
        path = f"{report.field}, of each item {report.item}" if report.item else report.field
        yield f"- `{path}` of a record{_matching(report.match)} on {report.stream} {_REPORTS[report.kind]}."
    others = "names" if contract.events.field else "keys"
    yield f"Ignore records with other {others} than {_names(contract.events.names)}."


def _whole(framed: Framed) -> str:
    return "text" if framed.framing == "text" else "a whole JSON object"


def _answer(final: FinalText) -> str:
    if final.field is None:
        return f"the text on {final.stream}, without the lines that are records"
    text = f"`{final.field}` of the last record{_matching(final.match)} on {final.stream}"
    if final.group is None:
        return text
    begins = f", and begin anew after a record{_matching(final.begins_after)}" if final.begins_after else ""
    return f"{text}: join those whose `{final.group}` equals that of the last one{begins}"


def _limits(contract: EngineContract) -> Iterator[str]:
    first, *others = contract.launch.prompt
    yield from _channel(first, "")
    for channel in others:
        if contract.guards.proof is None or channel.via == "stdin":
            tokens = _words([token.replace("{text}", "PROMPT") for token in channel.tokens])
            yield from _channel(channel, f"With the prompt as {tokens} instead, ")
    uses = allowed(contract, Mode.INTERACTIVE)
    listed = "; ".join(_span(use) for use in uses) or "those above"
    yield f"- In mode interactive, pass no options but {listed}: others can let the engine act."
    yield from _widening(contract)
    yield from _lost_tools(contract)
    if directory := contract.resume_probe.directory:
        yield f"- `{directory}` must be writable, or possible to create: sessions are stored there."
    for section in _NOTED:
        for claim in load.contract(contract.engine).document.claims(section):
            if claim.range.covers(contract.version) and (note := claim.data.get("note")):
                yield f"- {note}"
    if contract.unverified:
        yield f"- Not confirmed on a real release yet: {_names(contract.unverified)}."
    if contract.file_marks:
        yield "If one of these patterns matches in a prompt, the engine sends the file at `path` to the model:"
        # in a block, since Markdown takes `<!` in a line for HTML
        yield "\n".join(("```text", *(mark.pattern for mark in contract.file_marks), "```"))


def _widening(contract: EngineContract) -> Iterator[str]:
    switches = [flag for flag in contract.auto_flags if not (flag.safe_values or flag.safe_beside or flag.keys)]
    for lead, flags in (
        ("These", switches),
        ("With other values than those above, these", [flag for flag in contract.auto_flags if flag not in switches]),
    ):
        names = dict.fromkeys(f"`{name}`" for flag in flags for name in (flag.flag, *flag.aliases))
        if names:
            yield f"- {lead} let the engine act without asking: {', '.join(names)}."


def _lost_tools(contract: EngineContract) -> Iterator[str]:
    lost = dict[str, list[str]]()
    for each in contract.unavailable_tools:
        lost.setdefault(each.why, []).extend(each.tools)
    for why, tools in lost.items():
        yield f"- In mode interactive, the agent can't use {_names(tools, 'or')} as in mode auto: {why}."


def _channel(channel: PromptChannel, begin: str) -> Iterator[str]:
    sizes = (channel.max_bytes, "bytes of UTF-8"), (channel.max_chars, "characters")
    wrong = [f"prompts of more than {most:,} {unit}" for most, unit in sizes if most]
    wrong += [f"prompts that match {_span(refusal.pattern)} ({refusal.why})" for refusal in channel.refuses]
    if wrong:
        said = f"{begin}refuse {'; '.join(wrong)}"
        yield f"- {said[0].upper()}{said[1:]}."


def _caveats(contract: EngineContract) -> Iterator[str]:
    if not contract.deviations:
        yield "None is known."
        return
    yield "How this release differs from what clauses say, and what you must do:"
    catalogue, grouped = load.catalogue(), dict[tuple[str, str], list[str]]()
    for each in contract.deviations:
        meaning = catalogue[each.clause].symptoms.get(each.symptom, each.symptom)
        grouped.setdefault((each.clause, each.action), []).append(meaning + (", now and then" if each.flaky else ""))
    for (clause, action), symptoms in grouped.items():
        yield f"- `{clause}` ({'; '.join(symptoms)}): {action}."


def _framing(framed: Framed) -> str:
    return _FRAMINGS[framed.framing].format(tag=framed.tag)


def _matching(match: Match | None) -> str:
    said = [f"`{path}` = `{json.dumps(value)}`" for path, value in (match or {}).items()]
    return f" with {_listed(said)}" if said else ""


def _words(tokens: Iterable[str]) -> str:
    return f"`{' '.join(map(shlex.quote, tokens))}`"


def _span(text: str) -> str:
    """Return a pattern as a code span on one line."""
    mark = "``" if "`" in text else "`"
    return mark + text.replace("\n", "\\n") + mark


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _names(words: Iterable[str], last: str = "and") -> str:
    return _listed([f"`{word}`" for word in words], last)
