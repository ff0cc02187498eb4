"""A registry of fake codex releases, played without the wait for a later minute, and no overlay left behind."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.probes.matrix.conftest import Shop
from tests.probes.matrix.conftest import _shop as _shop  # noqa: PLC0414 - a fixture
from turngate.files import use_overlay
from turngate_probes.harness.driver import EngineDriver

OLD, NEW = "0.162.0", "0.163.0"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Play the case of the later minute in the same one, and take any overlay away."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)
    yield
    use_overlay(None)


@pytest.fixture(name="few")
def _few() -> tuple[str, ...]:
    """Clauses that are quick to ask."""
    asked = ("handle.present", "help.surface", "upgrade.resume", "rollback.resume", "rollback.touched")
    return tuple(word for clause in asked for word in ("--clause", clause))


@pytest.fixture(name="gate")
def _gate(shop: Shop) -> "Gate":
    return Gate(shop)


class Gate:
    """The command on the releases of a shop."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def run(self, *args: object, old: str = OLD, new: str = NEW) -> tuple[int, Any]:
        """Compare NEW with OLD; return exit code and report."""
        return self.shop.run("gate", f"codex@{new}", "--from", f"codex@{old}", *map(str, args))
