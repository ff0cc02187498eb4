from pathlib import Path

import pytest

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import RawClient


@pytest.mark.parametrize("engine, version", [("codex", None), ("gemini", "2.0")])
def test_messages_name_the_version_that_their_protocol_asks_for(engine: str, version: str, tmp_path: Path) -> None:
    """All messages of JSON-RPC protocols name the version, errors included; the app server's don't."""
    client = RawClient(at_known_release(engine), tmp_path, lines=(b'{"id": 7, "method": "no/such"}',))
    assert client.run() == 0
    assert {message.get("jsonrpc") for message in client.said} == {version}


@pytest.mark.parametrize("engine", ["codex", "gemini"])
def test_unknown_messages_leave_it_going(engine: str, tmp_path: Path) -> None:
    """An unknown request is answered with an error; an invalid line is ignored."""
    client = RawClient(at_known_release(engine), tmp_path, prompts=("first",))
    client.lines = (
        b"{broken",
        b"[]",
        b'{"id": 7, "method": "no/such"}',
        b'{"id": 8, "result": {}}',
        b'{"method": 9}',
        b'{"method": "no/such"}',
    )
    assert client.run() == 0
    assert [message["error"]["code"] for message in client.said if "error" in message] == [-32601]
    assert client.stderr.count(b"not a JSON object") == 2
    assert client.texts()[-1] == "ok"
