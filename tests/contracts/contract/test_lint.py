import pytest

from tests.contracts.contract.test_load import SMALL, found

NONE = "  - {transport: none, unverified: true}\n"
KEPT = """\
  - {transport: acp, argv: [--acp, "{options}"], options: [--auto], interactive: {mode: default},
     permission_requests: [x/ask], one_time: {allow: allow_once, deny: reject_once}, same_id: true, own_store: false,
     evidence: [{clause: resume.accepted}]}
"""


def test_a_kept_engine_that_says_all_is_valid() -> None:
    """The sample from which the others are made is in order."""
    assert NONE in SMALL
    assert found(SMALL.replace(NONE, KEPT)) == []


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        ("options: [--auto]", "options: [--none]", "$.sticky[0].options[0]", "--none is no declared option"),
        (', "{options}"]', "]", "$.sticky[0].argv", "no place for options"),
        ("allow: allow_once", "allow: allow_always", "$.sticky[0].one_time.allow", "lasts for more than one"),
        ("allow: allow_once", "allow: acceptForSession", "$.sticky[0].one_time.allow", "lasts for more than one"),
        ("permission_requests: [x/ask], ", "", "$.sticky[0]", "'permission_requests' is a required property"),
        ("interactive: {mode: default}", "interactive: {}", "$.sticky[0].interactive", "non-empty"),
        ("mode: default", "query: {argv: [c], key: k}", "$.sticky[0].interactive.query", "'values' is a required"),
    ],
)
def test_what_is_wrong_with_a_kept_engine_is_told(old: str, new: str, path: str, message: str) -> None:
    """Each mistake is told with its place."""
    assert KEPT.count(old) == 1
    (error, *_) = found(SMALL.replace(NONE, KEPT.replace(old, new)))
    assert error.path == path
    assert message in error.message
