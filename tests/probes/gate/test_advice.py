"""The paragraph about what must change."""

from tests.probes.gate.release_samples import clause, release
from turngate.contract import load
from turngate_probes.gate.advice import MOST, NOTHING, advice
from turngate_probes.gate.claims import claim_differences
from turngate_probes.report.gate_structs import Difference, Impact

CODEX, OPENCODE = load.contract("codex"), load.contract("opencode")


def test_nothing_to_change() -> None:
    """Equal releases ask for nothing."""
    contract = CODEX.at("0.169.0")
    assert advice(release("codex@0.169.0"), [], contract, contract) == NOTHING


def test_what_fails_is_told_with_its_cost_the_severest_first() -> None:
    """By the `why` of the catalogue; informative clauses are left out."""
    fails = clause("help.surface", "fail"), clause("handle.present", "fail"), clause("stream.known-events", "fail")
    told = advice(release("codex@0.170.0", *fails), [], None, None)
    assert told == (
        "handle.present fails, and without the id the session can never be resumed. "
        "help.surface fails, and a renamed or removed flag ends every run with a usage error."
    )


def test_compensations_and_arguments() -> None:
    """A deviation says what must be done, another argv how it is written now."""
    told = advice(release("codex@0.148.0"), [], CODEX.at("0.147.0"), CODEX.at("0.148.0"))
    assert told.startswith("It must bound each turn by a deadline, since the engine never gives up")
    was, now = OPENCODE.at("1.17.0"), OPENCODE.at("1.18.33")
    told = advice(release("opencode@1.18.33"), claim_differences(was, now), was, now)
    assert "launch.auto down as --dangerously-skip-permissions it must write --auto." in told


def test_what_became_of_a_call_is_told_as_it_is() -> None:
    """Whether or not it was seen before."""
    for before in (None, "executed"):
        runs = Difference("call", "interactive", before, "executed", Impact.BREAKING, "runs unasked", None)
        assert advice(release("codex@0.170.0"), [runs], None, None) == "The call interactive is executed: runs unasked."


def test_a_long_list_is_cut_and_says_so() -> None:
    """The paragraph stays one that is read."""
    many = [Difference("option", f"--o{i}", f"--o{i}", None, Impact.BREAKING, "gone", None) for i in range(MOST + 3)]
    assert advice(release("codex@0.170.0"), many, None, None).endswith("3 more points are in the report.")
