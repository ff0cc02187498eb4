"""Programs in which a model calls tools."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.contract.home_and_workspace import CallingTool

THROUGH = CallingTool("exec", "text(await tools.{tool}({arguments}))")
_VALUES = st.text() | st.integers() | st.booleans()


@given(arguments=st.dictionaries(st.text(), _VALUES | st.lists(_VALUES) | st.dictionaries(st.text(), _VALUES)))
@example(arguments={"cmd": "{tool}({arguments})))"})
def test_a_call_is_read_back_from_its_program(arguments: dict[str, object]) -> None:
    """Whatever the arguments are, also if they look like slots, the program has them all."""
    assert THROUGH.call_in(THROUGH.program("run", arguments)) == ("run", arguments)


@pytest.mark.parametrize("program", ["", "run({})", "text(await tools.run({)}))", "text(await tools.run({'cmd': 1}))"])
def test_another_program_is_no_call(program: str) -> None:
    """A program of another form, or without a JSON object, is not read as a call."""
    assert THROUGH.call_in(program) is None
