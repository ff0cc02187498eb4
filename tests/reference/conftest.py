import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ServerEnv, server_env
from turngate_reference.server import app


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed up hundreds of commands: don't wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(name="cli_env")
def _cli_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CliEnv:
    """Provide an empty environment for commands."""
    cli_env = CliEnv(tmp_path, capsys)
    monkeypatch.setenv("TURNGATE_DATA_DIR", str(cli_env.data))
    monkeypatch.delenv("TURNGATE_TOKEN", raising=False)
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{cli_env.path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(tmp_path)
    return cli_env


@pytest.fixture(name="closed_server_env")
def _closed_server_env(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> ServerEnv:
    """Provide a server that is not started yet, and that waits for its schema checks on a busy machine, too."""
    monkeypatch.setattr(app, "SCHEMA_PATIENCE", threading.TIMEOUT_MAX)
    cli_env.fifos()
    return server_env(cli_env)


@pytest.fixture(name="server_env")
def _server_env(closed_server_env: ServerEnv) -> Iterator[ServerEnv]:
    """Provide a running server."""
    closed_server_env.keep_session()
    closed_server_env.open()
    yield closed_server_env
    closed_server_env.server.close()
