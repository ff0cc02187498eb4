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

from tests.reference import desk as d
from tests.reference.caller import Caller
from tests.reference.house import ASK, House, final
from turngate_reference.serving import Server
from turngate_reference.states import State
from turngate_reference.web import openapi

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
    """An app with a run of every kind, which starts no engine; `ended` is a run whose events come to an end."""

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
def _fuzzed(closed_house: House) -> Iterator[Fuzzed]:
    """Have runs end, wait and queue."""
    closed_house.desk.engine("codex", d.codex(final(x=1)), d.codex(ASK))
    closed_house.keep_session()
    with closed_house.opened():
        ended = closed_house.create()
        closed_house.wait(ended, State.SUCCEEDED)
        waiting, _ = closed_house.ask()
    server = Server(closed_house.settings)
    server.ready = True
    queued = server.commands.create({"engine": "codex", "prompt": "x"}, None)["run_id"]
    schema = schemathesis.openapi.from_wsgi("/openapi.json", Caller(server).app)
    yield Fuzzed(schema, (waiting, queued), ended)
    server.close()


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
        case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"})

    ask()
