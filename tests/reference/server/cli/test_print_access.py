"""Tests of `turngate serve --print-token` and `--print-link`."""

from pathlib import Path

import pytest

from tests.reference.caller import TOKEN
from tests.reference.cli_env import CliEnv
from turngate_reference.access import LoginCodes, make_token
from turngate_reference.data_dir import DataDir, RunningServer, locked

URL = "http://127.0.0.1:1"


@pytest.fixture(name="data")
def _data(cli_env: CliEnv) -> DataDir:
    """Make a data directory."""
    data = DataDir(cli_env.data)
    data.make()
    return data


def test_without_a_server_there_is_no_address(cli_env: CliEnv, data: DataDir) -> None:
    """Nor a token, before the first server has made one; later its token is printed all the same."""
    said = cli_env.type("serve", "--print-link")
    assert (said.code, said.out) == (2, "")
    assert "no server runs on" in said.err
    said = cli_env.type("serve", "--print-token")
    assert (said.code, said.out) == (2, "")
    assert "turngate serve makes one" in said.err
    assert cli_env.type("serve", "--print-token").code == 2
    token = make_token(data)
    assert cli_env.type("serve", "--print-token").out == f"{token}\n"


@pytest.mark.parametrize("chosen", [False, True])
def test_the_token_is_that_of_the_running_server(cli_env: CliEnv, data: DataDir, chosen: bool) -> None:
    """Whether the server made it or the user chose it; each address that is printed holds another code for it."""
    file, token = data.token, make_token(data)
    if chosen:
        file, token = cli_env.root / "chosen", TOKEN
        file.write_text(f"{TOKEN}\n")
    codes = LoginCodes(token)
    with locked(data.server_lock, "x", server=RunningServer(URL, file)):
        assert cli_env.type("serve", "--print-token").out == f"{token}\n"
        links = [cli_env.type("serve", "--data-dir", str(data.root), "--print-link").out for _ in range(2)]
    assert links[0] != links[1]
    for link in links:
        assert link.startswith(f"{URL}/login?code=")
        assert codes.redeem(link.strip().partition("=")[2])


@pytest.mark.parametrize("word", ["--print-token", "--print-link"])
def test_a_server_without_a_token_says_so(cli_env: CliEnv, data: DataDir, word: str) -> None:
    """There is nothing to print, not even the token of an earlier server."""
    make_token(data)
    with locked(data.server_lock, "x", server=RunningServer(URL)):
        said = cli_env.type("serve", word)
    assert (said.code, said.out) == (2, "")
    assert f"the server needs no token\nopen {URL}" in said.err


def test_a_token_file_that_is_gone_is_named(cli_env: CliEnv, data: DataDir) -> None:
    """The error names the file that the running server was started with."""
    with locked(data.server_lock, "x", server=RunningServer(URL, Path("/gone/token"))):
        said = cli_env.type("serve", "--print-token")
    assert said.code == 2
    assert "/gone/token can't be read" in said.err
