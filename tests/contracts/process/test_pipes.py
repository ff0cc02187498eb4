import subprocess
from types import SimpleNamespace
from typing import Self, cast

from hypothesis import given
from hypothesis import strategies as st

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
