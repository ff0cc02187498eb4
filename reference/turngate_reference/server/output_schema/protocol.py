"""Messages between the server and the process that checks output schemas: JSON after its length in 4 bytes."""

import json
from typing import IO, Any

from msgspec import Struct, structs

_LENGTH = 4


class SchemaCheck(Struct, frozen=True):
    """A schema to check, or, if `applies`, to apply to `final_data`; the limits are in CPU seconds and in bytes."""

    schema: dict[str, Any]
    cpu_seconds: float
    memory: int
    applies: bool = False
    final_data: Any = None


class SchemaVerdict(Struct, frozen=True):
    """What is wrong with the schema or the data (`flaw`; None: nothing).

    `died` describes the end of a check that did not come to a result.
    """

    flaw: str | None = None
    died: str | None = None


def encoded(message: SchemaCheck | SchemaVerdict) -> bytes:
    """Return a message as JSON, whose numbers may have any length."""
    return json.dumps(structs.asdict(message)).encode()


def decoded_check(data: bytes) -> SchemaCheck:
    """Decode a check that `encoded` has encoded."""
    return SchemaCheck(**json.loads(data))


def decoded_verdict(data: bytes) -> SchemaVerdict:
    """Decode a verdict that `encoded` has encoded."""
    return SchemaVerdict(**json.loads(data))


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write one message to a stream, buffered or not."""
    rest = memoryview(len(data).to_bytes(_LENGTH, "big") + data)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Read one message from a stream, buffered or not; EOFError if the stream ends before it does."""
    return _read(stream, int.from_bytes(_read(stream, _LENGTH), "big"))


def _read(stream: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (chunk := stream.read(size - len(data))):
            raise EOFError
        data += chunk
    return data
