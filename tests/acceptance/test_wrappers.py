"""The real codex in wrappers that break it, as a test of the probe."""

import sys
from pathlib import Path

import pytest

from tests.probes import engines
from turngate.contract.verdict import ClauseResult, Verdict, verdict
from turngate.files import default_cache

pytestmark = pytest.mark.engines

RENAMES = """
done = subprocess.run((REAL, *sys.argv[1:]), stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout.replace(b'"thread_id"', b'"session_id"'))
sys.exit(done.returncode)
"""
DROPS = """
argv = sys.argv[1:]
if "resume" in argv and "--help" not in argv:
    at = argv.index("resume")
    del argv[at : at + 2]
sys.exit(subprocess.run((REAL, *argv)).returncode)
"""


@pytest.fixture(name="codex", scope="module")
def _codex() -> Path:
    """Return the pinned release of the real codex, from the cache or from npm."""
    return engines.pinned_release("codex")[1]


def wrapped(codex: Path, folder: Path, code: str) -> Path:
    """Create an executable that runs `code`, in which REAL is the real codex."""
    wrapper = folder / "codex"
    wrapper.write_text(f"#!{sys.executable} -IS\nimport subprocess, sys\nREAL = {str(codex)!r}\n{code}")
    wrapper.chmod(0o755)
    return wrapper


def judged(executable: Path) -> dict[str, ClauseResult]:
    """Run the main case and judge its clauses."""
    # not below the system's temporary directory, which some engines don't trust
    played = engines.play(executable, default_cache(), "main", "bad-handles", "auto")
    return played.judged()


def test_the_real_codex_as_it_is(codex: Path) -> None:
    """Without changes to the real codex nothing fails."""
    assert engines.failing(judged(codex)) == set()


def test_a_codex_that_renames_its_id_is_broken(codex: Path, tmp_path: Path) -> None:
    """If `thread_id` is renamed in the output, only the clause about the id's presence fails."""
    results = judged(wrapped(codex, tmp_path, RENAMES))
    assert engines.failing(results) == {"handle.present"}
    assert verdict(results.values()) is Verdict.BROKEN


def test_a_codex_that_drops_the_session_is_broken(codex: Path, tmp_path: Path) -> None:
    """If `resume ID` is removed from argv, every turn exits with 0, and the clause about context fails."""
    results = judged(wrapped(codex, tmp_path, DROPS))
    assert "resume.context-carried" in engines.failing(results)
    assert results["resume.accepted"].detail.endswith("requests to stub-asked")
    assert verdict(results.values()) is Verdict.BROKEN
