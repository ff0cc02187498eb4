"""Tests of the engine catalogue: each engine is asked once, in the background, and lookups are cheap."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec import to_builtins

from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.probes.simulate.played import at_known_release
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ASK, ServerEnv
from turngate.argv.environment import engine_environment, session_locations
from turngate.argv.trust import Trust
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.verdict import Verdict
from turngate.errors import ContractError, NotInstalledError
from turngate.files import default_cache
from turngate.model import EngineResumeCapability
from turngate.process import executable
from turngate.process.executable import identity
from turngate.process.execution import Stop
from turngate.process.probe_results import ProbeResult, save_result
from turngate_probes.simulate.simulated_process import install
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.profiles import Profiles
from turngate_reference.server.orchestrator.verification import Verifier, Verify


def catalogue(
    cli_env: CliEnv, stop: Stop | None = None, verify: Verify = Verify.OFF, clock: Callable[[], float] = time.monotonic
) -> Engines:
    """Return a catalogue of the engines on the environment's PATH."""

    def environment(contract: EngineContract) -> dict[str, str]:
        return engine_environment(contract, os.environ, session_locations(contract, os.environ))

    stop = stop or Stop()
    verifier = Verifier(verify, cli_env.root, stop)
    profiles = Profiles(verifier, environment, stop)
    return Engines(DataDir(cli_env.data), stop, profiles, environment, clock=clock)


@pytest.fixture(name="engines")
def _engines(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engines]:
    """Provide a catalogue of the engines on PATH that leaves no engine running."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    stop = Stop()
    engines = catalogue(cli_env, stop)
    yield engines
    stop.set()
    engines.collect()


def asked(cli_env: CliEnv, word: str, engine: str = "codex") -> int:
    """Count the calls of an engine for its version or help that contain a word."""
    calls = cli_env.path / f"{engine}.asked"
    return calls.read_text().count(f"'{word}'") if calls.exists() else 0


def row(engines: Engines, engine: str = "codex", patience: float = 30) -> dict[str, Any]:
    """Return the catalogue's entry for one engine."""
    only: dict[str, Any]
    (only,) = (row for row in to_builtins(engines.every(patience)) if row["engine"] == engine)
    return only


def slow(cli_env: CliEnv, name: str = "codex") -> None:
    """Install an engine that prints its version only after something is written to its fifo."""
    cli_env.package(name)
    os.mkfifo(cli_env.path / "go")
    path = cli_env.path / name
    path.write_text(f"#!/bin/sh\necho $1 >> {path}.calls\nread line < {cli_env.path}/go\necho codex-cli 0.169.0\n")
    path.chmod(0o755)


def test_an_engine_is_found_with_the_claims_of_its_release(cli_env: CliEnv, engines: Engines) -> None:
    """The executable, version and contract are those of the engine on PATH."""
    path = cli_env.engine("codex", d.codex("hi"), version="codex-cli 0.60.0")
    engine = engines.find("codex")
    assert (engine.executable, engine.version) == (path, "0.60.0")
    assert engine.contract == load.contract("codex").at("0.60.0")


def test_an_engine_that_is_not_there_differs_from_one_that_nobody_knows(engines: Engines) -> None:
    """A known engine that isn't installed gives another error than an unknown one."""
    with pytest.raises(NotInstalledError, match="codex on PATH") as raised:
        engines.find("codex")
    assert "npm install" in raised.value.hint
    with pytest.raises(ContractError, match="no contract"):
        engines.find("kodex")


def test_an_engine_is_asked_once(cli_env: CliEnv, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the engine's version nor its contract is read again."""
    cli_env.engine("codex", d.codex("hi"))
    first = engines.find("codex")
    monkeypatch.setattr(load, "parse", lambda *_, **__: pytest.fail("a contract was read again"))
    monkeypatch.setattr(executable, "run", lambda *_, **__: pytest.fail("the engine was run again"))
    assert engines.find("codex") is first


def test_all_who_ask_at_once_get_one_answer(cli_env: CliEnv, engines: Engines) -> None:
    """The version is asked for once, however many runs start at the same time."""
    slow(cli_env)
    with ThreadPoolExecutor(8) as pool:
        lookups = [pool.submit(engines.find, "codex") for _ in range(8)]
        (cli_env.path / "go").write_text("\n")
        assert len({id(lookup.result()) for lookup in lookups}) == 1
    assert (cli_env.path / "codex.calls").read_text() == "--version\n"


def test_another_file_in_its_place_is_another_engine(cli_env: CliEnv, engines: Engines) -> None:
    """An upgrade, a removal and a move to another PATH directory are noticed at the next lookup."""
    path = cli_env.engine("codex", d.codex("hi"))
    assert engines.find("codex").version == "0.169.0"
    cli_env.engine("codex", d.codex("hi"), version="codex-cli 0.140.0")
    newer = path.with_name("newer")
    newer.write_bytes(path.read_bytes())
    newer.chmod(0o755)
    newer.replace(path)
    assert engines.find("codex").version == "0.140.0"
    path.unlink()
    with pytest.raises(NotInstalledError, match="codex on PATH"):
        engines.find("codex")


def test_a_release_that_depends_on_the_directory_is_that_of_the_turn(
    cli_env: CliEnv, engines: Engines, tmp_path: Path
) -> None:
    """It is asked there each time, its help pages are read there, and a proof of one release is none of another."""
    cli_env.engine_by_directory(d.codex(ASK))
    folder = tmp_path / "project"
    folder.mkdir()
    assert (engines.find("codex").version, engines.find("codex", folder).version) == ("0.169.0", "0.169.0")
    (folder / "pin").touch()
    there, here = engines.find("codex", folder), engines.find("codex")
    assert (there.version, there.contract.version, here.version) == ("0.147.0", "0.147.0", "0.169.0")
    assert there.key != here.key
    asked = cli_env.root / "0.147.0/path/codex.asked"
    before = asked.read_text().count("'--help'")
    engines.interactive_profile(there, None)
    assert asked.read_text().count("'--help'") > before


def test_a_run_is_read_by_the_release_of_its_workspace(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """The run says which release it was, although the server knows another one in its own directories."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/pin").touch()
    closed_server_env.cli_env.engine_by_directory(d.codex(ASK))
    closed_server_env.keep_session()
    trusting = Trust(workspaces=(root / "a",))
    with closed_server_env.opened(workspace_root=root, trust=trusting) as server:
        assert server.engines.find("codex").version == "0.169.0"
        run_id, _ = closed_server_env.ask(workspace="a")
        assert closed_server_env.run(run_id).engine_version == "0.147.0"


def test_an_engine_without_a_version_is_asked_again_after_a_minute(cli_env: CliEnv, tmp_path: Path) -> None:
    """Until then, it runs with the newest claims."""
    now = [0.0]
    engines = catalogue(cli_env, clock=lambda: now[0])
    cli_env.engine("codex", d.codex("hi"), version="who knows")
    assert (engines.find("codex").version, engines.find("codex").contract.version) == (None, None)
    assert asked(cli_env, "--version") == 1
    cli_env.engine("codex", d.codex("hi"))
    now[0] = 60.0
    assert engines.find("codex").version == "0.169.0"


def test_an_engine_that_can_not_be_started_is_there_all_the_same(cli_env: CliEnv, engines: Engines) -> None:
    """It is listed without a version and retried at most once a minute; the run reports what is wrong."""
    cli_env.path.mkdir()
    path = cli_env.path / "codex"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert (row(engines)["executable"], row(engines)["version"]) == (str(path), None)
    assert engines.find("codex") is engines.find("codex")


def test_engines_are_asked_without_the_secrets_of_the_server(
    cli_env: CliEnv, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examined engines get only the environment that the contract allows."""
    for name in ("SERVER_SECRET", "CODEX_HOME"):
        monkeypatch.setenv(name, "x")
    cli_env.path.mkdir()
    path = cli_env.path / "codex"
    path.write_text(f"#!/bin/sh\nenv > {cli_env.path}/env\necho codex-cli 0.169.0\n")
    path.chmod(0o755)
    engines.collect()
    env = (cli_env.path / "env").read_text()
    assert "CODEX_HOME=x" in env
    assert "SERVER_SECRET" not in env


def test_every_contracted_engine_is_listed(cli_env: CliEnv, engines: Engines) -> None:
    """Engines that aren't installed are listed too, with the contract's data, and nothing is run for that."""
    rows = to_builtins(engines.every())
    assert [listed["engine"] for listed in rows] == list(load.engine_names())
    for listed in rows:
        contract = load.contract(listed["engine"]).at()
        assert listed == {
            "engine": contract.engine,
            "title": contract.title,
            "contract_version": contract.contract_version,
            "lifecycle": contract.lifecycle.status,
            "sticky": listed["sticky"],
            "executable": None,
            "simulated": False,
            "version": None,
            "capability": None,
            "profile": None,
            "help_missing": [],
            "last_probe": None,
            "verified": None,
            "verified_detail": None,
            "verified_at": None,
            "tools_lost": [
                {"tool": tool, "detail": lost.why} for lost in contract.unavailable_tools for tool in lost.tools
            ],
        }


def test_how_a_process_is_kept_is_listed(cli_env: CliEnv, engines: Engines) -> None:
    """The list shows the contract's sticky process for each engine, and whether it was seen working."""
    cli_env.engine("codex", d.codex("hi"))
    assert row(engines)["sticky"] == {
        "supported": True,
        "transport": "app_server",
        "verified": True,
        "asks": True,
        "same_id": True,
        "own_store": False,
        "detail": "uses app_server; verified with this release",
    }
    for listed in to_builtins(engines.every()):
        contract = load.contract(listed["engine"]).at(listed["version"])
        shown, verified = listed["sticky"], "sticky" not in contract.unverified
        assert (shown["transport"], shown["same_id"]) == (
            contract.sticky.transport,
            contract.sticky.keeps_session_id,
        )
        assert shown["verified"] == (shown["supported"] and verified)
        assert ("not yet seen" in shown["detail"]) == (shown["supported"] and not verified)


@pytest.mark.parametrize("engine", first_quick(["codex", "gemini", "opencode", "claude", "qwen"]))
def test_a_simulated_engine_is_never_verified(cli_env: CliEnv, engines: Engines, engine: str) -> None:
    """A simulated engine is listed as simulated and proves nothing, even if its contract is verified."""
    install(at_known_release(engine), cli_env.path)
    listed = row(engines, engine)
    assert listed["simulated"]
    assert listed["version"] == at_known_release(engine).version
    assert listed["sticky"]["supported"]
    assert not listed["sticky"]["verified"]
    assert "proves nothing" in listed["sticky"]["detail"]
    assert listed["verified"] == "unproven"


def test_a_fresh_server_knows_what_its_engines_can_do(server_env: ServerEnv) -> None:
    """Capability and profile are known before any run, and the next interactive run tests nothing again."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.server.engines.collect()
    codex = row(server_env.server.engines)
    assert (codex["capability"]["supported"], codex["profile"]["kind"]) == (True, "resumable")
    calls = asked(server_env.cli_env, "--help")
    server_env.ask()
    assert asked(server_env.cli_env, "--help") == calls


def test_what_was_collected_is_listed(cli_env: CliEnv, engines: Engines) -> None:
    """Version and help pages are read once, before anybody needs them."""
    path = cli_env.engine("codex", d.codex("hi"), help_page="--json resume --jsonl")
    cli_env.engine("gemini", d.gemini("hi"))
    engines.collect()
    codex = row(engines)
    assert (codex["executable"], codex["version"]) == (str(path), "0.169.0")
    assert {"--model", "SESSION_ID"} <= set(codex["help_missing"])
    assert not {"--json", "resume"} & set(codex["help_missing"])
    assert (row(engines, "gemini")["version"], row(engines, "gemini")["help_missing"]) == ("0.61.0", [])
    engines.collect()
    pages = len(load.contract("codex").at().help.pages)
    assert (asked(cli_env, "--version"), asked(cli_env, "--help")) == (1, pages)


def test_the_list_looks_at_what_is_new(cli_env: CliEnv, engines: Engines) -> None:
    """An engine installed later is listed with its version at once."""
    assert row(engines)["executable"] is None
    cli_env.engine("codex", d.codex("hi"))
    assert row(engines)["version"] == "0.169.0"


def test_the_list_waits_for_nobody(cli_env: CliEnv, engines: Engines) -> None:
    """An engine that doesn't print its version delays neither the other engines nor the list."""
    slow(cli_env)
    gemini = cli_env.engine("gemini", d.gemini("hi"))
    assert row(engines, patience=0)["version"] is None
    assert row(engines, "gemini", patience=0)["executable"] == str(gemini)
    (cli_env.path / "go").write_text("\n")
    assert engines.find("codex").version == "0.169.0"
    assert row(engines, patience=0)["version"] == "0.169.0"


def test_collecting_does_not_rely_on_what_was_begun_before(
    cli_env: CliEnv, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that is installed while it is being looked for is found."""
    find, looked, installed = engines.find, threading.Event(), threading.Event()

    def once(name: str) -> InstalledEngine:
        if name == "codex" and not looked.is_set():
            looked.set()
            installed.wait()
            raise NotInstalledError("codex is not on PATH")
        return find(name)

    monkeypatch.setattr(engines, "find", once)
    first, second = threading.Thread(target=engines.collect), threading.Thread(target=engines.collect)
    first.start()
    looked.wait()
    cli_env.engine("codex", d.codex("hi"))
    second.start()
    installed.set()
    first.join()
    second.join()
    assert row(engines, patience=0)["capability"]["supported"]


def test_collecting_ends_with_the_server(cli_env: CliEnv) -> None:
    """Stopping the server ends the engines that are being examined."""
    slow(cli_env)
    stop = Stop()
    engines = catalogue(cli_env, stop)
    collecting = threading.Thread(target=engines.collect)
    collecting.start()
    # opened once the engine reads, and never written to
    with (cli_env.path / "go").open("w"):
        stop.set()
        collecting.join(30)
    assert not collecting.is_alive()


def test_what_is_known_of_resuming_is_listed(cli_env: CliEnv, engines: Engines) -> None:
    """Capability and profile are listed with their reason, and are null until the engine was examined."""
    cli_env.engine("codex", d.codex("hi"), help_page="")
    codex = row(engines, patience=0)
    assert (codex["capability"], codex["profile"]) == (None, None)
    engines.collect()
    codex = row(engines)
    assert codex["capability"]["supported"] is False
    assert codex["capability"]["detail"].startswith("help: `codex exec --help` does not list resume; ")
    assert codex["profile"] == {"kind": "sticky_process", "reason": codex["capability"]["detail"]}


def test_the_last_probe_is_listed(cli_env: CliEnv, engines: Engines) -> None:
    """The result of this executable's last probe is listed until the executable is replaced."""
    path = cli_env.engine("codex", d.codex("hi"))
    assert row(engines)["last_probe"] is None
    able = EngineResumeCapability(supported=True, probe_method="command", detail="")
    save_result(
        ProbeResult(
            engine="codex",
            executable=os.path.realpath(path),
            identity=identity(path),
            version="0.169.0",
            contract_version=load.contract("codex").at().contract_version,
            verdict=Verdict.DEGRADED,
            clause_set="2026-12",
            capability=able,
            at=datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC),
            turngate="0.1.0",
        ),
        default_cache(),
    )
    assert row(engines)["last_probe"] == {
        "verdict": "degraded",
        "clause_set": "2026-12",
        "level": "hermetic",
        "version": "0.169.0",
        "at": "2026-11-22T01:02:03Z",
        "supported": True,
    }
    listed = {key: value for key, value in row(engines).items() if key.startswith("verified")}
    assert listed == {
        "verified": "proven",
        "verified_detail": "",
        "verified_at": "2026-11-22T01:02:03Z",
    }
    path.touch()
    assert (row(engines)["last_probe"], row(engines)["verified"]) == (None, "unproven")


def test_an_engine_is_looked_at_once_a_thread_is_free_again(
    cli_env: CliEnv, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a look that never began."""
    cli_env.engine("codex", d.codex("hi"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", mock.Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError, match="new thread"):
            engines.collect()
    collecting = threading.Thread(target=engines.collect, daemon=True)
    collecting.start()
    collecting.join(PATIENCE)
    assert not collecting.is_alive()
    assert row(engines, patience=0)["version"] == "0.169.0"
