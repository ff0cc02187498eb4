"""How checks of turns are evaluated."""

from unittest.mock import patch

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.load import catalogue
from turngate.contract.verdict import Finding
from turngate.model import Ended
from turngate_probes.clauses.checks import CHECKS, check, fail_if, how_it_ended, passed, went_well
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.observations import Observations, Turn


@patch.dict(CHECKS)
def test_a_check_ends_where_a_condition_fails() -> None:
    """The first failed condition ends the check and gives the detail, the symptom and the evidence."""
    turn = t.turn("main/first")

    def finding(*, fails: bool) -> Finding:
        @check("some.clause", "main", blames=("other.clause",))
        def judge(observed: Observations) -> Finding:
            fail_if(fails, "it hangs", observed.turn("main/first"), symptom="hang")
            return passed("it ends", observed.turn("main/first"))

        return judge(t.observed(turn))

    assert finding(fails=True) == Finding(False, "it hangs", ("hang",), ("main/first",))  # noqa: FBT003
    assert finding(fails=False) == Finding(True, "it ends", (), ("main/first",))  # noqa: FBT003
    assert (CHECKS["some.clause"].cases, CHECKS["some.clause"].blames) == (("main",), ("other.clause",))


@each(
    "turn, well, reported",
    [
        (t.turn("a/b"), True, "exit code 0"),
        (t.refused("a/b"), False, "exit code 1: Error: no such thing"),
        (t.turn("a/b", t.printed(text=None, failure="no key")), False, "exit code 0: no key"),
        (t.turn("a/b", exit_code=1, stderr=b"TypeError: x\n    }\n  42\n"), False, "exit code 1: TypeError: x"),
        (
            t.turn("a/b", exit_code=1, stderr=b"Error: gone\n    at f (x.js:1)\n\nNode.js v20\n"),
            False,
            "exit code 1: Error: gone",
        ),
        (
            t.turn("a/b", exit_code=1, stderr=b'No key.\n\n<Execution Info>\n{"id": "x"}\n</Execution Info>\n'),
            False,
            "exit code 1: No key.",
        ),
        (
            t.turn(
                "a/b", exit_code=1, stderr=b"Unknown argument: x\nUsage: it [options]\n\n  -h  Show help  [boolean]\n"
            ),
            False,
            "exit code 1: Unknown argument: x",
        ),
        (
            t.turn("a/b", exit_code=2, stderr=b"error: unexpected '-x'\n\n  tip: try -y\n\nUsage: it\n\nSee --help.\n"),
            False,
            "exit code 2: error: unexpected '-x'",
        ),
        (t.turn("a/b", exit_code=2, stderr=b"Usage: it\n  -h  help\nNo prompt\n"), False, "exit code 2: No prompt"),
        (t.turn("a/b", exit_code=1, stderr=b"<Info>\n{}\n</Info>"), False, "exit code 1"),
        (t.turn("a/b", exit_code=1, stderr=b"see\n</Info>"), False, "exit code 1: </Info>"),
        (t.turn("a/b", dropped=7), True, "exit code 0; 7 more bytes were dropped"),
        (t.hung("a/b", dropped=7), False, "still running after 21 s; 7 more bytes were dropped"),
        (t.hung("a/b"), False, "still running after 21 s"),
        (t.turn("a/b", exit_code=None), False, "exit code None"),
        (t.turn("a/b", ended=Ended.TIMEOUT), False, "still running after 21 s"),
    ],
)
def test_how_a_turn_ended_is_told(turn: Turn, *, well: bool, reported: str) -> None:
    """Only a turn that exits with 0 by itself and reports no failure is good; otherwise the detail names the reason."""
    assert (went_well(turn), how_it_ended(turn)) == (well, reported)


def test_the_catalogue_knows_the_clauses_about_every_turn() -> None:
    """Each set adds turns, so what such a clause said of fewer turns is compared with care."""
    marked = {clause.id for clause in catalogue().values() if clause.every_turn}
    assert marked == {name for name, one in CHECKS.items() if EVERYTHING in one.cases}
