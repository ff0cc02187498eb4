"""A harmless MCP server on standard input and output, as an engine starts it; it runs alone, without this package.

Its only tool, `act`, takes no arguments and creates the file that the server's own first argument names.
"""

import json
import sys
from pathlib import Path
from typing import Any

_TOOL = {"name": "act", "description": "Acts.", "inputSchema": {"type": "object", "properties": {}}}


def serve(file: Path) -> None:
    """Answer requests, one on each line, until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": _result(request, file)}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


def _result(request: dict[str, Any], file: Path) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            offered = {"name": "turngate", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": offered}
        case "tools/list":
            return {"tools": [_TOOL]}
        case "tools/call":
            file.touch()
            return {"content": [{"type": "text", "text": "done"}]}
        case _:
            return {}


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
