import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from tests.probes.report.samples import EVERY
from turngate.contract.load import catalogue
from turngate.history_text import named
from turngate_probes.journal.events import Event
from turngate_probes.report import FORMATS
from turngate_probes.report.github import annotations
from turngate_probes.report.publish import renderer
from turngate_probes.report.release_view import view
from turngate_probes.report.text import report_lines
from turngate_probes.report.wording import counted, duration, known, profile_of, verdict_of, version_of


def test_the_number_of_caveats_stands_with_the_verdict() -> None:
    """Caveats are clauses that deviate; the count is shown together with that of all clauses."""
    caveat = j.clause("stdin.open", "deviates", detail="it hangs")
    (none,), (one,) = (samples.of(samples.whole(*changed)).releases for changed in ((), (caveat,)))
    assert (verdict_of(none), verdict_of(one)) == (
        "compatible (clause set 2026-12)",
        "compatible (clause set 2026-12), 1 known caveat",
    )
    assert counted(one) == f"{EVERY} clauses: {EVERY - 1} passed, 1 known caveat, 0 failed, 0 not run"


@pytest.mark.parametrize(
    "key, shown",
    [
        ("codex@0.169.0", "0.169.0"),
        ("codex@0.169.0 (/opt/codex)", "0.169.0 (/opt/codex)"),
        ("codex", "0.169.0"),
    ],
)
def test_a_version_stands_with_the_build_that_the_key_names(key: str, shown: str) -> None:
    """The build in a release's key is shown, since two builds may report the same version."""
    (release,) = samples.of([j.planned(), j.failed()]).releases
    assert version_of(structs.replace(release, release=key)) == shown


def test_what_was_not_tested_is_called_so() -> None:
    """A release that could not be probed is called untested and has no profile."""
    assert profile_of(samples.of([j.planned(), j.failed()]).releases[0]) == "not known"


def test_a_clause_of_another_turngate_is_not_known() -> None:
    """A clause that this turngate doesn't define has no entry; a report from a file may name one."""
    entry = known("resume.accepted")
    assert entry is not None
    assert entry.sentence
    assert known("resume.unheard-of") is None


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (12.2, "12 s"),
        (59.7, "1 min 0 s"),
        (183, "3 min 3 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_time_is_written_as_people_say_it(seconds: float, text: str) -> None:
    """Durations are written in seconds, minutes, or hours."""
    assert duration(seconds) == text


STATIC = [j.clause(clause.id) for clause in catalogue().at_level("static")]


@pytest.mark.parametrize(
    "fields, events",
    [
        ({"level": "static"}, STATIC),
        ({"clauses": tuple(event.id for event in STATIC)}, STATIC),
        ({}, [j.failed()]),
    ],
)
@pytest.mark.parametrize("suffix", FORMATS)
def test_no_format_judges_a_resume_that_was_not_tested(
    suffix: str, fields: dict[str, Any], events: list[Event]
) -> None:
    """With static, selected or no clauses, the formats show neither a profile nor a capability."""
    report = samples.of([j.planned(), *events], **fields)
    rendered = renderer(Path(f"report{suffix}"))(view(report))
    if suffix == ".sarif":  # its rules describe the clauses
        rendered = json.dumps([run | {"tool": None} for run in json.loads(rendered)["runs"]]).replace("null", "")
    annotated, text = annotations(view(report)), [line.plain for _, line in report_lines(view(report), None)]
    written = "\n".join([rendered, *annotated, *text])
    assert not re.search(r'sticky.process|"supported": false|not reliable|None', written)
    if suffix in (".xml", ".md", ".html"):  # they show the profile
        assert "not known" in rendered


def test_a_list_of_releases_leaves_out_more_than_one_or_none() -> None:
    """One that is left out alone would be named in as many words."""
    assert named(["a", "b", "c", "d", "e"]) == "a, b, c, d, e"
    assert named(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"
