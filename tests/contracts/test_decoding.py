import json
import subprocess
import sys

import msgspec
import pytest

from tests.longer import first_quick
from turngate.decoding import convert, decode
from turngate.model import Repair

# an annotation in quotes is evaluated when its class is learned: here, when Outer is half learned
FIRST_USES = """
from threading import Thread
from msgspec import Struct
from turngate.decoding import convert, decode

def second_use():
    results.append(SECOND)

def late():
    second.start()
    second.join(0.3)  # the second thread may have to wait for this one
    return int

class Inner(Struct):
    number: "late()"

class Outer(Struct):
    inner: Inner

results = []
second = Thread(target=second_use)
results.append(FIRST)
second.join()
assert results == [Outer(Inner(1))] * 2
"""
USES = (
    "convert({'inner': {'number': 1}}, Outer)",
    "convert([{'inner': {'number': 1}}], tuple[Outer, ...])[0]",
    """decode('{"inner": {"number": 1}}', Outer)""",
)


@pytest.mark.parametrize("first", USES)
@pytest.mark.parametrize("second", first_quick(USES))
def test_two_threads_may_be_the_first_to_use_a_type(first: str, second: str) -> None:
    """A thread that uses a type while another one learns it neither crashes nor gets another result."""
    program = FIRST_USES.replace("FIRST", first).replace("SECOND", second)
    done = subprocess.run((sys.executable, "-c", program), check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_values_and_errors_are_those_of_msgspec() -> None:
    """Hooks, lax conversion and unions work, and a value of the wrong type is msgspec's ValidationError."""
    assert convert("1", int, strict=False) == 1
    assert convert("12", complex, dec_hook=lambda kind, text: kind(text)) == 12 + 0j
    assert decode(json.dumps([1, "a"]), tuple[int | str, ...]) == (1, "a")
    assert decode(b'"12"', complex, dec_hook=_made) == 12 + 0j
    assert decode(msgspec.Raw(b'"none"'), Repair) is Repair.NONE
    with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `str`"):
        convert("1", int)
    with pytest.raises(msgspec.DecodeError):
        decode("{", int)


def _made(kind: type[complex], text: str) -> complex:
    return kind(text)
