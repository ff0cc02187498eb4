"""Tests that a server locks its data directory, reports when it is ready, and releases everything."""

import os
import resource

import pytest
from msgspec.structs import replace

from tests.reference.server_env import ServerEnv
from turngate.contract import load
from turngate.errors import MachineError, TurngateError
from turngate_reference.data_dir import DataDir
from turngate_reference.server.app import ROOM, Server


def test_a_server_whose_queue_nobody_works_on_is_not_ready(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ready only while the thread of its queue is alive."""
    server = Server(closed_server_env.settings)
    seen = [server.ready]
    server.start()
    seen.append(server.ready)
    server.owner.close()
    seen.append(server.ready)
    server.close()
    assert seen == [False, True, False]


def test_a_data_directory_has_one_server(closed_server_env: ServerEnv) -> None:
    """A second server is rejected until the first has closed."""
    first = Server(closed_server_env.settings)
    with pytest.raises(MachineError, match=f"in use by process {os.getpid()}") as refused:
        Server(closed_server_env.settings)
    assert refused.value.hint == "use that server, stop it, or choose another --data-dir"
    first.close()
    Server(closed_server_env.settings).close()


def test_a_data_directory_has_one_server_without_its_lock_file(closed_server_env: ServerEnv) -> None:
    """A second server is rejected even if somebody removed the first one's lock file."""
    with closed_server_env.opened():
        (closed_server_env.cli_env.data / "server.lock").unlink()
        with pytest.raises(MachineError, match="in use by another process"):
            Server(closed_server_env.settings)


def test_a_server_on_a_full_disk_is_not_ready(server_env: ServerEnv) -> None:
    """It says why while a file can't grow, and is ready once there is room; it leaves no file behind."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    names = set(server_env.cli_env.data.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM // 2, before[1]))
    try:
        obstacle = server_env.server.obstacle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert obstacle == "the data directory can't be written: File too large"
    assert server_env.server.obstacle() == ""
    assert set(server_env.cli_env.data.iterdir()) == names


@pytest.mark.parametrize("name, why", [("\udcff", "valid UTF-8"), ("file/below", "can't be used")])
def test_a_data_directory_that_can_not_be_used_is_refused(closed_server_env: ServerEnv, name: str, why: str) -> None:
    """The error says why, and suggests another directory."""
    root = closed_server_env.cli_env.root
    (root / "file").touch()
    with pytest.raises(TurngateError, match=why) as refused:
        Server(replace(closed_server_env.settings, data=DataDir(root / name)))
    assert "--data-dir" in refused.value.hint


def test_engines_get_what_their_contract_allows_and_what_is_passed_on(closed_server_env: ServerEnv) -> None:
    """No other variable of the server's environment reaches the engines."""
    env = dict(closed_server_env.settings.env) | {"CODEX_HOME": "/x", "PASSED": "p", "SECRET": "s"}
    settings = replace(closed_server_env.settings, env=env, pass_env=("PASSED",))
    given = settings.environment(load.contract("codex").at())
    assert (given["CODEX_HOME"], given["PASSED"], "SECRET" in given) == ("/x", "p", False)
