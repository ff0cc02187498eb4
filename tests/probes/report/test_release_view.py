"""What every format shows is decided in one place."""

from tests.probes.gate import views
from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate_probes.report.release_view import view


def test_verdicts_are_counted_the_worst_first() -> None:
    """Verdicts are counted, the worst first, and verdicts without a release count 0."""
    counts = view(samples.of(samples.whole(verdict="degraded"))).counts
    assert [(each.word, each.count) for each in counts] == [
        ("broken", 0),
        ("unanswered", 0),
        ("degraded", 1),
        ("compatible", 0),
    ]


def test_clauses_that_fell_with_others_stand_apart() -> None:
    """Clauses that could not run because another one failed are listed separately, not as differences."""
    lost = [j.clause(name, "not_run", detail="needs", needs=["handle.present"]) for name in ("handle.place",)]
    failed = j.clause("handle.present", "fail", detail="no id")
    shown = view(views.of(views.release(views.OLD), views.release(views.NEW, failed, *lost, verdict="broken")))
    assert [row.subject for row in shown.fallen] == ["handle.place"]
    assert "handle.present" in {row.subject for row in shown.differences}
    assert "handle.place" not in {row.subject for row in shown.differences}


def test_only_the_newer_release_is_excused() -> None:
    """A clause that the baseline excuses fails in the older release all the same."""
    rows = {row.id: row for family in view(views.green_by_baseline()).families for row in family.rows}
    assert [cell and cell.state for cell in rows[views.DEAD].cells] == ["fail", "excused"]
