import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import at_known_release
from tests.tables import each
from turngate import cli
from turngate.argv import build
from turngate.errors import NotFoundError, TurngateError, UsageError
from turngate.files import contract_files, use_overlay
from turngate.model import Mode
from turngate.process.executable import is_simulated
from turngate.turn.read import read_turn
from turngate_probes.simulate.backend import REPLY_VARIABLE
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import Hang, StubBackend, StubRule

HEAVY = {
    "click",
    "rich",
    "jsonschema",
    "subprocess",
    "http.client",
    "sqlite3",
    "turngate_probes.harness.driver",
    "turngate.process",
}


def test_the_executable_is_the_engine(tmp_path: Path) -> None:
    """An installed simulation runs under the engine's name; without a backend it asks first, then ends the task."""
    codex = at_known_release("codex")
    executable = install(codex, tmp_path / "a bin")
    assert executable.name == codex.executable
    assert is_simulated(executable)
    env, outcomes, handle = {"HOME": str(tmp_path)}, [], None
    for said in ("first", "blue"):
        built = (
            build.resumed_turn(codex, said, Mode.INTERACTIVE, handle)
            if handle
            else build.first_turn(codex, said, Mode.INTERACTIVE)
        )
        ran = subprocess.run(
            [executable, *built.arguments], input=built.stdin, capture_output=True, env=env, cwd=tmp_path, check=True
        )
        reading = read_turn(codex, Mode.INTERACTIVE, ran.stdout, ran.stderr, 0, resumed=handle)
        outcomes.append(reading.result.outcome.value)
        handle = reading.session.handle_value if reading.session else None
    assert outcomes == ["ask_user", "final"]


def test_a_folder_that_can_not_be_made_is_the_environments_fault(tmp_path: Path) -> None:
    """If the executable can't be written, or a file blocks its folder, an environment error names the path."""
    (tmp_path / "file").write_text("")
    (tmp_path / "codex").mkdir()
    for folder in (Path("/proc/x"), tmp_path / "file", tmp_path):
        with pytest.raises(TurngateError, match=r"(can't write .*codex|codex is another file)"):
            install(at_known_release("codex"), folder)


@pytest.mark.long
def test_the_executable_keeps_the_contracts_of_its_user(tmp_path: Path) -> None:
    """It needs no option in another folder; an engine that nobody simulates isn't installed."""
    own = tmp_path / "my"
    (own / "simulations").mkdir(parents=True)
    bundled = (contract_files()["pi"].parents[1] / "simulations/pi.yaml").read_text("utf-8")
    (own / "simulations/pi.yaml").write_text(bundled.replace('\nversion: "', '\nversion: "own '), "utf-8")
    try:
        assert cli.run(["--contracts", str(own), "simulate", "pi@1.3.0", "--install", str(tmp_path / "bin")]) == 0
        with pytest.raises(NotFoundError) as missing:
            install(replace(at_known_release("codex"), engine="acme"), tmp_path)
        assert missing.value.hint == f"describe it in {own}/simulations/acme.yaml"
    finally:
        use_overlay(None)
    ran = subprocess.run([tmp_path / "bin/pi", "--version"], cwd=tmp_path, capture_output=True, check=True)
    assert b"own 1.3.0" in ran.stdout + ran.stderr
    with pytest.raises(NotFoundError, match=r"no simulation of acme"):
        install(replace(at_known_release("codex"), engine="acme"), tmp_path)


@pytest.mark.parametrize("target", ["codex@9z", "codex@banana"])
def test_a_release_that_is_none_is_told(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped version is a usage error."""
    assert cli.run(["simulate", target, "x"]) == cli.UNANSWERED
    assert "isn't a version of codex" in capsys.readouterr().err


@pytest.mark.parametrize("number, exit_code", [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)])
def test_a_hanging_engine_ends_at_once(number: signal.Signals, exit_code: int, tmp_path: Path) -> None:
    """A signal ends the engine while it waits for its model, with the contract's exit code or the system's default."""
    codex = at_known_release("codex")
    built = build.first_turn(codex, "hi", Mode.INTERACTIVE, via="argument")
    with StubBackend() as stub:
        stub.script(StubRule(Hang()))
        env = {"HOME": str(tmp_path), "TURNGATE_SIMULATE_URL": stub.url}
        command, quiet = [str(install(codex, tmp_path)), *built.arguments], subprocess.DEVNULL
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, env=env) as engine:
            stub.on_exchange(lambda _: engine.send_signal(number))
            assert engine.wait(30) == exit_code


@pytest.mark.long
@pytest.mark.parametrize(
    "engine, number, exit_code", [("claude", signal.SIGINT, 0), ("copilot", signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_stopped_engine_reports_its_end(engine: str, number: signal.Signals, exit_code: int, tmp_path: Path) -> None:
    """A signal ends the engine with the record of its session id, and with the exit code of the real one."""
    contract = at_known_release(engine)
    built = build.first_turn(contract, "hi", Mode.INTERACTIVE)
    with StubBackend() as stub:
        stub.script(StubRule(Hang()))
        env, pipe = {"HOME": str(tmp_path), "TURNGATE_SIMULATE_URL": stub.url}, subprocess.PIPE
        command = [str(install(contract, tmp_path)), *built.arguments]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env) as process:
            stub.on_exchange(lambda _: process.send_signal(number))
            stdout, _ = process.communicate(built.stdin, timeout=30)
            assert process.returncode == exit_code
    assert read_turn(contract, Mode.INTERACTIVE, stdout, b"", exit_code).handle.occurrences


def test_another_program_is_not_overwritten(tmp_path: Path) -> None:
    """An existing file with the engine's name is not overwritten unless it is a simulation."""
    (tmp_path / "codex").write_text("the real one")
    with pytest.raises(UsageError, match="another file"):
        install(at_known_release("codex"), tmp_path)
    assert (tmp_path / "codex").read_text() == "the real one"


def test_starting_up_imports_little() -> None:
    """Printing the version imports no module that would slow down the start."""
    code = (
        "import sys; sys.argv[1:] = ['codex', '0.169.0', '--version']\n"
        "from turngate_probes.simulate.simulated_process import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "codex-cli 0.169.0\n"
    assert not HEAVY & set(ran.stderr.split())


def test_a_release_beyond_the_contract_is_refused() -> None:
    """An unknown engine is a usage error without a traceback."""
    code = "from turngate_probes.simulate.simulated_process import main; main()"
    ran = subprocess.run([sys.executable, "-c", code, "nosuch", "1"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "no contract for engine 'nosuch'" in ran.stderr
    assert "Traceback" not in ran.stderr


def _started(folder: Path, *faulty: str) -> "subprocess.Popen[bytes]":
    """Start a sticky engine."""
    executable = install(at_known_release("codex"), folder, faulty)
    pipe, env = subprocess.PIPE, {"HOME": str(folder)}
    return subprocess.Popen([executable, "app-server"], stdin=pipe, stdout=pipe, env=env, cwd=folder)


def _answer(process: "subprocess.Popen[bytes]", method: str) -> Any:
    """Send a request and return the response, which notifications may precede."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps({"id": method, "method": method, "params": {}}).encode() + b"\n")
    process.stdin.flush()
    return next(message for message in map(json.loads, process.stdout) if message.get("id") == method)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_that_is_kept(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends a sticky process at once while it waits for its client."""
    with _started(tmp_path) as process:
        _answer(process, "initialize")
        process.send_signal(number)
        assert process.wait(30) is not None


def test_what_ignores_termination_needs_a_kill(tmp_path: Path) -> None:
    """With the fault, the process still responds after both signals."""
    with _started(tmp_path, "ignores-termination") as process:
        _answer(process, "initialize")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert "thread" in _answer(process, "thread/start")["result"]
        process.kill()
        assert process.wait(30) == -signal.SIGKILL


def test_a_headless_turn_has_faults(tmp_path: Path) -> None:
    """The output and the exit code are those of the faults; a question such as `--version` has none."""
    executable = install(at_known_release("codex"), tmp_path, ("notice=careful", "omits-end", "exit-code=4", "forgets"))
    env, options = {"HOME": str(tmp_path)}, ("exec", "--json", "--skip-git-repo-check", "-")
    ran = subprocess.run([executable, *options], input=b"hi", env=env, cwd=tmp_path, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (4, b"careful")
    assert b"agent_message" in ran.stdout
    assert b"turn.completed" not in ran.stdout
    asked = subprocess.run([executable, "--version"], env=env, cwd=tmp_path, capture_output=True, check=True)
    assert asked.stderr == b""


def test_a_reader_that_is_gone_gets_no_traceback(tmp_path: Path) -> None:
    """It ends with one line on stderr, as a program does."""
    executable = install(at_known_release("codex"), tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    words: list[str | Path] = [executable, "exec", "--json", "--skip-git-repo-check", "hi"]
    ran = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        check=False,
    )
    os.close(writer)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == b"Broken pipe"
    assert b"Traceback" not in ran.stderr


@pytest.mark.long
@each(
    "engine, faulty, cut",
    [("codex", ("exits-undrained",), 1), ("codex", (), 0), ("gemini", (), 1), ("gemini", ("forgets",), 0)],
)
def test_what_a_pipe_does_not_take_at_once_is_lost(
    engine: str, faulty: tuple[str, ...], cut: int, tmp_path: Path
) -> None:
    """So it is with the fault and where the contract declares it; a file takes everything."""
    contract = at_known_release(engine)
    built, executable = build.first_turn(contract, "hi", Mode.INTERACTIVE), install(contract, tmp_path / "bin", faulty)
    command, env = [str(executable), *built.arguments], {"HOME": str(tmp_path), REPLY_VARIABLE: "x" * 120_000}
    file = tmp_path / "out"
    with file.open("wb") as out:
        subprocess.run(command, input=built.stdin, stdout=out, env=env, cwd=tmp_path, check=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(built.stdin or b"")
        process.stdin.close()
        if cut:
            assert process.wait(60) == 0
        printed = process.stdout.read()
    assert file.stat().st_size > 120_000
    assert (len(printed) < 120_000) == bool(cut)
