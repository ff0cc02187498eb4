"""Output that goes to a file in the place of a pipe."""

import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from turngate import MachineError, Mode, first_turn, load_contract, process_request
from turngate.process import output_file as module
from turngate.process.execution import ProcessRequest, run
from turngate.process.output_file import OutputFile

PRINTS_AND_EXITS = """
import os
os.set_blocking(1, False)
try:
    os.write(1, b"x" * 300_000)
except BlockingIOError:
    pass
os._exit(0)
"""


def request(script: str, *arguments: str, file: bool = True) -> ProcessRequest:
    """Return a Python process whose output goes to a file or a pipe."""
    return ProcessRequest((sys.executable, "-c", script, *arguments), Path.cwd(), {}, stdout_file=file)


def test_a_file_gets_what_a_pipe_would_lose() -> None:
    """What a program prints just before its exit is whole in a file, and cut in a pipe."""
    assert len(run(request(PRINTS_AND_EXITS)).stdout) == 300_000
    assert len(run(request(PRINTS_AND_EXITS, file=False)).stdout) < 300_000


def test_a_file_is_read_while_it_grows(tmp_path: Path) -> None:
    """Output is passed on as it comes: the program goes on only when its first line was read."""
    flag = tmp_path / "read"
    script = """
import pathlib, sys, time
print("first", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("second", flush=True)
"""

    def received(_stream: str, chunk: bytes) -> None:
        if b"first" in chunk:
            flag.touch()

    assert run(request(script, str(flag)), on_output=received).stdout == b"first\nsecond\n"


def test_processes_of_one_output_overwrite_nothing() -> None:
    """Each process of a tree writes behind the others."""
    script = "import subprocess, sys; print('a', flush=True); subprocess.run(['echo', 'b']); print('c', flush=True)"
    done = run(ProcessRequest((sys.executable, "-c", script), Path.cwd(), {"PATH": "/bin:/usr/bin"}, stdout_file=True))
    assert done.stdout == b"a\nb\nc\n"


def test_what_was_read_takes_no_room_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was read and is larger than the limit begins anew, and loses nothing that comes later."""
    monkeypatch.setattr(module, "MAX_SIZE", 10)
    with OutputFile() as file, open(file.fileno(), "wb", buffering=0, closefd=False) as out:
        read, news = list[bytes](), threading.Event()

        def reading() -> None:
            while chunk := file.read(100):
                read.append(chunk)
                news.set()

        thread = threading.Thread(target=reading)
        thread.start()
        for word in (b"a" * 20, b"b" * 20):
            out.write(word)
            assert news.wait(10)
            news.clear()
            while os.fstat(file.fileno()).st_size:
                thread.join(0.01)
        file.end()
        thread.join(10)
        assert read == [b"a" * 20, b"b" * 20]


def test_no_room_for_a_file_is_an_error_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be made is explained, and nothing is started."""

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(MachineError, match="No space left"):
        run(request("raise SystemExit"))


def test_the_contract_says_which_engine_gets_a_file() -> None:
    """A turn's request has a file for stdout where the contract says so."""
    for engine, version, has_file in (("codex", "0.169.0", False), ("gemini", "0.61.0", True)):
        turn = first_turn(load_contract(engine, version), "Paint the door", Mode.AUTO)
        assert process_request(turn, Path("/opt/engine"), Path.cwd(), env={}).stdout_file is has_file
