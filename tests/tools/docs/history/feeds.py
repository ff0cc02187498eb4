"""Writes the changes as feeds, an entry for each release: Atom (RFC 4287) and JSON Feed 1.1.

The ids are names without an address, since a copy of the site can have any.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct, field

from tests.tools.docs.history.page import ChangedRelease, changed_releases, entry_html, title
from turngate.history import History

ID: Final = "urn:turngate:history"
TITLE: Final = "What releases of agent CLIs changed"
AUTHOR: Final = "turngate"
_ATOM: Final = "http://www.w3.org/2005/Atom"


class Entry(Struct, frozen=True):
    """An entry of a feed; `published` and `updated` are times with a zone."""

    id: str
    engine: str
    title: str
    published: str
    updated: str
    html: str


def entries(histories: Mapping[str, History]) -> tuple[Entry, ...]:
    """Return the changed releases of all engines, newest first; those whose date is unknown can be no news."""
    dated = (
        _entry(engine, each, each.published)
        for engine, known in histories.items()
        for each in changed_releases(known)
        if each.published
    )
    return tuple(sorted(dated, key=lambda entry: (entry.published, entry.id), reverse=True))


def _entry(engine: str, each: ChangedRelease, published: str) -> Entry:
    release = each.release
    return Entry(
        id=f"{ID}:{engine}:{release.version}",
        engine=engine,
        title=f"{title(engine)} {release.version}: {release.verdict} by clause set {release.clause_set}",
        published=_time(published),
        updated=_time(max(published, release.measured)),
        html=entry_html(each),
    )


def _time(date: str) -> str:
    return f"{date}T00:00:00Z"


def atom(listed: Iterable[Entry]) -> str:
    """Return an Atom feed."""
    shown = [*listed]
    feed = ET.Element("feed", {"xmlns": _ATOM, "xml:lang": "en"})
    _add(feed, "id", ID)
    _add(feed, "title", TITLE)
    _add(feed, "updated", max((entry.updated for entry in shown), default=_time("1970-01-01")))
    _add(ET.SubElement(feed, "author"), "name", AUTHOR)
    for entry in shown:
        element = ET.SubElement(feed, "entry")
        _add(element, "id", entry.id)
        _add(element, "title", entry.title)
        _add(element, "published", entry.published)
        _add(element, "updated", entry.updated)
        ET.SubElement(element, "category", {"term": entry.engine})
        _add(element, "content", entry.html, type="html")
    ET.indent(feed)
    text: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return f"{text.decode()}\n"


def _add(parent: ET.Element, name: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, name, attributes).text = text


class _Author(Struct, frozen=True):
    name: str


class _Item(Struct, frozen=True):
    id: str
    title: str
    date_published: str
    date_modified: str
    tags: tuple[str, ...]
    content_html: str


class _Feed(Struct, frozen=True, kw_only=True):
    version: str = "https://jsonfeed.org/version/1.1"
    title: str = TITLE
    language: str = "en"
    authors: tuple[_Author, ...] = field(default_factory=lambda: (_Author(AUTHOR),))
    items: tuple[_Item, ...]


def json_feed(listed: Iterable[Entry]) -> str:
    """Return a JSON Feed."""
    items = (
        _Item(entry.id, entry.title, entry.published, entry.updated, (entry.engine,), entry.html) for entry in listed
    )
    return msgspec.json.format(msgspec.json.encode(_Feed(items=tuple(items))), indent=1).decode() + "\n"
