"""Writes the pages about histories: one for each engine, and an overview."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise
from typing import Final

from msgspec import Struct

from tests.tools.compatibility.render import coverage, deviations, table
from tests.tools.docs.history.picture import UNTESTED, Bar, bars, caveats, svg
from turngate.contract import load
from turngate.contract.verdict import Verdict
from turngate.history import Change, History, KnownRelease, by_since
from turngate.history_text import sentences

_VERDICTS: Final = (Verdict.COMPATIBLE, Verdict.DEGRADED, Verdict.BROKEN, Verdict.UNANSWERED, UNTESTED)
_FEEDS: Final = "To hear of new releases, subscribe to a feed: [Atom](changes.atom) or [JSON](changes.json)."
# what is longer is folded
_MOST_SENTENCES, _LONGEST_SENTENCE = 8, 320


class Comparison(Struct, frozen=True):
    """What a release changed since another one; `untested` lie between the two."""

    since: str
    untested: tuple[str, ...]
    changes: tuple[Change, ...]


class ChangedRelease(Struct, frozen=True):
    """A release that differs from those before it, the nearest first."""

    release: KnownRelease
    published: str | None
    comparisons: tuple[Comparison, ...]


def title(engine: str) -> str:
    """Return the name of an engine."""
    return load.contract(engine).at().title


def changed_releases(known: History) -> tuple[ChangedRelease, ...]:
    """Return the releases that changed something, oldest first."""
    releases = {release.version: release for release in known.releases}
    return tuple(
        ChangedRelease(releases[version], known.published.get(version), tuple(_comparisons(known, version, changes)))
        for version, changes in groupby(known.changes(), key=lambda change: change.release)
    )


def _comparisons(known: History, version: str, changes: Iterable[Change]) -> Iterator[Comparison]:
    for since, compared in by_since(changes):
        yield Comparison(since, known.untested(since, version), compared)


def engine_page(known: History) -> str:
    """Return the page about an engine's releases."""
    name, shown = title(known.engine), bars(known)
    return "\n".join(
        [
            f"# History of {name}\n",
            f"{_newest(known)}\n",
            f"<div>{svg(f'Releases of {name}', _description(shown), shown)}</div>\n",
            f"{_legend(shown)}\n",
            "Each bar is a published release, the oldest first: the higher, the better. A line was not tested.\n",
            *_verdicts(known),
            f"{coverage(known).capitalize()}, on {known.machine}. {_facts(known)}\n",
            "## Deviations\n",
            "What the contract declares, and what an orchestrator must do about it.\n",
            deviations(known.engine),
            "## Changes\n",
            f"Release by release, newest first. {_FEEDS}\n",
            *_changes(known),
        ]
    )


def overview(histories: Mapping[str, History]) -> str:
    """Return the page that lists the others."""
    rows = [
        (f"[{title(engine)}]({engine}.md)", *_newest_cells(known), str(len(changed_releases(known))))
        for engine, known in sorted(histories.items(), key=lambda item: title(item[0]).lower())
    ]
    listed = table(("engine", "newest tested", "published", "verdict", "clause set", "releases with changes"), rows)
    return (
        "# What releases changed\n\n"
        "turngate tests the published releases of each engine and compares neighbours: what they print, which options\n"
        "and tools they offer, how they exit, what they request, and which promises they keep.\n\n"
        f"{listed}\n{_FEEDS}\n"
    )


def _newest_cells(known: History) -> tuple[str, str, str, str]:
    release = _newest_tested(known)
    if release is None:
        return "none", "", "", ""
    published = known.published.get(release.version) or "unknown"
    published = known.published.get(release.version) or "unknown"
    return release.version, _whole(published), str(release.verdict), _whole(release.clause_set)


def _whole(text: str) -> str:
    """Return a cell of which no line ends after a hyphen."""
    return f'<span class="unbroken">{text}</span>'


def _newest_tested(known: History) -> KnownRelease | None:
    return next((release for release in reversed(known.releases) if release.tested), None)


def _newest(known: History) -> str:
    release = _newest_tested(known)
    if release is None:
        return "No release was tested yet."
    date = known.published.get(release.version)
    with_caveats = f", with {caveats(release)}" if caveats(release) else ""
    of = f" of {date}" if date else ""
    by = f", by clause set {release.clause_set}"
    newer = [version for version in known.published if known.nearest(version)[1] is None]
    left = [version for version in newer if version != release.version]
    said = f"**{release.version}**{of}, the newest tested release, is **{release.verdict}**{with_caveats}{by}."
    return f"{said} Not tested yet: {', '.join(left)}." if left else said


def _description(shown: Sequence[Bar]) -> str:
    counts = Counter(bar.verdict for bar in shown)
    return f"{len(shown)} releases: {', '.join(f'{counts[v]} {v}' for v in _VERDICTS if counts[v])}."


def _legend(shown: Sequence[Bar]) -> str:
    counts = Counter(bar.verdict for bar in shown)
    entries = (
        f'<li class="{verdict.replace(" ", "-")}">{verdict}: {counts[verdict]}</li>'
        for verdict in _VERDICTS
        if counts[verdict]
    )
    return f'<ul class="history-legend">{"".join(entries)}</ul>'


def _verdicts(known: History) -> Iterator[str]:
    """Say in words what the picture shows."""
    tested = [release for release in known.releases if release.verdict is not None]
    lines = list[str]()
    for (verdict, clause_set), alike in groupby(tested, key=lambda release: (release.verdict, release.clause_set)):
        same = [*alike]
        first, last = same[0].version, same[-1].version
        said = f"{verdict} by clause set {clause_set}"
        lines.append(f"{first}: {said}" if first == last else f"{first} to {last}: {said} ({len(same)} releases)")
    if lines:
        yield _folded("The same in words", f"<ul>{''.join(f'<li>{line}</li>' for line in reversed(lines))}</ul>") + "\n"


def _facts(known: History) -> str:
    tested = [release for release in known.releases if release.tested]
    observed = [release for release in tested if release.facts]
    if len(observed) == len(tested):
        return ""
    if not observed:
        return "They were compared only by clauses."
    where = f"{len(observed)} of them ({observed[0].version} to {observed[-1].version})"
    return f"Output, options, tools and requests were observed in {where}; the others were compared only by clauses."


def _changes(known: History) -> Iterator[str]:
    changed = {each.release.version: each for each in changed_releases(known)}
    tested = [release.version for release in known.releases if release.tested]
    pairs = [newer for _, newer in pairwise(tested)]
    for has_changes, versions in groupby(reversed(pairs), key=changed.__contains__):
        alike = [*versions]
        if has_changes:
            yield from (_entry(changed[version]) for version in alike)
        elif len(alike) == 1:
            yield f"<p>{alike[0]}: no change.</p>\n"
        else:
            yield f"<p>{alike[-1]} to {alike[0]}: {len(alike)} releases without a change.</p>\n"
    if tested:
        yield f"<p>{tested[0]}: the oldest tested release.</p>\n"


def _entry(each: ChangedRelease) -> str:
    release = each.release
    said = f"{release.verdict} by clause set {release.clause_set}"
    about = ", ".join(word for word in (each.published, said, caveats(release)) if word)
    heading = f'<h3 class="history-release" id="{release.version}">{release.version} <small>{about}</small></h3>'
    return f"{heading}\n{entry_html(each)}\n"


def entry_html(each: ChangedRelease) -> str:
    """Return what a release changed as HTML, with what it was compared with if that is not its neighbour."""
    return "".join(_compared(comparison) + _items(sentences(comparison.changes)) for comparison in each.comparisons)


def _compared(comparison: Comparison) -> str:
    count = len(comparison.untested)
    if not count:
        return ""
    between = (
        f"{comparison.untested[0]}, in between, was not tested for this and may have brought it."
        if count == 1
        else f"The {count} releases in between were not tested for this, and one of them may have brought it."
    )
    return f"<p>Compared with {comparison.since}. {between}</p>"


def _items(texts: Sequence[str]) -> str:
    shown, more = texts[:_MOST_SENTENCES], texts[_MOST_SENTENCES:]
    if len(more) == 1:
        shown, more = texts, ()
    items = f"<ul>{''.join(f'<li>{_item(text)}</li>' for text in shown)}</ul>"
    if not more:
        return items
    rest = f"<ul>{''.join(f'<li>{_item(text)}</li>' for text in more)}</ul>"
    return items + _folded(f"{len(more)} more changes", rest)


def _item(text: str) -> str:
    if len(text) <= _LONGEST_SENTENCE:
        return _html(text)
    beginning = text[:_LONGEST_SENTENCE].rpartition(", ")[0]
    return _folded(f"{_html(beginning)} …", f"<p>{_html(text)}</p>")


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>{inner}</details>"


def _html(text: str) -> str:
    """Return a sentence as HTML: what is between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
