from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from turngate.turn.framing import Lines, Problems


@given(
    st.lists(st.sampled_from((b"\n", b"a", b"\r", b"{}\n", "\u2028".encode()))).map(b"".join),
    st.lists(st.integers(0, 40)),
)
def test_lines_in_any_chunks_are_the_stream(stream: bytes, cuts: list[int]) -> None:
    """Only a newline byte ends a line; chunks of any size give the same lines, and nothing is kept of complete ones."""
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    lines = Lines(Problems())
    taken = [line for a, b in pairwise(edges) for line in lines.feed(stream[a:b])]
    *whole, rest = stream.split(b"\n")
    assert taken == [line + b"\n" for line in whole]
    assert lines._parts == [] or rest
    assert lines.finish() == [rest] * bool(rest)


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(1, 20))
def test_lines_keep_what_fits(sizes: list[int], limit: int) -> None:
    """Lines up to the limit are kept, and each longer one is counted."""
    problems, stream = Problems(), b"".join(b"x" * size + b"\n" for size in sizes)
    lines = Lines(problems, limit)
    kept = [line for i in range(len(stream)) for line in lines.feed(stream[i : i + 1])]
    assert [len(line) - 1 for line in kept] == [size for size in sizes if size <= limit]
    assert problems.count == sum(size > limit for size in sizes)


def test_no_line_is_under_way_at_the_start() -> None:
    """Without bytes there is no unfinished line, not even an empty one."""
    assert Lines(Problems()).finish() == []
