"""Tests that the OpenAPI document is valid and agrees with the code."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.reference import cli_env as d
from tests.reference.caller import OUTSIDE, Caller, documented, schema
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import served
from tests.tables import each
from turngate.contract import load
from turngate.model import Mode, Outcome, Repair
from turngate_reference.server.web import openapi
from turngate_reference.states import TRANSITIONS, Delivery, RunErrorCode, State

OURS = openapi.document()["x-turngate"]
SCHEMAS = openapi.document()["components"]["schemas"]
NEVER = {"INTERNAL_ERROR"}
DOCUMENT = Path(load.__file__).parents[1] / "openapi.yaml"


def enums(value: Any, name: str) -> list[Any]:
    """Return the allowed values of a member of a schema."""
    words: list[Any] = openapi.resolved(SCHEMAS[value]["properties"][name])["enum"]
    return [word for word in words if word is not None]


@pytest.mark.long
def test_the_document_is_openapi() -> None:
    """The document is valid OpenAPI 3.1, and each schema in it is valid JSON Schema."""
    import schemathesis  # noqa: PLC0415 - it takes as long as a hundred tests, in each process

    schemathesis.openapi.from_dict(openapi.document()).validate()
    for schema_ in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema_)


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    """The document lists exactly the transitions that the code allows."""
    listed = [(transition["from"], transition["to"]) for transition in OURS["transitions"]]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {(source, to) for source, causes in TRANSITIONS.items() for to in causes.values()}
    assert all(transition["when"] for transition in OURS["transitions"])


def test_the_table_of_run_errors_is_that_of_the_code() -> None:
    """The document explains exactly the error codes that the code uses."""
    assert set(OURS["run_errors"]) == set(RunErrorCode) == set(enums("RunError", "code"))
    assert all(OURS["run_errors"].values())


def test_the_table_of_events_is_that_of_the_schema() -> None:
    """Every type of event is described."""
    assert set(OURS["events"]) == set(enums("Event", "event"))


def test_the_table_of_events_says_how_a_prompt_is_delivered() -> None:
    """It names each way, and no other."""
    named = set(re.findall("`([a-z]+_process)`", OURS["events"]["turn.delivered"]))
    assert named == {*Delivery}


@each(
    "values, in_code",
    [
        (SCHEMAS["State"]["enum"], State),
        (enums("CreateRun", "execution_mode"), Mode),
        (enums("Turn", "outcome"), Outcome),
        (enums("Turn", "repair_level"), Repair),
    ],
)
def test_enumerations_are_those_of_the_code(values: list[str], in_code: Any) -> None:
    """States, modes, outcomes and repair levels are the same in the document and in the code."""
    assert set(values) == set(in_code)


def test_kinds_of_questions_are_those_of_the_envelope() -> None:
    """The API supports every kind of question that an agent may ask."""
    envelope = json.dumps(load.schema("envelope"))
    assert json.dumps(enums("Question", "kind")) in envelope


def test_every_problem_can_occur_somewhere() -> None:
    """The table and the operations list the same problem codes, with the same status."""
    problems = openapi.problems()
    assert {occurrence.code for occurrence in documented() if occurrence.code} | OUTSIDE | NEVER == set(problems)
    for occurrence in documented():
        assert not occurrence.code or int(problems[occurrence.code]["status"]) == occurrence.status, occurrence


def test_the_example_is_valid() -> None:
    """The example request in the document is valid."""
    schema("CreateRun").validate(SCHEMAS["CreateRun"]["example"])


def test_every_operation_has_an_identity() -> None:
    """Each operation has a unique id and a summary."""
    definitions = [operation.definition for operation in openapi.operations()]
    assert len({definition["operationId"] for definition in definitions}) == len(definitions)
    assert all(definition["summary"] for definition in definitions)


def schemas_within(value: Any, path: str = "#") -> list[tuple[str, dict[str, Any]]]:
    """List every schema of the document that is or contains a reference, with its place."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [pair for key, member in items for pair in schemas_within(member, f"{path}/{key}")]
    return [(path, value), *inner] if isinstance(value, dict) and "$ref" in value else inner


def test_references_stand_alone() -> None:
    """Generators ignore keys next to a `$ref`, so other keys must be next to an `allOf`."""
    listed = schemas_within(openapi.document())
    assert listed
    assert [path for path, schema_ in listed if len(schema_) > 1] == []


def test_status_codes_are_text() -> None:
    """YAML parsers read a bare 200 as a number, which OpenAPI doesn't allow."""
    unquoted = [line for line in DOCUMENT.read_text().splitlines() if line.strip()[:3].isdigit()]
    assert unquoted == []


@pytest.mark.long
def test_a_generated_client_drives_a_run(
    server_env: ServerEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generated client creates a run, reads the question, replies, and reads the final data, all typed."""
    (tmp_path / "config.yaml").write_text("post_hooks: []")
    command = ("generate", "--meta", "none", "--path", str(DOCUMENT), "--output-path", "generated", "--config")
    argv = (sys.executable, "-m", "openapi_python_client", *command, "config.yaml", "--fail-on-warning")
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    monkeypatch.syspath_prepend(tmp_path)
    models, client = (importlib.import_module(f"generated.{name}") for name in ("models", "client"))

    def call(operation: str, *path: str, **arguments: Any) -> Any:
        module = importlib.import_module(f"generated.api.{operation}")
        return module.sync(*path, client=connected, **arguments)

    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="blue")))
    with (
        served(Caller(server_env.server)) as port,
        client.Client(f"http://127.0.0.1:{port}", raise_on_unexpected_status=True) as connected,
    ):
        body = models.CreateRun("codex", "paint it", execution_mode=models.CreateRunExecutionMode.INTERACTIVE)
        run_id = call("runs.create_run", body=body).run_id
        server_env.question(run_id)
        pending = call("interaction.get_interaction", run_id).pending
        assert (pending.kind, pending.options) == (models.QuestionKind.CHOOSE_ONE, ["red", "blue"])
        accepted = call("interaction.reply_to_interaction", run_id, body=models.Reply(pending.interaction_id, "blue"))
        assert accepted.turn_index == 1
        server_env.wait(run_id, State.SUCCEEDED)
        run = call("runs.get_run", run_id)
        problem = call("runs.get_run", "20261122T014200Z-codex-k3n9x2ab")
    assert run.state is models.State.SUCCEEDED
    assert type(run.final_data).__name__ == "FinalData"
    assert run.final_data["colour"] == "blue"
    assert (type(problem), problem.code) == (models.Problem, "RUN_NOT_FOUND")
