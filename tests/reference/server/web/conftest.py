from collections.abc import Iterator

import pytest

from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.server_env import ServerEnv
from turngate_reference.server.app import Server


@pytest.fixture(name="caller")
def _caller(closed_server_env: ServerEnv) -> Iterator[Caller]:
    """Provide a client of a server that accepts runs but starts none."""
    closed_server_env.cli_env.engine("codex", d.codex("x"))
    server = Server(closed_server_env.settings)
    yield Caller(server)
    server.close()
