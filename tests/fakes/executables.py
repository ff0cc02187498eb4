"""The two fake engines as executables: one that runs a call at a time, and one whose process is kept."""

import sys
from pathlib import Path

# isolated and without site packages, since they are started many times
_SOURCE = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.fakes.MODULE import main
sys.exit(main(ARGUMENTS))
"""
# the release and the fifo are those of an engine without plays
HEADLESS = _SOURCE.replace("MODULE", "headless_engine").replace("ARGUMENTS", '"codex-cli 0.169.0", "meeting"')


def headless(executable: Path) -> Path:
    """Make the headless engine an executable, which plays what lies beside it."""
    return _written(executable, HEADLESS)


def sticky(executable: Path, version: str = "", help_page: str = "") -> Path:
    """Make the sticky engine an executable."""
    source = _SOURCE.replace("MODULE", "sticky_engine").replace("ARGUMENTS", f"{version!r}, {help_page!r}")
    return _written(executable, source)


def _written(executable: Path, source: str) -> Path:
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text(source)
    executable.chmod(0o755)
    return executable
