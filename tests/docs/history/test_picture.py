import re
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from tests.tools.docs.history.picture import Bar, bars, svg
from tests.tools.docs.history.small import SMALL
from tests.tools.history.with_release import with_release
from turngate.history import KnownRelease


def test_each_release_from_the_first_tested_one_is_a_bar() -> None:
    """A published release that was never tested has a bar too, unless all older ones weren't tested either."""
    assert [(bar.version, bar.verdict, bar.remark) for bar in bars(SMALL)] == [
        ("0.2.0", "broken", "by clause set 2026-11"),
        ("0.3.0", "not tested", ""),
        ("0.4.0", "degraded", "by clause set 2026-11, 1 known caveat"),
        ("0.5.0", "degraded", "by clause set 2026-11, 1 known caveat"),
        ("0.6.0", "not tested", ""),
    ]
    partly = with_release(SMALL, KnownRelease(version="0.6.0"))
    assert bars(partly)[-1] == Bar("0.6.0", "2026-02-06", "not tested", "except for single clauses")
    assert bars(replace(SMALL, releases=())) == ()


def test_the_picture_says_what_it_shows() -> None:
    """Who can't see the picture gets its title and description, and each bar names its release."""
    drawn = ET.fromstring(svg("Releases of A & B", "5 releases", bars(SMALL)))
    named = [drawn.find(f"*[@id='{name}']") for name in drawn.attrib["aria-labelledby"].split()]
    assert [element.text for element in named if element is not None] == ["Releases of A & B", "5 releases"]
    assert drawn.attrib["role"] == "img"
    assert [title.text for title in drawn.findall("g/title")] == [
        "0.2.0: 2026-01-02, broken by clause set 2026-11",
        "0.3.0: 2026-01-03, not tested",
        "0.4.0: 2026-01-04, degraded by clause set 2026-11, 1 known caveat",
        "0.5.0: 2026-02-05, degraded by clause set 2026-11, 1 known caveat",
        "0.6.0: 2026-02-06, not tested",
    ]


def test_verdicts_differ_in_height_too() -> None:
    """Who can't tell the colours apart sees the verdicts by the height of the bars."""
    drawn = svg("", "", [Bar(verdict, None, verdict) for verdict in ("compatible", "degraded", "broken", "not tested")])
    heights = [
        int(height)
        for height in re.findall(r'class="(?!hover)[a-z-]+" x="\d+" y="\d+" width="\d+" height="(\d+)"', drawn)
    ]
    assert heights == sorted(heights, reverse=True)
    assert len({*heights}) == 4


def test_long_histories_are_wrapped_and_only_dates_in_order_are_shown() -> None:
    """Each row begins with its first release; a date that is younger than that of a later release is left out."""
    dates = ["2026-05-01"] + ["2026-03-01"] * 99
    drawn = ET.fromstring(svg("", "", [Bar(f"0.{at}.0", date, "broken") for at, date in enumerate(dates)]))
    assert [text.text for text in drawn.findall("text")] == ["0.0.0", "0.40.0", "2026-03", "0.80.0", "2026-03"]
