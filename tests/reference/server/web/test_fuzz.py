"""Requests that the document allows, and many that it does not, as schemathesis invents them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import PATIENCE, served
from turngate_reference.server.states import State
from turngate_reference.server.web import openapi

EXAMPLES = 40
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]
KNOWN = {"createRun": {"engine": "codex"}}


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A served app with a run of every kind; `ended` is a run whose events come to an end."""

    schema: schemathesis.BaseSchema
    runs: tuple[str, ...]
    ended: str

    def cases(self, operation_id: str) -> st.SearchStrategy[Any]:
        """Invent requests of an operation, valid and not, for runs that there are and others."""
        operation = self.schema.find_operation_by_label(_label(operation_id))
        assert operation
        ids: list[str | None] = [self.ended, *(() if operation_id == "streamEvents" else self.runs)]
        places = [None, *({"run_id": each} for each in ids)] if "{run_id}" in operation.path else [None]
        found = [operation.as_strategy(mode, path_parameters=place) for mode in GenerationMode for place in places]
        known = KNOWN.get(operation_id)
        if known:
            found += [
                operation.as_strategy(path_parameters=place).map(lambda case: _with(case, known)) for place in places
            ]
        return st.one_of(found)


def _with(case: Any, known: dict[str, str]) -> Any:
    """Lead an invented request past the first door, behind which the rest of it is looked at."""
    case.body.update(known)
    return case


def _label(operation_id: str) -> str:
    (found,) = (each for each in openapi.operations() if each.definition["operationId"] == operation_id)
    return f"{found.method.upper()} {found.path}"


@pytest.fixture(name="fuzzed")
def _fuzzed(closed_server_env: ServerEnv) -> Iterator[Fuzzed]:
    """Have runs end, wait, run and queue, behind a real socket; what runs then goes on until it is canceled."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(final(x=1)), d.codex(ASK), d.codex(final(x=1), more=[["meet"]]))
    server_env.keep_session()
    with server_env.opened(slots=1) as server:
        ended = server_env.create()
        server_env.wait(ended, State.SUCCEEDED)
        waiting, _ = server_env.ask()
        running, queued = server_env.create(), server_env.create()
        server_env.wait(running, State.RUNNING)
        with served(Caller(server)) as port:
            schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
            yield Fuzzed(schema, (waiting, running, queued), ended)


@pytest.mark.long
@pytest.mark.parametrize("operation_id", [each.definition["operationId"] for each in openapi.operations()])
def test_nothing_undocumented_is_answered(fuzzed: Fuzzed, operation_id: str) -> None:
    """No invented request gets a 5xx, or an answer of another status, type or shape than the document says."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=fuzzed.cases(operation_id))
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=PATIENCE)

    ask()
