"""What a resume has to wait for: modules that it does not need are not imported."""

import subprocess
import sys

import pytest

SLOW = ["flask", "importlib.metadata", "importlib.resources", "jsonschema", "rich", "sqlite3", "tempfile"]
SLOW += [
    "turngate_reference.server.orchestrator",
    "turngate_reference.server.store",
]  # a conversation of its own needs no database
RESUME = """
import sys
import turngate_reference.conversations.cli.turns, turngate.cli
from turngate.contract import load
from turngate.turn.envelope import read_envelope
load.contract("codex").at()
question = '{"kind": "confirm", "prompt": "So?", "options": [], "required_fields": [], "context": {}}'
assert read_envelope('{"outcome": "ask_user", "interaction": ' + question + '}').interaction
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Everything that is imported to read a contract and an answer, and to be the command."""
    done = subprocess.run([sys.executable, "-c", RESUME], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", SLOW)
def test_a_resume_does_not_import_what_is_slow(imported: set[str], module: str) -> None:
    """Each of these takes longer to import than a turn takes to be read."""
    assert module not in imported
