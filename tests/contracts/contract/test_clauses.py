import pytest

from turngate.contract.clauses import Catalogue, Clause, Severity

STATIC = Clause("help.surface", "It holds.", "It matters.", "static", Severity.DEGRADED)
HERMETIC = Clause("handle.present", "It holds.", "It matters.", "hermetic", Severity.BREAKING)
LIVE = Clause("live.one", "It holds.", "It matters.", "live", Severity.INFORMATIVE)
CATALOGUE = Catalogue((STATIC, HERMETIC, LIVE))


def test_clause_is_found_by_its_id() -> None:
    """An id gives its clause, and one that nobody wrote is an error that names it."""
    assert CATALOGUE["handle.present"] is HERMETIC
    with pytest.raises(KeyError, match=r"handle\.absent"):
        CATALOGUE["handle.absent"]


def test_clauses_of_some_levels_keep_their_order() -> None:
    """Any number of levels can be asked for; reports list them as the catalogue does."""
    assert CATALOGUE.at_level("live", "static") == (STATIC, LIVE)
    assert CATALOGUE.at_level() == ()
