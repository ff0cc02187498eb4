"""Tests of what is refused before anything changes, and of the order in which it is named."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv
from tests.tables import each
from turngate.contract.engine_contract import Deviation
from turngate.contract.launch import FileMark
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.requests import ApiError

MARK = FileMark(r"(?<!\S)@(?P<path>\S+)")
WRONG: dict[str, Any] = {
    "prompt": "read @~/secret \ud800",
    "engine": "nobody",
    "execution_mode": "interactive",
    "engine_options": ["--yolo"],
    "workspace": "..",
    "output_schema": {"type": 5},
    "interactive_profile": "sticky_process",
}
# what a caller changes after each refusal
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("WORKSPACE_REFUSED", {"workspace": "a"}),
    ("INVALID_OUTPUT_SCHEMA", {"output_schema": None}),
    ("UNKNOWN_ENGINE", {"engine": "gemini"}),
    ("ENGINE_NOT_INSTALLED", {"engine": "codex"}),
    ("AUTO_FLAG_REFUSED", {"engine_options": ["--frobnicate"]}),
    ("ENGINE_UNSAFE", {"safe": True}),
    ("PROFILE_UNAVAILABLE", {"interactive_profile": "resumable"}),
    ("PROMPT_REFUSED", {"prompt": "read \ud800"}),
    ("OPTION_REFUSED", {"engine_options": []}),
    ("PROMPT_REFUSED", {"prompt": "read"}),
)


@contextmanager
def contract_with(**changes: Any) -> Iterator[None]:
    """Change the contract of every engine that is found."""
    find = Engines.find

    def found(self: Engines, name: str, cwd: Path | None = None) -> InstalledEngine:
        engine = find(self, name, cwd)
        return replace(engine, contract=replace(engine.contract, **changes))

    with mock.patch.object(Engines, "find", found):
        yield


def test_the_first_of_many_problems_is_named(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """A request with every problem is refused for one after the other, in the order that callers rely on."""
    (tmp_path / "root" / "a").mkdir(parents=True)
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    closed_server_env.keep_session()
    body, reported = dict(WRONG), list[str]()
    with closed_server_env.opened(workspace_root=tmp_path / "root") as server:
        contract = server.engines.find("codex").contract
        no_process = replace(contract.sticky, interactive=None)
        unsafe = (Deviation("sticky.settings-cannot-widen", "any", "run it in a container"),)
        flaws: dict[str, Any] = {"sticky": no_process, "file_marks": (MARK,), "deviations": unsafe}
        for _, change in STEPS:
            with contract_with(**flaws), pytest.raises(ApiError) as refused:
                closed_server_env.create(**body)
            reported.append(refused.value.code)
            if change == {"safe": True}:
                flaws["deviations"] = ()
            else:
                body |= change
        assert not list(closed_server_env.settings.data.runs.glob("*"))
        with contract_with(**flaws):
            closed_server_env.create(**body)
    assert reported == [code for code, _ in STEPS]


@pytest.fixture(name="rooted")
def _rooted(closed_server_env: ServerEnv, tmp_path: Path) -> Iterator[ServerEnv]:
    """Provide a server with a root of workspaces, in which a link leads out."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").touch()
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    with closed_server_env.opened(workspace_root=root):
        yield closed_server_env


@each("asked", ["..", "../outside", "/etc", "out", "missing", "file", ".", "a\0b"])
def test_workspaces_stay_below_their_root(rooted: ServerEnv, asked: str) -> None:
    """Dots, links and absolute paths can't lead out of the root."""
    with pytest.raises(ApiError, match="WORKSPACE_REFUSED"):
        rooted.create(workspace=asked)


def test_without_a_root_there_are_no_workspaces(server_env: ServerEnv) -> None:
    """A server without a workspace root rejects workspaces and says why."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match="WORKSPACE_REFUSED"):
        server_env.create(workspace="a")


def test_unknown_and_absent_engines_are_told_apart(server_env: ServerEnv) -> None:
    """An engine without a contract and an engine that isn't installed give different errors."""
    with pytest.raises(ApiError, match="UNKNOWN_ENGINE"):
        server_env.create(engine="/bin/sh")
    with pytest.raises(ApiError, match="ENGINE_NOT_INSTALLED"):
        server_env.create(engine="gemini")


@each("option", ["--frobnicate", ""])
def test_options_that_nothing_is_known_of_are_refused(server_env: ServerEnv, option: str) -> None:
    """An option that the contract doesn't define, or an empty one, is named in the error."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match=f"OPTION_REFUSED.*'{option}' is not a known option"):
        server_env.create(engine_options=[option])
    assert not list((server_env.cli_env.data / "runs").glob("*"))


@each(
    "schema",
    [{"type": "no such"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "#/nowhere"}, {"pattern": "("}],
)
def test_output_schemas_that_can_not_be_used_are_refused(server_env: ServerEnv, schema: dict[str, str]) -> None:
    """A schema that is invalid or refers to other documents is rejected, and nothing is fetched."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError, match="INVALID_OUTPUT_SCHEMA"):
        server_env.create(output_schema=schema)


@pytest.mark.parametrize("asked", ["odd", "link"])
def test_a_workspace_whose_path_is_no_text_is_refused(closed_server_env: ServerEnv, tmp_path: Path, asked: str) -> None:
    """A path that can't be stored is rejected before anything is created, even if a link names it."""
    root = tmp_path / "root"
    odd = Path(os.fsdecode(os.fsencode(root) + b"/\xff"))
    odd.mkdir(parents=True)
    (root / "link").symlink_to(odd)
    (odd / "odd").mkdir()
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    named = {"link": (root, "link"), "odd": (odd, "odd")}[asked]
    with closed_server_env.opened(workspace_root=named[0]), pytest.raises(ApiError, match=r"WORKSPACE_REFUSED.*UTF-8"):
        closed_server_env.create(workspace=named[1])
    assert not list(closed_server_env.settings.data.runs.glob("*"))
