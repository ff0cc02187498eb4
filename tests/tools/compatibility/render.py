"""Renders the histories of the engines: a short table for the README, and a full page."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tests.tools.compatibility.boundaries import USABLE, deviation
from tests.tools.compatibility.recorded import installable, releases
from turngate import history
from turngate.contract import load
from turngate.contract.clauses import CLAUSE_SETS, Result, Severity
from turngate.contract.verdict import Verdict
from turngate.contract.versions import Range
from turngate.history import History, KnownRelease, KnownResult
from turngate_probes.report.wording import NOT_KNOWN

ROOT = Path(__file__).parents[3]
README, PAGE, RECIPES = ROOT / "README.md", ROOT / "docs" / "compatibility.md", ROOT / "docs" / "engines"
BEGIN, END = "<!-- compatibility -->", "<!-- /compatibility -->"
VERDICTS = (Verdict.COMPATIBLE, Verdict.DEGRADED, Verdict.BROKEN, Verdict.UNANSWERED)
ABSENT = "-"
FROM_RECORDINGS = "from recordings"
_OUTCOME = ("tested", "verdict", "clause set", "profile", "what failed")

Histories = Mapping[str, History]


def histories() -> Histories:
    """Return the history of each engine that has one."""
    return {engine: history.load(engine) for engine in history.engines()}


def summary(known: Histories) -> str:
    """Return the table for the README, with a row for each engine that has a contract."""
    head = ("engine", "tested, of all published", *VERDICTS, "by clause set", "usable since", "newest tested")
    return table(head, (row for engine in _engines() for row in _summed(engine, known.get(engine))))


def page(known: Histories) -> str:
    """Return the full page."""
    parts = (_part(engine, known.get(engine)) for engine in _engines())
    return (
        "# Compatibility of published releases\n\n"
        "Find your engine and the row of your release. The last column shows what failed, or the clause that made the\n"
        "release broken. What a usable release still does wrong is under *Deviations*, with what your orchestrator\n"
        "must do about it. A verdict says nothing about clauses that are newer than its [clause\n"
        "set](exit-codes.md#clause-sets).\n\n"
        "*Tested* says how many of the stable releases in the range of that row were tested. If turngate can't\n"
        "install an engine, or its vendor withdrew it, recordings of the engine are judged instead, on the clauses\n"
        "that recordings can answer.\n\n"
        f"{''.join(parts)}"
    ).rstrip() + "\n"


def in_readme(readme: str, known: Histories) -> str:
    """Put the table between its marks in the README's text; raise ValueError if they are missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README holds no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{summary(known)}{END}{after}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = tuple(head)
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def deviations(engine: str) -> str:
    """Return the table of what an engine's contract declares, and what an orchestrator must do about it."""
    ranges = dict[tuple[str, str], dict[str, list[str]]]()
    for claim in load.contract(engine).document.claims("deviations"):
        declared = deviation(claim)
        alike = ranges.setdefault((f"`{declared.clause}`", declared.action), {}).setdefault(str(claim.range), [])
        alike.append(f"{declared.symptom}, now and then" if declared.flaky else declared.symptom)
    rows = (
        (clause, "; ".join(", ".join(alike) + _among(span) for span, alike in told.items()), action)
        for (clause, action), told in ranges.items()
    )
    return table(("clause", "symptoms, in all releases or the named ones", "an orchestrator must"), rows)


def coverage(known: History) -> str:
    """Say how many releases were tested."""
    tested = [release for release in known.releases if release.clauses]
    partly = [release.version for release in tested if release.verdict is None]
    counted = f"{len(tested) - len(partly)} of {len(known.published)} published releases were tested completely"
    return counted + (f", {len(partly)} more on single clauses ({', '.join(partly)})" if partly else "")


def stretches(known: History) -> list[list[KnownRelease]]:
    """Group adjacent releases with the same results, of those that were tested completely."""
    whole = [release for release in known.releases if release.verdict not in {None, Verdict.UNANSWERED}]
    return [list(alike) for _, alike in groupby(whole, key=_outcome)]


def untestable(known: History) -> dict[str, list[list[KnownRelease]]]:
    """Return each reason why releases could not be tested, with adjacent releases grouped."""
    found = dict[str, list[list[KnownRelease]]]()
    whole = (release for release in known.releases if release.verdict is not None)
    for why, alike in groupby(whole, key=lambda release: release.verdict is Verdict.UNANSWERED and _why(release)):
        if why:
            found.setdefault(why, []).append(list(alike))
    return found


def unknown_clauses(known: History) -> list[tuple[list[str], list[KnownRelease]]]:
    """Return today's clauses that usable releases lack, because they are newer, with the releases that have them."""
    usable = [release for release in known.releases if release.verdict in USABLE]
    by_releases = dict[tuple[str, ...], tuple[list[str], list[KnownRelease]]]()
    for clause in load.catalogue().at_level("static", "hermetic"):
        having = [release for release in usable if clause.id in release.clauses]
        if len(having) < len(usable):
            by_releases.setdefault(tuple(release.version for release in having), ([], having))[0].append(clause.id)
    return [*by_releases.values()]


def _engines() -> list[str]:
    return sorted(load.engine_names(), key=lambda engine: load.contract(engine).at().title.lower())


def _summed(engine: str, known: History | None) -> Iterator[tuple[str, ...]]:
    title = load.contract(engine).at().title
    if not installable(engine):
        for release in releases(engine):
            usable = release.version if release.verdict in USABLE else ABSENT
            counts = _counts([release])
            newest = f"{_newest(release)}, {FROM_RECORDINGS}"
            yield title, f"1, {FROM_RECORDINGS}", *counts, release.clause_set, usable, newest
    elif known is None or not known.releases:
        published = f" of {len(known.published)}" if known else ""
        yield title, f"0{published}: not measured yet", *_counts([]), ABSENT, ABSENT, ABSENT
    else:
        whole = [release for release in known.releases if release.verdict is not None]
        tested = [release for release in known.releases if release.clauses]
        partly = sum(release.verdict is None for release in tested)
        counted = f"{len(tested)} of {len(known.published)}" + (f", {partly} on single clauses" if partly else "")
        newest = next((_newest(release) for release in reversed(whole) if release.tested), ABSENT)
        sets = _clause_sets(release for release in whole if release.tested)
        yield title, counted, *_counts(whole), sets, _usable_since(whole) or ABSENT, newest


def _counts(tested: Sequence[KnownRelease]) -> tuple[str, ...]:
    return tuple(str(sum(release.verdict is verdict for release in tested)) for verdict in VERDICTS)


def _clause_sets(whole: Iterable[KnownRelease]) -> str:
    """Name the set of clauses of all verdicts, or say how many were given by each."""
    counts = Counter(release.clause_set for release in whole)
    if len(counts) < 2:
        return "".join(counts) or ABSENT
    return ", ".join(f"{clause_set}: {counts[clause_set]}" for clause_set in sorted(counts))


def _usable_since(whole: Iterable[KnownRelease]) -> str | None:
    since: str | None = None
    for release in whole:
        if release.verdict is not Verdict.UNANSWERED:
            since = (since or release.version) if release.verdict in USABLE else None
    return since


def _newest(release: KnownRelease) -> str:
    return f"{release.version}: {release.verdict} ({release.clause_set})"


def _part(engine: str, known: History | None) -> str:
    contract = load.contract(engine)
    title = contract.at().title
    parts = [f"## {title}\n\n"]
    if not installable(engine):
        parts.append(f"{contract.at().lifecycle.note}\n\n")
        parts.append(table(("release", *_OUTCOME), (_recorded_row(release) for release in releases(engine))))
    elif known is None or not known.releases:
        parts.append("No release was measured yet.\n")
    else:
        package = next(iter(contract.document.data["published"].values()))["package"]
        parts.append(f"`{package}`: {coverage(known)}, on {known.machine}.\n{_not_known(known)}\n")
        rows = (_stretch(alike, known) for alike in stretches(known))
        parts.append(table(("releases", *_OUTCOME), rows))
        if reasons := untestable(known):
            parts.append("\nCould not be tested:\n\n")
        for why, groups in reasons.items():
            parts.append(f"- {', '.join(_span(alike) for alike in groups)}: {why}\n")
    parts.append(f"\n### Deviations of {title}\n\n{deviations(engine)}\n")
    return "".join(parts)


def _not_known(known: History) -> str:
    """Say which of today's clauses some releases lack, because they were tested before there were these clauses."""
    usable = sum(release.verdict in USABLE for release in known.releases)
    lines = []
    for clauses, having in unknown_clauses(known):
        tested = f"{_span(having)}, {len(having)} of {usable}" if having else "none"
        lines.append(f"- {', '.join(_named(clauses))}: {tested}\n")
    if not lines:
        return ""
    return f"\nNewer clauses, and the usable releases that were tested on them:\n\n{''.join(lines)}"


def _named(clauses: Iterable[str]) -> Iterator[str]:
    """Name clauses, and by its name a newer set of which none is missing."""
    left = dict.fromkeys(clauses)
    catalogue = load.catalogue().at_level("static", "hermetic")
    for clause_set in CLAUSE_SETS[1:]:
        added = [clause.id for clause in catalogue if clause.since == clause_set]
        if left.keys() >= {*added}:
            yield f"all that {clause_set} adds"
            left = {clause: None for clause in left if clause not in added}
    yield from (f"`{clause}`" for clause in left)


def _recorded_row(release: KnownRelease) -> tuple[str, ...]:
    verdict, profile = str(release.verdict), release.profile or NOT_KNOWN
    return release.version, FROM_RECORDINGS, verdict, release.clause_set, profile, _failed(release)


def _stretch(alike: Sequence[KnownRelease], known: History) -> tuple[str, ...]:
    first, last, published = alike[0].version, alike[-1].version, [*known.published]
    versions = {release.version for release in alike}
    if first in published and last in published:
        # pre-releases that were named explicitly are missing from the published list
        count = published.index(last) - published.index(first) + 1 + len(versions - {*published})
    else:
        count = len(versions)
    return (
        _span(alike),
        f"{len(versions)} of {count}",
        str(alike[0].verdict),
        alike[0].clause_set,
        alike[0].profile or NOT_KNOWN,
        _failed(alike[0]),
    )


def _among(releases: str) -> str:
    return "" if releases == str(Range()) else f" ({releases})"


def _span(releases: Sequence[KnownRelease]) -> str:
    first, last = releases[0].version, releases[-1].version
    return first if first == last else f"{first} to {last}"


def _why(release: KnownRelease) -> str:
    """Say why a release was not tested, without its version and the place in a contract."""
    why = release.why.partition(" (")[0].replace(f" {release.version} ", " ")
    return re.sub(r"^engines/\S+: \S+: ", "", why)


def _outcome(release: KnownRelease) -> tuple[object, ...]:
    """Return what releases in one row have in common."""
    return release.verdict, release.clause_set, release.profile, _failed(release)


def _failed(release: KnownRelease) -> str:
    """Return the clause that makes a release broken, why it was not tested, or the clauses that failed, worst first."""
    if release.verdict is Verdict.BROKEN and (clause := release.why.partition(": ")[0]) in load.catalogue():
        return f"`{clause}`"
    failed = {name: known for name, known in release.clauses.items() if known.result is Result.FAIL}
    told = [_told(name, known) for name, known in sorted(failed.items(), key=_rank)]
    return release.why.partition(" (")[0] or "; ".join(told) or "nothing"


def _rank(item: tuple[str, KnownResult]) -> tuple[int, int]:
    catalogue = load.catalogue()
    return [*Severity].index(catalogue[item[0]].severity), [*catalogue].index(item[0])


def _told(name: str, known: KnownResult) -> str:
    said = known.detail or ", ".join(known.symptoms)
    return f"`{name}`: {said}" if said else f"`{name}`"
