import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from turngate_probes.harness import mcp_server


def requested(request: int, method: str, **params: Any) -> str:
    """Return a request as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": request, "method": method, "params": params})


def test_the_server_offers_a_tool_and_leaves_a_file_when_it_is_called(tmp_path: Path) -> None:
    """A client that initializes, lists the tools and calls the only one gets an answer each, and the file exists."""
    lines = [
        requested(1, "initialize", protocolVersion="2025-06-18", capabilities={}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        requested(2, "tools/list"),
        requested(3, "tools/call", name="act", arguments={}),
        requested(4, "ping"),
    ]
    acted = tmp_path / "acted"
    ran = subprocess.run(
        [sys.executable, "-I", mcp_server.__file__, acted],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["act"]
    assert acted.exists()
