from tests.tables import each
from turngate.contract import load
from turngate.contract.launch import HelpPage, Launch, PromptChannel

PAGE = HelpPage((), ("--json", "SESSION_ID", "resume"))


@each(
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


def test_a_prompt_is_accepted_if_one_way_can_carry_it() -> None:
    """The largest limit counts, and a way without a limit takes everything."""
    limits = (PromptChannel("argument", ("{text}",), max_bytes=size) for size in (10, 20))
    launch = Launch(("{prompt}",), ("{handle}", "{prompt}"), tuple(limits), ("--yes",), ("--model", "{model}"))
    assert [launch.accepts(size) for size in (10, 20, 21)] == [True, True, False]
    assert [load.load_contract("codex").launch.accepts(size) for size in (2**20, 2**20 + 1)] == [True, False]
    assert load.load_contract("opencode").launch.accepts(10**9)
