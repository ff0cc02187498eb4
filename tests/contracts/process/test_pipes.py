import subprocess
import threading
from types import SimpleNamespace
from typing import Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.process import pipes as module
from turngate.process.pipes import Pipes

CHUNKS = st.lists(st.binary(min_size=1, max_size=20))


class Stream:
    """An output stream that arrives in chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = [*chunks, b""]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def read(self, _size: int) -> bytes:
        """Return the next chunk."""
        return self._chunks.pop(0)


@given(CHUNKS, CHUNKS, st.integers(0, 100))
def test_the_beginning_of_each_output_is_kept(out: list[bytes], err: list[bytes], limit: int) -> None:
    """The first `limit` bytes of each stream are kept, the rest is counted, and everything is passed on."""
    received: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def on_output(name: str, chunk: bytes) -> None:
        received[name] += chunk

    fake = SimpleNamespace(stdin=None, stdout=Stream(out), stderr=Stream(err))
    pipes = Pipes(cast(subprocess.Popen[bytes], fake), None, limit, on_output, lambda _: None)
    pipes.start()
    pipes.close(60)
    outputs = {"stdout": b"".join(out), "stderr": b"".join(err)}
    assert received == outputs
    assert {name: pipes.kept(name) for name in outputs} == {name: output[:limit] for name, output in outputs.items()}
    assert pipes.dropped == sum(len(output[limit:]) for output in outputs.values())


@pytest.mark.parametrize("hurries", [False, True])
def test_time_in_the_callback_counts_only_in_a_hurry(hurries: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """In a hurry, no call delays the end, whether it has returned or not; otherwise all data is read."""
    now, begins, closed = [0.0], threading.Event(), threading.Event()
    received, was_late = list[bytes](), list[bool]()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def on_output(_name: str, chunk: bytes) -> None:
        if hurries and received:
            was_late.append(not closed.wait(10))
        received.append(chunk)
        now[0] += 100

    def is_in_a_hurry() -> bool:
        begins.set()
        return hurries

    fake = SimpleNamespace(stdin=None, stdout=Stream([b"a", b"b", b"c"]), stderr=Stream([]))
    pipes = Pipes(cast(subprocess.Popen[bytes], fake), None, 10, on_output, lambda _: None)
    monkeypatch.setattr(fake.stdout, "read", lambda size, read=fake.stdout.read: begins.wait(60) and read(size))
    pipes.start()
    pipes.close(1, is_in_a_hurry)
    closed.set()
    assert not was_late
    assert hurries or received == [b"a", b"b", b"c"]
