import pytest

from turngate.errors import EnvironmentFailed, RefusedError, TurngateError


@pytest.mark.parametrize(
    "error, said",
    [
        (RefusedError("no", "ask again"), "no (ask again)"),
        (RefusedError("no"), "no"),
        (EnvironmentFailed("the disk is full", "make room"), "the disk is full (make room)"),
        (EnvironmentFailed("the disk is full"), "the disk is full"),
    ],
)
def test_error_says_what_and_what_to_do(error: TurngateError, said: str) -> None:
    """The hint stands in brackets where there is one, and evidence is left to reports."""
    assert str(error) == said
