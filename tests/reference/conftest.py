import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache

from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ServerEnv, server_env
from turngate_reference.server.store import database


class _CompiledTemplates(BytecodeCache):
    """Keeps templates compiled, for all servers of a test run."""

    def __init__(self) -> None:
        self._kept = dict[str, bytes]()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template from what is kept."""
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template."""
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED_TEMPLATES = _CompiledTemplates()
_CONNECTED = database._connected


def _connected(path: Path) -> sqlite3.Connection:
    connection = _CONNECTED(path)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed up hundreds of servers: don't wait for the disk after each transaction, and compile each template once."""
    monkeypatch.setattr(database, "_connected", _connected)
    monkeypatch.setattr(Flask, "jinja_options", {"bytecode_cache": _COMPILED_TEMPLATES})


@pytest.fixture(name="cli_env")
def _cli_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CliEnv:
    """Provide an empty environment for commands."""
    cli_env = CliEnv(tmp_path, capsys)
    monkeypatch.setenv("TURNGATE_DATA_DIR", str(cli_env.data))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{cli_env.path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(tmp_path)
    return cli_env


@pytest.fixture(name="closed_server_env")
def _closed_server_env(cli_env: CliEnv) -> ServerEnv:
    """Provide a server that is not started yet."""
    cli_env.fifos()
    return server_env(cli_env)


@pytest.fixture(name="server_env")
def _server_env(closed_server_env: ServerEnv) -> Iterator[ServerEnv]:
    """Provide a running server."""
    closed_server_env.keep_session()
    closed_server_env.open()
    yield closed_server_env
    closed_server_env.server.close()
