"""A port on which nothing listens."""

import socket

import pytest

from turngate_probes.stub_model import refused_port


def test_refused() -> None:
    """While the port is held, connections to it are refused and no one else gets it."""
    with refused_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=20)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
