import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

from turngate.contract import load
from turngate.files import use_overlay

_in_ci = bool(os.environ.get("CI"))
# what a terminal or a CI service sets would change what commands print
for _name in [name for name in os.environ if name.startswith("GITHUB_")]:
    del os.environ[_name]
for _name in ("CI", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TURNGATE_CONTRACTS", "TURNGATE_DATA_DIR"):
    os.environ.pop(_name, None)
# an empty folder, so that the developer's own settings are not read, and a browser writes none
_settings = tempfile.TemporaryDirectory(prefix="turngate-tests-")
atexit.register(_settings.cleanup)
os.environ["XDG_CONFIG_HOME"] = _settings.name

# a shell that starts this in the background has it ignore interrupts, and so would all processes that tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a contract is parsed once for all tests of a process, since no caller changes what it is given
load.parse = cache(load.parse)
# no test waits for the disk: it would find nothing, since no power is cut
os.fsync = lambda fd: None

# no deadline, so that a busy machine fails no test; in CI a change must not fail by a chance that was there before it
settings.register_profile("quick", deadline=None, max_examples=15, derandomize=_in_ci)
settings.register_profile("long", deadline=None, max_examples=200)
settings.load_profile("quick")

UPDATE = ".venv/bin/python -m pytest tests/snapshots --snapshot-update"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the command that writes snapshots, if one is missing or differs."""
    failed = terminalreporter.stats.get("failed", ())
    if any("snapshot" in report.longreprtext for report in failed if isinstance(report, pytest.TestReport)):
        terminalreporter.write_line(f"write new and changed snapshots, then review them: {UPDATE}")


def pytest_collection_finish() -> None:
    """Search for garbage less often, and not in what the collection made, which would take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(autouse=True)
def _no_overlay() -> Iterator[None]:
    """Leave no folder of contracts in force for the next test."""
    yield
    use_overlay(None)
