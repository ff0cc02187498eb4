"""Tests that engines are verified in a separate process, one at a time, and that interactive runs wait for it."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import to_builtins

from tests.patience import PATIENCE
from tests.probes import engines as probes
from tests.reference import cli_env as d
from tests.reference.server.sticky_env import slots_are_free
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.contract import load
from turngate.contract.verdict import Verdict
from turngate.files import default_cache, use_overlay
from turngate.model import EngineResumeCapability
from turngate.process.copied_values import copied_values
from turngate.process.executable import MARKER, identity
from turngate.process.execution import Stop
from turngate.process.probe_results import ProbeResult, save_result
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import engines, transitions, verification
from turngate_reference.server.orchestrator.verification import Status, Verified, Verifier, Verify
from turngate_reference.server.store.database import Store
from turngate_reference.states import State


def report(detail: str, failed: str = "", *, able: bool | None = None) -> str:
    """Return a report of the command; None: whether the engine resumes stayed open."""
    capability = None if able is None else {"supported": able, "probe_method": "command", "detail": detail}
    clause = {"id": "resume.accepted", "result": "pass" if able else "not_run", "detail": detail}
    why = {"reason": "wrapper", "what": failed, "hint": "mend it"} if failed else None
    return json.dumps({"releases": [{"capability": capability, "failed": why, "clauses": [clause]}]})


PROVEN = report("seen", able=True)
REFUTED = report("forgot", able=False)
OPEN = report("seen")


class Stand:
    """A stand-in for `turngate probe --resume`: writes its target to `asked`, and prints what `answer` gets."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked, self._answer = root / "asked", root / "answer"
        for fifo in (self._asked, self._answer):
            os.mkfifo(fifo)
        self._code = f"open({str(self._asked)!r}, 'w').write(sys.argv[-1]); print(open({str(self._answer)!r}).read())"
        self._monkeypatch = monkeypatch

    def install(self, code: str = "") -> None:
        """Install it in place of the command; `code` replaces what it does."""
        command = (sys.executable, "-IS", "-c", f"import os, sys, time; {code or self._code}")
        self._monkeypatch.setattr(verification, "_COMMAND", command)

    def asked(self) -> str:
        """Wait until a verification starts; return its target."""
        return self._asked.read_text()

    def answer(self, text: str) -> None:
        """Make it print something and exit."""
        self._answer.write_text(text)


@pytest.fixture(name="stand")
def _stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Replace the command, and use a separate cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    stand = Stand(tmp_path, monkeypatch)
    stand.install()
    return stand


@pytest.fixture(name="verifying_env")
def _verifying_env(closed_server_env: ServerEnv, stand: Stand) -> Iterator[ServerEnv]:
    """Provide a server that verifies, in the background, a Codex that has not been probed yet."""
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    closed_server_env.keep_session()
    closed_server_env.open(verify=Verify.BACKGROUND)
    yield closed_server_env
    closed_server_env.server.close()


def installed(root: Path, name: str = "codex") -> InstalledEngine:
    """Install an executable."""
    path = root / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return InstalledEngine(path, None, load.contract(name).at(), identity(path))


def ruled(root: Path, engine: InstalledEngine | None = None) -> Verified:
    """Verify an engine with the stand-in for the command."""
    verifier, engine = Verifier(Verify.BACKGROUND, root, Stop()), engine or installed(root)
    verifier.verify(engine)
    return verifier.status(engine)


def test_a_simulated_engine_is_not_run(tmp_path: Path, stand: Stand) -> None:
    """It would prove nothing about the real one, and a recording one would record the server's calls."""
    started = tmp_path / "started"
    stand.install(f"open({str(started)!r}, 'w')")
    engine = installed(tmp_path)
    engine.executable.write_bytes(b"#!/bin/sh\n" + MARKER + b"\n")
    result = ruled(tmp_path, engine)
    assert (result.status, "simulated" in result.detail, started.exists()) == (Status.UNPROVEN, True, False)


def codex(server_env: ServerEnv) -> dict[str, Any]:
    """Return the server's entry for Codex."""
    listed: dict[str, Any]
    (listed,) = (row for row in to_builtins(server_env.server.engines.every()) if row["engine"] == "codex")
    return listed


@pytest.mark.parametrize(
    "printed, code, status, detail",
    [
        (PROVEN, 0, "proven", "seen"),
        (PROVEN, 1, "proven", "seen"),
        (REFUTED, 1, "refuted", "forgot"),
        (OPEN, 1, "unproven", "resume.accepted: seen"),
        (OPEN, 2, "unproven", "resume.accepted: seen"),
        (report("", "it breaks the sandbox"), 2, "unproven", "it breaks the sandbox (mend it)"),
    ],
)
def test_what_the_command_prints_is_known(
    stand: Stand, tmp_path: Path, printed: str, code: int, status: str, detail: str
) -> None:
    """Status, detail and time are known, and the same file is not verified again."""
    stand.install(f"print({printed!r}); sys.exit({code})")
    verifier, engine = Verifier(Verify.BACKGROUND, tmp_path, Stop()), installed(tmp_path)
    assert verifier.status(engine).status is Status.PENDING
    verifier.verify(engine)
    known = verifier.status(engine)
    assert (known.status.value, known.detail) == (status, detail)
    assert known.at
    stand.install("sys.exit('run again')")
    verifier.verify(engine)
    assert verifier.status(engine) == known


@pytest.mark.parametrize(
    "code, why",
    [
        ("sys.exit('no room')", "turngate probe: exit code 1: no room"),
        ("print('who knows')", "turngate probe: exit code 0"),
        ("print('{\"releases\": []}')", "turngate probe: exit code 0"),
        ("print('x' * 2**22)", "turngate probe: exit code 0"),
        ("os.kill(os.getpid(), 9)", "turngate probe: exit code -9"),
        (f"print({PROVEN!r}); sys.exit(3)", "turngate probe: exit code 3"),
    ],
)
def test_a_command_that_fails_proves_nothing(
    stand: Stand, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, why: str
) -> None:
    """The engine stays unproven, the detail is the command's error, and the log has it, too."""
    stand.install(code)
    verified = ruled(tmp_path)
    assert (verified.status, verified.detail) == (Status.UNPROVEN, why)
    assert caplog.messages == [f"codex={tmp_path}/codex was not verified: {why}"]


def test_a_command_that_hangs_is_ended(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification has a time limit."""
    monkeypatch.setattr(verification, "DEADLINE", 0.1)
    stand.install("time.sleep(600)")
    assert ruled(tmp_path).detail == "turngate probe: timed out after 0 s"


def test_without_a_command_nothing_is_proven(tmp_path: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the program doesn't exist, this is the reason."""
    monkeypatch.setattr(verification, "_COMMAND", ("/missing/turngate",))
    assert "could not be started" in ruled(tmp_path).detail


def test_the_command_knows_the_engine_and_the_contracts(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command gets the executable, and the contract folder that overrides the bundled contracts."""
    monkeypatch.chdir(tmp_path)
    engine = installed(tmp_path)
    use_overlay(Path("mine"))  # relative to this directory, not to that of the command
    stand.install("sys.exit(' '.join(sys.argv[1:]))")
    reported = f"turngate probe: exit code 1: --contracts {tmp_path}/mine probe --resume --json codex={tmp_path}/codex"
    (tmp_path / "elsewhere").mkdir()
    try:
        assert ruled(tmp_path / "elsewhere", engine).detail == reported
    finally:
        use_overlay(None)


def test_one_engine_is_verified_at_a_time(stand: Stand, tmp_path: Path) -> None:
    """The second command starts only after the first has ended."""
    verifier = Verifier(Verify.BACKGROUND, tmp_path, Stop())
    both = [installed(tmp_path, name) for name in ("codex", "gemini")]
    threads = [threading.Thread(target=verifier.verify, args=(engine,)) for engine in both]
    for thread in threads:
        thread.start()
    first = stand.asked()
    assert {verifier.status(engine).status for engine in both} == {Status.PENDING}
    # if the second had started, the fifo would get its text too
    stand.answer(PROVEN)
    second = stand.asked()
    assert {first.partition("=")[0], second.partition("=")[0]} == {"codex", "gemini"}
    assert [verifier.status(engine).status for engine in both].count(Status.PENDING) == 1
    stand.answer(PROVEN)
    for thread in threads:
        thread.join(PATIENCE)
    assert {verifier.status(engine).status for engine in both} == {Status.PROVEN}


def test_what_is_verified_is_the_file_that_was_there(stand: Stand, tmp_path: Path) -> None:
    """If the executable is replaced during verification, neither the old nor the new file has a result."""
    verifier, engine = Verifier(Verify.BACKGROUND, tmp_path, Stop()), installed(tmp_path)
    thread = threading.Thread(target=verifier.verify, args=(engine,))
    thread.start()
    stand.asked()
    engine.executable.write_text("#!/bin/sh\n: another one\n")
    stand.answer(PROVEN)
    thread.join(PATIENCE)
    assert verifier.status(engine).status is Status.PENDING


def test_a_cache_that_can_not_be_read_is_no_result(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is still known to this server."""
    (tmp_path / "cache").write_text("")
    stand.install(f"print({PROVEN!r})")
    assert ruled(tmp_path).status is Status.PROVEN


def test_a_server_that_ends_ends_its_verification(verifying_env: ServerEnv, stand: Stand) -> None:
    """No process of the verification is left, however the server ends."""
    stand.asked()
    verifying_env.server.close()
    below = psutil.Process().children(recursive=True)
    for process in below:
        with suppress(psutil.NoSuchProcess):
            assert "--resume" not in process.cmdline()
    assert codex(verifying_env)["verified"] == "pending"


def test_interactive_runs_wait_until_their_engine_is_verified(verifying_env: ServerEnv, stand: Stand) -> None:
    """They stay queued and hold no slot; auto runs, and runs of engines already known, continue."""
    server_env = verifying_env
    assert stand.asked() == f"codex={server_env.cli_env.path}/codex"
    held_back = [server_env.create(execution_mode="interactive") for _ in range(3)]
    reported = codex(server_env)
    assert (reported["verified"], reported["capability"], reported["profile"]) == ("pending", None, None)
    server_env.wait(server_env.create(), State.FAILED)  # its engine asks, which nobody may answer
    assert slots_are_free(server_env)
    assert {server_env.run(run_id).state for run_id in held_back} == {State.QUEUED}
    server_env.server.commands.cancel(held_back[0])
    assert server_env.run(held_back[0]).state is State.CANCELED
    stand.answer(REFUTED)
    run = server_env.wait(held_back[1], *State)
    server_env.wait(held_back[2], *State)
    while run.profile is None:
        run = server_env.run(held_back[1])
    assert run.profile.kind == "sticky_process"
    assert run.profile.reason.startswith("verified on the wire: sessions are not resumed: forgot (")
    reported = codex(server_env)
    assert (reported["verified"], reported["verified_detail"]) == ("refuted", "forgot")
    assert reported["profile"]["kind"] == "sticky_process"


def test_a_run_that_asks_for_a_sticky_process_waits_for_no_proof(verifying_env: ServerEnv, stand: Stand) -> None:
    """It starts at once, although a run before it in the queue has to wait for the same engine."""
    assert stand.asked()
    waits = verifying_env.create(execution_mode="interactive")
    starts = verifying_env.create(execution_mode="interactive", interactive_profile="sticky_process")
    verifying_env.wait_for_event(starts, "turn.started", 1)
    assert verifying_env.run(waits).state is State.QUEUED


def test_a_proven_engine_resumes(verifying_env: ServerEnv, stand: Stand) -> None:
    """The run starts once the result is known, and its second turn doesn't wait."""
    server_env = verifying_env
    stand.asked()
    run_id = server_env.create(execution_mode="interactive")
    stand.answer(PROVEN)
    question = server_env.question(run_id)
    profile = server_env.run(run_id).profile
    assert profile
    assert profile.kind == "resumable"
    assert profile.reason.startswith("verified on the wire: seen (")
    # another file in its place has yet to be verified, but this run has started
    codex_file = server_env.cli_env.path / "codex"
    codex_file.write_text(codex_file.read_text() + "\n")
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


def test_an_engine_that_is_not_proven_is_judged_by_the_other_layers(verifying_env: ServerEnv, stand: Stand) -> None:
    """A verification that couldn't be completed blocks no run."""
    stand.asked()
    run_id = verifying_env.create(execution_mode="interactive")
    stand.answer("")
    verifying_env.question(run_id)
    profile = verifying_env.run(run_id).profile
    assert profile
    assert profile.reason.startswith("session store: ")
    assert profile.reason.endswith("; not verified on the wire: turngate probe: exit code 0")


def test_a_restart_goes_on_waiting(verifying_env: ServerEnv, stand: Stand) -> None:
    """A run that was held back is still queued, and starts once the next server has the result."""
    stand.asked()
    run_id = verifying_env.create(execution_mode="interactive")
    verifying_env.server.close()
    verifying_env.open()
    stand.asked()
    assert verifying_env.run(run_id).state is State.QUEUED
    stand.answer(PROVEN)
    verifying_env.question(run_id)


def test_another_file_is_verified_before_the_next_run(verifying_env: ServerEnv, stand: Stand) -> None:
    """A release that replaces a proven one is held back until it is verified, too."""
    stand.asked()
    stand.answer(PROVEN)
    verifying_env.ask()
    path = verifying_env.cli_env.path / "codex"
    path.write_text(path.read_text() + "\n")
    run_id = verifying_env.create(execution_mode="interactive")
    stand.asked()
    assert verifying_env.run(run_id).state is State.QUEUED
    stand.answer(REFUTED)
    run = verifying_env.wait(run_id, *State)
    while run.profile is None:
        run = verifying_env.run(run_id)
    assert run.profile.kind == "sticky_process"


def test_a_run_that_comes_while_the_queue_is_read_waits_for_the_verification(
    verifying_env: ServerEnv, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is created after the dispatcher has asked which engines are settled, and before it reads the queue."""
    read, created, again = transitions.first_turns, list[str](), threading.Event()

    def first_turns(store: Store) -> list[str]:
        found = read(store)
        if created:
            again.set()
        else:
            created.append("")
            created[0] = verifying_env.create(execution_mode="interactive")
        return found

    monkeypatch.setattr(transitions, "first_turns", first_turns)
    verifying_env.server.owner.kick()
    assert again.wait(PATIENCE)
    assert verifying_env.run(created[0]).state is State.QUEUED
    stand.asked()
    stand.answer(PROVEN)
    verifying_env.question(created[0])


def test_an_executable_that_always_changes_keeps_nobody_waiting(
    verifying_env: ServerEnv, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After several failed verifications, its runs start without a guarantee."""
    path = verifying_env.cli_env.path / "codex"
    run_id = verifying_env.create(execution_mode="interactive")
    for _ in range(engines._LOOKS):
        stand.asked()
        path.touch()
        stand.answer(PROVEN)
    verifying_env.question(run_id)


def test_a_server_may_verify_before_it_serves(closed_server_env: ServerEnv, stand: Stand) -> None:
    """With `wait`, every result is known before the server starts working."""
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    stand.install(f"print({PROVEN!r})")
    with closed_server_env.opened(verify=Verify.WAIT):
        assert codex(closed_server_env)["verified"] == "proven"


def test_a_server_that_may_not_verify_runs_nothing(closed_server_env: ServerEnv, stand: Stand) -> None:
    """With `off`, the other checks decide at once."""
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    closed_server_env.keep_session()
    stand.install("sys.exit('run')")
    with closed_server_env.opened():
        closed_server_env.ask()
        reported = codex(closed_server_env)
    assert (reported["verified"], reported["verified_detail"], reported["verified_at"]) == (
        "unproven",
        "verification is turned off",
        None,
    )


def test_a_saved_proof_holds_for_the_same_settings_alone(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values of listed settings are verified again; a probe, which runs without them, says nothing of them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    stand.install(f"print({PROVEN!r})")
    engine = installed(tmp_path, "claude")
    about: dict[str, Any] = {"engine": "claude", "executable": str(engine.executable), "identity": engine.identity}
    about |= {"version": None, "contract_version": engine.contract.contract_version, "clause_set": "2026-12"}
    about |= {"at": datetime.now(UTC), "turngate": "1"}
    able = EngineResumeCapability(supported=False, probe_method="command", detail="forgot")
    save_result(ProbeResult(**about, verdict=Verdict.BROKEN, capability=able), default_cache())
    verifier = Verifier(Verify.BACKGROUND, tmp_path, Stop())
    assert verifier.status(engine).status is Status.REFUTED
    (tmp_path / ".claude").mkdir()
    mine = tmp_path / ".claude/settings.json"
    mine.write_text('{"viewMode": "verbose"}')
    assert verifier.is_pending(engine)
    verifier.verify(engine)
    assert verifier.status(engine).status is Status.PROVEN
    settings = copied_values(engine.contract, os.environ).digest
    save_result(ProbeResult(**about, settings=settings, verdict=None, capability=able), default_cache())
    assert verifier.status(engine).detail == "forgot"
    mine.write_text('{"viewMode": "default"}')
    assert verifier.is_pending(engine)


@pytest.mark.long
def test_the_command_ends_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its standard input ends, as that of a killed server does, the command ends its engine and saves nothing."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    executable = probes.install(tmp_path / "bin", "meets-tester")
    os.mkfifo(tmp_path / "bin" / "meeting")
    command = (*verification._COMMAND, "probe", "--resume", "--json", f"codex={executable}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        pid = int((tmp_path / "bin" / "meeting").read_text())
        out, _ = process.communicate()
    (release,) = json.loads(out)["releases"]
    assert (process.returncode, release["capability"]) == (130, None)
    assert not list((tmp_path / "cache").glob("verdicts/*"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.long
def test_a_server_with_own_contracts_verifies_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a relative folder of contracts, the server's verification reads the same contracts, and proves it."""
    monkeypatch.chdir(tmp_path)
    path = probes.install(tmp_path / "bin")
    contract = Path(load.__file__).parents[1] / "engines/codex.yaml"
    (tmp_path / "my/engines").mkdir(parents=True)
    (tmp_path / "my/engines/codex.yaml").write_text(contract.read_text().replace("title: Codex CLI", "title: Mine"))
    env = {
        "PATH": f"{path.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TURNGATE_CACHE_DIR": str(tmp_path / "c"),
    }
    command = (d.TURNGATE, "--contracts", "my", "serve", "--port", "0", "--verify", "wait", "--no-token")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=env, text=True) as process:
        assert process.stdout
        url = re.search(r"http://\S+", process.stdout.readline())
        try:
            assert url
            with urllib.request.urlopen(f"{url[0]}/v1/engines", timeout=PATIENCE) as answer:
                (reported,) = (row for row in json.load(answer)["engines"] if row["engine"] == "codex")
        finally:
            process.terminate()
            _, err = process.communicate()
    assert (reported["title"], reported["verified"], err) == ("Mine", "proven", "")


@pytest.mark.long
@pytest.mark.parametrize("fault, status", [("", "proven"), ("forgets", "refuted")])
def test_the_real_command_verifies_with_low_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: str
) -> None:
    """An engine that resumes is proven, one that starts a new session is refuted, and both run at low priority."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    path = probes.install(tmp_path / "bin", fault)
    nice = path.with_name("nice")
    noting = f"import os, pathlib, sys\npathlib.Path({str(nice)!r}).write_text(str(os.nice(0)))"
    path.write_text(path.read_text().replace("import sys", noting, 1))
    engine = InstalledEngine(path, "0.169.0", load.contract("codex").at("0.169.0"), identity(path))
    assert ruled(tmp_path, engine).status.value == status
    assert int(nice.read_text()) >= min(19, os.nice(0) + verification.NICENESS)
    # another server finds the saved result
    assert Verifier(Verify.OFF, tmp_path, Stop()).status(engine).status.value == status
