from pathlib import Path

import pytest

from tests.contracts.contract.small import SMALL
from tests.tables import each
from turngate.contract import lint, load
from turngate.contract.migrate import REMOVED, RENAMED, Migration, migrate
from turngate.errors import ContractError
from turngate.files import simulation_files

# a contract of every form that had number 1, the oldest first; each is shortened from one that was in use
EARLIER = sorted((Path(__file__).parent / "earlier_forms").glob("*.yaml"))
# what the first form did not have, and only its author knows
FIRST = ["$.sticky[0].argv: has no slot for the model's option"]
KEYS = Path(__file__).parent / "schema_keys"


def engine_of(file: Path) -> str:
    """Return the name that a sample's contract has in use."""
    return f"{file.stem.partition('-')[2]}.yaml"


@each("file", EARLIER, shown=lambda file: file.name)
def test_a_contract_of_each_earlier_form_is_moved(file: Path) -> None:
    """What can't be loaded any more has no mistakes once it is moved, and moving it again changes nothing."""
    old = file.read_text()
    with pytest.raises(ContractError, match=r":1:9: \$.schema: .*run `turngate contracts migrate "):
        load.parse(old, engine_of(file))
    moved = migrate(old, engine_of(file))
    assert moved.number == 1
    left = [str(error) for error in lint.problems(load.parse(moved.text, engine_of(file)))]
    wanted = FIRST if file == EARLIER[0] else []
    assert len(left) == len(wanted), left
    assert all(words in error for words, error in zip(wanted, left, strict=True))
    assert migrate(moved.text, engine_of(file)) == Migration(load.CONTRACT, moved.text, 2, ())


def test_every_rule_has_a_sample() -> None:
    """Each key that was renamed or removed is in a contract of an earlier form."""
    told = {change.what for file in EARLIER for change in migrate(file.read_text(), file.name).changes}
    names = {keys[-1] for keys in (*RENAMED, *REMOVED)}
    assert {name for name in names if not any(what.startswith(f"`{name}` is ") for what in told)} == set()


HEAD = "schema: turngate.engine-contract/1\n"


@each(
    "old, new",
    [
        # keys of any style, in braces and out of them
        ('deviations:\n  - {clause: a, "compensation": b}  # c\n', "deviations:\n  - {clause: a, action: b}  # c\n"),
        ("deviations:\n  - compensation: b\n    clause: a\n", "deviations:\n  - action: b\n    clause: a\n"),
        # a key of that name elsewhere keeps it
        ("launch:\n  compensation: x\n  env: {dead: y}\n", "launch:\n  compensation: x\n  env: {dead: y}\n"),
        # a block that goes takes its own lines along, and one of two blank lines
        ("a: 1\n\nsimulation:\n  # of it\n  b: {c: [1,\n    2]}\n\nd: 2\n", "a: 1\n\nd: 2\n"),
        ("a: 1\n\nsimulation: {b: 1}\n", "a: 1\n"),
        ("a: 1\nsimulation: |\n  b\n  c\n# d\ne: 1\n", "a: 1\n# d\ne: 1\n"),
        # the first key of an entry, the last one, and all
        ("store:\n  - tied_to_cwd: true\n    check: 1\n", "store:\n  - check: 1\n"),
        ("store:\n  - check: 1\n    tied_to_cwd: true  # so\n", "store:\n  - check: 1\n"),
        ("store: {tied_to_cwd: true, check: 1}\n", "store: {check: 1}\n"),
        ("store: {check: 1, tied_to_cwd: true}\n", "store: {check: 1}\n"),
        ("store: {tied_to_cwd: true}\n", "store: {}\n"),
        ("store:\n  - tied_to_cwd: true\n", "store:\n  - {}\n"),
        # what a change set, and a change that set nothing else
        (
            "sticky:\n  changes:\n    - since: 1.0.0\n      set: {warm: {}, same_id: true}\n",
            "sticky:\n  changes:\n    - since: 1.0.0\n      set: {keeps_session_id: true}\n",
        ),
        (
            "sticky:\n  changes:\n    - since: 1.0.0\n      set:\n        warm: {}\n      note: n\n",
            "sticky:\n  changes:\n    - since: 1.0.0\n      note: n\n",
        ),
        # aliases
        ("sticky:\n  auto: &m {holds: 1}\n  warm: *m\n", "sticky:\n  auto: &m {expect: 1}\n"),
        (
            "sticky:\n  auto:\n    options: &o [a]\n  warm:\n    options: *o\n  argv: [b]\n",
            "sticky:\n  auto:\n    options: &o [a]\n  argv: [b]\n",
        ),
        (
            'end:\n  evidence: &e [&x "clause: a"]\nfinal:\n  evidence: *e\n',
            "end:\n  evidence: &e [&x {clause: a}]\nfinal:\n  evidence: *e\n",
        ),
        # evidence
        (
            "end:\n  evidence:\n    - >-\n      observed: 1.0.0\n      says \"so\"\n    - 'clause: a.b'\n",
            'end:\n  evidence:\n    - {observed: "1.0.0 says \\"so\\"", releases: [1.0.0]}\n    - {clause: a.b}\n',
        ),
        (
            'end:\n  evidence: ["observed: 0.1.0 to 0.2.0-b, 1.2.3.4, 3.0.0"]\n',
            'end:\n  evidence: [{observed: "0.1.0 to 0.2.0-b, 1.2.3.4, 3.0.0", releases: [0.1.0 to 0.2.0-b, 3.0.0]}]\n',
        ),
        (
            "end: {evidence: [{clause: resident.restart}, heard]}\n",
            "end: {evidence: [{clause: sticky.restart}, heard]}\n",
        ),
        ("deviations: [{clause: orchestrated.cancel}]\n", "deviations: [{clause: server.cancel}]\n"),
        # line ends, and none
        ("resident:\r\n  same_id: true\r\n", "sticky:\r\n  keeps_session_id: true\r\n"),
        ("resident: {same_id: true}", "sticky: {keeps_session_id: true}"),
        ("title: \U0001f9ca é\nresident: {}\n", "title: \U0001f9ca é\nsticky: {}\n"),
    ],
)
def test_a_place_is_rewritten_and_nothing_else(old: str, new: str) -> None:
    """Only keys that have another name, keys that are gone, and evidence that was text differ."""
    assert migrate(HEAD + old, "f").text == f"schema: {load.CONTRACT}\n{new}"


OLD_KEYS = """refused_call:
  exit_code: 0
sticky:
  asking_env: []
  acp:
    said: []
changes:
  - since: 1.0.0
    set: {refused_call: {exit_code: 1}, answered: [{stdout: {said: hi}}]}
"""
NEW_KEYS = """sticky:
  approval_env: []
  acp:
    after_text: []
changes:
  - since: 1.0.0
    set: {answered: [{stdout: {said: hi}}]}
"""


def test_a_simulation_of_an_earlier_form_is_moved() -> None:
    """It is not loaded, which the error says with what to do; only its old keys change, and those that are gone go."""
    old = "schema: turngate.simulation/1\n" + OLD_KEYS
    with pytest.raises(ContractError, match=r"f:1:9: .* simulation .*/1, .*/2 \(run `turngate contracts migrate f`\)"):
        load.parse(old, "f")
    moved = migrate(old, "f")
    assert moved.text == f"schema: {load.SIMULATION}\n{NEW_KEYS}"
    assert [change.line for change in moved.changes if change.lost] == [2, 10]
    own = simulation_files()["qwen"]
    moved = migrate(own.read_text().replace(load.SIMULATION, "turngate.simulation/1"), own.name)
    assert (moved.text, len(moved.changes)) == (own.read_text(), 1)
    assert [*lint.problems(load.parse(moved.text, own.name))] == []


@each(
    "text, told",
    [
        ("schema: turngate.engine-contract/3\n", "f:1:9: $.schema: needs a newer turngate: "),
        ("schema: turngate.simulation/3\n", "f:1:9: $.schema: needs a newer turngate: "),
        ("schema: turngate.recording/1\n", "f:1:9: no contract or simulation: its schema is 'turngate.recording/1'"),
        ("a: 1\n", "f:1:1: no contract or simulation: it names no schema"),
        ("", "f:1:1: no contract or simulation: it names no schema"),
        ("- a\n", "f:1:1: no contract or simulation: it names no schema"),
        ("a: [\n", "f:2:1: "),
        (
            HEAD + "deviations:\n  - {action: a, compensation: b}\n",
            "f:3:17: `compensation` is called `action` now, and both are here (keep one",
        ),
        (HEAD + "simulation: {a: &a {b: 1}}\nend: *a\n", "f: can't be moved as text: found undefined alias"),
        (HEAD + "x: &k dead\nhandle:\n  *k : 1\n", "f: can't be moved as text: "),
        (HEAD + "a: &a [*a]\n", "an alias refers to its own anchor"),
    ],
)
def test_what_can_not_be_moved_is_refused(text: str, told: str) -> None:
    """The error has the place and what to do."""
    with pytest.raises(ContractError) as refused:
        migrate(text, "f")
    assert told in str(refused.value)
    assert refused.value.hint


def test_a_contract_of_a_newer_schema_is_not_loaded() -> None:
    """Its keys may mean something else, so the error says to upgrade."""
    with pytest.raises(ContractError, match=r"small.yaml:1:9: \$.schema: .*/3, .*/2 \(upgrade turngate\)"):
        load.parse(SMALL.replace(load.CONTRACT, "turngate.engine-contract/3"), "small.yaml")


@each("name, today", [("engine", load.CONTRACT), ("simulation", load.SIMULATION)])
def test_the_number_changes_with_a_key(name: str, today: str) -> None:
    """No key of these schemas is renamed, removed or newly required, so what was written for them still loads."""
    schema, number = load.schema(name), today.rpartition("/")[2]
    now = {"": schema} | schema["$defs"]
    for line in (KEYS / f"{name}-{number}.txt").read_text().splitlines():
        part, _, keys = line.partition(": ")
        known, needed = now[part]["properties"].keys(), set(now[part].get("required", ()))
        frozen = {key.removesuffix("!") for key in keys.split()}
        assert frozen <= known, f"{part} lost {frozen - known}: give the schema the next number, and teach `migrate`"
        new = needed - {key.removesuffix("!") for key in keys.split() if key.endswith("!")}
        assert not new, f"{part} needs {new} now: give the schema the next number"
