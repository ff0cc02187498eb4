import pytest

from turngate.contract.launch import HelpPage

PAGE = HelpPage((), ("--json", "SESSION_ID", "resume"))


@pytest.mark.parametrize(
    "printed, absent",
    [
        ("[--json] <SESSION_ID>, resume.", ()),
        ("--json\nSESSION_ID\nresume", ()),
        ("--jsonl SESSION_IDS resumed", PAGE.names),
        ("x--json --SESSION_ID re-resume", PAGE.names),
        ("", PAGE.names),
        ("SESSION_ID resume --json-lines", ("--json",)),
    ],
)
def test_names_are_looked_for_as_whole_words(printed: str, absent: tuple[str, ...]) -> None:
    """A name that occurs only as a part of another word counts as missing."""
    assert PAGE.missing(printed) == absent
