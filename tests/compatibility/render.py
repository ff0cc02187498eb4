"""Renders the saved results of matrices: a short table for the README, and a page for everything."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from tests.compatibility.boundaries import USABLE, Boundary, boundaries, disagreeing
from tests.compatibility.recorded import RecordedRelease, withdrawn
from turngate.contract import load
from turngate.contract.clauses import Severity

BEGIN, END = "<!-- compatibility -->", "<!-- /compatibility -->"
VERDICTS = ("compatible", "degraded", "broken", "unanswered")
ABSENT = "-"

Kept = Mapping[str, Any]


def summary(kept: Kept) -> str:
    """Render the table of the README."""
    head = ("engine", "run, of all published", *VERDICTS, "usable since", "newest that was run")
    run = (_summed(name, engine) for name, engine in kept["engines"].items())
    return table(head, (*run, *map(_replayed, withdrawn())))


def page(kept: Kept) -> str:
    """Render the whole page."""
    parts = [_part(name, engine) for name, engine in kept["engines"].items()]
    parts += map(_recorded_part, withdrawn())
    return (
        "# Which releases were run, and what they showed\n\n"
        "Made by `make compatibility` of `compatibility.json` beside it. A range is exact where the release in which\n"
        "it begins or ends and the one published before it were both run; *published* are the stable releases that\n"
        "the package registry lists. An engine that its vendor withdrew is judged by its recordings alone, on the\n"
        f"clauses that recordings can answer.\n\n{''.join(parts)}"
    ).rstrip() + "\n"


def in_readme(readme: str, kept: Kept) -> str:
    """Put the table between its marks; ValueError if they are not there."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README holds no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{summary(kept)}{END}{after}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Render a Markdown table."""
    columns = tuple(head)
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def stretches(name: str, engine: Kept) -> list[tuple[list[str], Kept]]:
    """Group adjacent, completely probed releases with the same results."""
    whole = {
        version: {**release, "unseen": disagreeing(name, version, release)[0]}
        for version, release in engine["releases"].items()
        if "asked" not in release
    }
    grouped = groupby(whole, key=lambda version: whole[version])
    return [(list(versions), outcome) for outcome, versions in grouped]


def _summed(name: str, engine: Kept) -> Iterator[str]:
    run = [release for release in engine["releases"].values() if "lost" not in release]
    verdicts = [release.get("verdict") for release in engine["releases"].values()]
    yield load.contract(name).at().title
    partly = sum("asked" in release for release in run)
    yield f"{len(run)} of {len(engine['published'])}" + (f", {partly} for single clauses" if partly else "")
    yield from (str(verdicts.count(verdict)) for verdict in VERDICTS)
    whole = {version: release for version, release in engine["releases"].items() if "asked" not in release}
    working: str | None = None
    for version, release in whole.items():
        if release["verdict"] != "unanswered":
            working = (working or version) if release["verdict"] in USABLE else None
    yield working or ABSENT
    newest = list(whole)[-1]
    yield f"{newest}: {whole[newest]['verdict']}"


def _part(name: str, engine: Kept) -> str:
    title, package = load.contract(name).at().title, load.contract(name).document.data["published"]["npm"]["package"]
    run = {version: release for version, release in engine["releases"].items() if "lost" not in release}
    published = engine["published"]
    partly = [version for version, release in run.items() if "asked" in release]
    counted = f"`{package}`: {len(run) - len(partly)} of {len(published)} published releases were run whole"
    partly_told = f", {len(partly)} more for single clauses ({', '.join(partly)})" if partly else ""
    outcome = table(
        ("releases", "run", "verdict", "profile", "what did not simply hold"),
        (_stretch(versions, release, published) for versions, release in stretches(name, engine)),
    )
    deviating = table(("clause", "symptom", "releases", "an orchestrator must"), _deviations(name))
    edges = table(("claim", "", "release", "known from"), map(_edge, boundaries(name, engine)))
    return (
        f"## {title}\n\n{counted}{partly_told}, on {engine['machine']}.\n\n{outcome}\n"
        f"### Deviations of {title}\n\n{deviating}\n### Ranges of {title}\n\n{edges}\n"
    )


def _replayed(release: RecordedRelease) -> Iterator[str]:
    yield load.contract(release.engine).at().title
    yield "1, from recordings"
    yield from ("1" if release.verdict == verdict else "0" for verdict in VERDICTS)
    yield release.version if release.verdict in USABLE else ABSENT
    yield f"{release.version}: {release.verdict}, from recordings"


def _recorded_part(release: RecordedRelease) -> str:
    contract = load.contract(release.engine).at(release.version)
    told = "; ".join(_told(clause, result) for clause, result in _worst_first(release.notable)) or "nothing"
    row = (release.version, "from recordings", release.verdict, release.profile, told)
    outcome = table(("release", "run", "verdict", "profile", "what did not simply hold"), [row])
    deviating = table(("clause", "symptom", "releases", "an orchestrator must"), _deviations(release.engine))
    return (
        f"## {contract.title}\n\n{contract.lifecycle.note}\n\n{outcome}\n"
        f"### Deviations of {contract.title}\n\n{deviating}\n"
    )


def _stretch(versions: list[str], release: Kept, published: list[str]) -> Iterator[str]:
    first, last = versions[0], versions[-1]
    yield first if first == last else f"{first} to {last}"
    # named releases may be pre-releases, which the list leaves out
    between = [version for version in published if version in versions or _between(version, first, last, published)]
    yield f"{len(versions)} of {len(between) or 1}"
    yield release["verdict"]
    yield release["profile"]
    why = release.get("why", "")
    told = [
        _told(clause, result) for clause, result in _worst_first(release["found"]) if not why.startswith(f"{clause}: ")
    ]
    told += [f"not seen, though declared: {symptom}" for symptom in release["unseen"]]
    yield "; ".join([why, *told] if why else told) or "nothing"


def _between(version: str, first: str, last: str, published: list[str]) -> bool:
    if first not in published or last not in published:
        return False
    return published.index(first) <= published.index(version) <= published.index(last)


def _worst_first(results: Kept) -> list[tuple[str, Kept]]:
    severities = list(Severity)
    order = ("fail", "unsupported", "deviates", "not_run")

    def rank(item: tuple[str, Kept]) -> tuple[int, int]:
        clause = load.catalogue()[item[0]]
        return order.index(item[1]["result"]), severities.index(clause.severity)

    return sorted(results.items(), key=rank)


def _told(clause: str, result: Kept) -> str:
    said = f"`{clause}` {result['result'].replace('_', ' ')}"
    if "detail" in result:
        return f"{said}: {result['detail']}"
    return f"{said}: {', '.join(result['symptoms'])}" if "symptoms" in result else said


def _deviations(name: str) -> Iterator[tuple[str, ...]]:
    for claim in load.contract(name).document.claims("deviations"):
        symptom = f"{claim.data['symptom']}, by chance" if "flaky" in claim.data else claim.data["symptom"]
        yield f"`{claim.data['clause']}`", symptom, str(claim.range), claim.data["compensation"]


def _edge(boundary: Boundary) -> tuple[str, ...]:
    if boundary.unverified:
        known = "nobody has seen it hold"
    elif boundary.exact:
        known = f"exact: {boundary.before} and {boundary.after} were run"
    else:
        known = f"nearest that were run: {boundary.before or 'none before'} and {boundary.after or 'none after'}"
    return f"`{boundary.claim}`", boundary.edge, boundary.version, known
