from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.invocations import ENGINES
from turngate.argv.interactive import read_options


@given(st.data())
def test_options_round_trip(data: st.DataObject) -> None:
    """Options read from tokens give the same tokens back, in order."""
    contract = data.draw(ENGINES)
    names = st.sampled_from([option for option in contract.options if option.value != "none"])
    values = st.text(st.characters(exclude_categories=["C"]), max_size=8).filter(lambda text: not text.startswith("-"))
    options = data.draw(st.lists(names, max_size=4, unique_by=lambda option: option.flag))
    tokens: list[str] = []
    for option in options:
        flag, value = data.draw(st.sampled_from((option.flag, *option.aliases))), data.draw(values)
        tokens += data.draw(st.sampled_from(([flag, value], [f"{flag}={value}"])))
    placed = read_options(contract, tokens)
    assert [token for option in placed for token in option.tokens] == tokens
    assert [option.option for option in placed] == options
