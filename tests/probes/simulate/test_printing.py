import json
import re

import pytest

from tests.probes.simulate.played import at_known_release, every_simulation
from tests.tables import each
from turngate.contract.engine_contract import EngineContract
from turngate.contract.simulation import Line
from turngate.errors import ContractError
from turngate_probes.simulate.printing import fill, fill_all, rendered, simulation


def test_slots_are_filled_once() -> None:
    """Text filled into a slot is not searched for slots; a value that is only a slot keeps its type."""
    assert fill("<{text}>", {"text": "{handle}", "handle": "h"}) == "<{handle}>"
    assert fill_all({"{model}": ["{turn}", 1, None, True]}, {"model": "m", "turn": 3}) == {"m": [3, 1, None, True]}


def test_random_slots_have_their_width_and_differ() -> None:
    """Slots for random ids have the given length and a new value each time."""
    made = {str(fill("{hex:12}-{alnum:14}-{uuid}", {})) for _ in range(20)}
    assert len(made) == 20
    assert all(re.fullmatch(r"[0-9a-f]{12}-[0-9A-Za-z]{14}-[0-9a-f-]{36}", text) for text in made)


def test_an_unknown_slot_is_an_error_of_the_contract() -> None:
    """An unknown slot is an error in the contract that names the slot."""
    with pytest.raises(ContractError, match="no_such"):
        fill("{no_such}", {})


@every_simulation
def test_lines_wait_for_all_their_conditions(contract: EngineContract) -> None:
    """A line is printed only if all its conditions are true, and none of its exceptions."""
    lines = [
        Line(stderr="a", unless=("auto",)),
        Line(stderr="b", when=("resume",)),
        Line(stderr="c", when=("resume", "auto")),
        Line(stderr="d", when=("resume",), unless=("cut", "resume")),
    ]
    assert [data for _, data in rendered(contract, lines, {"resume"}, {})] == [b"a", b"b"]


@every_simulation
def test_every_id_has_the_shape_that_the_contract_asks_for(contract: EngineContract) -> None:
    """New session ids match the contract's shape, and differ from the nonexistent id."""
    described = simulation(contract)
    for _ in range(50):
        made = str(fill(described.handle, {"number": 1}))
        assert re.fullmatch(contract.handle.shape, made)
        assert made != contract.handle.nonexistent_id


def test_a_record_of_ndjson_is_one_line_whatever_the_model_says() -> None:
    """In NDJSON, newlines of a text are escaped and Unicode line separators are not, as in the real engine."""
    line = Line(stdout={"text": "{text}"})
    ((_, data),) = rendered(at_known_release("codex"), [line], (), {"text": "a\nb\u2028c"})
    assert data.count(b"\n") == 1
    assert json.loads(data) == {"text": "a\nb\u2028c"}
    assert "\u2028".encode() in data
    ((_, data),) = rendered(at_known_release("claude"), [line], (), {"text": "ä\u2028\x85"})
    assert data.decode() == '{"text":"ä\\u2028\\u0085"}\n', "Claude Code escapes them"


@each("engine, begins, ends", [("claude", b'{"text":"a"', b"}\n"), ("gemini", b'{\n  "text": "a"', b"\n}")])
def test_a_document_has_the_form_of_the_release(engine: str, begins: bytes, ends: bytes) -> None:
    """Claude Code prints one line; Gemini prints many, and no line break after the last one."""
    line = Line(stdout={"text": "{text}"})
    ((_, data),) = rendered(at_known_release(engine), [line], (), {"text": "a"})
    assert data == begins + ends
