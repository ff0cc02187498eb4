"""What a workspace, a user's settings and marks in a prompt bring about in a simulated engine."""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.contract.home_and_workspace import ApprovalSetting, Canary, Control, InstructionFile, Redirect, SetupFile
from turngate.contract.launch import FileMark, Guards
from turngate_probes.simulate import settings_effects
from turngate_probes.simulate.backend import Answer, EngineContext, ModelRequest
from turngate_probes.stub_model import StubBackend

FILE = SetupFile("{work}/offer", "[run]\n{canary} by-file in {work}\n")
GUARDED, FREE = load.contract("opencode").at("1.18.33"), load.contract("codex").at("0.169.0")
GUARD = GUARDED.guards.env
BY_OPTION = Canary("by-option", "mcp", ("-c", 'run="{canary}"'))
BY_FILE = Canary("by-file", "hook", files=(FILE,))
TRUSTED = Canary("by-file", "hook", files=(FILE,), control=Control(("--trust",)))


def context(folder: Path, env: Mapping[str, str], asked: list[ModelRequest] | None = None) -> EngineContext:
    """Return the environment of an engine whose home and workspace is one folder; `asked` gets its requests."""

    def backend(request: ModelRequest) -> Answer:
        (asked if asked is not None else []).append(request)
        return "ok"

    def hang() -> NoReturn:
        raise AssertionError

    everything = {"HOME": str(folder), "PATH": str(folder), **env}
    return EngineContext(everything, str(folder), BytesIO(), lambda *_: None, hang, lambda: 0.0, backend)


def started(
    folder: Path, contract: EngineContract, canary: Canary, *options: str, env: dict[str, str] | None = None
) -> list[str]:
    """Offer a canary in a file and by options; return the markers it created."""
    program = folder / "canary"
    program.write_text(f'#!/bin/sh\n: > "{folder}/marker-$1"\n')
    program.chmod(0o755)
    (folder / "offer").write_text(f"[run]\n{program} by-file in {folder}\n")
    argv = [option.replace("{canary}", str(program)) for option in options]
    world = context(folder, env or {})
    settings_effects.visit(replace(contract, canaries=(canary,), redirects=()), argv, world)
    return sorted(path.name for path in folder.glob("marker-*"))


def test_what_an_option_offers_is_started(tmp_path: Path) -> None:
    """An option starts the canary even if workspace files are ignored."""
    assert started(tmp_path, GUARDED, BY_OPTION, "-c", 'run="{canary}"', env=dict(GUARD)) == ["marker-by-option"]


def test_what_nobody_offers_is_not_started(tmp_path: Path) -> None:
    """Another value of the same option starts nothing."""
    assert started(tmp_path, GUARDED, BY_OPTION, "-c", 'walk="{canary}"') == []


@pytest.mark.parametrize("env, markers", [({}, ["marker-by-file"]), (dict(GUARD), [])])
def test_a_guard_leaves_the_workspace_out(env: dict[str, str], markers: list[str], tmp_path: Path) -> None:
    """The engine starts what a workspace file names, unless the guard's variable makes it ignore such files."""
    assert started(tmp_path, GUARDED, BY_FILE, env=env) == markers


@pytest.mark.parametrize("options, markers", [((), []), (("--trust",), ["marker-by-file"])])
def test_what_needs_trust_waits_for_it(options: tuple[str, ...], markers: list[str], tmp_path: Path) -> None:
    """The file starts the program only with the trust that the control run passes."""
    assert started(tmp_path, FREE, TRUSTED, *options) == markers


def test_a_missing_file_offers_nothing(tmp_path: Path) -> None:
    """A canary with two files needs both."""
    both = Canary("by-file", "hook", files=(FILE, SetupFile("{work}/absent", "x")))
    assert started(tmp_path, FREE, both) == []


SETTINGS = SetupFile("{home}/settings.json", '{"may": {"write": true}, "trusts": ["{work}"]}')
ALLOWS = ApprovalSetting("allows", (SETTINGS,))
OPEN = Guards()
GUARDS = Guards(env={"PROMPT": ""})
ASKING = replace(FREE, approval_settings=(ALLOWS,), launch=replace(FREE.launch, interactive=("--ask",)))


@pytest.mark.parametrize("argv, acts", [((), True), (("--ask",), False), (("--ignore-user-config",), False)])
def test_a_setting_lets_it_act_unless_arguments_outrank_it(
    argv: tuple[str, ...], *, acts: bool, tmp_path: Path
) -> None:
    """The file may hold it among other things; arguments of mode interactive, or one to leave it unread, outrank it."""
    held = {"model": "x", "may": {"write": True, "read": True}, "trusts": ["/elsewhere", str(tmp_path)]}
    (tmp_path / "settings.json").write_text(json.dumps(held))
    assert settings_effects.lets_act(ASKING, argv, {"HOME": str(tmp_path)}, str(tmp_path)) is acts
    (tmp_path / "settings.json").write_text(json.dumps(held | {"trusts": []}))
    assert not settings_effects.lets_act(ASKING, (), {"HOME": str(tmp_path)}, str(tmp_path))


def redirected(
    folder: Path, redirect: Redirect, content: str, guards: Guards = OPEN, *, deviates: str = "", **env: str
) -> list[str]:
    """Put a redirect into the workspace; return what the engine says to its model besides the conversation."""
    (folder / ".env").write_text(f"OTHER=1\n{content}")
    asked = list[ModelRequest]()
    declared = (Deviation("workspace.cannot-redirect", deviates, ""),)
    contract = replace(FREE, canaries=(), redirects=(redirect,), guards=guards, deviations=declared)
    world = settings_effects.visit(contract, (), context(folder, env, asked))
    world.backend(ModelRequest("stub", [], []))
    return [message["content"] for message in asked[0].messages]


@pytest.mark.parametrize(
    "guards, deviates, said",
    [(OPEN, "", ["planted"]), (GUARDS, "", []), (GUARDS, "program", []), (GUARDS, "system-prompt", ["planted"])],
)
def test_a_workspace_replaces_the_system_prompt_unless_a_variable_is_set(
    guards: Guards, deviates: str, said: list[str], tmp_path: Path
) -> None:
    """The text reaches the model where the guard's variable is missing, or where a deviation says that it fails."""
    redirect = Redirect("prompt", "system-prompt", (SetupFile("{work}/.env", "PROMPT={marker}\n"),))
    assert redirected(tmp_path, redirect, "PROMPT=planted\n", guards, deviates=deviates, **guards.env) == said


def test_a_workspace_sends_requests_and_keys_elsewhere(tmp_path: Path) -> None:
    """An address gets a request, and the backend gets the planted key."""
    with StubBackend() as stranger, StubBackend() as backend:
        address = Redirect("address", "address", (SetupFile("{work}/.env", "URL={stranger}\n"),))
        redirected(tmp_path, address, f"URL={stranger.url}/address\n")
        key = Redirect("key", "credentials", (SetupFile("{work}/.env", "KEY={planted}\n"),))
        redirected(tmp_path, key, "KEY=sk-planted\n", TURNGATE_SIMULATE_URL=backend.url)
    assert [request.path for request in stranger.exchanges()] == ["/address/v1/chat/completions"]
    assert [request.headers["authorization"] for request in backend.exchanges()] == ["Bearer sk-planted"]


@pytest.mark.parametrize("kind, started", [("container", "run"), ("program", "launch")])
def test_a_workspace_starts_programs(kind: Literal["container", "program"], started: str, tmp_path: Path) -> None:
    """A container is started by the first such program of PATH, any other program by its path."""
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\n: > "{tmp_path}/marker-$1"\n')
    program.chmod(0o755)
    redirected(tmp_path, Redirect("launch", kind, (SetupFile("{work}/.env", "RUN={canary}\n"),)), f"RUN={program}\n")
    assert (tmp_path / f"marker-{started}").exists()


def test_a_mark_sends_the_file(tmp_path: Path) -> None:
    """A mark of the contract puts the file after the prompt; a text without one, or a missing file, adds nothing."""
    contract = replace(FREE, file_marks=(FileMark(r"(?<!\S)@(?P<path>\S+)"),))
    (tmp_path / "note").write_text("secret")
    env = {"HOME": str(tmp_path)}
    said = [settings_effects.files_named(contract, text, env, "/") for text in ("see @~/note", "me@~/note", "@absent")]
    assert said == ["\nsecret", "", ""]


def test_the_workspace_s_instructions_reach_the_model_unless_something_leaves_them_out(tmp_path: Path) -> None:
    """The contract says so for a mode; a missing file has none."""
    file = InstructionFile("ACME.md", left_out={"interactive": "--safe"})
    contract = replace(FREE, instruction_files=(file,))
    assert settings_effects.instructions(contract, {}, str(tmp_path), auto=True) == ""
    (tmp_path / "ACME.md").write_text("Be brief.")
    assert settings_effects.instructions(contract, {}, str(tmp_path), auto=True) == "Be brief."
    assert settings_effects.instructions(contract, {}, str(tmp_path), auto=False) == ""
