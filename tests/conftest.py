from pathlib import Path

import pytest

HERE = Path(__file__).parent
# what takes longest; a file goes to one worker, and none should be left with one of these when the others are done
FIRST = (
    "drift/test_drifts.py",
    "reference/test_resume.py",
    "probes/test_play.py",
    "probes/orchestrated/test_played.py",
    "acceptance/test_probe.py",
    "probes/simulate/test_cases.py",
    "reference/test_start.py",
    "packaging/test_distribution.py",
    "probes/simulate/test_honesty.py",
    "probes/record/test_recorder.py",
)
_RANKS = {HERE / name: rank for rank, name in enumerate(FIRST)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    items.sort(key=lambda item: _RANKS.get(item.path, len(FIRST)))
