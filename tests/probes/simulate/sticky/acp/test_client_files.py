from typing import Any

from turngate.messages import FileAccess
from turngate_probes.simulate.sticky.acp import ClientFiles
from turngate_probes.simulate.sticky.message_queue import Message

SLOTS = {"path": "/work/a.txt", "content": "hi", "handle": "s-1"}


def _files(uses: tuple[str, ...], offered: FileAccess, answer: Message) -> tuple[ClientFiles, list[tuple[str, Any]]]:
    sent: list[tuple[str, Any]] = []

    def call(method: str, params: Message) -> Message:
        sent.append((method, params))
        return answer

    files = ClientFiles(uses, call)
    files.offered = offered
    return files, sent


def test_a_file_is_written_through_a_client_that_offers_it() -> None:
    """The client gets the path, the content and the session."""
    files, sent = _files(("write",), FileAccess(write_text_file=True), {"result": {}})
    assert files.writes
    assert files.write(SLOTS) is None
    assert sent == [("fs/write_text_file", {"path": "/work/a.txt", "content": "hi", "sessionId": "s-1"})]


def test_an_error_of_the_client_is_returned() -> None:
    """Reading and writing return the client's message."""
    files, _ = _files(
        ("read", "write"), FileAccess(read_text_file=True), {"error": {"code": -32002, "message": "no such file"}}
    )
    assert (files.read(SLOTS), files.can_read(SLOTS), files.write(SLOTS)) == ("no such file", False, "no such file")


def test_what_is_not_offered_or_not_used_is_not_asked() -> None:
    """Without the client's offer, or for an agent that doesn't read files, nothing is sent."""
    for uses, offered in (
        (("read", "write"), FileAccess()),
        ((), FileAccess(read_text_file=True, write_text_file=True)),
    ):
        files, sent = _files(uses, offered, {})
        assert (files.writes, files.can_read(SLOTS), sent) == (False, True, [])
