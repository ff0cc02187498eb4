"""The feeds keep the rules of RFC 4287 and of JSON Feed 1.1."""

import json
import re
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from tests.tools.docs.history.feeds import Entry, atom, entries, json_feed
from tests.tools.docs.history.small import SMALL

ATOM = "{http://www.w3.org/2005/Atom}"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
LISTED = entries({"codex": SMALL})


def one(element: ET.Element, name: str) -> str:
    """Return the text of a child that must be there once."""
    (child,) = element.findall(f"{ATOM}{name}")
    return child.text or ""


def test_each_changed_release_is_an_entry_newest_first() -> None:
    """An entry is named by engine and version, and dated by its publication and its test."""
    assert [(entry.id, entry.published, entry.updated) for entry in LISTED] == [
        ("urn:turngate:history:codex:0.5.0", "2026-02-05T00:00:00Z", "2026-03-01T00:00:00Z"),
        ("urn:turngate:history:codex:0.4.0", "2026-01-04T00:00:00Z", "2026-01-04T00:00:00Z"),
    ]
    assert LISTED[0].title == "Codex CLI 0.5.0: degraded by clause set 2026-11"
    assert "have the new key" in LISTED[0].html


def test_a_release_without_a_date_is_no_news() -> None:
    """Releases whose date is unknown are left out, since an entry needs one."""
    assert entries({"codex": replace(SMALL, published=dict.fromkeys(SMALL.published))}) == ()


def test_the_atom_feed_is_valid() -> None:
    """The feed and its entries have what RFC 4287 requires (4.1.1 and 4.1.2), once each, and unique ids."""
    feed = ET.fromstring(atom(LISTED))
    assert feed.tag == f"{ATOM}feed"
    assert one(feed, "title")
    assert TIME.fullmatch(one(feed, "updated"))
    assert one(feed, "updated") == max(entry.updated for entry in LISTED)
    author = feed.find(f"{ATOM}author")
    assert author is not None
    assert one(author, "name")
    listed = feed.findall(f"{ATOM}entry")
    ids = [one(feed, "id"), *(one(entry, "id") for entry in listed)]
    assert len(ids) == len({*ids}) == 3
    # an IRI with a scheme, as it stays forever
    assert all(re.fullmatch(r"urn:[a-z]+:[!-~]+", name) for name in ids)
    for entry in listed:
        assert one(entry, "title")
        assert TIME.fullmatch(one(entry, "updated"))
        assert TIME.fullmatch(one(entry, "published"))
        (content,) = entry.findall(f"{ATOM}content")
        # escaped HTML is text to XML (4.1.3.3)
        assert content.attrib == {"type": "html"}
        assert len(content) == 0
        assert [category.attrib for category in entry.findall(f"{ATOM}category")] == [{"term": "codex"}]
    known = {"id", "title", "updated", "published", "author", "name", "entry", "category", "content", "feed"}
    assert {element.tag.removeprefix(ATOM) for element in feed.iter()} == known


def test_the_json_feed_is_valid() -> None:
    """The feed and its items have what JSON Feed 1.1 requires, with the content of the other feed."""
    feed = json.loads(json_feed(LISTED))
    assert (feed["version"], bool(feed["title"])) == ("https://jsonfeed.org/version/1.1", True)
    assert feed["authors"] == [{"name": "turngate"}]
    assert [item["id"] for item in feed["items"]] == [entry.id for entry in LISTED]
    for item, entry in zip(feed["items"], LISTED, strict=True):
        assert (item["content_html"], item["tags"]) == (entry.html, ["codex"])
        assert TIME.fullmatch(item["date_published"])
        assert TIME.fullmatch(item["date_modified"])
        assert item.keys() == {"id", "title", "date_published", "date_modified", "tags", "content_html"}


def test_feeds_without_entries_are_valid() -> None:
    """There is a feed before there is news."""
    feed = ET.fromstring(atom(()))
    assert TIME.fullmatch(one(feed, "updated"))
    assert json.loads(json_feed(()))["items"] == []


def test_markup_in_an_entry_stays_text() -> None:
    """HTML is escaped once more for XML, and a title is plain text."""
    (entry,) = ET.fromstring(atom([Entry("urn:x:1", "codex", "a < b", "", "", "<p>&lt;b&gt;</p>")])).findall(
        f"{ATOM}entry"
    )
    assert (one(entry, "title"), one(entry, "content")) == ("a < b", "<p>&lt;b&gt;</p>")
