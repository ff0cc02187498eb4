import shlex

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate.sanitize import bounded, command_line, last_lines, quoted_lines, redact, visible, visible_lines


@given(st.text())
def test_what_is_made_visible_is_printable(text: str) -> None:
    """Control characters, direction marks and unusual blanks are replaced."""
    assert visible(text).isprintable()


def test_escapes_are_shown_as_they_are_written_in_source() -> None:
    """Escapes are written as in source code, so that they can be read."""
    assert visible("a\x1b[31mb\0\u202e\n\u00e9") == "a\\x1b[31mb\\x00\\u202e\\n\u00e9"


def test_lines_are_kept_and_blanks_at_their_ends_dropped() -> None:
    """An excerpt keeps its lines, with tabs as blanks, and loses trailing blanks."""
    assert visible_lines("\na\tb  \r\nc\n\n") == ["a   b  \\r", "c"]


@given(st.text(), st.sampled_from(["| ", "? ", "  ? ", "    10. ", "codex failed: "]), st.integers(0, 60))
def test_no_quoted_line_passes_for_one_of_ours(text: str, mark: str, width: int) -> None:
    """The first line has the mark, the others as much indentation and a bar; the joiners of emoji are kept."""
    first, *others = quoted_lines(text, mark, width)
    bar = mark[: len(mark) - len(mark.lstrip())] + "|"
    assert first.startswith(mark.rstrip())
    assert all(line.startswith(bar) for line in others)
    assert all(line.replace("\u200c", "").replace("\u200d", "").isprintable() for line in (first, *others))


def test_quoted_lines_fit_into_a_terminal() -> None:
    """Lines are broken after blanks if there are some, by the columns that letters take, and nothing is lost."""
    assert quoted_lines("a\n\n\tb\n") == ["| a", "|", "|     b"]
    assert quoted_lines("Paint the old door, or not?", "  1. ", 26) == ["  1. Paint the old door,", "  |  or not?"]
    wide = "\u65e5" * 25
    assert quoted_lines(wide, "| ", 42) == ["| " + wide[:20], "| " + wide[20:]]
    long = "x" * 1000
    assert "".join(line[2:] for line in quoted_lines(long, "| ", 40)) == long
    assert {len(line) for line in quoted_lines(long, "| ", 40)[:-1]} == {40}


@given(st.text(), st.integers(1, 5))
def test_last_lines_are_printable_and_bounded(text: str, count: int) -> None:
    """Of any output, only so many printable lines are shown."""
    lines = last_lines(text, count, 20)
    assert len(lines) <= count
    assert all(line.isprintable() and len(line) <= 12 * 20 + 40 for line in lines)


def test_last_lines_are_clean() -> None:
    """Blank lines, progress before a carriage return, colours and secrets are left out; other marks are shown."""
    said = "first\n\n 10 %\r 20 %\r\n\x1b[31mError:\x1b[0m no rollout found\a\n  token=abcdef0123456789 refused\r\n\n"
    assert last_lines(said, 3) == ["20 %", "Error: no rollout found\\x07", "token=<secret> refused"]
    assert last_lines("\n \n", 3) == []
    assert last_lines("x" * 500, 1)[0].startswith("x" * 225 + "[… 200 characters left out …]")


@given(st.text(), st.integers(0, 50))
def test_bounded_text_keeps_its_ends_and_counts_the_rest(text: str, limit: int) -> None:
    """A short text is unchanged; of a longer one `limit` characters are kept and the number of removed ones shown."""
    short = bounded(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    mark = f"[… {len(text) - limit} characters left out …]"
    head, separator, tail = short.partition(mark)
    assert separator
    assert len(head) + len(tail) == limit
    assert text.startswith(head)
    assert text.endswith(tail)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)))
def test_a_command_line_can_be_pasted(argv: list[str]) -> None:
    """A shell splits the printed command line into the same argv."""
    assert shlex.split(command_line(argv, 100)) == argv


def test_words_of_a_command_line_are_bounded_and_on_one_line() -> None:
    """Each word of a command line is limited in length and printed on one line."""
    line = command_line(["codex", "a\nb" * 1000], 30)
    assert "\n" not in line
    assert "characters left out" in line
    assert len(line) < 120


def test_a_line_keeps_its_own_blanks_and_letters_where_it_begins() -> None:
    """Indentation is kept; only newlines at both ends of a text are removed."""
    assert visible_lines("\n  X \n Y\nX\n") == ["  X", " Y", "X"]


def test_three_quarters_of_bounded_text_are_its_start() -> None:
    """Of a shortened text, three quarters are its start and one quarter its end."""
    assert bounded("a" * 60 + "b" * 40, 40) == "a" * 30 + "[… 60 characters left out …]" + "b" * 10


# typical names of registries; no file of the project names a real one
NPM = "registry.example.com"
PYTHON = "files.pythonhosted.example"


@each(
    "text, shown",
    [
        ("Authorization: Bearer abc123def456", "Authorization: Bearer <secret>"),
        ("api_key=abcd1234efgh", "api_key=<secret>"),
        ('"apiKey": "abcd1234efgh"', '"apiKey": "<secret>"'),
        ("--token abcd1234efgh", "--token <secret>"),
        ("PASSWORD: s3cretsecret", "PASSWORD: <secret>"),
        ("key sk-abcdefghijklmnopqrstuv", "key <secret>"),
        ("AIza" + "b" * 35, "<secret>"),
        ("ghp_" + "a1" * 15, "<secret>"),
        ("http://me:hunter2@proxy:80", "http://me:<secret>@proxy:80"),
        ("http://me:abcdefg1!zz@proxy", "http://me:<secret>@proxy"),
    ],
)
def test_secret_is_hidden(text: str, shown: str) -> None:
    """A credential is replaced whole, but its label stays."""
    assert redact(text) == shown


@each(
    "text",
    [
        "input_tokens: 10",
        "the token is missing",
        "secret sauce",
        "http://127.0.0.1:8999/v1",
        "thread 01a2003b-dfc6-7931-929d-b788434c480d",
        "sk-short",
    ],
)
def test_plain_text_stays(text: str) -> None:
    """Words about secrets, loopback addresses and session ids stay readable."""
    assert redact(text) == text


@each("host", [NPM, PYTHON, NPM.upper(), "registry.example.com", "eu.registry.example.co.uk"])
@each("form", ["{}", "https://{}", "{}:443", "http://{}:8080"])
def test_registry_has_one_name(host: str, form: str) -> None:
    """Any address of a package registry becomes the same placeholder."""
    assert redact(f"asked {form.format(host)}/left-pad twice") == "asked <package-registry>/left-pad twice"


def test_known_strings_are_replaced_longest_first() -> None:
    """A folder inside a known one gets its own placeholder, and an empty string matches nothing."""
    known = {"/srv/a": "<HOME>", "/srv/a/work": "<CWD>", "": "<nothing>"}
    assert redact("/srv/a/work/x and /srv/a/y", known) == "<CWD>/x and <HOME>/y"


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """Redacting placeholders again doesn't change them."""
    assert redact(redact(text)) == redact(text)


@given(st.text(st.characters(categories=("L", "N")), max_size=40), st.text("0123456789abcdef", min_size=8, max_size=60))
def test_no_part_of_a_key_is_left(before: str, key: str) -> None:
    """A bearer token with a digit is removed, whatever precedes it."""
    assert "1" + key not in redact(f"{before} bearer 1{key}")


@each("text", ["a." * 200_000, "token " * 60_000, "://" * 100_000, "sk-" * 100_000, "registry." * 40_000])
def test_long_text_takes_no_longer_than_it_is_long(text: str) -> None:
    """The search takes linear time, even for text that is made to slow it down."""
    assert redact(text)


def test_longest_known_string_comes_first_whatever_it_begins_with() -> None:
    """A shorter known string doesn't break up a longer one that contains it."""
    assert redact("/srv/a", {"srv": "<word>", "/srv/a": "<HOME>"}) == "<HOME>"
