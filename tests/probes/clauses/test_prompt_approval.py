"""What requests show of the approval in force."""

import pytest

from tests.probes import turns as t
from turngate.contract import load
from turngate_probes.clauses.prompt import acts_unasked
from turngate_probes.stub_model import Exchange

GEMINI = load.contract("gemini").at("0.61.0")


@pytest.mark.parametrize(
    "requests, shown",
    [
        ((t.exchange(tools=("read_file", "write_file", "replace")),), "write_file, replace"),
        ((t.exchange(tools=("read_file",)), t.exchange(tools=("run_shell_command",))), "run_shell_command"),
        ((t.exchange(tools=("read_file",)), t.exchange(tools=())), ""),
        ((t.exchange(tools=()),), None),
        ((), None),
    ],
)
def test_tools_show_the_approval(requests: tuple[Exchange, ...], shown: str | None) -> None:
    """Tools that write show it, other tools that they are withheld, and no tools show nothing."""
    assert acts_unasked(t.turn("main/first", requests=requests), GEMINI) == shown


def test_unwatched_requests_show_nothing() -> None:
    """A recording without requests says nothing of the approval."""
    assert acts_unasked(t.turn("main/first", requests=None), GEMINI) is None
