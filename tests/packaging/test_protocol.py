"""`docs/protocol.md` matches the envelope's schema and the server's prompts."""

import json
import re
from pathlib import Path

import pytest

from turngate import mode_patch
from turngate.contract import load
from turngate.files import contract_files
from turngate.model import Mode, Repair
from turngate.strict_json import MAX_DEPTH
from turngate.turn.envelope import KINDS, MAX_TEXT, Envelope, read_envelope
from turngate_reference.server.orchestrator.headless import artifact_patch
from turngate_reference.server.web import openapi

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text("utf-8")
ASKED = load.schema("envelope")["allOf"][0]["then"]["properties"]["interaction"]


def blocks(kind: str, text: str = PAGE) -> list[str]:
    """Return the fenced blocks in a language, without the final newline."""
    return [match[1] for match in re.findall(rf"^(`{{3,}}){kind}\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)]


def section(title: str) -> str:
    """Return the text of a section, up to the next heading."""
    return re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table in a section, without its header."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def one_line(text: str) -> str:
    """Return the text on one line."""
    return re.sub(r"\s+", " ", text).strip()


def test_the_examples_of_envelopes_are_valid() -> None:
    """The page has an example of both outcomes, and each is a valid envelope."""
    envelopes = [read_envelope(example) for example in blocks("json", section("The envelope"))]
    assert [type(envelope) for envelope in envelopes] == [Envelope, Envelope]
    assert [json.loads(example)["outcome"] for example in blocks("json", section("The envelope"))] == [
        "final",
        "ask_user",
    ]


def test_the_members_are_those_of_the_schema() -> None:
    """The table lists every member, with its limits."""
    members = {name.strip("`"): kind for name, kind, _ in rows("The envelope")}
    assert list(members) == list(ASKED["properties"]) == ASKED["required"]
    assert str(ASKED["properties"]["prompt"]["maxLength"]) in members["prompt"]
    for name in ("options", "required_fields"):
        entries = ASKED["properties"][name]
        limits = f"at most {entries['maxItems']} strings of 1 to {entries['items']['maxLength']} characters"
        assert limits in members[name]


def test_the_kinds_are_those_of_the_schema() -> None:
    """The table lists all kinds with the members that the schema requires."""
    table = rows("The five kinds")
    assert [row[0].strip("`") for row in table] == [*KINDS] == ASKED["properties"]["kind"]["enum"]
    bare: dict[str, object] = {"prompt": "Sure?", "options": [], "required_fields": [], "context": {}}
    for kind, _, needed in table:
        asked = {**bare, "kind": kind.strip("`")}
        assert isinstance(envelope_of(asked), Envelope) is not bool(needed)
        for member in re.findall(r"`(\w+)`", needed):
            assert isinstance(envelope_of({**asked, member: ["x"]}), Envelope)


def envelope_of(asked: dict[str, object]) -> object:
    """Parse a question as an agent would send it."""
    return read_envelope(json.dumps({"outcome": "ask_user", "interaction": asked}))


def test_each_repair_level_has_an_example_that_needs_it() -> None:
    """The page has an example of each repair level, in the order in which they are tried."""
    levels = re.findall(r"^`(\w+)`: ", section("Finding the envelope"), re.MULTILINE)
    assert levels == [*Repair]
    for level, example in zip(levels, blocks("text", section("Finding the envelope")), strict=True):
        envelope = read_envelope(example)
        assert isinstance(envelope, Envelope)
        assert envelope.repair == level


def test_the_limits_are_those_of_the_code() -> None:
    """The limits of an answer, its nesting and a reply match the code."""
    text = one_line(PAGE)
    assert f"longer than {MAX_TEXT} characters" in text
    assert f"more than {MAX_DEPTH} levels of nesting" in text
    reply = openapi.document()["components"]["schemas"]["Reply"]["properties"]["response"]
    assert f"longer than {reply['maxLength']} characters" in text


def test_the_texts_are_those_that_the_server_adds() -> None:
    """The page quotes the text of the prompts exactly."""
    (artifacts,) = blocks("text", section("The artifact text"))
    assert one_line(artifacts) == artifact_patch(Path("DIRECTORY"))
    interactive, auto, schema = blocks("text", section("The mode text"))
    assert one_line(interactive) == mode_patch(Mode.INTERACTIVE, None)
    assert one_line(auto) == mode_patch(Mode.AUTO, None)
    for mode in Mode:
        added = "final_data" + schema.replace("SCHEMA", '{"type": "object"}')
        assert added in mode_patch(mode, {"type": "object"})


def test_the_engines_that_write_artifacts_are_those_of_the_contracts() -> None:
    """The page lists each engine that can be held to the directory, and since which release."""
    contracts = [load.contract(name) for name in contract_files()]
    since = {
        contract.at().title: claim.data["since"]
        for contract in contracts
        for claim in contract.document.claims("artifacts")
    }
    assert {title: release for title, release, _ in rows("The artifact text")} == since


@pytest.mark.parametrize("code", ["INVALID_REQUEST", "PROMPT_REFUSED", "REPLY_NOT_AN_OPTION"])
def test_the_refusals_of_a_reply_are_those_of_the_api(code: str) -> None:
    """The page lists each error code of a reply with its status."""
    assert f"(422, `{code}`)" in one_line(PAGE)
    assert openapi.problems()[code]["status"] == 422
