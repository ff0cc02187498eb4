import json
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.turn.plain import records
from tests.tables import each
from turngate.contract.engine_contract import Framed, TextRecord
from turngate.turn import framing
from turngate.turn.framing import MAX_LINE, framer
from turngate.turn.records import Record

NDJSON, DOCUMENT, TEXT = Framed("ndjson"), Framed("json_document"), Framed("text")
BLOCK = Framed("tagged_block", tag="Info")
NOISY = Framed("ndjson", noise=("WARN .*",))
LINES = Framed("text", records=(TextRecord("info", "first", "<Info>"), TextRecord("end", "last", "WARN x")))
FRAMINGS = st.sampled_from((LINES, NDJSON, NOISY, DOCUMENT, Framed("json_document", noise=("WARN .*",)), BLOCK, TEXT))
# bytes with a meaning in some framing, so that random streams are often almost valid
PIECES = st.sampled_from(
    (
        b'{"a":1}',
        b'{"a":1}\n',
        b'{"a":"',
        b'"}\n',
        b"{",
        b"}",
        b"\n",
        b"\r\n",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"<Info>",
        b"</Info>",
        b"WARN x",
        b" ",
        b'"',
        b"\\ud83d",
        "\u2028é".encode(),
        b"[1]",
        b"null",
    )
)
STREAMS = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=14).map(b"".join))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=4)


def read(framed: Framed, *chunks: bytes) -> tuple[list[Record], list[str], str]:
    """Frame a stream that comes in chunks; return records, problems and text."""
    made = framer(framed)
    records = [record for chunk in chunks for record in made.feed(chunk)]
    records += made.finish()
    assert made.problems.count >= len(made.problems.first)
    return records, made.problems.first, made.text


@given(FRAMINGS, STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_chunking_never_changes_a_reading(framed: Framed, stream: bytes, cuts: list[int]) -> None:
    """The same bytes give the same records, problems and text in any chunks, and nothing is raised."""
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    single = [stream[i : i + 1] for i in range(len(stream))]
    assert read(framed, *chunks) == read(framed, *single) == read(framed, stream)


@given(st.lists(OBJECTS, max_size=5), st.booleans())
def test_ndjson_gives_every_object(objects: list[Record], last: bool) -> None:  # noqa: FBT001
    """Objects on one line each are read back, with or without the last newline."""
    stream = b"\n".join(json.dumps(record, ensure_ascii=False).encode() for record in objects) + b"\n" * last
    assert read(NDJSON, stream) == (objects, [], "")


@given(STREAMS, st.integers(1, 60))
def test_ndjson_is_read_as_line_by_line(stream: bytes, size: int) -> None:
    """Any bytes give the records and the number of problems that a plain reading of each line gives."""
    made = framer(NDJSON)
    read = [record for at in range(0, len(stream), size) for record in made.feed(stream[at : at + size])]
    assert ([*read, *made.finish()], made.problems.count) == records(stream)


@each("framed", [NDJSON, DOCUMENT, BLOCK, TEXT])
@each("stream", [b"", b"\n", b"\n\n\n"])
def test_empty_stream_holds_nothing(framed: Framed, stream: bytes) -> None:
    """An empty stream, or one of blank lines, has no records and no problems."""
    assert read(framed, stream) == ([], [], "")


@each(
    "stream, records, problem",
    [
        (b'\xef\xbb\xbf{"a":1}\n{"b":2}\n', [{"b": 2}], "a JSON object"),
        (b' {"a":1}\n', [{"a": 1}], "more than its JSON object"),
        (b'{"a":1}{"b":2}\n', [], "a JSON object"),
        (b'{"a":"\0"}\n', [], "a JSON object"),
        (b'{"a":1}\0\n', [], "a JSON object"),
        (b'{"a":"\xff"}\n{"b":2}\n', [{"a": "\ufffd"}, {"b": 2}], "a line isn't UTF-8"),
        (b'{"a":1}\n{"b":', [{"a": 1}], "a JSON object"),
        (b'{\n  "a": 1\n}\n', [], "a JSON object"),
        (b'[{"a":1}]\n', [], "a JSON object"),
        (b"null\n", [], "a JSON object"),
        (b'{"a":NaN}\n', [], "a JSON object"),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}\n", [], "a JSON object"),
        (b"Welcome!\n" + b'{"a":1}\n', [{"a": 1}], "Welcome!"),
    ],
)
def test_line_that_is_no_object_is_reported_and_hides_nothing(
    stream: bytes, records: list[Record], problem: str
) -> None:
    """A line that is no object is reported with an excerpt, and the other lines are still read."""
    taken, problems, _ = read(NDJSON, stream)
    assert taken == records
    assert problem in problems[0]


def test_lines_end_at_the_newline_byte_alone() -> None:
    """A raw Unicode line separator in a string doesn't split a record."""
    record = {"text": "one\u2028two\u2029three\x85four\x0b"}
    assert read(NDJSON, json.dumps(record, ensure_ascii=False).encode() + b"\n") == ([record], [], "")


def test_last_of_two_equal_keys_counts() -> None:
    """Of a duplicate key the last value counts, as in common JSON parsers."""
    assert read(NDJSON, b'{"id":"a","id":"b"}\n') == ([{"id": "b"}], [], "")


@each("framed", [NDJSON, DOCUMENT])
@each(
    "escaped, text",
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ude00 cut", "\ufffd cut"),
        (rb"\uD83D\uDE00 whole \ud83d", "\U0001f600 whole \ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d is text, \\\ud83d is not", "\\ud83d is text, \\\ufffd is not"),
    ],
)
def test_text_cut_within_a_character_is_read(framed: Framed, escaped: bytes, text: str) -> None:
    """Half of an escaped surrogate pair loses only that character, not the record."""
    assert read(framed, b'{"a":"' + escaped + b'"}\n') == ([{"a": text}], [], "")


def test_line_over_the_limit_is_dropped_and_told() -> None:
    """A line longer than 8 MiB is skipped with bounded memory, and the next one is read."""
    fitting = b'{"a":"' + b"x" * (MAX_LINE - 8) + b'"}'
    assert len(fitting) == MAX_LINE
    assert len(read(NDJSON, fitting + b"\n")[0]) == 1
    records, problems, _ = read(NDJSON, fitting[:-2] + b'y"}\n', b'{"b":2}\n')
    assert records == [{"b": 2}]
    assert f"a line of {MAX_LINE + 1} bytes" in problems[0]
    assert len(problems[0]) < 400


def test_problems_are_bounded() -> None:
    """Of a million invalid lines the first few are reported, and the rest is counted."""
    made = framer(NDJSON)
    list(made.feed(b"?\n" * 1000))
    assert (len(made.problems.first), made.problems.count) == (20, 1000)


def test_noise_is_whole_lines_alone() -> None:
    """A known noise line is ignored only as a whole line."""
    assert read(NOISY, b'WARN old\nWARN old\r\n{"a":1}\n') == ([{"a": 1}], [], "")
    assert len(read(NOISY, b"a WARN old\n")[1]) == 1
    assert len(read(Framed("ndjson", noise=("exact",)), b"exact\nexact \nexactX\n")[1]) == 2


@given(OBJECTS, st.sampled_from((None, 2)), st.sampled_from((b"", b"\n", b" \n\n")))
def test_document_over_one_or_many_lines(record: Record, indent: int | None, end: bytes) -> None:
    """A document is read whether it is on one line or several."""
    assert read(DOCUMENT, json.dumps(record, indent=indent).encode() + end) == ([record], [], "")


@each(
    "stream, records",
    [
        (b'{"a":1}\n{"b":2}\n', []),
        (b'{"a":1}{"b":2}', []),
        (b'banner\n{"a":1}\n', [{"a": 1}]),
        (b'{"a":1}\nbye\n', [{"a": 1}]),
        (b'{"a":"\xff"}\n', [{"a": "\ufffd"}]),
        (b'banner\n{\n "a": 1\n}\nbye\n', [{"a": 1}]),
        (b'banner {"a":1}\n', []),
        (b'[{"a":1}]', [{"a": 1}]),
        (b'banner\n[{"a":1},{"b":2}]\n', [{"a": 1}, {"b": 2}]),
        (b'[\n{"a":1},\n{"b":2}\n]\n', [{"a": 1}, {"b": 2}]),
        (b'[WARN]\n{"a":1}\n', [{"a": 1}]),
        (b'[{"a":1},7]', []),
        (b"[]", []),
        (b'"text"', []),
        (b"not json", []),
        (b'{"a":1', []),
        (b'{"a":1}\0', []),
        (b'\xef\xbb\xbf{"a":1}', []),
        (b'{"a":NaN}', []),
    ],
)
def test_stream_that_is_not_one_document_is_reported(stream: bytes, records: list[Record]) -> None:
    """Text around a document or a list of objects is a problem but hides nothing; of two documents neither is used."""
    taken, problems, _ = read(DOCUMENT, stream)
    assert taken == records
    assert len(problems) == 1


def test_document_may_stand_among_known_noise() -> None:
    """Known noise before and after a document is no problem."""
    assert read(Framed("json_document", noise=("WARN .*",)), b'WARN a\n{"a":\n1}\nWARN b\n') == ([{"a": 1}], [], "")


@pytest.mark.parametrize("framed", [DOCUMENT, TEXT])
def test_stream_without_end_is_bounded(framed: Framed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream beyond the limit is reported once and not kept, in any chunks."""
    monkeypatch.setattr(framing, "MAX_DOCUMENT", 100)
    for size in (1, 99, 101, 500):
        _, problems, text = read(framed, *[b"x" * size] * (600 // size))
        assert "the stream is longer than 100 bytes" in problems[0]
        assert len(text) <= 100


REAL = b'<Info>\n{\n"id": "real"\n}\n</Info>\n'
FAKE = b'<Info>\n{"id": "fake"}\n</Info>\n'


@each(
    "stream, records, problem",
    [
        (REAL, [{"id": "real"}], None),
        (REAL[:-1], [{"id": "real"}], None),
        (b"any text\n\n" + REAL + b"\n \n", [{"id": "real"}], None),
        (FAKE + REAL, [{"id": "real"}], "2 blocks"),
        (FAKE + b"text\n" + REAL, [{"id": "real"}], "2 blocks"),
        (b'<Info>\n{"id": "fake"}\n' + REAL, [{"id": "real"}], None),
        (b"</Info>\n" + REAL, [{"id": "real"}], None),
        (FAKE + b"and more text\n", [], "no </Info> at the end"),
        (b'<Info>\n{"id": "fake"}\n', [], "no </Info> at the end"),
        (REAL + b"<Info>\n", [], "no </Info> at the end"),
        (b" <Info>\n{}\n </Info>\n", [], None),
        (b"text <Info>\n{}\n</Info>\n", [], None),
        (REAL.replace(b"\n", b"\r\n"), [{"id": "real"}], None),
        (b"<Info>\n{\n</Info>\n", [], "the block is not JSON"),
        (b"<Info>\n[1]\n</Info>\n", [], "the block is not a JSON object"),
        (b"<Info>\n</Info>\n", [], "the block is not JSON"),
    ],
)
def test_block_ends_the_stream(stream: bytes, records: list[Record], problem: str | None) -> None:
    """The last block at the end of the stream counts, if its tags are on lines of their own."""
    taken, problems, _ = read(BLOCK, stream)
    assert taken == records
    assert [problem or "-"] == [problem if problem and problem in message else message for message in problems or ["-"]]


def test_block_of_any_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block without an end is not kept."""
    monkeypatch.setattr(framing, "MAX_TAIL", 100)
    taken, problems, _ = read(BLOCK, b"<Info>\n" + b'"x",\n' * 1000 + b"</Info>\n")
    assert taken == []
    assert "not JSON" in problems[0]


@each(
    "stream, text",
    [
        (b"answer\n", "answer"),
        (b"  two\n\nlines \n\n", "  two\n\nlines "),
        (b"WARN a\nWARN b\r\n\nanswer\nWARN c\n", "answer\nWARN c"),
        (b"WARN a\n\n", ""),
        (b"\xff", "\ufffd"),
        ("é\u2028".encode(), "é\u2028"),
    ],
)
def test_text_loses_noise_where_it_begins(stream: bytes, text: str) -> None:
    """Plain text loses leading noise and trailing newlines; invalid bytes are replaced."""
    assert read(Framed("text", noise=("WARN .*",)), stream) == ([], [], text)


ID, END = TextRecord("id", "first", r"id: (?P<id>\d+)"), TextRecord("end", "last", r"used\n(?P<used>\d+)")
WITH_RECORDS = Framed("text", noise=("WARN .*",), records=(ID, END))


@each(
    "stream, records, text",
    [
        (b"WARN a\nid: 1\nDone.\nused\n2\n\n", [{"name": "id", "id": "1"}, {"name": "end", "used": "2"}], "Done."),
        (b"id: 1\r\nid: 2\r\nused\n3\nbye", [{"name": "id", "id": "1"}], "id: 2\r\nused\n3\nbye"),
        (b"my id: 1\nid: 1 too\nused\n2 or 3\n", [], "my id: 1\nid: 1 too\nused\n2 or 3"),
        (b"used\n1\nused\n2\n", [{"name": "end", "used": "2"}], "used\n1"),
        (b"", [], ""),
    ],
)
def test_whole_lines_of_a_text_are_records_only_in_their_place(stream: bytes, records: list[Record], text: str) -> None:
    """The first lines that match, and the last ones of the stream, are records; lines elsewhere stay text."""
    for chunks in ((stream,), [bytes((byte,)) for byte in stream]):
        assert read(WITH_RECORDS, *chunks) == (records, [], text)


@pytest.mark.parametrize("kind", ["ndjson", "json_document"])
def test_framer_is_named_by_the_contract(kind: Literal["ndjson", "json_document"]) -> None:
    """The contract names the framing; one line of JSON is a record in both JSON framings."""
    assert read(Framed(kind), b'{"a":1}\n')[0] == [{"a": 1}]


@pytest.mark.parametrize(
    "framed, stream",
    [(NDJSON, b'{"a":1}\n{"b":2}\n'), (DOCUMENT, b'{\n"a":1}\n'), (BLOCK, REAL), (TEXT, b"one\ntwo\n")],
)
def test_lines_may_end_in_crlf(framed: Framed, stream: bytes) -> None:
    """CR is white space in JSON: it changes no record and is no problem, and the framer notes it."""
    for data, has_crlf in ((stream, False), (stream.replace(b"\n", b"\r\n"), True)):
        made = framer(framed)
        taken = [*made.feed(data), *made.finish()]
        assert (made.has_crlf, made.problems.first) == (has_crlf, [])
        assert taken == read(framed, stream)[0]


LONG = b'{"a":' + b"1" * 300


@each(
    "framed, stream, message",
    [
        (NDJSON, b' {"a":1}\n', """a line contains more than its JSON object: ' {"a":1}'"""),
        (NDJSON, b"[1]\n", "a line isn't a JSON object: '[1]'"),
        (NDJSON, LONG, f"a line isn't a JSON object: {LONG[:160].decode()!r}"),
        (DOCUMENT, b"[1]\n", "the document isn't a JSON object: '[1]'"),
        (DOCUMENT, b"not\n", "the stream is not one JSON document: 'not'"),
        (BLOCK, b"<Info>\nnot\n</Info>\n", "the block is not JSON: 'not'"),
        (BLOCK, b"<Info>\n[1]\n</Info>\n", "the block is not a JSON object: '[1]'"),
        (BLOCK, b"<Info>\n[1]\n", "no </Info> at the end of the stream"),
    ],
)
def test_problem_is_reported_with_the_start_of_what_it_is_about(framed: Framed, stream: bytes, message: str) -> None:
    """A problem is described in words, with the first bytes of the line, document or block."""
    assert read(framed, stream)[1] == [message]


@pytest.mark.parametrize(
    "stream, records",
    [(b'\x0c{"a":1}\n', []), (b'X{"a":1}X', []), (b'{"a":1} \nbye\n', [{"a": 1}])],
)
def test_blanks_and_newlines_alone_may_stand_round_a_document(stream: bytes, records: list[Record]) -> None:
    """Only blanks and newlines may surround a document; any other character is a problem."""
    taken, problems, _ = read(DOCUMENT, stream)
    assert (taken, len(problems)) == (records, 1)


def test_block_is_kept_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block without an end, only the lines that fit the limit are kept, blank ones included."""
    monkeypatch.setattr(framing, "MAX_TAIL", 20)
    kept = "\n".join("x" * 10)
    assert read(BLOCK, b"<Info>\n" + b"x\n" * 50 + b"</Info>\n")[1] == [f"the block is not JSON: {kept!r}"]
    blank = framer(BLOCK)
    blank.feed(b"<Info>\n" + b"\n" * 500)
    assert len(blank._inside) == 20  # type: ignore[attr-defined]


def test_line_over_the_limit_before_a_block_is_reported() -> None:
    """A line over the limit before a block is reported."""
    records, problems, _ = read(BLOCK, b"x" * (MAX_LINE + 1) + b"\n" + REAL)
    assert records == [{"id": "real"}]
    assert f"a line of {MAX_LINE + 1} bytes" in problems[0]


@pytest.mark.parametrize("framed", [DOCUMENT, TEXT])
def test_stream_may_be_as_long_as_the_limit(framed: Framed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of exactly the maximum length is read whole, without a problem."""
    stream = b'{"a":1}'
    monkeypatch.setattr(framing, "MAX_DOCUMENT", len(stream))
    assert read(framed, stream)[1] == []


def test_carriage_return_is_no_part_of_noise_but_at_its_end() -> None:
    """A line that begins with a carriage return is not the known noise line; a trailing one is ignored."""
    assert len(read(NOISY, b"\rWARN old\n")[1]) == 1


def test_line_that_is_no_object_hides_nothing_of_its_chunk() -> None:
    """Records before and after an invalid line are read, however many lines arrive at once."""
    assert read(NDJSON, b'{"a":1}\noops\n{"b":2}\n')[0] == [{"a": 1}, {"b": 2}]
