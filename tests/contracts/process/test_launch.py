import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from turngate.errors import TurngateError
from turngate.process import launch
from turngate.process.execution import ProcessRequest, run

ENV = {"PATH": os.defpath}


def failure(*argv: str, cwd: Path = Path("/"), env: dict[str, str] = ENV) -> TurngateError:
    """Return the error of a failed start."""
    with pytest.raises(TurngateError) as caught:
        run(ProcessRequest(argv, cwd, env))
    return caught.value


def test_missing_executable() -> None:
    """The error names the missing program, and the hint says where to look."""
    error = failure("no-such-program")
    assert "'no-such-program' could not be started: No such file" in error.what
    assert "PATH" in error.hint


def test_executable_is_looked_up_on_the_path_of_the_request(tmp_path: Path) -> None:
    """The program is looked up on the request's PATH, not on ours."""
    assert "'true'" in failure("true", env={"PATH": str(tmp_path)}).what


def test_file_that_is_not_executable(tmp_path: Path) -> None:
    """A file without execute permission has a different error from a missing one."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    error = failure(str(program))
    assert "Permission denied" in error.what
    assert "executable" in error.hint


def test_file_that_is_no_program(tmp_path: Path) -> None:
    """The error names an executable file of unknown format."""
    program = tmp_path / "program"
    program.write_text("echo\n")
    program.chmod(0o755)
    assert "#!" in failure(str(program)).hint


def test_missing_interpreter(tmp_path: Path) -> None:
    """If a script's interpreter is missing, the error points at the script's first line."""
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert "first line" in failure(str(program)).hint


def test_wrong_directory(tmp_path: Path) -> None:
    """The error names the working directory, not the program, and says what to do about it."""
    (tmp_path / "file").touch()
    for name, hint in (("gone", "create it"), ("file", "name a directory that you may enter")):
        error = failure("true", cwd=tmp_path / name)
        assert "working directory" in error.what
        assert name in error.what
        assert error.hint == hint


def test_long_argument_names_the_limit() -> None:
    """An argument of 200 KB is rejected with its size, the limit and an alternative."""
    error = failure("true", "x" * 200_000)
    assert "one argument is 200001 bytes long" in error.what
    assert str(32 * os.sysconf("SC_PAGE_SIZE")) in error.what
    assert "standard input" in error.hint


def test_long_variable_is_told_from_an_argument() -> None:
    """The error distinguishes a long variable from a long argument."""
    assert "one environment variable is 200003 bytes" in failure("true", env={**ENV, "A": "x" * 200_000}).what


def test_long_list_names_the_total() -> None:
    """If all arguments together are too long, the error names their total size."""
    count = os.sysconf("SC_ARG_MAX") // 100_000 * 4
    assert "arguments and environment are" in failure("true", *["x" * 100_000] * count).what


def test_nul_in_an_argument() -> None:
    """An argument with a NUL byte is rejected with an alternative."""
    error = failure("true", "a\0b")
    assert "null byte" in error.what
    assert "standard input" in error.hint


def test_ignored_child_signal() -> None:
    """If SIGCHLD is ignored nothing is started, since exit codes would be lost."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert "SIGCHLD" in failure("true").what
    finally:
        signal.signal(signal.SIGCHLD, before)


def busy_program(folder: Path) -> Path:
    """Return the path of a program that does nothing."""
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_file_that_is_still_being_written_is_started_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is retried while another process holds the new program file open."""
    program = busy_program(tmp_path)
    with program.open("a") as writer:
        monkeypatch.setattr(launch, "sleep", lambda _: writer.close())
        assert run(ProcessRequest((str(program),), tmp_path, ENV)).exit_code == 0


def test_a_file_that_stays_busy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last attempt the start fails, and the hint names what to wait for."""
    pauses: list[float] = []

    def popen(*_: object, **__: object) -> None:
        raise OSError(errno.ETXTBSY, "Text file busy")

    monkeypatch.setattr(launch, "sleep", pauses.append)
    monkeypatch.setattr(subprocess, "Popen", popen)
    error = failure(str(busy_program(tmp_path)))
    assert "Text file busy" in error.what
    assert "writes to it" in error.hint
    assert len(pauses) > 1
