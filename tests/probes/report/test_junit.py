"""JUnit XML has what Jenkins, GitLab and Azure read."""

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.verdict import FailOn
from turngate_probes.report.build import build
from turngate_probes.report.junit import junit
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport

# the attributes and children of each element; the first ones are required
SHAPE = {
    "testsuites": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        {"properties", "testcase"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"classname", "name", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}


def cases(report: ProbeReport) -> dict[str, ET.Element]:
    """Return every case by `suite/name`."""
    root = ET.fromstring(junit(view(report)))
    return {f"{suite.get('name')}/{case.get('name')}": case for suite in root for case in suite.iter("testcase")}


@pytest.mark.parametrize("make", [samples.mixed, samples.hostile, samples.of])
def test_the_file_is_well_formed_and_of_the_known_shape(make: Callable[[], ProbeReport]) -> None:
    """Every element has the required attributes, and only known children."""
    root = ET.fromstring(junit(view(make())))
    for element in root.iter():
        attributes, children = SHAPE[element.tag]
        assert set(element.attrib) == attributes
        assert {child.tag for child in element} <= children


def test_a_case_takes_as_long_as_the_turns_that_show_it() -> None:
    """A test case takes the time of the turns in its evidence, or else of the clause's cases."""
    turns = j.turn(seconds=1.5), j.turn(step="again", seconds=2.25), j.turn(case="stdin-open", seconds=4)
    changed = {
        "resume_accepted": j.clause("resume.accepted", "fail", evidence=["main/first", "main/again"]),
        "stdin_open": j.clause("stdin.open", evidence=[]),
        "version_readable": j.clause("version.readable", evidence=[]),
    }
    expected = {
        "resume.accepted": "3.750",
        "handle.present": "1.500",
        "stdin.open": "4.000",
        "version.readable": "0.000",
    }
    by_name = cases(build([j.started(), j.planned(), *turns, *j.clauses(**changed), j.finished(), j.ended()]))
    taken = {name: by_name[f"codex@0.169.0/{name}"].get("time") for name in expected}
    assert taken == expected


def test_each_result_is_told_as_readers_take_it() -> None:
    """A failure fails, a known caveat passes with a note, and a clause that was not run is skipped with the reason."""
    by_name = cases(samples.mixed())
    failure = by_name["codex@0.169.0/resume.accepted"].find("failure")
    assert failure is not None
    assert failure.attrib == {"type": "breaking", "message": "the resume was refused"}
    assert failure.text
    assert "$ codex exec --json" in failure.text
    assert "POST /v1/responses" in failure.text
    deviating = by_name["gemini@0.61.0/resume.other-cwd"]
    assert [child.tag for child in deviating] == ["system-out"]
    assert deviating.findtext("system-out") == "known caveat: tied; to do: stay in the directory of the first turn"
    assert (by_name["gemini@0.61.0/prompt.large"].findtext("system-out") or "").startswith("stale: ")
    skipped = by_name["gemini@0.61.0/stdin.open"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "unsupported: it takes no input"
    assert len(by_name["gemini@0.62.0/resume.accepted"]) == 0


def test_counts_agree_with_what_they_count() -> None:
    """The counts of each suite, and their totals, match the cases."""
    root = ET.fromstring(junit(view(samples.mixed())))
    for counted in (root, *root):
        assert int(counted.get("tests", "")) == len(list(counted.iter("testcase")))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(counted.get(key, "")) == len(list(counted.iter(tag)))
    assert (root.get("failures"), root.get("errors")) == ("1", "1")


def test_a_release_that_was_not_asked_is_red() -> None:
    """A release that was not probed has an error, since skipped clauses would look like success."""
    by_name = cases(samples.mixed())
    error = by_name["opencode@1.0.0/turngate.answered"].find("error")
    assert error is not None
    assert (error.get("message"), error.text) == ("npm is absent", "install Node.js")
    assert by_name["opencode@1.0.0/handle.present"].find("skipped") is not None


def test_what_is_stale_fails_if_the_probe_was_strict() -> None:
    """A stale deviation fails under strict, as in the exit code."""
    report = structs.replace(samples.mixed(), fail_on=FailOn.DEGRADED)
    failure = cases(report)["gemini@0.61.0/prompt.large"].find("failure")
    assert failure is not None
    assert failure.get("type") == "stale"


def test_characters_that_xml_can_not_hold_are_written_out() -> None:
    """Characters that XML can't hold are escaped, and literal escapes in the output stay distinguishable."""
    text = junit(view(samples.hostile()))
    assert not {"\x00", "\x1b", "\ud800", "\ufffe", "\u202e"} & set(text)
    assert r"\x1b[31m\x00\ud800\ufffe\u202e" in text
    text.encode()
