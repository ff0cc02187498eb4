import pytest

from turngate.process import family, tree


@pytest.fixture(autouse=True)
def _short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace periods, since some test programs never end by themselves."""
    monkeypatch.setattr(tree, "SETTLE_GRACE", 0.02)
    monkeypatch.setattr(family, "TERM_GRACE", 0.3)
