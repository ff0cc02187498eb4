import io
from typing import Any

import pytest

from turngate_reference.server.output_schema.protocol import (
    SchemaCheck,
    SchemaVerdict,
    decoded_check,
    decoded_verdict,
    encoded,
    read_frame,
    write_frame,
)


class Trickle(io.BytesIO):
    """An unbuffered stream that reads and writes a few bytes at a time."""

    def write(self, data: Any) -> int:
        """Write three bytes."""
        return super().write(bytes(data[:3]))

    def read(self, size: int | None = -1) -> bytes:
        """Read at most two bytes."""
        return super().read(min(size or 0, 2))


def test_messages_arrive_whole_through_streams_that_take_and_give_little() -> None:
    """A check keeps long numbers and half a surrogate pair; a verdict follows on the same stream."""
    check = SchemaCheck({"pattern": "\ud800"}, 1.5, 2**40, applies=True, final_data=[10**100, None])
    verdict, stream = SchemaVerdict(died="it takes too long"), Trickle()
    write_frame(stream, encoded(check))
    write_frame(stream, encoded(verdict))
    stream.seek(0)
    assert decoded_check(read_frame(stream)) == check
    assert decoded_verdict(read_frame(stream)) == verdict


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\7cut o"])
def test_a_stream_that_ends_early_is_an_error(sent: bytes) -> None:
    """A message that is cut off raises an error."""
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(sent))
