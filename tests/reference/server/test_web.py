"""Tests of the API as a whole: valid and invalid requests by its document, and docs/api.md."""

import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.caller import TOKEN, Caller
from tests.reference.server.web.api_tables import FILE, with_tables
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import served
from turngate_reference.server.web import openapi
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.states import State

TEXT = FILE.read_text("utf-8")
PORT = "8321"

EXAMPLES = 40
EXCLUDED = {
    "positive_data_acceptance": "a request may be refused for what no schema says: an engine that is not installed, a "
    "run that does not wait, a workspace that is in use",
    "use_after_free": "no operation deletes anything",
    "object_level_authorization": "there are no users, so nothing belongs to one of them",
}
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
KNOWN = {"createRun": {"engine": "codex"}}


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A served app with a run of every kind; the events of the run `ended` come to an end."""

    schema: Any
    checks: list[Any]
    runs: tuple[str, ...]
    ended: str

    def cases(self, operation_id: str) -> st.SearchStrategy[Any]:
        """Generate valid and invalid requests of an operation, for existing runs and others."""
        from schemathesis import GenerationMode  # noqa: PLC0415 - as in the fixture

        operation = self.schema.find_operation_by_label(_label(operation_id))
        assert operation
        ids: list[str | None] = [self.ended, *(() if operation_id == "streamEvents" else self.runs)]
        places = [None, *({"run_id": run_id} for run_id in ids)] if "{run_id}" in operation.path else [None]
        # with the token from the start: a request that is wrong since it lacks one would be sent with it, and succeed
        given = [{"path_parameters": place, "headers": dict(AUTHORIZED)} for place in places]
        strategies = [operation.as_strategy(mode, **values) for mode in GenerationMode for values in given]
        known = KNOWN.get(operation_id)
        if known:
            strategies += [operation.as_strategy(**values).map(lambda case: _with(case, known)) for values in given]
        return st.one_of(strategies)


def _with(case: Any, known: dict[str, str]) -> Any:
    """Make a generated request pass the first checks, so that the later ones are tested."""
    case.body.update(known)
    return case


def _label(operation_id: str) -> str:
    (operation,) = (
        operation for operation in openapi.operations() if operation.definition["operationId"] == operation_id
    )
    return f"{operation.method.upper()} {operation.path}"


@pytest.fixture(name="fuzzed")
def _fuzzed(closed_server_env: ServerEnv) -> Iterator[Fuzzed]:
    """Provide ended, waiting, running and queued runs behind a real socket."""
    # imported here, since that takes as long as a hundred tests, in each process
    import schemathesis  # noqa: PLC0415
    from schemathesis.checks import CHECKS, load_all_checks  # noqa: PLC0415

    load_all_checks()
    checks = [CHECKS.get_one(name) for name in CHECKS.get_all_names() if name not in EXCLUDED]
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(final(x=1)), d.codex(ASK), d.codex(final(x=1), more=[["meet"]]))
    server_env.keep_session()
    with server_env.opened(slots=1) as server:
        ended = server_env.create()
        server_env.wait(ended, State.SUCCEEDED)
        waiting, _ = server_env.ask()
        running, queued = server_env.create(), server_env.create()
        server_env.wait(running, State.RUNNING)
        with served(Caller(server, RequestCheck(TOKEN))) as port:
            # a token is optional in the document, but not on a server that has one
            own = deepcopy(openapi.document())  # schemathesis adds links to it
            schema = schemathesis.openapi.from_dict(own | {"security": [{"bearer": []}]})
            schema.config.update(base_url=f"http://127.0.0.1:{port}")
            yield Fuzzed(schema, checks, (waiting, running, queued), ended)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("operation_id", [operation.definition["operationId"] for operation in openapi.operations()])
def test_nothing_undocumented_is_answered(fuzzed: Fuzzed, operation_id: str) -> None:
    """No generated request gets a 5xx, or a status, content type or body that the document doesn't list."""

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
        case.call_and_validate(checks=fuzzed.checks, timeout=PATIENCE, headers=AUTHORIZED)

    ask()


@pytest.mark.long
@pytest.mark.nightly
def test_links_lead_where_the_document_says(fuzzed: Fuzzed) -> None:
    """Everything that is created can be read, canceled and answered through the links in the response."""
    machine = fuzzed.schema.exclude(operation_id="streamEvents").as_state_machine()
    validated = Counter[str]()

    class Linked(machine):  # type: ignore[misc, valid-type]
        def get_call_kwargs(self, _case: Any) -> dict[str, Any]:
            return {"timeout": PATIENCE, "headers": AUTHORIZED}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            case.validate_response(response, checks=fuzzed.checks, headers=AUTHORIZED)
            validated[case.operation.definition.raw["operationId"]] += 1

    # runs continue by themselves, so a list can differ when hypothesis repeats a request
    with suppress(FlakyStrategyDefinition):
        Linked.run(
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=6,
                deadline=None,
                database=None,
                derandomize=True,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            )
        )
    assert {"createRun", "getRun", "cancelRun"} <= set(validated), validated


def free_port() -> str:
    """Find a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


def walk(folder: Path) -> str:
    """Run all code blocks of the walkthrough as one script on a free port; return its output."""
    walked = TEXT.partition("## Walkthrough")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", walked, re.MULTILINE | re.DOTALL)
    script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(blocks)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TURNGATE_")}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}", "HOME": str(folder)}
    command = ("bash", "-c", script.replace(PORT, free_port()))
    ran = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=4 * PATIENCE
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout


def test_the_tables_are_those_of_the_document() -> None:
    """The generated tables in docs/api.md are up to date."""
    assert with_tables(TEXT) == TEXT


def test_every_path_and_code_is_there() -> None:
    """docs/api.md names each operation, problem, run error and event."""
    ours = openapi.document()["x-turngate"]
    for operation in openapi.operations():
        assert f"### `{operation.method.upper()} {operation.path}`" in TEXT
    for code in (*ours["problems"], *ours["run_errors"], *ours["events"]):
        assert f"| `{code}` |" in TEXT


@pytest.mark.long
@pytest.mark.nightly
def test_the_walk_goes_where_it_says(tmp_path: Path) -> None:
    """The walkthrough works on a machine without engines, and its three runs end as the text says."""
    for program in ("bash", "curl", "jq"):
        if subprocess.run(("which", program), check=False, capture_output=True).returncode:
            pytest.fail(f"the walk needs {program}: install it")
    said = walk(tmp_path)
    assert '["codex","0.169.0",true]\n["gemini","0.61.0",true]' in said
    assert '"kind": "choose_one"' in said
    assert '"turn_index": 2' in said
    assert '"state": "succeeded"' in said
    assert "RUN_ENDED" in said
    kept, _, lost = said.partition("RUN_ENDED")[2].partition('"state": "failed"')
    assert '"prompt": "Allow this action? Writing to touched.txt"' in kept
    assert '"action": "done"' in kept
    assert '"profile": "sticky_process"' in kept
    assert "INTERACTION_PROCESS_LOST" in lost
    assert [file.read_text() for file in tmp_path.glob("data/runs/*/work/touched.txt")] == ["hi"]
