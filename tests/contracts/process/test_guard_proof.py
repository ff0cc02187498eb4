"""An engine gets its prompt only after the guard has proved that it has an effect."""

import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate import ProcessRequest, RefusedError, Stop, first_turn, process_request
from turngate.contract import load
from turngate.contract.launch import Guards
from turngate.model import Ended
from turngate.process import guard_proof
from turngate.process.execution import run
from turngate.process.guard_proof import GuardProof

PROMPT = b"Paint the door" * 20_000  # more than a pipe holds
# the guard of a shell script: it reads the pipe to its end, as one that Node.js loads does
PROVES = 'cat "$PROOF"; '


def request(script: str, folder: Path) -> ProcessRequest:
    """Return the request for an engine that runs a shell script."""
    argv = ("/bin/sh", "-c", script)
    return ProcessRequest(argv, folder, {"PATH": os.environ["PATH"]}, PROMPT, 60.0, proof="PROOF")


def test_the_prompt_follows_the_proof(tmp_path: Path) -> None:
    """All of it arrives, and its beginning is there when the guard lets the engine go on."""
    done = run(request(PROVES + "cat", tmp_path))
    assert (done.exit_code, done.stdout) == (0, PROMPT)


def test_an_engine_that_exits_without_a_proof_is_refused(tmp_path: Path) -> None:
    """As one whose wrapper replaced the guard's variable, and that gets no input in time."""
    with pytest.raises(RefusedError, match="sh exited with 42 before its guard had an effect, so it got no prompt"):
        run(request("exit 42", tmp_path))


def test_an_engine_that_waits_without_a_proof_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit it is ended, and it has read nothing."""
    monkeypatch.setattr(guard_proof, "LIMIT", 0.5)
    with pytest.raises(RefusedError, match="before its guard had an effect, so it got no prompt"):
        run(request("cat > got", tmp_path))
    assert [path.read_bytes() for path in tmp_path.iterdir()] in ([b""], [])  # it may have been ended before its start


def test_a_stop_ends_an_engine_before_its_proof(tmp_path: Path) -> None:
    """A run that is stopped is no run without a guard."""
    stop = Stop()
    done = run(request("cat", tmp_path), stop=stop, on_start=lambda _: stop.set())
    assert done.ended is Ended.STOPPED


@pytest.mark.long
def test_gemini_proves_its_guard_in_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    """There, as in every kept process, it looks for `.env` alone, and never for `.gemini/.env`."""
    guards = load.contract("gemini").at("0.61.0").guards
    (tmp_path / "own-files.cjs").write_text(guards.files["own-files.cjs"])
    looks = "require('fs').existsSync('/project/.env'); process.stdin.pipe(process.stdout)"
    argv = ("node", "--require", str(tmp_path / "own-files.cjs"), "--eval", looks)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = run(ProcessRequest(argv, tmp_path, env, PROMPT, 60.0, proof=guards.proof or ""))
    assert (done.exit_code, done.stdout) == (0, PROMPT)


def test_nothing_is_left_of_the_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is private while it exists."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with GuardProof("PROOF") as proof:
        pipe = Path(proof.env["PROOF"])
        assert (pipe.is_fifo(), pipe.stat().st_mode & 0o077) == (True, 0)
        guard = threading.Thread(target=pipe.read_bytes)
        guard.start()
        descriptor = proof.wait(lambda: False)
        assert descriptor is not None
        os.close(descriptor)
        guard.join()
    assert [*tmp_path.iterdir()] == []


def test_a_prompt_among_the_arguments_is_refused(tmp_path: Path) -> None:
    """The engine would have it before any proof."""
    codex = load.contract("codex").at("0.169.0")
    guarded = replace(codex, guards=Guards(files={"guard.cjs": "x"}, proof="PROOF"))
    turn = first_turn(guarded, "Paint the door", "auto", via="argument")
    with pytest.raises(RefusedError, match="guarded before it gets a prompt"):
        process_request(turn, Path("/opt/codex"), tmp_path, env={})
    turn = first_turn(guarded, "Paint the door", "auto")
    assert process_request(turn, Path("/opt/codex"), tmp_path, env={}).proof == "PROOF"
