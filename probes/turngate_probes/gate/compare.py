"""Compares the observations of two releases, part by part, and rates the impact of every difference.

The impact on an orchestrator does not depend on the engine. Only the surface that the contract uses can be breaking.
The claims of the contract about both releases are compared too.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from turngate import Ended, EngineContract
from turngate.contract.clauses import Result, Severity
from turngate.contract.launch import Stream
from turngate.contract.verdict import ClauseResult, fallen_needs
from turngate.history import HIDDEN, HIDDEN_COMMAND, SEARCHED, Kind, differing
from turngate.sanitize import bounded, command_line
from turngate_probes.journal.events import Event, PageEvent, TurnEvent
from turngate_probes.journal.listings import sections
from turngate_probes.journal.tool_access import ModeToolAccess, ToolAccess, ToolCallResult
from turngate_probes.report.reports import Difference, Impact, ReleaseReport

# a change from or to a clause that was not run counts only against a pass
WORST_RESULT_FIRST = (Result.FAIL, Result.UNSUPPORTED, Result.DEVIATES, Result.NOT_RUN, Result.PASS)
ANY = "*"
ARGV = ("start", "resume", "auto", "interactive", "model")
# what an orchestrator without contracts implements itself
READ = ("streams", "handle", "end", "final", "store", "environment")
LONGEST = 300
TOOL_CLAUSE, CALL_CLAUSE = "interactive.no-auto-flags", "interactive.tool-call"


class Use(StrEnum):
    """What the contract does with a part of an engine's surface.

    `relies`: turns need it, and a clause shows whether it still works; `offers`: callers may pass it, and no clause
    tests it; `none`: nothing.
    """

    RELIES = "relies"
    OFFERS = "offers"
    NONE = "none"


def of_clause(severity: Severity, before: Result, after: Result, *, fallen: bool) -> Impact:
    """Return the impact of a changed result; `fallen`: it could not be tested because a prerequisite fails."""
    if severity is Severity.INFORMATIVE or before is after or (after is Result.NOT_RUN and not fallen):
        return Impact.NONE
    if after is Result.FAIL or after is Result.NOT_RUN:
        return Impact.BREAKING if severity is Severity.BREAKING else Impact.DEGRADED
    better = WORST_RESULT_FIRST.index(after) > WORST_RESULT_FIRST.index(before)
    return Impact.ADDITIVE if better else Impact.DEGRADED


def of_surface(use: Use, *, holds: bool) -> Impact:
    """Return the impact of a lost part of the surface; `holds`: no clause that tests it fails."""
    if use is Use.NONE:
        return Impact.NONE
    return Impact.DEGRADED if use is Use.RELIES and holds else Impact.BREAKING


def of_call(mode: str, outcome: str) -> Impact:
    """Return the impact of a changed tool call: in mode interactive none may run, in mode auto each should."""
    if outcome == "executed":
        return Impact.BREAKING if mode == "interactive" else Impact.NONE
    lost = ("hangs", "failed") if mode == "interactive" else ("hangs", "failed", "denied", "dropped")
    return Impact.DEGRADED if outcome in lost else Impact.NONE


def option_use(contract: EngineContract, name: str) -> tuple[Use, str]:
    """Return what the contract does with a name on the help pages, and which clause tests it."""
    launch = contract.launch
    if name in launch.auto:
        return Use.RELIES, "auto.flags-accepted"
    if name in {*launch.start, *launch.resume, *launch.interactive, *launch.model, *contract.hermetic.options}:
        return Use.RELIES, "resume.accepted"
    # before the pages, because a turn that runs without it says nothing about it
    if any(name in (option.flag, *option.aliases) for option in contract.options):
        return Use.OFFERS, "help.surface"
    if any(name in page.names for page in contract.help.pages):
        return Use.RELIES, "resume.accepted"
    return Use.NONE, "help.surface"


def listed_use(contract: EngineContract, kind: str, name: str) -> tuple[Use, str]:
    """Return what the contract does with something that a release lists, and which clause tests it."""
    if kind == Kind.COMMAND:
        return command_use(contract, name)
    listed = (*(each.uses for each in contract.listings), *(each.uses for each in contract.type_files))
    used = any(name in uses for uses in listed)
    return (Use.RELIES if used else Use.NONE), "help.surface"


def command_use(contract: EngineContract, name: str) -> tuple[Use, str]:
    """Return what the contract does with a command, or with an option `command: --option`, and which clause tests it.

    No clause tests those of a kept process, which the help pages alone show.
    """
    command, _, option = name.partition(": ")
    words, launch, sticky = {*command.split()[1:]}, contract.launch, contract.sticky
    for argv, options, clause in (
        (launch.start, launch.start, "resume.accepted"),
        (launch.resume, launch.resume, "resume.accepted"),
        (sticky.argv, (*sticky.argv, *sticky.options), "help.surface"),
    ):
        if words and words <= {*argv} and (not option or option in options):
            return Use.RELIES, clause
    return Use.NONE, "help.surface"


def keys_in_use(contract: EngineContract) -> Mapping[tuple[str, str], str]:
    """Return the records and keys that the contract reads, as (kind, path), each with the clause that tests it.

    The kind is `*` where it may be any; the path is empty for the record itself.
    """
    handle, end, final = contract.handle, contract.end, contract.final
    used = [
        *_of(contract, "handle.present", handle.stream, handle.match, handle.field),
        *_of(contract, "turn.terminal-event", end.stream, end.match),
        *_of(contract, "text.imitation", final.stream, final.match, final.field, final.group),
    ]
    for sign in contract.failures:
        used += _of(contract, "backend.failure-told", sign.stream, sign.match, sign.has, sign.message)
    return {(kind, path): clause for clause, kind, path in used}


def use_of(used: Mapping[tuple[str, str], str], kind: str, path: str) -> tuple[Use, str]:
    """Whether the contract reads a record or a key in it, and which clause tests it."""
    clause = used.get((kind, path)) or (used.get((ANY, path)) if path else None)
    return (Use.RELIES, clause) if clause else (Use.NONE, "stream.known-events")


def _of(
    contract: EngineContract, clause: str, stream: Stream, match: Mapping[str, object] | None, *paths: str | None
) -> Iterator[tuple[str, str, str]]:
    field = contract.events.field
    if stream != contract.events.stream:
        return
    matched = dict(match or {})
    kind = ANY if field is None else str(matched.get(field, ANY))
    if kind != ANY:
        yield clause, kind, ""
    for path in (*matched, *filter(None, paths)):
        yield clause, kind, path
        if field is None:
            # records without a kind are counted by their keys
            yield clause, path.partition(".")[0], ""


def claim_differences(
    was: EngineContract, now: EngineContract, clauses: Container[str] | None = None
) -> list[Difference]:
    """List the claims that differ; an orchestrator that uses the contract gets them automatically.

    Deviations are those of `clauses` alone; None: of all.
    """
    deviations = (row for row in _deviations(was, now) if clauses is None or row.clause in clauses)
    return [*_argv(was, now), *_flags(was, now), *_read(was, now), *deviations]


def _argv(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for key in ARGV:
        before, after = getattr(was.launch, key), getattr(now.launch, key)
        if before != after:
            old, new = command_line(before, LONGEST) or "nothing", command_line(after, LONGEST) or "nothing"
            yield _claim(f"launch.{key}", old, new, Impact.DEGRADED, "the arguments differ")


def _flags(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for section, gone, new, why_new in (
        ("options", Impact.DEGRADED, Impact.ADDITIVE, "callers may now pass it"),
        ("auto_flags", Impact.NONE, Impact.DEGRADED, "it lets the engine act without asking"),
    ):
        before, after = (
            {name for option in getattr(side, section) for name in (option.flag, *option.aliases)}
            for side in (was, now)
        )
        for flag in sorted(before ^ after):
            name = f"{section}: {flag}"
            if flag in before:
                yield _claim(name, flag, None, gone, "the engine no longer accepts it")
            else:
                yield _claim(name, None, flag, new, why_new)


def _read(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for section in READ:
        before, after = (msgspec.to_builtins(getattr(side, section)) for side in (was, now))
        if before != after:
            old, new = _shown(before, after), _shown(after, before)
            detail = "turns are read, or sessions are found, differently"
            yield _claim(section, old, new, Impact.DEGRADED, detail)


def _deviations(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    """List deviations that are declared for only one release; the clause's result may be the same in both."""
    before, after = ({(d.clause, d.symptom): d.action for d in side.deviations} for side in (was, now))
    for clause, symptom in sorted(before.keys() ^ after.keys()):
        if (clause, symptom) in after:
            action = after[clause, symptom]
            yield Difference("deviation", f"{clause} {symptom}", None, symptom, Impact.DEGRADED, action, clause)
        else:
            detail = "the contract no longer declares it"
            yield Difference("deviation", f"{clause} {symptom}", symptom, None, Impact.ADDITIVE, detail, clause)


def _claim(subject: str, before: str | None, after: str | None, impact: Impact, detail: str) -> Difference:
    return Difference("claim", subject, before, after, impact, detail, None)


def _shown(value: Any, other: Any) -> str:
    """Render the parts that differ."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        value = {key: part for key, part in value.items() if other.get(key) != part}
    return bounded(msgspec.json.encode(value).decode(), LONGEST)


class ReleaseSurface(Struct, frozen=True):
    """The names on each observed help page, even if empty; the kinds of records and their keys of each ended turn.

    A key is written as `kind: path`. Turns that did not end by themselves are left out. `listed` is what the release
    lists without a turn, in sections as the history has them.
    """

    names: Mapping[str, Sequence[str]]
    kinds: Mapping[str, Sequence[str]]
    keys: Mapping[str, Sequence[str]]
    listed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Side(Struct, frozen=True):
    """One of the two releases: its report and its observations; `hidden` are options that only its help lacks.

    None: whether it accepts what its help lacks could not be tried.
    """

    release: ReleaseReport
    surface: ReleaseSurface
    hidden: frozenset[str] | None = frozenset()


class Results:
    """The results of one release by clause."""

    def __init__(self, release: ReleaseReport) -> None:
        self.by_id: dict[str, ClauseResult] = {clause.id: clause for clause in release.clauses}

    def of(self, clause_id: str) -> Result:
        """Return a clause's result; `not_run` if it was not tested."""
        return self.by_id[clause_id].result if clause_id in self.by_id else Result.NOT_RUN

    def holds(self, clause_id: str) -> bool:
        """Whether a clause passes, deviates as declared, or was not selected."""
        return clause_id not in self.by_id or self.of(clause_id) in (Result.PASS, Result.DEVIATES)

    def fallen(self, clause_id: str) -> list[ClauseResult]:
        """Return the direct and indirect prerequisites whose failure kept the clause from being run."""
        return list(fallen_needs(self.by_id, clause_id)) if clause_id in self.by_id else []


def surface(
    events: Iterable[Event], release: str, published: Mapping[str, Mapping[str, str]] | None = None
) -> ReleaseSurface:
    """Read the surface of a release from its events; `published` are facts that its vendor publishes elsewhere."""
    mine = [event for event in events if isinstance(event, PageEvent | TurnEvent) and event.release == release]
    turns = [event for event in mine if isinstance(event, TurnEvent) and event.ended == Ended.EXIT]
    return ReleaseSurface(
        {page.step: page.names for page in mine if isinstance(page, PageEvent) and page.names is not None},
        {turn.name: turn.kinds for turn in turns if turn.kinds is not None},
        {turn.name: turn.paths for turn in turns if turn.paths is not None},
        {**(published or {}), **sections(mine)},
    )


def differences(old: Side, new: Side, was: EngineContract) -> list[Difference]:
    """List all differences; `was` is the contract of the older release, which defines what matters."""
    results = Results(new.release)
    return [
        *_clauses(Results(old.release), results),
        *_names(old, new, was, results),
        *_listed(old, new, was, results),
        *_records(old, new, was, results),
        *_models(old.release, new.release, was),
    ]


def _models(was: ReleaseReport, now: ReleaseReport, contract: EngineContract) -> Iterator[Difference]:
    """Compare the models of turns that choose none, and the tools that they are offered.

    Tools depend on the model, so they are compared if it is the same, or what each release takes by itself.
    """
    models = [None if side.models is UNSET else side.models for side in (was, now)]
    before, after = (side.ordinary if side else None for side in models)
    by_itself = all(side and side.depends_on for side in models)
    if before != after:
        detail = "turns run with another model, which may be offered other tools"
        detail += "" if by_itself else ", so tools are not compared"
        yield Difference("model", "model of the turns", before, after, Impact.NONE, detail, None)
    if before == after or by_itself:
        yield from _tools(was.tool_access, now.tool_access, contract)


def _clauses(was: Results, now: Results) -> Iterator[Difference]:
    for clause in now.by_id.values():
        # a clause that tests both releases has no older result; sessions are expected to survive
        before = Result.PASS if clause.level == "gate" else was.of(clause.id)
        if before is clause.result or (clause.id not in was.by_id and clause.level != "gate"):
            continue
        impact = of_clause(clause.severity, before, clause.result, fallen=bool(now.fallen(clause.id)))
        yield Difference("clause", clause.id, before, clause.result, impact, clause.detail, clause.id)


def _names(old: Side, new: Side, was: EngineContract, results: Results) -> Iterator[Difference]:
    """Compare the names on the help pages; a name that is still on another page is not gone."""
    before, after = _shared(old.surface.names, new.surface.names)
    for name in sorted(before ^ after):
        use, clause = option_use(was, name)
        holds, detail = results.holds(clause), "a new name on the help pages"
        if name in before and name in (new.hidden or ()):
            detail = "it is no longer on the help page, but still accepted"
            yield Difference("option", name, name, HIDDEN, Impact.NONE, detail, "help.surface")
            continue
        if name in before:
            detail = "it is no longer on any help page"
            if use is Use.RELIES and clause in results.by_id:
                detail += ", but turns still run with it" if holds else ", and turns don't run with it"
            elif use is Use.OFFERS and (untried := _untried(was, name, after, new.hidden)):
                use, holds, detail = Use.RELIES, True, detail + untried
        yield _gone_or_new("option", name, use, detail, "help.surface", gone=name in before, holds=holds)


def _untried(contract: EngineContract, name: str, shown: Container[str], hidden: Container[str] | None) -> str:
    """Say why a release may accept a name that its help pages lack; empty: it refuses it. Short ones aren't tried."""
    if hidden is None:
        return ", and whether it is still accepted could not be tried"
    options = (option for option in contract.options if name in option.aliases and not name.startswith("--"))
    long = next((option.flag for option in options if option.flag in shown or option.flag in hidden), None)
    return f", but its long name {long} is still accepted" if long else ""


def _listed(old: Side, new: Side, was: EngineContract, results: Results) -> list[Difference]:
    """Compare what both releases list without a turn.

    What the contract uses comes first, then what is required now, what is gone, and what is new.
    """
    before, after, rows = old.surface.listed, new.surface.listed, list[tuple[int, Difference]]()
    for section in sorted(before.keys() & after.keys()):
        kind = section.partition("/")[0]
        for name, earlier, later in sorted(differing(kind, before[section], after[section]), key=lambda row: row[0]):
            use, clause = listed_use(was, kind, name)
            holds = clause != "help.surface" and results.holds(clause)
            is_required = kind == Kind.PROTOCOL and _requires(name, earlier, later)
            if is_required and use is Use.NONE:
                use = listed_use(was, kind, name.partition(": ")[0])[0]
            row = _listed_difference(kind, name, earlier, later, use, clause, holds=holds, required=is_required)
            order = (row.impact is Impact.BREAKING, is_required, later is None, True)
            rows.append((order.index(True), row))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _requires(name: str, before: str | None, after: str | None) -> bool:
    """Whether a message to the engine must have a field now that it could be without."""
    is_sent = name.startswith(("request", "question"))
    return is_sent and (after or "").startswith("required") and not (before or "").startswith("required")


def _listed_difference(
    kind: str, name: str, before: str | None, after: str | None, use: Use, clause: str, *, holds: bool, required: bool
) -> Difference:
    told: Any = "listed-model" if kind == Kind.MODEL else kind
    is_moved = before == name
    impact = Impact.ADDITIVE if before is None else Impact.NONE
    if after is None or is_moved or required or (kind == Kind.PROTOCOL and _loses(before, after)):
        impact = of_surface(use, holds=holds)
    if before is None:
        detail = "on by default now" if kind == Kind.FEATURE else "new in what the release lists"
        detail = "new, and required" if required else detail
    elif after is None:
        detail = "no longer on by default" if kind == Kind.FEATURE else "the release no longer lists it"
        detail += ", and the contract uses it" if use is Use.RELIES else ""
    elif is_moved:
        detail = f"it is now {after}"
    elif HIDDEN_COMMAND in (before, after):
        detail = "no longer on a help page, but still there" if after == HIDDEN_COMMAND else "on a help page now"
    else:
        verb = "is" if kind == Kind.PROTOCOL else "takes"
        detail = f"it {verb} {after or 'no value'} instead of {before or 'no value'}"
        detail = _words_changed(before, after) or detail
    return Difference(told, name, before, after, impact, detail, clause)


def _words_changed(before: str, after: str) -> str:
    """Say what differs between two lists of words such as `required: a|b`; empty if one is no list."""
    (was, _, took), (now, _, takes) = before.rpartition(": "), after.rpartition(": ")
    if was != now or "|" not in f"{took}{takes}" or not (took and takes):
        return ""
    old, new = took.split("|"), takes.split("|")
    parts = {"gone": [word for word in old if word not in new], "new": [word for word in new if word not in old]}
    return "; ".join(f"{how}: {', '.join(words)}" for how, words in parts.items() if words)


def _loses(before: str | None, after: str | None) -> bool:
    """Whether a field is no longer always there, or no longer takes a word that it took."""
    if before is None or after is None:
        return False
    (was, _, took), (now, _, takes) = before.partition(": "), after.partition(": ")
    return (was, now) == ("required", "optional") or bool(took and takes and {*took.split("|")} - {*takes.split("|")})


def _records(old: Side, new: Side, was: EngineContract, results: Results) -> Iterator[Difference]:
    """Compare the kinds of records of the same turns, and the keys in the kinds that both releases print."""
    used = keys_in_use(was)
    kinds_before, kinds_after = _shared(old.surface.kinds, new.surface.kinds)
    changed = [("event", kind, kind in kinds_before, use_of(used, kind, "")) for kind in kinds_before ^ kinds_after]
    before, after = _shared(old.surface.keys, new.surface.keys)
    for key in before ^ after:
        kind, _, path = (ANY, "", key) if was.events.field is None else key.partition(": ")
        # a key that appears or disappears with its record or parent key is reported there
        if (kind == ANY or kind in kinds_before & kinds_after) and key.rpartition(".")[0] not in before ^ after:
            changed.append(("key", key, key in before, use_of(used, kind, path)))
    for what, name, gone, (use, clause) in sorted(changed, key=lambda row: row[:2]):
        detail = "new in the same turns"
        if gone:
            detail = "the contract reads it" if use is Use.RELIES else "the contract doesn't read it"
        yield _gone_or_new(what, name, use, detail, clause, gone=gone, holds=results.holds(clause))


def _tools(was: ToolAccess | None, now: ToolAccess | None, contract: EngineContract) -> Iterator[Difference]:
    """Compare the tools offered in each mode, and the outcome of a call."""
    called, earlier = contract.hermetic.tool_call, dict(was.modes()) if was else {}
    watched = {tool for sign in contract.approval_signs for tool in sign.tools} | ({called.name} if called else set())
    for mode, after in now.modes() if now else ():
        before = earlier.get(mode, ModeToolAccess(None, None))
        if before.tools is not None and after.tools is not None:
            for tool in sorted(set(before.tools) ^ set(after.tools)):
                gone = tool in before.tools
                use = Use.RELIES if tool in watched else Use.NONE
                detail = f"{'no longer ' if gone else ''}offered to the model in mode {mode}"
                if gone and tool in after.searched:
                    detail += ", which can search for it"
                    impact = of_surface(use, holds=True)
                    yield Difference("tool", f"{tool} ({mode})", tool, SEARCHED, impact, detail, TOOL_CLAUSE)
                    continue
                yield _gone_or_new("tool", f"{tool} ({mode})", use, detail, TOOL_CLAUSE, gone=gone, holds=True)
        yield from _call(mode, before.call, after.call)


def _call(mode: str, was: ToolCallResult | None, now: ToolCallResult | None) -> Iterator[Difference]:
    """Compare the outcomes of a tool call."""
    if was is None or now is None:
        return
    if was.outcome != now.outcome:
        detail = f"a tool call in mode {mode}: {now.reported or 'no result was reported to the model'}"
        impact = of_call(mode, now.outcome)
        clause = CALL_CLAUSE if impact is Impact.BREAKING else TOOL_CLAUSE
        yield Difference("call", mode, was.outcome, now.outcome, impact, detail, clause)
    elif was.exit_code != now.exit_code:
        old, new = ("none" if call.exit_code is None else str(call.exit_code) for call in (was, now))
        detail = f"the turn ends with another exit code, although the call is still {now.outcome}"
        yield Difference("call", f"{mode} exit code", old, new, Impact.DEGRADED, detail, TOOL_CLAUSE)


def _gone_or_new(kind: Any, name: str, use: Use, detail: str, clause: str, *, gone: bool, holds: bool) -> Difference:
    impact = of_surface(use, holds=holds) if gone else Impact.ADDITIVE
    return Difference(kind, name, name if gone else None, None if gone else name, impact, detail, clause)


def _shared(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> tuple[set[str], set[str]]:
    """Return, for each side, all words of the turns or pages that both sides have."""
    both = old.keys() & new.keys()
    return {word for name in both for word in old[name]}, {word for name in both for word in new[name]}
