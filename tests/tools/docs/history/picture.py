"""Draws the history of an engine: a bar for each release, oldest first; colour and height show its verdict."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from msgspec import Struct

from turngate.contract.verdict import Verdict
from turngate.contract.versions import parse
from turngate.history import History, KnownRelease

UNTESTED: Final = "not tested"
# the height of a bar, so that nobody needs to see colours
_HEIGHTS: Final[Mapping[str, int]] = {
    Verdict.COMPATIBLE: 18,
    Verdict.DEGRADED: 12,
    Verdict.BROKEN: 6,
    Verdict.UNANSWERED: 18,
    UNTESTED: 2,
}
# in units of the drawing, which is as wide as a phone, so that its words can be read there
_PER_ROW, _BAR, _PITCH, _ROW, _LABEL = 40, 6, 8, 32, 104
_WIDTH: Final = _LABEL + _PER_ROW * _PITCH


class Bar(Struct, frozen=True):
    """A release in the picture; `verdict` is that of a tested one, or `not tested`."""

    version: str
    published: str | None
    verdict: str
    remark: str = ""


def bars(known: History) -> tuple[Bar, ...]:
    """Return the published and the tested releases, beginning with the first tested one, oldest first."""
    seen = {release.version: release for release in known.releases}
    versions = sorted({*known.published, *seen}, key=parse)
    first = next((index for index, version in enumerate(versions) if version in seen), len(versions))
    return tuple(_bar(version, known, seen.get(version)) for version in versions[first:])


def _bar(version: str, known: History, release: KnownRelease | None) -> Bar:
    published = known.published.get(version)
    if release is None:
        return Bar(version, published, UNTESTED)
    if release.verdict is None:
        return Bar(version, published, UNTESTED, "except for single clauses")
    by = f"by clause set {release.clause_set}"
    return Bar(version, published, release.verdict, f"{by}, {caveats(release)}" if caveats(release) else by)


def caveats(release: KnownRelease) -> str:
    """Return how many known caveats a release has, in words; empty for none."""
    count = len({clause for clause, _ in release.caveats})
    return f"{count} known caveat{'s' if count > 1 else ''}" if count else ""


def svg(title: str, description: str, shown: Sequence[Bar]) -> str:
    """Return the picture as SVG to be put into a page, where the style sheet gives it its colours."""
    rows = [shown[start : start + _PER_ROW] for start in range(0, len(shown), _PER_ROW)]
    height = len(rows) * _ROW
    later = [min((bar.published for bar in shown[at:] if bar.published), default=None) for at in range(len(shown))]
    drawn = "".join(
        part
        for index, row in enumerate(rows)
        # a registry can have a younger date for an older release, which would be no mark on a line of time
        for part in _row(row, index * _ROW, dated=row[0].published == later[index * _PER_ROW])
    )
    return (
        f'<svg class="history-strip" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-labelledby="strip-title strip-description"><title id="strip-title">{escape(title)}</title>'
        f'<desc id="strip-description">{escape(description)}</desc>{drawn}</svg>'
    )


def _row(row: Sequence[Bar], top: int, *, dated: bool) -> Iterator[str]:
    base = top + _ROW - 8
    yield f'<text class="version" x="{_LABEL - 8}" y="{base - 9}">{escape(row[0].version)}</text>'
    if dated and row[0].published:
        yield f'<text class="date" x="{_LABEL - 8}" y="{base + 1}">{row[0].published[:7]}</text>'
    for place, bar in enumerate(row):
        tall, left = _HEIGHTS[bar.verdict], _LABEL + place * _PITCH
        said = ", ".join(word for word in (bar.published or "", f"{bar.verdict} {bar.remark}".strip()) if word)
        kind = bar.verdict.replace(" ", "-")
        yield (
            f"<g><title>{escape(f'{bar.version}: {said}')}</title>"
            f'<rect class="hover" x="{left - 1}" y="{base - 18}" width="{_PITCH}" height="18"/>'
            f'<rect class="{kind}" x="{left}" y="{base - tall}" width="{_BAR}" height="{tall}"/></g>'
        )
