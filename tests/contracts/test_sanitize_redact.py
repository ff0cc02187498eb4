import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.sanitize import redact

# such names as registries have; no file of the project names a real one
NPM = "registry.example.com"
PYTHON = "files.pythonhosted.example"


@pytest.mark.parametrize(
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
    """What looks like a credential is replaced whole; what names it stays."""
    assert redact(text) == shown


@pytest.mark.parametrize(
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
    """Words about secrets, loopback addresses and session ids are evidence, and stay."""
    assert redact(text) == text


@pytest.mark.parametrize("host", [NPM, PYTHON, NPM.upper(), "registry.example.com", "eu.registry.example.co.uk"])
@pytest.mark.parametrize("form", ["{}", "https://{}", "{}:443", "http://{}:8080"])
def test_registry_has_one_name(host: str, form: str) -> None:
    """A package registry is told of by one placeholder, however it is written."""
    assert redact(f"asked {form.format(host)}/left-pad twice") == "asked <package-registry>/left-pad twice"


def test_known_strings_are_replaced_longest_first() -> None:
    """A directory within another known one gets its own name, and an empty string names nothing."""
    known = {"/srv/a": "<HOME>", "/srv/a/work": "<CWD>", "": "<nothing>"}
    assert redact("/srv/a/work/x and /srv/a/y", known) == "<CWD>/x and <HOME>/y"


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """A placeholder is never taken for a secret again."""
    assert redact(redact(text)) == redact(text)


@given(st.text(st.characters(categories=("L", "N")), max_size=40), st.text("0123456789abcdef", min_size=8, max_size=60))
def test_no_part_of_a_key_is_left(before: str, key: str) -> None:
    """Whatever stands before it, a bearer token with a digit in it is gone."""
    assert "1" + key not in redact(f"{before} bearer 1{key}")


@pytest.mark.parametrize(
    "text", ["a." * 200_000, "token " * 60_000, "://" * 100_000, "sk-" * 100_000, "registry." * 40_000]
)
def test_long_text_takes_no_longer_than_it_is_long(text: str) -> None:
    """Text made to send the search back and forth comes through."""
    assert redact(text)


def test_longest_known_string_comes_first_whatever_it_begins_with() -> None:
    """A known word does not break up a longer known string that merely holds it."""
    assert redact("/srv/a", {"srv": "<word>", "/srv/a": "<HOME>"}) == "<HOME>"
