import pytest

from turngate.process import scan, tree


@pytest.fixture(autouse=True)
def _short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose no time with processes that are deaf on purpose."""
    monkeypatch.setattr(tree, "SETTLE_GRACE", 0.02)
    monkeypatch.setattr(scan, "TERM_GRACE", 0.3)
