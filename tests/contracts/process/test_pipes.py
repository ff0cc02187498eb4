from hypothesis import given
from hypothesis import strategies as st

from turngate.process.pipes import Capture


@given(st.lists(st.binary(max_size=20)), st.integers(0, 100))
def test_capture_keeps_the_beginning(chunks: list[bytes], limit: int) -> None:
    """However the bytes arrive, the first `limit` are kept and the others counted."""
    capture, whole = Capture(limit), b"".join(chunks)
    for chunk in chunks:
        capture.add(chunk)
    assert capture.kept == whole[:limit]
    assert capture.dropped == len(whole[limit:])
