"""`matrix` and `bisect` end what engines leave, even if it has another parent, session and environment."""

import sys

import pytest

from tests.acceptance.command import Command
from tests.fakes.daemon import left, noted, tidied
from tests.probes.matrix.conftest import Shop

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux can adopt processes; docs/promises.md says what remains elsewhere"
)


@pytest.mark.parametrize("words", [
    "matrix codex --versions 0.160.0,0.161.0 --clause version.readable",
    "bisect codex version.readable --good 0.160.0 --bad 0.161.0",
], ids=lambda words: words.partition(" ")[0])  # fmt: skip
def test_a_command_for_many_releases_ends_what_they_left(shop: Shop, words: str) -> None:
    """The engines leave processes; none lives when the command has ended."""
    for version in ("0.160.0", "0.161.0"):
        shop.lies(version, "leaves-orphan")
    command = Command(shop.folder, str(shop.folder / "bin"), (("FAKE_NPM", str(shop.folder)),))
    with tidied(shop.folder):
        done = command.run(*words.split(), "--results", shop.folder / "results")
        assert noted(shop.folder), done.err
        assert left(shop.folder) == []
