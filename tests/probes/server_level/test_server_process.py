"""The server as a process: small programs in its place, and once the real one."""

import os
import sys
import threading
from pathlib import Path

import pytest

from turngate.files import use_overlay
from turngate.model import Ended
from turngate.process.execution import ProcessRequest
from turngate.process.family import is_alive
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.server_level import server_process
from turngate_probes.server_level.server_process import CaseClient, ServerProcess

SERVES = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"], start_new_session=True)
print("turngate serves http://127.0.0.1:9 (pids:", os.getpid(), child.pid, ")", flush=True)
time.sleep(600)
"""


def asked(code: str, folder: Path) -> ProcessRequest:
    """Run a program instead of the server."""
    return ProcessRequest((sys.executable, "-IS", "-c", code), folder, {}, timeout=float("inf"))


def pids(serving: ServerProcess) -> list[int]:
    """Return the process ids from the start line of `SERVES`."""
    words = serving.page().stdout.decode().split()
    return [int(words[i]) for i in (-3, -2)]


def test_it_is_found_by_its_start_line_and_ends_with_all_below_it(tmp_path: Path) -> None:
    """The address is read from the start line; at the end the server and its child processes are gone."""
    with ServerProcess(asked(SERVES, tmp_path), Interrupt(), "loop/serve-1") as serving:
        assert serving.url == "http://127.0.0.1:9"
    page = serving.page()
    assert (page.name, page.ended) == ("loop/serve-1", Ended.STOPPED)
    assert not any(map(is_alive, pids(serving)))


def test_it_can_be_killed(tmp_path: Path) -> None:
    """SIGKILL ends the server, and it is gone when kill returns."""
    with ServerProcess(asked(SERVES, tmp_path), Interrupt(), "serve") as serving:
        serving.kill()
        assert (serving.page().ended, serving.page().exit_code) == (Ended.EXIT, -9)
        assert not any(map(is_alive, pids(serving)))


@pytest.mark.parametrize(
    "code, why",
    [
        ("import sys; sys.exit('no room')", "exit code 1: no room"),
        ("print('serves nothing')", "exit code 0"),
        ("import os; os.abort()", "exit code -6"),
    ],
)
def test_one_that_does_not_serve_ends_the_case(code: str, why: str, tmp_path: Path) -> None:
    """If the server exits without serving, the case reports how it ended."""
    with pytest.raises(CaseStoppedError, match=f"the server did not start: {why}"):
        ServerProcess(asked(code, tmp_path), Interrupt(), "serve").__enter__()


def test_one_that_says_nothing_ends_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the server prints nothing until the deadline, it is ended and the case reports it."""
    monkeypatch.setattr(server_process, "READY_WITHIN", 0.05)
    silent = ServerProcess(asked("import time; time.sleep(600)", tmp_path), Interrupt(), "serve")
    with pytest.raises(CaseStoppedError, match="printed no address"):
        silent.__enter__()
    assert silent.page().ended is Ended.STOPPED


def test_one_that_is_not_there_ends_the_case(tmp_path: Path) -> None:
    """If the program can't be started, the case reports it."""
    absent = ProcessRequest(("/missing/turngate",), tmp_path, {})
    with pytest.raises(CaseStoppedError, match=r"did not start: .*missing"):
        ServerProcess(absent, Interrupt(), "serve").__enter__()


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """An interrupt while waiting for the address is reported, and the process is ended."""
    os.mkfifo(tmp_path / "meeting")
    code = "import os; open('meeting', 'w').write(str(os.getpid())); import time; time.sleep(600)"
    interrupt, met = Interrupt(), []

    def meet() -> None:
        met.append(int((tmp_path / "meeting").read_text()))
        interrupt.set()

    thread = threading.Thread(target=meet)
    thread.start()
    with pytest.raises(CaseStoppedError, match="interrupted"):
        ServerProcess(asked(code, tmp_path), interrupt, "serve").__enter__()
    thread.join()
    assert not is_alive(met[0])


def test_it_uses_the_same_contracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, which works in another directory, gets the folder of contracts by its absolute path."""
    monkeypatch.chdir(tmp_path)
    assert "--contracts" not in server_process.request(tmp_path, tmp_path, {}, []).argv
    use_overlay(Path("my"))
    try:
        argv = server_process.request(tmp_path, tmp_path, {}, []).argv
    finally:
        use_overlay(None)
    at = argv.index("serve")
    assert argv[at - 2 : at] == ("--contracts", str(tmp_path / "my"))


@pytest.mark.long
def test_it_is_the_reference_server(tmp_path: Path) -> None:
    """The default command is the reference server, which serves the API in the given environment."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    wanted = server_process.request(tmp_path / "data", tmp_path, env, ["B", "A"])
    assert wanted.argv[-4:] == ("--pass-env", "A", "--pass-env", "B")
    with ServerProcess(wanted, Interrupt(), "serve") as serving:
        client = CaseClient(serving.url, server_process.read_token(tmp_path / "data"), lambda _: None)
        assert client.get("/readyz").answer == {"status": "ready"}
    assert b"/login?code=<code>\n" in serving.page().stdout


def test_a_server_without_a_token_ends_the_case(tmp_path: Path) -> None:
    """Without the file, or with one that others could have read, the case says why it ended."""
    with pytest.raises(CaseStoppedError, match=r"can't be read: .*No such file"):
        server_process.read_token(tmp_path)
    (tmp_path / "token").write_text("x" * 16)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(CaseStoppedError, match="somebody else could have read"):
        server_process.read_token(tmp_path)
