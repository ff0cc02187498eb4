"""In what the contract says otherwise of another release."""

from turngate.contract import load
from turngate_probes.gate.claims import claim_differences
from turngate_probes.report.gate_structs import Impact


def differences(engine: str, old: str, new: str) -> dict[str, tuple[str | None, str | None, Impact]]:
    """Compare what the contract says of two releases."""
    contract = load.contract(engine)
    listed = claim_differences(contract.at(old), contract.at(new))
    return {row.subject: (row.before, row.after, row.impact) for row in listed}


def test_a_release_differs_in_nothing_from_itself() -> None:
    """Nothing comes out where the contract says the same."""
    assert differences("codex", "0.169.0", "0.169.0") == {}


def test_a_deviation_that_begins_or_ends() -> None:
    """One that begins costs something, and says what must be done; one that ends costs nothing."""
    told = differences("codex", "0.147.0", "0.148.0")
    assert told["backend.failure-told hang-away"] == (None, "hang-away", Impact.DEGRADED)
    back = differences("codex", "0.148.0", "0.147.0")
    assert back["backend.failure-told hang-away"] == ("hang-away", None, Impact.ADDITIVE)


def test_flags_that_let_the_engine_act() -> None:
    """A new one must be known, one that is gone may be forgotten."""
    told = differences("codex", "0.146.0", "0.147.0")
    assert told["auto_flags: --approve-for-me"] == (None, "--approve-for-me", Impact.DEGRADED)
    assert told["auto_flags: --full-auto"] == ("--full-auto", None, Impact.NONE)


def test_other_arguments() -> None:
    """Both argvs are shown."""
    told = differences("opencode", "1.17.0", "1.18.33")
    assert told["launch.auto"] == ("--dangerously-skip-permissions", "--auto", Impact.DEGRADED)
