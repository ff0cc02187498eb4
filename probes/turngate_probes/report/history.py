"""The report of `turngate history`: what is known of an engine's releases, and what each of them changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from rich.text import Text
from semver import Version

from turngate import NotFoundError
from turngate.contract import load
from turngate.contract.verdict import Verdict
from turngate.contract.versions import parse
from turngate.history import Change, History, KnownRelease, by_since
from turngate.history_text import only_guarded, sentences
from turngate.sanitize import visible
from turngate_probes.releases.selection import nearest
from turngate_probes.report.lines import Line, style_of


class Caveat(Struct, frozen=True):
    """A declared deviation that occurred in a release; `action` is what an orchestrator must do about it."""

    clause: str
    symptom: str
    action: str


class ReleaseHistory(Struct, frozen=True):
    """What is known of a release.

    published: null: unknown.
    verdict: null: only selected clauses were tested.
    clause_set: The set of clauses that the verdict was given by. It says nothing about newer clauses.
    level: The level of the test: hermetic, or long, which includes the clauses about long sessions.
    profile: null: not tested.
    why: Why it is broken or could not be tested; empty otherwise.
    changes: Its differences from the releases before it that were tested for the same, the last of each.
    model: The model of its turns; `stub`: one that no release knows.
    """

    version: str
    published: str | None
    verdict: Verdict | None
    clause_set: str
    profile: str | None
    why: str
    caveats: tuple[Caveat, ...]
    changes: tuple[Change, ...]
    level: str = "hermetic"
    model: str = ""

    @property
    def scope(self) -> str:
        """What the verdict was given by."""
        scope = load.catalogue().scope(self.clause_set, self.level)
        return f"{scope}, model {self.model}" if self.model else scope


class HistoryReport(Struct, frozen=True, kw_only=True, tag_field="schema", tag="turngate.history-report/1"):
    """The history of an engine, or the part after `since` up to and including `until`.

    since: null: from the first known release.
    until: null: to the newest known release.
    releases: Newest first; in a part of the history, without `since` itself.
    untested: The published releases that were never tested, oldest first.
    newest: The newest release that is known. Nothing is known of the newer ones, even if `until` names one.
    """

    engine: str
    title: str
    machine: str
    since: str | None
    until: str | None
    releases: tuple[ReleaseHistory, ...]
    untested: tuple[str, ...]
    newest: str


class EngineSummary(Struct, frozen=True):
    """How much is known of an engine; `newest` is its newest tested release, judged by `clause_set` at `level`."""

    engine: str
    tested: int
    published: int
    newest: str | None
    verdict: Verdict | None
    clause_set: str | None
    level: str | None


def summary(known: History) -> EngineSummary:
    """Summarise a history."""
    tested = [release for release in known.releases if release.tested]
    newest = tested[-1] if tested else None
    about = (newest.version, newest.verdict, newest.clause_set, newest.level) if newest else (None,) * 4
    return EngineSummary(known.engine, len(tested), len(known.published), *about)


def check_release(known: History, version: str) -> None:
    """NotFoundError if no release has this version, although newer ones are known."""
    if not Version.is_valid(version) or known.is_release(version) is False:
        near = ", ".join(nearest(version, known.published))
        raise NotFoundError(f"{known.engine} {version} is not a release that turngate knows of", f"nearest: {near}")


def history_report(known: History, since: str | None = None, until: str | None = None) -> HistoryReport:
    """Report on a history or a part of it; NotFoundError if an end is neither a known release nor newer than all."""
    for end in filter(None, (since, until)):
        check_release(known, end)
    if since and until and parse(until) < parse(since):
        since, until = until, since
    changes = {
        version: tuple(of_release)
        for version, of_release in groupby(known.changes(since, until), lambda change: change.release)
    }
    listed = [release for release in known.releases if _inside(release.version, since, until)]
    asked = {release.version for release in known.releases}
    return HistoryReport(
        engine=known.engine,
        title=load.contract(known.engine).at().title,
        machine=known.machine,
        since=since,
        until=until,
        releases=tuple(_release(known, release, changes.get(release.version, ())) for release in reversed(listed)),
        untested=tuple(v for v in known.published if v not in asked and _inside(v, since, until)),
        newest=known.newest,
    )


def _inside(version: str, since: str | None, until: str | None) -> bool:
    at = parse(version)
    return (since is None or at > parse(since)) and (until is None or at <= parse(until))


def _release(known: History, release: KnownRelease, changes: tuple[Change, ...]) -> ReleaseHistory:
    contract = load.find_contract(known.engine, release.version)
    actions = {(d.clause, d.symptom): d.action for d in contract.deviations} if contract else {}
    caveats = tuple(Caveat(*caveat, actions.get(caveat, "")) for caveat in release.caveats)
    return ReleaseHistory(
        release.version,
        known.published.get(release.version),
        release.verdict,
        release.clause_set,
        release.profile,
        release.why,
        caveats,
        changes,
        release.level,
        release.model,
    )


def summary_lines(engines: Sequence[EngineSummary]) -> Iterator[Line]:
    """Return a line for each engine."""
    width = max((len(each.engine) for each in engines), default=0)
    for each in engines:
        line = Text(f"{each.engine.ljust(width)}  {each.tested} of {each.published} published releases tested")
        if each.newest and each.verdict and each.clause_set and each.level:
            line.append(f"; newest: {each.newest} ").append(each.verdict, style_of(each.verdict))
            line.append(f" ({load.catalogue().scope(each.clause_set, each.level)})")
        yield 0, line


def history_lines(report: HistoryReport) -> Iterator[Line]:
    """Return the lines of a report: what is known, each release or row of equal ones, and what to do."""
    part = f" after {report.since}" if report.since else ""
    part += f" up to {report.until}" if report.until else ""
    tested = [release for release in report.releases if release.verdict not in (None, Verdict.UNANSWERED)]
    count = f"{len(tested)} tested release{'' if len(tested) == 1 else 's'}"
    yield 0, Text(f"{report.title}: {count}{part}, newest first ({report.machine})")
    if beyond := [end for end in (report.until, report.since) if end and parse(end) > parse(report.newest)]:
        probe = f"turngate probe {report.engine}@{beyond[0]}"
        yield 0, Text(f"nothing is known of releases after {report.newest}; `{probe}` tests one")
    if report.untested:
        yield 0, Text(f"not tested: {_some(report.untested)}")
    if partly := [release.version for release in reversed(report.releases) if release.verdict is None]:
        yield 0, Text(f"tested for selected clauses only: {_some(partly)}")
    for why, versions in _untestable(report).items():
        yield 0, Text(visible(f"{_some(versions)} could not be tested: {why}"))
    for equal in _rows([each for each in report.releases if each in tested or (each.verdict is None and each.changes)]):
        yield 0, Text()
        yield from _row_lines(equal, [*(each.version for each in tested), *filter(None, [report.since])])
    if tested and tested[0].caveats:
        yield 0, Text()
        yield 0, Text(f"with {report.engine} {tested[0].version}, an orchestrator must:")
        for action in dict.fromkeys(caveat.action for caveat in tested[0].caveats):
            yield 1, Text(visible(f"- {action}"))
    if tested and (guarded := only_guarded([(report.engine, tested[0].version, tested[0].verdict)])):
        yield 0, Text()
        yield 0, Text(visible(guarded))


def _untestable(report: HistoryReport) -> Mapping[str, Sequence[str]]:
    """Return the releases that could not be tested, oldest first, by the reason."""
    reasons = dict[str, list[str]]()
    for release in reversed(report.releases):
        if release.verdict is Verdict.UNANSWERED:
            reasons.setdefault(release.why, []).append(release.version)
    return reasons


def _rows(releases: Sequence[ReleaseHistory]) -> Iterator[list[ReleaseHistory]]:
    """Group each release that changed something with the newer ones that didn't, and have the same set of clauses."""
    row = list[ReleaseHistory]()
    for release in releases:
        if row and (row[-1].scope, row[-1].verdict is None) != (release.scope, release.verdict is None):
            yield row
            row = []
        row.append(release)
        if release.changes:
            yield row
            row = []
    if row:
        yield row


def _row_lines(equal: Sequence[ReleaseHistory], compared: Iterable[str]) -> Iterator[Line]:
    newest, oldest = equal[0], equal[-1]
    versions = _span(oldest.version, newest.version)
    days = sorted(release.published for release in equal if release.published)
    date = f" ({_span(days[0], days[-1])})" if days else ""
    verdict = str(newest.verdict) if newest.verdict else ""
    line = Text.assemble((f"{versions}{date}", "bold"), ": ", (verdict or "selected clauses only", style_of(verdict)))
    line.append(f" ({newest.scope})" if verdict else "")
    if newest.caveats and verdict:
        line.append(f", known caveats: {_by_clause(newest.caveats)}")
    yield 0, line
    if newest.why:
        yield 1, Text(visible(newest.why))
    older = [version for version in map(parse, compared) if version < parse(oldest.version)]
    for since, changes in by_since(oldest.changes):
        if older and parse(since) < older[0]:
            yield 1, Text(f"Compared with {since}, because the releases in between were not tested for this:")
        for sentence in sentences(changes):
            yield 1, Text(visible(sentence))


def _by_clause(caveats: Iterable[Caveat]) -> str:
    """Name each clause once, with its symptoms, as the changes do."""
    of_clause = groupby(caveats, key=lambda caveat: caveat.clause)
    return ", ".join(f"{clause} ({', '.join(each.symptom for each in group)})" for clause, group in of_clause)


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _some(versions: Sequence[str], most: int = 6) -> str:
    named = ", ".join(versions[-most:])
    return f"{named}, and {len(versions) - most} older ones" if len(versions) > most else named
