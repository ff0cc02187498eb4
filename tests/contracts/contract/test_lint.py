from collections.abc import Sequence
from copy import deepcopy

import pytest
from msgspec.structs import replace

from tests.contracts.contract.test_load import SMALL, found
from tests.contracts.releases import IDS
from turngate.argv.build import resume, start
from turngate.contract import lint, load
from turngate.contract.structs import EngineContract
from turngate.errors import ContractError
from turngate.model import Mode


def launched(engine: str, key: str, template: Sequence[str]) -> load.Contract:
    """Return a packaged contract of which every release has another template."""
    document = deepcopy(load.contract(engine).document)
    launch = document.data["launch"]
    for claim in (launch, *(change["set"] for change in launch.get("changes", ()))):
        claim[key] = list(template)
    return load.Contract(document)


@pytest.mark.parametrize(
    "engine, template",
    [
        ("codex", ["exec", "{options}", "resume", "--last", "{prompt}"]),
        ("gemini", ["--output-format", "json", "{options}", "--resume", "latest", "{prompt}"]),
        ("opencode", ["run", "{options}", "--continue", "{prompt}"]),
    ],
)
def test_a_resume_without_the_session_id_is_told_and_never_built(engine: str, template: list[str]) -> None:
    """A resume of whatever was last is an error of the contract, by whichever way it is met."""
    wrong = launched(engine, "resume", template)
    told = {(error.path.rpartition(".")[2], error.message) for error in lint.problems(wrong.document)}
    assert told == {("resume", "has no place for the session id")}
    with pytest.raises(ContractError, match=r"the resume of \w+ has no place for the session id"):
        resume(wrong.at(), "hello", Mode.AUTO, IDS[engine])


OLD = 'start: [old, "{options}", "{prompt}"]'
AGAIN = 'resume: [old, "{options}", resume, "{handle}", "{prompt}"]'


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        (AGAIN, AGAIN.replace('"{handle}", ', ""), "resume", "has no place for the session id"),
        (AGAIN, AGAIN.replace("old", '"--id={handle}"'), "resume[3]", "has more than one place for the session id"),
        (AGAIN, AGAIN.replace(', "{prompt}"', ""), "resume", "has no place for the prompt"),
        (AGAIN, AGAIN.replace('"{options}", ', ""), "resume", "has no place for the options"),
        (AGAIN, AGAIN.replace("old", '"{options}"'), "resume[1]", "has more than one place for the options"),
        (AGAIN, AGAIN.replace("old", '"{prompt}"'), "resume[4]", "has more than one place for the prompt"),
        (AGAIN, AGAIN.replace("old", "--auto"), "resume", "--auto lets the engine act without asking"),
        (OLD, OLD.replace("old", '"{handle}"'), "start[0]", "can't hold the session id"),
        (OLD, OLD.replace(', "{prompt}"', ""), "start", "has no place for the prompt"),
        (OLD, OLD.replace('"{options}", ', ""), "start", "has no place for the options"),
        (OLD, OLD.replace("old", "--Auto"), "start", "--Auto lets the engine act without asking"),
        ('["--", "{text}"]', '["--"]', "prompt[0].tokens", "has no place for the prompt"),
        ('["--", "{text}"]', '["{text}", "{text}"]', "prompt[0].tokens[1]", "has more than one place for the prompt"),
        ('["--", "{text}"]', '[--auto, "{text}"]', "prompt[0].tokens", "--auto lets the engine act"),
        ("    unverified: true\n  - since", "    interactive: [--auto]\n    unverified: true\n  - since", "interactive",
         "--auto lets the engine act"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_launch_is_told_with_its_place(old: str, new: str, path: str, message: str) -> None:
    """A slot that is missing, doubled or out of place, and a flag that widens, are told with line, path and remedy."""
    assert SMALL.count(old) == 1
    (error,) = found(SMALL.replace(old, new))
    assert error.path == f"$.launch[0].{path}"
    assert message in error.message
    assert error.hint
    assert 14 <= error.line <= 20


def test_text_of_a_prompt_that_goes_by_standard_input_is_no_token() -> None:
    """A prompt travels one way: an argument that held it too would send it twice."""
    (error,) = found(SMALL.replace('tokens: ["-"]', 'tokens: ["{text}"]'))
    assert (error.path, error.message) == ("$.launch[1].prompt[0].tokens[0]", "can't hold the prompt")


def test_a_flag_that_widens_at_other_releases_alone_is_none() -> None:
    """What a flag does is asked at the releases that have the launch, and at no others."""
    named = SMALL.replace("new, ", "new, --late, ")
    widening = "auto_flags:\n  - {flag: --late, UNTIL, unverified: true}\n"
    assert found(named.replace("auto_flags:\n", widening.replace("UNTIL", "until: 0.140.0"))) == []
    told = found(named.replace("auto_flags:\n", widening.replace("UNTIL", "until: 0.150.0")))
    assert [error.path for error in told] == ["$.launch[1].start", "$.launch[1].resume"]


@pytest.mark.parametrize("key", ["start", "resume"])
def test_a_prompt_that_has_no_place_is_never_left_out(key: str) -> None:
    """Where the prompt is an argument, a template without a place for it is not filled."""
    known = launched("iflow", key, ["{options}", "--resume", "{handle}"]).at()
    by_argument = tuple(channel for channel in known.launch.prompt if channel.via == "argument")
    contract: EngineContract = replace(known, launch=replace(known.launch, prompt=by_argument))
    with pytest.raises(ContractError, match="the template of iflow has no place for the prompt"):
        resume(contract, "hello", Mode.AUTO, IDS["iflow"]) if key == "resume" else start(contract, "hello", Mode.AUTO)


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
