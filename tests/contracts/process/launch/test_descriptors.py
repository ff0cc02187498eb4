import errno

import pytest

from turngate.process import launch
from turngate.process.launch import patiently


class Failing:
    """An action that fails with these errors in turn, and then returns how often it was called."""

    def __init__(self, *errors: int) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self) -> int:
        """Fail, or return the number of calls."""
        self.calls += 1
        if self.errors:
            raise OSError(self.errors.pop(0), "the action failed")
        return self.calls


def test_action_is_repeated_while_no_descriptor_is_free() -> None:
    """Whether the process or the machine has none left, the action runs until it succeeds."""
    assert patiently(Failing(errno.EMFILE, errno.ENFILE)) == 3


def test_other_errors_are_raised_at_once() -> None:
    """What waiting can't cure is not repeated."""
    action = Failing(errno.ENOENT)
    with pytest.raises(FileNotFoundError):
        patiently(action)
    assert action.calls == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no descriptor gets free in time, the error is raised."""
    monkeypatch.setattr(launch, "PATIENCE", 0)
    with pytest.raises(OSError, match="the action failed"):
        patiently(Failing(errno.EMFILE))
