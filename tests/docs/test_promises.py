"""Each promise on the page names existing tests, and each limit matches the code."""

import ast
import re

import pytest

from tests.tools.docs.hooks import ROOT
from turngate import model, strict_json
from turngate.contract import load, yaml_text
from turngate.turn import framing
from turngate_reference import access
from turngate_reference.server import app
from turngate_reference.server.orchestrator import decide, live_run
from turngate_reference.server.output_schema import checker
from turngate_reference.server.store import database, upgrade
from turngate_reference.server.web import listener, openapi, security
from turngate_reference.server.web.streams import EventStreams

TEXT = (ROOT / "docs/promises.md").read_text("utf-8")
PROMISED = re.findall(r"^## (.+)\n\n\| promise \| test \|$", TEXT, re.MULTILINE)
MIB = 2**20
LIMITS = {
    "request body": f"{openapi.MAX_BODY // MIB} MiB",
    "request headers": f"{listener.MAX_HEADERS // 2**10} KiB",
    "line that an engine prints as a record": f"{framing.MAX_LINE // MIB} MiB",
    "nesting of JSON": f"{strict_json.MAX_DEPTH}",
    "digits of a number in JSON": f"{strict_json.MAX_DIGITS}",
    "final data of a run": f"{decide.MAX_FINAL_DATA // MIB} MiB",
    "options of a question, and required fields": f"{model.MAX_NAMES}",
    "characters of an option or a required field": f"{model.MAX_NAME}",
    "texts of a turn that are kept as events": f"{live_run.MAX_TEXTS}",
    "characters of such a text": f"{live_run.MAX_TEXT}",
    "request body that is read to its end, to answer that it is too large": f"{listener.MAX_TAKEN // MIB} MiB",
    "connections at the same time": f"{listener.MOST}",
    "memory of a body that is arriving; the rest is in a temporary file": f"{listener.IN_MEMORY // 2**10} KiB",
    "time for which a client may be silent, unless its request is in work": f"{listener.IDLE} seconds",
    "time for which a client may leave its response unread, on Linux": f"{listener.STALLED} seconds",
    "time in which an address logs a browser in": f"{access.CODE_MINUTES} minutes",
    "time for which a browser stays logged in": f"{security.LIFETIME // 86400} days",
    "event streams at the same time": f"{EventStreams().limit}",
    "engines at the same time, unless `--slots` says otherwise": f"{app.SLOTS}",
    "wait for the database before a request gets 503": f"{database.BUSY_SECONDS:g} seconds",
    "characters of the texts of a run that wait to be written": f"{live_run.MAX_PENDING}",
    "CPU time to check an output schema": f"{checker.SCHEMA_SECONDS:g} second",
    "CPU time to check final data against an output schema": f"{checker.DATA_SECONDS:g} seconds",
    "memory of a process that checks output schemas": f"{checker.MEMORY // MIB} MiB",
    "contract file": f"{load.MOST_BYTES // 2**10} KiB, {yaml_text.MOST_VALUES:,} values",
    "copies of the database from before upgrades": f"{upgrade.KEPT}",
}


def rows(heading: str, text: str = TEXT) -> list[list[str]]:
    """Return the rows of the table below a heading, without its header."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("heading", PROMISED)
def test_every_promise_names_tests_that_there_are(heading: str) -> None:
    """Every promise names existing tests, by path and function."""
    assert_tested([(promise, named) for promise, named in rows(heading)])


def test_every_protection_names_tests_that_there_are() -> None:
    """Every protection in SECURITY.md names existing tests, too."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    assert_tested([(protection, named) for _, protection, named in rows("What turngate protects", text)])


def test_every_table_of_promises_is_found() -> None:
    """No table of promises stands where the test above doesn't look for it."""
    assert len(PROMISED) == TEXT.count("| promise | test |") > 0


def assert_tested(promises: list[tuple[str, str]]) -> None:
    """Assert that each promise names existing tests."""
    assert promises
    for promise, named in promises:
        tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", named)
        assert tests, promise
        for path, name in tests:
            tree = ast.parse((ROOT / path).read_text("utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_every_limit_is_that_of_the_code() -> None:
    """The page lists exactly the limits in the code, with their values."""
    assert dict(rows("Limits")) == LIMITS
