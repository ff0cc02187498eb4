"""How the claims of a contract differ between two releases."""

from turngate.contract import load
from turngate_probes.gate.compare import claim_differences
from turngate_probes.report.reports import Impact


def differences(engine: str, old: str, new: str) -> dict[str, tuple[str | None, str | None, Impact]]:
    """Compare the contract's claims for two releases."""
    contract = load.contract(engine)
    listed = claim_differences(contract.at(old), contract.at(new))
    return {row.subject: (row.before, row.after, row.impact) for row in listed}


def test_a_release_differs_in_nothing_from_itself() -> None:
    """A release has no differences from itself."""
    assert differences("codex", "0.169.0", "0.169.0") == {}


def test_a_deviation_that_begins_or_ends() -> None:
    """A new deviation is degraded; one that ends is additive."""
    reported = differences("codex", "0.147.0", "0.148.0")
    assert reported["backend.failure-told hang-away"] == (None, "hang-away", Impact.DEGRADED)
    back = differences("codex", "0.148.0", "0.147.0")
    assert back["backend.failure-told hang-away"] == ("hang-away", None, Impact.ADDITIVE)


def test_flags_that_let_the_engine_act() -> None:
    """A new auto-approve flag must be recognized; a removed one needs no attention."""
    reported = differences("codex", "0.146.0", "0.147.0")
    assert reported["auto_flags: --approve-for-me"] == (None, "--approve-for-me", Impact.DEGRADED)
    assert reported["auto_flags: --full-auto"] == ("--full-auto", None, Impact.NONE)
    assert differences("pi", "0.78.1", "0.79.0")["auto_flags: -a"] == (None, "-a", Impact.DEGRADED)


def test_other_arguments() -> None:
    """Changed arguments are shown with both argvs."""
    reported = differences("opencode", "1.17.0", "1.18.33")
    assert reported["launch.auto"] == ("--dangerously-skip-permissions", "--auto", Impact.DEGRADED)
