import pytest

from turngate.errors import ContractError, MachineError, RefusedError, TurngateError, did_you_mean


@pytest.mark.parametrize(
    "error, said",
    [
        (RefusedError("no", "ask again"), "no (ask again)"),
        (RefusedError("no"), "no"),
        (MachineError("the disk is full", "make room"), "the disk is full (make room)"),
        (MachineError("the disk is full"), "the disk is full"),
    ],
)
def test_error_says_what_and_what_to_do(error: TurngateError, said: str) -> None:
    """The message has its hint in parentheses, and doesn't include the evidence."""
    assert str(error) == said


@pytest.mark.parametrize(
    "error",
    [RefusedError("no", "ask"), MachineError("no", "ask"), ContractError("no", "codex.yaml", 3, 5, hint="ask")],
)
def test_every_error_has_a_hint_of_its_own(error: TurngateError) -> None:
    """What is wrong and what to do can be shown apart."""
    assert (error.what, error.hint) == ("no", "ask")


@pytest.mark.parametrize(
    "name, hint", [("claud", "did you mean claude?"), ("CODEX", "did you mean codex?"), ("vim", "see --help")]
)
def test_a_mistyped_name_is_answered_by_the_nearest(name: str, hint: str) -> None:
    """A mistyped name gets the nearest name as a suggestion, whatever its case, else a general hint."""
    assert did_you_mean(name, ("claude", "codex"), "see --help") == hint
