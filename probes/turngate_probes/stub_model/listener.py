"""The listening side of the stub backend: accepts connections, and ends them all when it closes."""

import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from turngate_probes.stub_model.journal import RequestLog
from turngate_probes.stub_model.replies import Script

_PATIENCE = 2.0  # seconds for the threads to end once their connections are closed


class BackendListener(ThreadingHTTPServer):
    """A loopback port with a thread for each connection, and what the connections share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, journal: RequestLog, script: Script, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.journal = journal
        self.script = script
        self.port: int = self.server_address[1]
        self._open: set[socket.socket] = set()
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._accept, name=f"stub-model-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End accepting, end every connection, and wait for their threads."""
        with self._changed:
            self._closing = True
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE):
            pass  # wakes the accepting thread, which waits without a timeout and so costs nothing
        self._thread.join(_PATIENCE)
        self.server_close()
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, _PATIENCE)

    def enter(self, connection: socket.socket) -> None:
        """Take note of a connection; ends it at once if the listener is closing."""
        with self._changed:
            self._open.add(connection)
            if self._closing:
                _shut(connection)

    def leave(self, connection: socket.socket) -> None:
        """Forget a connection that is done with."""
        with self._changed:
            self._open.discard(connection)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep silent about a client that left; anything else is a bug of ours and is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
