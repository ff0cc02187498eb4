"""What is kept of a turn for a person to look at."""

import json
from pathlib import Path

from tests.probes import turns as t
from turngate_probes.harness.sandbox import save_streams


def test_a_turn_is_kept_whole(tmp_path: Path) -> None:
    """Command, both streams and each request lie in a folder named for the step."""
    requests = (t.exchange(body=b"first"), t.exchange(body=b"second"))
    turn = t.turn("main/first", stderr=b"\xffwarning", requests=requests)
    save_streams(turn, tmp_path)
    folder = tmp_path / "turns" / "first"
    assert (folder / "stdout").read_bytes() == turn.stdout
    assert (folder / "stderr").read_bytes() == b"\xffwarning"
    assert [(folder / f"request-{i}.json").read_bytes() for i in (1, 2)] == [b"first", b"second"]
    command = json.loads((folder / "command.json").read_text())
    assert command == {"argv": list(turn.argv), "exit_code": 0, "ended": "exit"}


def test_a_page_is_kept_without_requests(tmp_path: Path) -> None:
    """A plain command has no requests to keep."""
    save_streams(t.page("static/help-1", "usage"), tmp_path)
    assert sorted(path.name for path in (tmp_path / "turns/help-1").iterdir()) == ["command.json", "stderr", "stdout"]
