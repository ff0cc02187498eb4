"""A loopback port on which connections are refused."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refused_port() -> Iterator[int]:
    """Hold a loopback port on which nothing listens: bound, so that no one else gets it, and no more."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
