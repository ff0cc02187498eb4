"""Compares what two releases showed, part by part; every difference comes out weighed."""

from collections.abc import Iterable, Iterator

from turngate.contract.clauses import Result
from turngate.contract.structs import EngineContract
from turngate_probes.gate.baseline import UNASKED
from turngate_probes.gate.classify import Difference, Impact, Use, of_call, of_clause, of_surface
from turngate_probes.gate.contract_usage import ANY, keys_in_use, option_use, use_of
from turngate_probes.gate.survey import Side, shared
from turngate_probes.journal.tool_access import ToolAccess, ToolCallResult
from turngate_probes.report.structs import ReleaseReport

WORST_FIRST = list(Impact)
TOOL_CLAUSE = "interactive.no-auto-flags"
FALLEN = (Result.FAIL, Result.UNSUPPORTED)


class Results:
    """The results of one release by clause."""

    def __init__(self, release: ReleaseReport) -> None:
        self.by_id = {result.id: result for result in release.clauses}

    def of(self, clause_id: str) -> Result:
        """Return a clause's result; `not_run` if it was not asked."""
        return self.by_id[clause_id].result if clause_id in self.by_id else Result.NOT_RUN

    def holds(self, clause_id: str) -> bool:
        """Return whether a clause holds, if need be with what a deviation asks for."""
        return self.of(clause_id) in (Result.PASS, Result.DEVIATES)

    def fallen(self, clause_id: str) -> bool:
        """Return whether the clause was not run since one that it needs, directly or not, does not hold."""
        needs = self.by_id[clause_id].needs if clause_id in self.by_id else ()
        return any(self.of(need) in FALLEN or self.fallen(need) for need in needs)


def differences(old: Side, new: Side, was: EngineContract) -> list[Difference]:
    """List all differences, the worst first; `was` is the contract of the older release, which is relied on."""
    results = Results(new.release)
    found = [
        *_clauses(Results(old.release), results),
        *_names(old, new, was, results),
        *_records(old, new, was, results),
        *_tools(old.release.tool_access, new.release.tool_access, was),
    ]
    return sorted(found, key=lambda each: WORST_FIRST.index(each.impact))


def unasked(release: ReleaseReport) -> list[Difference]:
    """List the tool calls that run unasked, which break where there is nothing to compare with, too."""
    modes = release.tool_access.modes() if release.tool_access else ()
    return [difference for mode, access in modes for difference in _call(mode, None, access.call)]


def _clauses(was: Results, now: Results) -> Iterator[Difference]:
    for clause_id, clause in now.by_id.items():
        # what is asked of both at once has no older answer: that sessions outlive the change is what is expected
        before, after = Result.PASS if clause.level == "gate" else was.of(clause_id), now.of(clause_id)
        if before is after or (clause_id not in was.by_id and clause.level != "gate"):
            continue
        impact = of_clause(clause.severity, before, after, fallen=now.fallen(clause_id))
        yield Difference("clause", clause_id, before.value, after.value, impact, clause.detail, clause_id)


def _names(old: Side, new: Side, was: EngineContract, results: Results) -> Iterator[Difference]:
    """Compare what the help pages name; a name that another page of the same release has is not gone."""
    before, after = shared(old.survey.names, new.survey.names)
    for name in _ordered(before ^ after):
        use, clause = option_use(was, name)
        change, holds = ("gone" if name in before else "new"), results.holds(clause)
        detail = {"new": "a new name on the help pages", "gone": "no help page names it any more"}[change]
        if change == "gone" and use is Use.RELIES:
            detail += ", though turns still run with it" if holds else ", and turns do not run with it"
        impact = of_surface(change, use, holds=holds)
        yield _gone_or_new("option", name, change, impact, detail, "help.surface")


def _records(old: Side, new: Side, was: EngineContract, results: Results) -> Iterator[Difference]:
    """Compare the kinds of records of the same turns, and the keys in the kinds that both have."""
    used = keys_in_use(was)
    kinds_before, kinds_after = shared(old.survey.kinds, new.survey.kinds)
    for kind in _ordered(kinds_before ^ kinds_after):
        yield _record("event", kind, kind in kinds_before, use_of(used, kind, ""), results)
    before, after = shared(old.survey.keys, new.survey.keys)
    for key in _ordered(before ^ after):
        kind, path = _split(key, was)
        # what came or went with its record, or with the key that it stands below, is told with that
        if (kind == ANY or kind in kinds_before & kinds_after) and key.rpartition(".")[0] not in before ^ after:
            yield _record("key", key, key in before, use_of(used, kind, path), results)


def _record(kind: str, name: str, was_there: bool, used: tuple[Use, str], results: Results) -> Difference:  # noqa: FBT001
    use, clause = used
    change, holds = ("gone" if was_there else "new"), results.holds(clause)
    detail = "turns are read by it" if use is Use.RELIES else "no turn is read by it"
    if change == "new":
        detail = "new in the same turns"
    return _gone_or_new(kind, name, change, of_surface(change, use, holds=holds), detail, clause)


def _tools(was: ToolAccess | None, now: ToolAccess | None, contract: EngineContract) -> Iterator[Difference]:
    """Compare the tools that are offered in each mode, and what becomes of a call of one."""
    called = contract.hermetic.tool_call
    watched = {tool for sign in contract.approval_signs for tool in sign.tools} | ({called.name} if called else set())
    older = dict(was.modes()) if was else {}
    for mode, after in now.modes() if now else ():
        before = older.get(mode)
        if before and before.tools is not None and after.tools is not None:
            for tool in _ordered(set(before.tools) ^ set(after.tools)):
                change = "gone" if tool in before.tools else "new"
                impact = of_surface(change, Use.RELIES if tool in watched else Use.NONE, holds=True)
                detail = f"{'no longer ' if change == 'gone' else ''}offered to the model in mode {mode}"
                yield _gone_or_new("tool", f"{tool} ({mode})", change, impact, detail, TOOL_CLAUSE)
        yield from _call(mode, before.call if before else None, after.call)


def _call(mode: str, was: ToolCallResult | None, now: ToolCallResult | None) -> Iterator[Difference]:
    """Compare what becomes of a tool call; one that runs unasked breaks unless it was seen to before, too."""
    if now is None:
        return
    impact, after = of_call(mode, now.outcome), str(now.outcome)
    before = str(was.outcome) if was else None
    told = now.told or "the model was told nothing"
    if impact is Impact.BREAKING:
        as_before = before == after
        detail = f"a tool call in mode {mode} runs unasked{', as before' if as_before else ''}: {told}"
        yield Difference("call", mode, before, after, Impact.DEGRADED if as_before else impact, detail, UNASKED)
    elif was and before != after:
        yield Difference("call", mode, before, after, impact, f"a tool call in mode {mode}: {told}", TOOL_CLAUSE)
    if was and before == after and was.exit_code != now.exit_code:
        old, new = ("none" if each.exit_code is None else str(each.exit_code) for each in (was, now))
        detail = f"the turn ends with another exit code, though the call is {after} as before"
        yield Difference("call", f"{mode} exit code", old, new, Impact.DEGRADED, detail, TOOL_CLAUSE)


def _gone_or_new(kind: str, name: str, change: str, impact: Impact, detail: str, clause: str) -> Difference:
    before, after = (name, None) if change == "gone" else (None, name)
    return Difference(kind, name, before, after, impact, detail, clause)


def _split(key: str, contract: EngineContract) -> tuple[str, str]:
    if contract.events.field is None:
        return ANY, key
    kind, _, path = key.partition(": ")
    return kind, path


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names)
