"""What a release changed, and for whom its verdict holds, in plain words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from turngate.contract.cached import cached_contract
from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate.errors import ContractError
from turngate.files import command
from turngate.history import FROM_LIST, FROM_TYPES, HIDDEN, HIDDEN_COMMAND, SEARCHED, Change, Kind

# what an exit code is called of a turn that had to be stopped
_NEVER_ENDED = "did not end"
_MOST: Final = 4
_ANYWHERE: Final = (("any turn",), (FROM_LIST,), (FROM_TYPES,))
# how a clause does now, and how it did before
_RESULTS: Final[Mapping[str, tuple[str, str]]] = {
    Result.PASS: ("passes", "passed"),
    Result.FAIL: ("fails", "failed"),
    Result.DEVIATES: ("has a known caveat", "had a known caveat"),
    Result.UNSUPPORTED: ("is unsupported", "was unsupported"),
    Result.NOT_RUN: ("was not run", "was not run"),
}
# what becomes of a tool call, and what became of it before
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "executed": ("is executed", "was executed"),
    "denied": ("is denied", "was denied"),
    "dropped": ("gets no answer", "got no answer"),
    "failed": ("fails", "failed"),
    "hangs": ("hangs", "hung"),
}


def only_guarded(releases: Iterable[tuple[str, str | None, Verdict | None]]) -> str:
    """Return the sentence that releases are compatible only with turngate's guards; empty: none is, or none needs them.

    A release is its engine, its version and its verdict.
    """
    names = list[str]()
    for engine, version, verdict in releases:
        with suppress(ContractError):
            if verdict is Verdict.COMPATIBLE and cached_contract(engine, version).is_guarded:
                names.append(f"{engine}@{version}" if version else engine)
    if not names:
        return ""
    are, asked = ("is", names[0]) if len(names) == 1 else ("are", "ENGINE@VERSION")
    prints = f"which `{command('explain', asked)}` prints"
    return f"{named(names)} {are} compatible only with turngate's guards, {prints}."


def named(releases: Sequence[str]) -> str:
    """Return the names of releases, shortened to a few if there are many."""
    # a single one that is left out would be named in as many words
    shown = releases if len(releases) <= _MOST + 1 else releases[:_MOST]
    more = len(releases) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def sentences(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the changes of one release as sentences, most important first; names are between backticks.

    Changes of one kind that were observed in the same places share a sentence, such as the new keys of a record.
    """
    groups = dict[tuple[str, ...], list[Change]]()
    for change in changes:
        groups.setdefault((change.kind, *_shared(change), *change.where), []).append(change)
    ranked = sorted(groups.values(), key=lambda group: _ORDER.index(group[0].kind))
    return tuple(_SENTENCES[group[0].kind](group) for group in ranked)


def _shared(change: Change) -> Iterator[str]:
    """Yield what the changes in a sentence have in common besides their kind and places."""
    if change.kind == Kind.TOOL:
        yield _tool_state(change)
    elif change.before is None or change.after is None:
        yield "gone" if change.after is None else "new"
        # each record is named with its own keys; records that come or go as a whole are listed
        record, colon, _ = change.subject.partition(": ")
        yield record if change.kind in (Kind.RECORD, Kind.COMMAND, Kind.PROTOCOL, Kind.SESSION) and colon else ""
        # the call of a tool came to something
        yield change.after or "" if change.kind == Kind.TOOL_CALL else ""
    elif change.kind == Kind.OPTION and HIDDEN in (change.before, change.after):
        yield "hidden" if change.after == HIDDEN else "shown"
    else:
        yield change.subject


def _verdict(group: list[Change]) -> str:
    before, after = group[0].before, group[0].after
    said = "It could not be tested" if after == Verdict.UNANSWERED else f"It is {after}"
    return f"{said}; {group[0].since} was {before}."


def _clause(group: list[Change]) -> str:
    (now, shown), (was, shown_before) = (_result(text) for text in (group[0].after, group[0].before))
    if now == was == Result.DEVIATES:
        new = [symptom for symptom in shown if symptom not in shown_before]
        gone = [symptom for symptom in shown_before if symptom not in shown]
        said = [f"has the new known {_caveats(new)}"] if new else []
        said += [f"no longer has the known {_caveats(gone)}"] if gone else []
        return f"`{group[0].subject}` {_listed(said)}."
    return (
        f"`{group[0].subject}` {_RESULTS[now][0]}{_named(shown)}; before, it {_RESULTS[was][1]}{_named(shown_before)}."
    )


def _result(text: str | None) -> tuple[str, list[str]]:
    """Split a result from its symptoms."""
    result, _, symptoms = (text or "").partition(": ")
    return result, symptoms.split(", ") if symptoms else []


def _named(symptoms: list[str]) -> str:
    return f" ({', '.join(symptoms)})" if symptoms else ""


def _caveats(symptoms: list[str]) -> str:
    return f"caveat{'s' if len(symptoms) > 1 else ''} {_listed(symptoms)}"


def _records(group: list[Change]) -> str:
    record, colon, _ = group[0].subject.partition(": ")
    if not colon:
        return _came("Record", "Records")(group)
    paths = [f"`{change.subject.removeprefix(f'{record}: ')}`" for change in group]
    keys = f"key{'s' if len(paths) > 1 else ''} {_listed(paths)}"
    if group[0].before is None:
        return f"Records `{record}` have the new {keys}{_places(group)}."
    if group[0].after is None:
        return f"Records `{record}` no longer have the {keys}{_places(group)}."
    return f"In records `{record}`, {_retyped(paths[0], group)}"


def _keys(group: list[Change]) -> str:
    if group[0].before is None or group[0].after is None:
        return _came("Key", "Keys")(group)
    return f"Key {_retyped(_names(group)[0], group)}"


def _retyped(name: str, group: list[Change]) -> str:
    now, was = ((value or "").replace("|", " or ") for value in (group[0].after, group[0].before))
    return f"{name} is {now} instead of {was}{_places(group)}."


def _options(group: list[Change]) -> str:
    before, after = group[0].before, group[0].after
    if before is None or after is None:
        return _came("Option", "Options")(group)
    if HIDDEN in (after, before):
        noun, verb = ("Option", "is") if len(group) == 1 else ("Options", "are")
        state = f"no longer on the help page, but still accepted{_places(group)}"
        state = state if after == HIDDEN else f"on the help page again{_places(group)}"
        return f"{noun} {_listed(_names(group))} {verb} {state}."
    return f"Option `{group[0].subject}` takes {_values(before, after)}{_places(group)}."


def _commands(group: list[Change]) -> str:
    before, after = group[0].before, group[0].after
    command, colon, _ = group[0].subject.partition(": ")
    if before == group[0].subject:
        return f"Command `{before}` is now `{after}`."
    if not colon:
        if HIDDEN_COMMAND in (before or "", after or "") and None not in (before, after):
            state = "no longer on a help page, but still there" if after == HIDDEN_COMMAND else "on a help page now"
            return f"Command `{command}` is {state}."
        return _came("Command", "Commands")(group)
    names = [f"`{change.subject.removeprefix(f'{command}: ')}`" for change in group]
    options = f"option{'s' if len(names) > 1 else ''} {_listed(names)}"
    if before is None:
        return f"Command `{command}` has the new {options}."
    if after is None:
        return f"Command `{command}` no longer shows the {options}."
    return f"The {options} of command `{command}` takes {_values(before, after)}."


def _values(before: str, after: str) -> str:
    takes, took = (f"`{value}`" if value else "no value" for value in (after, before))
    return f"{takes} instead of {took}"


def _protocol(group: list[Change]) -> str:
    before, after = group[0].before, group[0].after
    message, colon, _ = group[0].subject.partition(": ")
    if not colon:
        return _came("In the protocol,", "In the protocol,")(group)
    fields = [change.subject.removeprefix(f"{message}: ") for change in group]
    named = [
        f"`{name}`{' (required)' if (change.after or '').startswith('required') else ''}"
        for name, change in zip(fields, group, strict=True)
    ]
    noun = "field" if len(group) == 1 else "fields"
    if before is None:
        return f"In the protocol, `{message}` has the new {noun} {_listed(named)}."
    if after is None:
        return f"In the protocol, `{message}` no longer has the {noun} {_listed(named)}."
    return f"In the protocol, the field `{fields[0]}` of `{message}` {_listed(_refielded(before, after))}."


def _refielded(before: str, after: str) -> Iterator[str]:
    """Say what became of a field: whether it is there, or its value, and the words that it takes."""
    (was, _, took), (now, _, takes) = before.partition(": "), after.partition(": ")
    if was != now or not (took and takes):
        yield f"is {now} instead of {was}" if was != now else "takes other values"
    words, earlier = takes.split("|"), took.split("|")
    for verb, those, others in (("also takes", words, earlier), ("no longer takes", earlier, words)):
        if took and takes and (named := [f"`{word}`" for word in those if word not in others]):
            yield f"{verb} {_listed(named)}"


def _exit_code(group: list[Change]) -> str:
    before, after, where = group[0].before, group[0].after, _listed(group[0].where)
    if after == _NEVER_ENDED:
        return f"The engine does not end any more ({where}); before, it ended with exit code {before}."
    if before == _NEVER_ENDED:
        return f"The engine ends, with exit code {after} ({where}); before, it did not end."
    return f"The exit code is {after} instead of {before} ({where})."


def _tools(group: list[Change]) -> str:
    noun, verb = ("Tool", "is") if len(group) == 1 else ("Tools", "are")
    return f"{noun} {_listed(_names(group))} {verb} {_tool_state(group[0])}{_places(group)}."


def _tool_state(change: Change) -> str:
    if change.after == SEARCHED:
        return "found only by a search now"
    if change.after is None:
        return "no longer offered"
    return "offered" if change.before is None else "offered without a search now"


def _session(group: list[Change]) -> str:
    record, colon, _ = group[0].subject.partition(": ")
    verb = "now have" if group[0].before is None else "no longer have"
    names = [f"`{change.subject.removeprefix(f'{record}: ')}`" for change in group]
    what = f"{_listed(names)} in `{record}`" if colon else _listed(names)
    return f"Files of sessions {verb} {what}."


def _tool_call(group: list[Change]) -> str:
    before, after, places = group[0].before, group[0].after, _places(group)
    if after is None:
        return f"{_listed(_names(group))} {'is' if len(group) == 1 else 'are'} no longer called{places}."
    said = f"A call of {_listed(_names(group))} {_CALLS[after][0]}{places}"
    return f"{said}." if before is None else f"{said}; before, it {_CALLS[before][1]}."


def _came(one: str, several: str, *, comes: str = "new", goes: str = "gone") -> Callable[[list[Change]], str]:
    """Return the sentence of what there is or isn't, without a value."""

    def sentence(group: list[Change]) -> str:
        noun, verb = (one, "is") if len(group) == 1 else (several, "are")
        state = comes if group[0].before is None else goes
        return f"{noun} {_listed(_names(group))} {verb} {state}{_places(group)}."

    return sentence


def _hosts(group: list[Change]) -> str:
    return f"It {'now tries' if group[0].before is None else 'no longer tries'} to reach {_listed(_names(group))}."


def _names(group: list[Change]) -> list[str]:
    return [f"`{change.subject}`" for change in group]


def _default_model(group: list[Change]) -> str:
    return f"The default model is `{group[0].after}` instead of `{group[0].before}`."


def _places(group: list[Change]) -> str:
    """Return where it was observed, in parentheses; options are those of a command."""
    where = group[0].where
    if group[0].kind == Kind.OPTION:
        where = tuple(
            f"`{' '.join(word for word in place.split() if word not in ('--help', '-h'))}`" for place in where
        )
    return "" if where in ((), *_ANYWHERE) else f" ({_listed(where)})"


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


_SENTENCES: Final[Mapping[str, Callable[[list[Change]], str]]] = {
    "verdict": _verdict,
    "clause": _clause,
    Kind.RECORD: _records,
    Kind.KEY: _keys,
    Kind.EXIT_CODE: _exit_code,
    Kind.OPTION: _options,
    Kind.COMMAND: _commands,
    Kind.PROTOCOL: _protocol,
    Kind.FEATURE: _came("Feature", "Features", comes="on by default", goes="no longer on by default"),
    Kind.DEFAULT_MODEL: _default_model,
    Kind.SESSION: _session,
    Kind.MODEL: _came("Model", "Models", comes="now listed", goes="no longer listed"),
    Kind.VARIABLE: _came(
        "Environment variable", "Environment variables", comes="now on a help page", goes="on no help page any more"
    ),
    Kind.TOOL: _tools,
    Kind.TOOL_CALL: _tool_call,
    Kind.REQUEST: _came("Request", "Requests", goes="no longer made"),
    Kind.HEADER: _came("Request header", "Request headers", goes="no longer sent"),
    Kind.HOST: _hosts,
}
_ORDER: Final = tuple(_SENTENCES)
