"""The register of changes to recordings, and helpers to edit a turn."""

from collections.abc import Callable

from msgspec.structs import replace

from tests.drift.records import Printed, printed
from turngate.contract.launch import Stream
from turngate_probes.harness.observations import Observations, Turn

Word = Callable[..., Turn]
WORDS: dict[str, Word] = {}


def word(function: Word) -> Word:
    """Register a function that takes a turn, all observations, and a change's arguments by name."""
    WORDS[function.__name__] = function
    return function


def edit_stream(turn: Turn, stream: Stream, edit: Callable[[bytes], bytes]) -> Turn:
    """Edit the bytes of one stream."""
    if stream == "stdout":
        return replace(turn, stdout=edit(turn.stdout))
    return replace(turn, stderr=edit(turn.stderr))


def edit_records(turn: Turn, observed: Observations, stream: Stream, edit: Callable[[Printed], None]) -> Turn:
    """Edit the records of one stream in place."""

    def rewrite(data: bytes) -> bytes:
        records = printed(observed.contract.stream(stream), data)
        edit(records)
        return records.data()

    return edit_stream(turn, stream, rewrite)
