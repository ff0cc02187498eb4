"""Records of calls, written and read."""

import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from tests.patience import PATIENCE
from tests.tables import each
from turngate_probes.conform.calls import CallRecord, Started, calls

STARTED = Started(1, ("exec",), "/work", ("HOME",), "pipe", 5.0, "turn", prompt="hi")


def test_a_whole_call_is_read_back(tmp_path: Path) -> None:
    """Everything that was noted is there."""
    record = CallRecord(tmp_path)
    record.begin(STARTED)
    record.read(b"a")
    record.read(b"b")
    record.read(b"")
    record.session("s1")
    record.signalled("SIGINT")
    record.signalled("SIGTERM")
    record.end("s1", 3, b"out", b"first\nlast\n")
    (call,) = calls(tmp_path)
    assert (call.number, call.started, call.stdin, call.stdin_closed) == (1, STARTED, b"ab", True)
    assert (call.stdout, call.signals, call.handle, call.text) == (b"out", ("SIGINT", "SIGTERM"), "s1", "hi")
    assert call.ended is not None
    assert (call.ended.exit_code, call.last_line) == (3, "last")


@each(
    "stderr, last",
    [
        ("tokens used\n12\n", "tokens used"),
        ("Error: no model\nNode.js v22\n", "Error: no model"),
        ("starting\nready\n\n", "ready"),
        ("12\n", ""),
    ],
)
def test_the_last_line_has_words(stderr: str, last: str, tmp_path: Path) -> None:
    """A number says nothing, and an error more than what follows."""
    record = CallRecord(tmp_path)
    record.begin(STARTED)
    record.end(None, 1, b"", stderr.encode())
    assert calls(tmp_path)[0].last_line == last


def test_a_killed_call_has_no_end(tmp_path: Path) -> None:
    """It is listed as far as it came, and one that noted nothing is not."""
    CallRecord(tmp_path).begin(STARTED)
    CallRecord(tmp_path)
    (call,) = calls(tmp_path)
    assert (call.ended, call.stdin_closed, call.handle, call.stdout) == (None, False, None, b"")


def test_calls_are_numbered_in_order(tmp_path: Path) -> None:
    """Also those of several conversations."""
    for _ in range(3):
        CallRecord(tmp_path).begin(STARTED)
    assert [call.number for call in calls(tmp_path)] == [1, 2, 3]
    assert calls(tmp_path / "none") == ()


def test_the_text_of_a_process_is_in_its_messages(tmp_path: Path) -> None:
    """Messages are JSON, which writes quotes, newlines and other characters in its own way; other lines are ignored."""
    record = CallRecord(tmp_path)
    record.begin(replace(STARTED, kind="process", prompt=None))
    record.read(b'{"type": "user", "message": {"content": [{"text": "a \\"b\\"\\n\\u00e4"}]}, "n": 1}\nnoise\n')
    (call,) = calls(tmp_path)
    assert call.text is not None
    assert 'a "b"\nä' in call.text
    assert "noise" not in call.text


OPENED = (b'{"method": "thread/start", "params": {"cwd": "/a"}}',)
TURNED = (b'{"method": "turn/start", "params": {"cwd": "/b"}}',)


@each(
    "stdin, noted, expected",
    [
        (b'{"method": "session/new", "params": {"cwd": "/a"}}', (), ("/a",)),
        (b'{"method": "thread/start", "params": {"cwd": "/a"}}', ("/b",), ("/b",)),
        (b'{"method": "thread/list", "params": {"cwd": "/a"}}', (), (STARTED.cwd,)),
        (b'{"method": "session/new"}', (), (STARTED.cwd,)),
        (b"\n".join((*OPENED, *TURNED)), (), ("/b",)),
        (
            b"\n".join((*OPENED, b'{"method": "turn/start"}', *TURNED)),
            (),
            ("/a", "/b"),
        ),
        (b"", (), ()),
    ],
)
def test_a_process_works_where_its_sessions_are(
    tmp_path: Path, stdin: bytes, noted: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """What the engine noted counts more than what the client named; its own directory only if that is all."""
    record = CallRecord(tmp_path)
    record.begin(replace(STARTED, kind="process", prompt=None))
    record.read(stdin)
    for directory in noted:
        record.worked_in(directory)
    (call,) = calls(tmp_path)
    assert call.directories == expected


ANOTHER = """
import sys
from turngate_probes.conform.calls import *
record = CallRecord(Path(sys.argv[1]))
record.begin(Started(1, (), "/", (), "pipe", 0.0, "process"))
record.read(b"x")
print(flush=True)
sys.stdin.read()
"""


def test_what_is_heard_has_its_time_and_who_else_ran(tmp_path: Path) -> None:
    """A call that was killed is told apart from one that still runs, which no end of it shows."""
    pipe, argv = subprocess.PIPE, (sys.executable, "-c", ANOTHER, str(tmp_path))
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as other:
        assert other.stdout
        other.stdout.readline()
        record = CallRecord(tmp_path)
        record.begin(STARTED)
        record.read(b"first")
        other.kill()
        other.wait()
        record.read(b"second")
    subprocess.run(argv, input=b"", check=True, timeout=PATIENCE)
    first, call, last = calls(tmp_path)
    assert [(part.end, part.beside) for part in (*first.heard, *call.heard, *last.heard)] == [
        (1, ()),
        (5, (1,)),
        (11, ()),
        (1, (2,)),
    ]
    assert [call.when(end) for end in (1, 5, 6, 11, 12)] == [*(part.at for part in call.heard for _ in "ab"), 5.0]
