"""The steps of docs/writing-a-contract.md, from a new engine to its contract, probe and recordings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import HURRIED
from turngate import RefusedError, first_turn, read_turn
from turngate.contract import lint, load
from turngate.contract.load import Contract

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "writing-a-contract.md").read_text("utf-8")
RELEASES = (DOCS / "contract-releases.md").read_text("utf-8")
SAFETY = (DOCS / "contract-safety.md").read_text("utf-8")


def examples(page: str) -> list[str]:
    """Return the YAML examples of a page."""
    return re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)


FIRST, CONTRACT, NO_AUTO_FLAGS = examples(PAGE)
LINES, FAILURES, OUTPUTS, OUTPUT_SETTINGS, STICKY = examples((DOCS / "contract-output.md").read_text("utf-8"))
STORE, COPIED, SANDBOXES = examples((DOCS / "contract-probe.md").read_text("utf-8"))
SIGNS, SETTINGS, UNSAFE, REDIRECTS, CANARIES, ONGOING, QUESTIONS, ARTIFACTS, MARKS, INSTRUCTIONS = examples(SAFETY)
CHANGE, DEVIATIONS, LISTINGS = examples(RELEASES)
(ENGINE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE + RELEASES, re.DOTALL)


def test_the_first_contract_is_valid_and_short() -> None:
    """The first contract says only what a conversation needs, in about ten lines; the rest has defaults."""
    assert len(FIRST.splitlines()) <= 12
    assert max(map(len, FIRST.splitlines())) <= 120
    document = load.parse(FIRST, "acme.yaml")
    assert list(lint.problems(document)) == []
    contract = Contract(document).at("1.0.0")
    assert (contract.title, contract.executable, contract.sticky.transport) == ("acme", "acme", "none")
    assert (contract.help.pages[0].argv, contract.streams.stderr.framing) == (("--help",), "text")
    assert "--resume" in contract.help.pages[0].names


def test_the_contract_resolves() -> None:
    """The page's contract covers the version that the engine prints."""
    contract = Contract(load.parse(CONTRACT, "acme.yaml")).at("1.0.0")
    assert contract.launch.auto == ("--yes",)
    assert set(re.findall(r'"(--[a-z]+)"', ENGINE)) >= set(contract.help.pages[0].names)


def test_the_example_of_a_change_is_valid() -> None:
    """The example of a change is valid in place of its section."""
    document = load.parse(re.sub(r"^end: .*\n", CHANGE, CONTRACT, flags=re.MULTILINE), "acme.yaml")
    assert list(lint.problems(document)) == []
    ends = [Contract(document).at(version).end.match for version in ("1.3.2", "1.4.0")]
    assert ends == [{"type": "done"}, {"type": "turn.done"}]


def test_the_example_of_an_engine_without_auto_flags_is_valid() -> None:
    """The example is valid in place of its section, in a contract whose mode auto passes no option."""
    text = re.sub(r"(?m)^auto_flags:\n(?:  .*\n)+", NO_AUTO_FLAGS, CONTRACT.replace("auto: [--yes]", "auto: []"))
    assert NO_AUTO_FLAGS in text
    document = load.parse(text, "acme.yaml")
    assert list(lint.problems(document)) == []
    assert Contract(document).at("1.0.0").auto_flags == ()


def test_the_example_of_a_store_is_valid() -> None:
    """The example of a store is valid in the page's contract, and its location is a slot in other sections."""
    slots = CONTRACT.replace('directory: "{HOME}/.acme"', 'directory: "{ACME_HOME}"')
    document = load.parse(slots + STORE, "acme.yaml")
    assert slots != CONTRACT
    assert list(lint.problems(document)) == []


def test_the_example_of_a_session_id_in_plain_text_is_valid() -> None:
    """The example of records in a text is valid in place of its sections, and reads what it describes."""
    others = re.split(r"(?m)^(?=\w)", CONTRACT)
    kept = [part for part in others if not part.startswith(("streams", "events", "handle", "end", "final"))]
    document = load.parse("".join(kept) + LINES, "acme.yaml")
    assert list(lint.problems(document)) == []
    stderr = b"session id: 0123456789ab\nuser\nsession id: ba9876543210\ntokens used\n12\n"
    reading = read_turn(Contract(document).at("1.0.0"), "auto", b"Done.\n", stderr, 0)
    assert reading.session is not None
    assert (reading.session.handle_value, reading.result.final_data) == ("0123456789ab", {"text": "Done."})


def test_the_example_of_a_failure_is_valid() -> None:
    """The example is valid in the page's contract, and fails the turn of the record that the page shows."""
    document = load.parse(CONTRACT.replace("text, done]", "text, done, error]") + FAILURES, "acme.yaml")
    assert list(lint.problems(document)) == []
    contract = Contract(document).at("1.0.0")
    (record,) = re.findall(r'`(\{"type": "error".*?\})`', (DOCS / "contract-output.md").read_text("utf-8"))
    stdout = f'{{"type": "started", "session": "0123456789ab"}}\n{record}\n{{"type": "done"}}\n'
    reading = read_turn(contract, "auto", stdout.encode(), b"", 0)
    assert (reading.failures, reading.unknown) == (("no credit",), ())
    assert "no credit" in (reading.result.failure_reason or "")


def test_the_example_of_an_output_mode_is_valid() -> None:
    """The example of another output mode is valid in the page's contract, and replaces its arguments."""
    document = load.parse(
        CONTRACT.replace("  auto: [--yes]\n", "  auto: [--yes]\n  output: json\n") + OUTPUTS, "acme.yaml"
    )
    assert list(lint.problems(document)) == []
    assert Contract(document).at("1.0.0").in_output("stream-json").launch.start[:2] == ("--output", "stream-json")


def test_the_example_of_a_call_that_goes_on_is_valid() -> None:
    """The example of a call that outlives a turn is valid in the page's contract."""
    document = load.parse(CONTRACT + ONGOING, "acme.yaml")
    assert list(lint.problems(document)) == []
    (call,) = Contract(document).at("1.0.0").ongoing_calls
    assert call.tool == "remind_me"


def test_the_example_of_a_question_is_valid() -> None:
    """The example of a tool for questions is valid in the page's contract."""
    document = load.parse(CONTRACT + QUESTIONS, "acme.yaml")
    assert list(lint.problems(document)) == []
    (call,) = Contract(document).at("1.0.0").question_calls
    assert re.search(call.refused or "", "nobody can answer in this mode")


def test_the_example_of_a_sandbox_is_valid() -> None:
    """The example of a sandbox for commands is valid in the page's contract."""
    document = load.parse(CONTRACT + SANDBOXES, "acme.yaml")
    assert list(lint.problems(document)) == []
    (sandbox,) = Contract(document).at("1.0.0").command_sandboxes
    assert sandbox.call


def test_the_example_of_a_canary_is_valid() -> None:
    """The example of a canary is valid in the page's contract."""
    document = load.parse(CONTRACT + CANARIES, "acme.yaml")
    assert list(lint.problems(document)) == []
    (canary,) = Contract(document).at("1.0.0").canaries
    assert canary.name in canary.files[0].content


def test_the_examples_of_surroundings_are_valid() -> None:
    """The examples of settings, redirects, guards and marks are valid in the page's contract."""
    document = load.parse(CONTRACT + SETTINGS + UNSAFE + COPIED + REDIRECTS + MARKS, "acme.yaml")
    assert list(lint.problems(document)) == []
    contract = Contract(document).at("1.0.0")
    assert contract.redirects[0].unset[0] in contract.guards.env
    with pytest.raises(RefusedError, match="by itself"):
        first_turn(contract, "Read @/etc/passwd", "interactive")


def test_the_example_of_artifacts_is_valid() -> None:
    """The example of artifacts is valid in the page's contract, once its options are declared."""
    declared = "".join(
        f"  - {{flag: {flag}, value: required, unverified: true}}\n"
        for flag in ("--approval", "--policy", "--writable", "--sandbox")
    )
    document = load.parse(CONTRACT.replace("auto_flags:", f"{declared}auto_flags:") + ARTIFACTS, "acme.yaml")
    assert list(lint.problems(document)) == []
    artifacts = Contract(document).at("1.0.0").artifacts
    assert artifacts
    assert artifacts.yields_to == ("--sandbox",)


def test_the_example_of_a_process_for_several_turns_is_valid() -> None:
    """The example of JSON commands is valid in the page's contract."""
    document = load.parse(re.sub(r"^sticky: .*\n", STICKY, CONTRACT, flags=re.MULTILINE), "acme.yaml")
    assert list(lint.problems(document)) == []
    assert Contract(document).at("1.0.0").sticky.transport == "json_commands"


def test_the_examples_of_deviations_and_signs_are_valid() -> None:
    """The examples of a deviation and of both kinds of signs are valid in the page's contract."""
    document = load.parse(CONTRACT + DEVIATIONS + SIGNS, "acme.yaml")
    assert list(lint.problems(document)) == []
    contract = Contract(document).at("1.0.0")
    assert [bool(sign.tools) for sign in contract.approval_signs] == [True, False]
    assert len(contract.deviations) == 1


def test_every_symptom_is_one_of_a_clause() -> None:
    """A contract can declare exactly the symptoms of the catalogue."""
    enumerated = load.schema("engine")["$defs"]["Deviation"]["properties"]["symptom"]["enum"]
    assert {symptom for clause in load.catalogue().values() for symptom in clause.symptoms} == {*enumerated}


def test_every_key_of_a_sign_is_explained() -> None:
    """The page explains each key of an approval sign."""
    keys = set(load.schema("engine")["$defs"]["ApprovalSign"]["properties"]) - set(
        load.schema("engine")["$defs"]["Basis"]["properties"]
    )
    assert all(f"`{key}`" in SAFETY for key in keys - {"changes"})


def hurried(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `turngate` doesn't wait for a later minute."""
    program = tmp_path / "bin/turngate"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{HURRIED}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "engine, contract, code, said",
    [
        (ENGINE.replace("if not args.yes:", "if False:"), CONTRACT, 1, r"broken .* 1 failed, 0 not run"),
        (ENGINE, re.sub(r"  tool_call: .*\n", "", CONTRACT), 2, r"unanswered .* 0 failed, 2 not run"),
    ],
    ids=["writes unasked", "no tool call"],
)
def test_an_engine_must_be_seen_to_ask(tmp_path: Path, engine: str, contract: str, code: int, said: str) -> None:
    """One that writes without its flag is broken, and one whose contract names no tool that writes is unanswered."""
    env, file = hurried(tmp_path), tmp_path / "my/engines/acme.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(contract)
    (tmp_path / "acme").write_text(engine)
    (tmp_path / "acme").chmod(0o755)
    command = ("turngate", "--contracts", "my", "probe", "acme=./acme", "--strict")
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert re.search(rf"^acme  1.0.0  {said}", ended.stdout, re.MULTILINE), ended.stdout
    assert "interactive.tool-call" in ended.stdout


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_page_works_from_nothing_to_recordings(tmp_path: Path) -> None:
    """The page's commands give the output that it shows, in order, without the wait for a later minute."""
    folder, env = tmp_path / "work", hurried(tmp_path)
    (folder / "first/engines").mkdir(parents=True)
    (folder / "first/engines/acme.yaml").write_text(FIRST)
    (folder / "acme").write_text(ENGINE)
    printed = {}
    for block in BLOCKS:
        for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if command.startswith("turngate stub"):  # it runs until it is stopped
                continue
            ended = subprocess.run(
                ("bash", "-c", command), cwd=folder, env=env, capture_output=True, text=True, check=False
            )
            assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
            assert ended.stdout.startswith(output)
            printed[command] = ended.stdout
            if "--start-args" in command:  # the draft, which the page completes
                (folder / "my/engines/acme.yaml").write_text(CONTRACT)
    (resumed,) = [said for command, said in printed.items() if command.endswith("--resume")]
    (whole,) = [said for command, said in printed.items() if command.endswith("probe acme=./acme")]
    (broken,) = [said for command, said in printed.items() if "acme-next --clause" in command]
    assert re.search(r"^acme  1.0.0  no verdict  6 clauses: 6 passed, .*  resumable", resumed, re.MULTILINE)
    assert re.search(r"^acme  1.0.0  compatible  .* 0 failed", whole, re.MULTILINE)
    assert "fail handle.present" in broken
    assert (folder / "my/fixtures/acme/1.0.0/main-first").is_dir()


def test_the_example_of_an_instruction_file_is_valid() -> None:
    """The example is valid in the page's contract, and finds what a file imports and what a setting names."""
    document = load.parse(CONTRACT + INSTRUCTIONS, "acme.yaml")
    assert list(lint.problems(document)) == []
    file, named = Contract(document).at("1.4.0").instruction_files
    assert re.findall(file.imports or "", "See @a/b.md") == ["a/b.md"]
    assert named.named_in
    assert re.findall(named.named_in.pattern, '{"instructions": ["a.md", "b.md"]}') == ['["a.md", "b.md"]']


def test_the_example_of_listings_is_valid() -> None:
    """The example is valid in the page's contract, and asks for the help pages of all subcommands."""
    document = load.parse(CONTRACT + LISTINGS, "acme.yaml")
    assert list(lint.problems(document)) == []
    pages, models = Contract(document).at("1.4.0").listings
    assert (pages.asks_subcommands, models.asks_subcommands) == (True, False)


def test_the_example_of_output_settings_is_valid() -> None:
    """The example is valid in the page's contract, and shows by different signs what is in force."""
    document = load.parse(CONTRACT + OUTPUT_SETTINGS, "acme.yaml")
    assert list(lint.problems(document)) == []
    language, notify = Contract(document).at("1.4.0").output_settings
    assert (language.shows.sent, notify.shows.started) == ("[Gg]erman", True)
