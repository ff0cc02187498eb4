"""`docs/api.md`: at one with the document, and its walk through the API is walked."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.server.web.api_tables import FILE, with_tables
from tests.reference.wire import PATIENCE
from turngate_reference.server.web import openapi

TEXT = FILE.read_text("utf-8")
PORT = "8321"


def free_port() -> str:
    """Find a port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def walk(folder: Path) -> str:
    """Run every block of the walk as one script, at a port of its own; gives what it printed."""
    walked = TEXT.partition("## A walk through it")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", walked, re.MULTILINE | re.DOTALL)
    script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(blocks)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TURNGATE_")}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}", "HOME": str(folder)}
    command = ("bash", "-c", script.replace(PORT, free_port()))
    ran = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=4 * PATIENCE
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout


def test_the_tables_are_those_of_the_document() -> None:
    """What follows from the document is written as it follows from it."""
    assert with_tables(TEXT) == TEXT


def test_every_path_and_code_is_there() -> None:
    """Each operation, problem, run error and event is named."""
    ours = openapi.document()["x-turngate"]
    for each in openapi.operations():
        assert f"### `{each.method.upper()} {each.path}`" in TEXT
    for code in (*ours["problems"], *ours["run_errors"], *ours["events"]):
        assert f"| `{code}` |" in TEXT


@pytest.mark.long
def test_the_walk_goes_where_it_says(tmp_path: Path) -> None:
    """Every line of it works on a machine with no engine at all, and its three runs end as the text says."""
    for program in ("bash", "curl", "jq"):
        if subprocess.run(("which", program), check=False, capture_output=True).returncode:
            pytest.fail(f"the walk needs {program}: install it")
    said = walk(tmp_path)
    assert '["codex","0.169.0",true]\n["gemini","0.61.0",true]' in said
    assert '"kind": "choose_one"' in said
    assert '"turn_index": 2' in said
    assert '"state": "succeeded"' in said
    assert "RUN_ENDED" in said
    kept, _, lost = said.partition("RUN_ENDED")[2].partition('"state": "failed"')
    assert '"prompt": "Allow this action? write_file: touched.txt"' in kept
    assert '"action": "done"' in kept
    assert '"profile": "sticky_process"' in kept
    assert "INTERACTION_PROCESS_LOST" in lost
    assert [file.read_text() for file in tmp_path.glob("data/runs/*/work/touched.txt")] == ["simulated\n"]
