"""Values that differ from run to run become placeholders; equal text gets the same placeholder."""

import re
from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import Deviation, Volatile
from turngate.errors import ContractError
from turngate_probes.harness.cases import FORGED, IMITATION, RECORDED
from turngate_probes.record.recorder import Replacer, first_number, fixed_ids
from turngate_probes.stub_model import NONCE

CODEX = load.contract("codex").at("0.169.0")
OPENCODE = load.contract("opencode").at("1.18.33")
PLACES = {"/big/box/sandbox-1": "<sandbox>", "/big/box": "<box>", "127.0.0.1:4711": "127.0.0.1:1"}
VOLATILE = st.one_of(
    st.uuids().map(str),
    st.from_regex(NONCE, fullmatch=True),
    st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2099, 1, 1)).map(datetime.isoformat),  # noqa: DTZ001
    st.integers(1_600_000_000_000, 1_999_999_999_999).map(str),
    st.sampled_from(sorted(PLACES)),
    st.from_regex(re.compile(OPENCODE.handle.shape), fullmatch=True),
)
SEPARATORS = st.sampled_from([" ", "\n", '"', "{", "id=", "\\n", "späť: "])
TEXTS = st.lists(st.tuples(SEPARATORS, VOLATILE).map("".join), max_size=15).map("".join)


def test_the_same_id_has_the_same_placeholder_in_every_text() -> None:
    """Ids are numbered in order of appearance and keep their number; different ids get different numbers."""
    one, two = "019a0000-0000-7000-8000-00000000000a", "019a0000-0000-7000-8000-00000000000b"
    replacer = Replacer(CODEX, "main", {})
    start = first_number("main")
    first, second = (f"00000000-0000-7000-8000-{start + n:012d}" for n in (1, 2))
    assert [replacer(f"<{value}>") for value in (one, two, one)] == [f"<{first}>", f"<{second}>", f"<{first}>"]


@each("engine", load.engine_names())
def test_placeholders_have_the_shape_that_the_contract_demands(engine: str) -> None:
    """A placeholder for a session id matches the contract's pattern, and differs from the nonexistent id."""
    contract = replace(load.contract(engine).at(), deviations=())
    living = contract.handle.nonexistent_id.replace("00", "11", 1)
    assert re.fullmatch(contract.handle.shape, living)
    replaced = Replacer(contract, "main", {})(living)
    assert replaced not in (living, contract.handle.nonexistent_id)
    assert re.fullmatch(contract.handle.shape, replaced)


def test_ids_that_are_unique_only_in_their_home_stay() -> None:
    """Two homes that gave their sessions the same id show it in the recordings."""
    contract = replace(CODEX, deviations=(Deviation("handle.unique", "only-in-home", ""),))
    contract = replace(contract, handle=replace(CODEX.handle, shape="conv-[0-9]+", nonexistent_id="conv-000000"))
    assert [Replacer(contract, case, {})("conv-1 2026-11-21") for case in ("main", "auto")] == ["conv-1 2000-01-01"] * 2


def test_every_case_numbers_its_sessions_apart() -> None:
    """No two cases share a session id, so ids can be compared between cases."""
    numbers = sorted(first_number(case.name) for case in RECORDED)
    assert all(after - before >= 1000 for before, after in pairwise(numbers))


@each("case", [case.name for case in RECORDED])
def test_a_number_fits_into_six_zeros(case: str) -> None:
    """An id with only six zeros in a row keeps its length in every case."""
    contract = replace(CODEX, handle=replace(CODEX.handle, shape="s-[0-9]{6}", nonexistent_id="s-000000"))
    assert re.fullmatch(contract.handle.shape, Replacer(contract, case, {})("s-123456"))


def test_ids_that_are_ours_stay() -> None:
    """The nonexistent id and ids in scripted text are not replaced."""
    replacer = Replacer(CODEX, "imitation", {}, fixed_ids(IMITATION))
    assert replacer(f"{CODEX.handle.nonexistent_id} {IMITATION}") == f"{CODEX.handle.nonexistent_id} {IMITATION}"
    assert FORGED in fixed_ids(IMITATION)
    assert replacer.used == []


@each(
    "text, shown",
    [
        ("at 2026-11-21T23:40:02.123456Z!", "at 2000-01-01T00:00:00.000Z!"),
        ("2026-11-21T23:40:02", "2000-01-01T00:00:00"),
        (r"\n2026-11-21\n", r"\n2000-01-01\n"),
        ('"timestamp":1795300000123,', '"timestamp":1000000000000,'),
        ('"at":1795300000.5', '"at":1000000000.5'),
        ("is Saturday, November 21, 2026 (so", "is Saturday, January 1, 2000 (so"),
        ("Sat Nov 21 2026", "Sat Jan 01 2000"),
        ("tgn-0123456789abcdef", "tgn-0000000000000001"),
        ("http://127.0.0.1:39211/v1", "http://127.0.0.1:1/v1"),
        ("Node.js v20.20.2", "Node.js v0.0.0"),
        ("17953000001230", "17953000001230"),
        ("/big/box/sandbox-1/home and /big/box", "<sandbox>/home and <box>"),
        ("api_key=abcdef1234567890", "api_key=<secret>"),
    ],
)
def test_what_is_volatile_in_any_engine(text: str, shown: str) -> None:
    """Times, nonces, ports, Node versions, known paths and secrets are replaced; longer numbers are not."""
    assert Replacer(CODEX, "main", PLACES)(text) == shown


def test_the_contract_adds_what_it_calls_volatile() -> None:
    """Only a pattern's group `value` is replaced; a run of # in the placeholder becomes a number."""
    volatile = (Volatile(r"took (?P<value>\d+) ms", "0"), Volatile("part_[a-z]+", "part_###"))
    replacer = Replacer(replace(CODEX, volatile=volatile), "main", {})
    assert replacer("took 17 ms: part_x, part_yy, part_x") == "took 0 ms: part_001, part_002, part_001"
    assert replacer.used == ["what the contract calls volatile"]


def test_a_dead_id_without_room_for_a_number_is_the_contracts_mistake() -> None:
    """A nonexistent id without space for a number is reported as an error in the contract."""
    contract = replace(CODEX, handle=replace(CODEX.handle, nonexistent_id="dead"))
    with pytest.raises(ContractError, match="no room for a number"):
        Replacer(contract, "main", {})


@given(TEXTS)
def test_replacing_twice_changes_nothing_more(text: str) -> None:
    """Replacing volatile text twice gives the same result as once, so a recording of a replay is the same."""
    once = Replacer(OPENCODE, "main", PLACES)(text)
    assert Replacer(OPENCODE, "main", PLACES)(once) == once


@given(st.lists(st.uuids().map(str), unique=True, min_size=1, max_size=5), st.data())
def test_other_ids_give_the_same_text(ids: list[str], data: st.DataObject) -> None:
    """Two runs that differ only in their ids give the same text, and ids are never mixed up."""
    order = data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=20))
    others = data.draw(st.lists(st.uuids().map(str), unique=True, min_size=len(ids), max_size=len(ids)))
    one, two = ([name[i] for i in order] for name in (ids, others))
    first, second = Replacer(CODEX, "main", {}), Replacer(CODEX, "main", {})
    shown = [first(text) for text in one]
    assert shown == [second(text) for text in two]
    assert len(set(shown)) == len(set(one))


@given(st.binary(max_size=200))
def test_any_bytes_pass(data: bytes) -> None:
    """Bytes that are not valid UTF-8 are kept."""
    assert isinstance(Replacer(CODEX, "main", {}).bytes(data), bytes)
    assert Replacer(CODEX, "main", {}).bytes(b"\xff\x00\n") == b"\xff\x00\n"
