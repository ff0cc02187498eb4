from pathlib import Path

import pytest

HERE = Path(__file__).parent
# what takes longest; a file goes to one worker, and none should be left with one of these when the others are done
FIRST = (
    "drift/test_drifts.py",
    "reference/conversations/test_resume.py",
    "probes/harness/test_runner.py",
    "probes/server_level/test_played.py",
    "acceptance/test_probe.py",
    "probes/simulate/test_cases.py",
    "reference/conversations/test_start.py",
    "packaging/test_distribution.py",
    "probes/simulate/test_honesty.py",
    "probes/record/test_recorder.py",
)
# whole commands through real processes, which take minutes together; they run by `make long`
LONG = (
    "acceptance",
    "drift/test_drifts.py",
    "packaging/test_distribution.py",
    "probes/gate",
    "probes/matrix/test_bisect.py",
    "probes/matrix/test_joined.py",
    "probes/matrix/test_killed.py",
    "probes/matrix/test_matrix.py",
    "probes/server_level",
    "probes/harness/test_runner.py",
    "probes/record/test_recorder.py",
    "probes/simulate/test_cases.py",
    "probes/simulate/test_honesty.py",
    "probes/test_pytest_plugin.py",
    "reference/server/test_cli.py",
    "reference/server/web/test_docs.py",
)
_RANKS = {HERE / name: rank for rank, name in enumerate(FIRST)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long, and begin with the files that take longest."""
    for item in items:
        if any(item.path.is_relative_to(HERE / name) for name in LONG):
            item.add_marker("long")
    items.sort(key=lambda item: _RANKS.get(item.path, len(FIRST)))
