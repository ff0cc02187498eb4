"""A client of the server: single requests, and event streams, many of which can be awaited at once."""

import http.client
import json
import socket
from typing import Any, NamedTuple

from tests.patience import PATIENCE


class ServerGoneError(Exception):
    """The server ended before it answered."""


class StreamedEvent(NamedTuple):
    """An event as received."""

    id: int
    type: str
    data: dict[str, Any]


def ask(port: int, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
    """Make a request; return status and document. ServerGoneError: no answer came; TimeoutError: none in time."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise ServerGoneError(repr(error)) from error
    finally:
        connection.close()
    return answer.status, json.loads(text) if answer.headers.get_content_type().endswith("json") else text.decode()


class RunStream:
    """A stream of a run's events after the event `after`. It uses HTTP/1.0, so the connection closes at its end."""

    def __init__(self, port: int, run_id: str, after: int) -> None:
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
            request = f"GET /v1/runs/{run_id}/events HTTP/1.0\r\nHost: 127.0.0.1\r\nLast-Event-ID: {after}\r\n\r\n"
            self.socket.sendall(request.encode())
        except TimeoutError:
            raise
        except OSError as error:
            raise ServerGoneError(repr(error)) from error
        self._buffer, self._has_head = b"", False
        self.status, self.ended = 0, False

    def read(self) -> list[StreamedEvent]:
        """Return the received events; wait if there are none."""
        try:
            data = self.socket.recv(2**16)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        self.ended = not data
        if self.ended:
            self.socket.close()
        self._buffer += data
        if not self._has_head:
            head, mark, rest = self._buffer.partition(b"\r\n\r\n")
            if not mark:
                return []
            self._has_head, self._buffer = True, rest
            self.status = int(head.split()[1])
        *blocks, self._buffer = self._buffer.split(b"\n\n")
        return [event for block in blocks if (event := _event(block))]

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def _event(block: bytes) -> StreamedEvent | None:
    fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if not line.startswith(":"))
    return StreamedEvent(int(fields["id"]), fields["event"], json.loads(fields["data"])) if "id" in fields else None
