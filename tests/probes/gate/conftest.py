"""A registry of fake codex releases, without waiting for a later minute and without leftover overlays."""

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
    """Skip the wait for a later minute, and remove any contracts overlay afterwards."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)
    yield
    use_overlay(None)


@pytest.fixture(name="few")
def _few() -> tuple[str, ...]:
    """Options for a few clauses that are quick to test."""
    asked = ("handle.present", "help.surface", "upgrade.resume", "rollback.resume", "rollback.touched")
    return tuple(word for clause in asked for word in ("--clause", clause))


@pytest.fixture(name="gate")
def _gate(shop: Shop) -> "Gate":
    return Gate(shop)


class Gate:
    """Runs the gate on the releases of a fake registry."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def run(self, *args: object, old: str = OLD, new: str = NEW) -> tuple[int, Any]:
        """Compare NEW with OLD and return the exit code and the report."""
        return self.shop.run("gate", f"codex@{new}", "--from", f"codex@{old}", *map(str, args))
