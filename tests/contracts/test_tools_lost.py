"""The tools that the contracts call lost are lost in the recordings, and no others are."""

import json
from pathlib import Path

import pytest

from turngate.contract import load

FIXTURES = Path(__file__).parents[2] / "fixtures"
RELEASES = sorted(
    (folder.parent.name, folder.name)
    for folder in FIXTURES.glob("*/*")
    if all((folder / turn / "requests.ndjson").is_file() for turn in ("main-first", "auto-first"))
)


def offered(engine: str, version: str, turn: str) -> set[str]:
    """Return the tools of the request that offers most."""
    lines = (FIXTURES / engine / version / turn / "requests.ndjson").read_text("utf-8").splitlines()
    return max((set(json.loads(line)["tools"]) for line in lines), key=len, default=set())


@pytest.mark.parametrize("engine, version", RELEASES)
def test_what_is_lost_is_lost_in_the_recordings(engine: str, version: str) -> None:
    """A tool that the model is offered in both modes is lost in another way, such as by a sandbox."""
    interactive, auto = (offered(engine, version, turn) for turn in ("main-first", "auto-first"))
    assert interactive
    for lost in load.contract(engine).at(version).tools_lost:
        assert ({*lost.tools} <= auto - interactive) == (lost.why == "it is not offered to the model"), lost
        assert {*lost.tools} <= auto


@pytest.mark.parametrize("engine", sorted({engine for engine, _ in RELEASES}))
def test_nothing_else_is_lost(engine: str) -> None:
    """The contract names every tool that the newest recorded release offers in mode auto alone."""
    version = max((v for e, v in RELEASES if e == engine), key=lambda v: [int(part) for part in v.split(".")])
    named = {tool for lost in load.contract(engine).at(version).tools_lost for tool in lost.tools}
    assert offered(engine, version, "auto-first") - offered(engine, version, "main-first") <= named


@pytest.mark.parametrize("folder", sorted(FIXTURES.glob("codex/*/tool-call-first")), ids=lambda f: f.parent.name)
def test_interactive_codex_is_read_only(folder: Path) -> None:
    """The command that the model asked for could not write its file."""
    said = (folder / "stdout").read_text("utf-8")
    assert "Read-only file system" in said or "Permission denied" in said
