"""Serves an app on real sockets, and reads what clients receive."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, NamedTuple

from tests.patience import PATIENCE
from tests.reference.caller import Answer, Caller
from turngate_reference.server.web.listener import IDLE, MOST, STALLED, WebListener, bound

MANY = 10_000


@contextmanager
def served(caller: Caller, *, most: int = MOST, idle: int = IDLE, stalled: float = STALLED) -> Iterator[int]:
    """Serve a client's app within these limits of connections and seconds; yield the port."""
    with bound(socket.AF_INET, ("127.0.0.1", 0), stalled) as listening:
        port: int = listening.getsockname()[1]
        listener = WebListener(caller.app, listening, caller.streams, most, idle)
        thread = threading.Thread(target=listener.run)
        thread.start()
        try:
            yield port
        finally:
            listener.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            listener.stop()  # a second signal does the same


def exchange(port: int, data: bytes) -> Answer:
    """Send bytes, and read one answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(data)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response.status, dict(response.getheaders()), response.read())


class Sent(NamedTuple):
    """An event as received."""

    id: int
    type: str
    data: Any


class Following:
    """A client that follows a run; `comments` holds the comment lines."""

    def __init__(self, port: int, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.response = self._connection.getresponse()
        self.comments: list[str] = []

    def next(self) -> Sent | None:
        """Wait for the next event; None at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().removesuffix("\n")
            if text:
                name, _, value = text.partition(": ")
                if name:
                    fields[name] = value
                else:
                    self.comments.append(value)
            elif "id" in fields:
                return Sent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            else:
                fields.clear()
        return None

    def line(self) -> str:
        """Wait for the next line."""
        return self.response.readline().decode()

    def all(self) -> list[Sent]:
        """Wait for the end of the stream; return all events before it."""
        events = list(islice(iter(self.next, None), MANY))
        assert len(events) < MANY
        return events

    def close(self) -> None:
        """Close the connection, so that the server notices at once."""
        self.response.close()
        self._connection.close()


@contextmanager
def following(port: int, path: str, **headers: str) -> Iterator[Following]:
    """Follow a run while the block runs."""
    with closing(Following(port, path, **headers)) as stream:
        yield stream
