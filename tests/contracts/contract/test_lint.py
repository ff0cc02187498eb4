from collections.abc import Sequence
from copy import deepcopy

import pytest
from msgspec.structs import replace

from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake
from tests.contracts.releases import IDS
from tests.tables import each
from turngate.argv.build import first_turn, resumed_turn
from turngate.contract import lint, load
from turngate.contract.engine_contract import EngineContract
from turngate.errors import ContractError
from turngate.model import Mode


def launched(engine: str, key: str, template: Sequence[str]) -> load.Contract:
    """Return a packaged contract with another template at every release."""
    document = deepcopy(load.contract(engine).document)
    launch = document.data["launch"]
    for claim in (launch, *(change["set"] for change in launch.get("changes", ()))):
        claim[key] = list(template)
    return load.Contract(document)


@pytest.mark.parametrize(
    "engine, template",
    [
        ("codex", ["exec", "--json", "{options}", "resume", "--last", "{prompt}"]),
        ("gemini", ["--output-format", "json", "{options}", "--resume", "latest", "{prompt}"]),
        ("opencode", ["run", "{options}", "--continue", "{prompt}"]),
    ],
)
def test_a_resume_without_the_session_id_is_reported_and_never_built(engine: str, template: list[str]) -> None:
    """A resume template without a session id is reported by the lint, and building a turn from it fails."""
    wrong = launched(engine, "resume", template)
    reported = {(error.path.rpartition(".")[2], error.what) for error in lint.problems(wrong.document)}
    assert reported == {("resume", "has no slot for the session id")}
    with pytest.raises(ContractError, match=r"the resume template of \w+ has no slot for the session id"):
        resumed_turn(wrong.at(), "hello", Mode.AUTO, IDS[engine])


OLD = 'start: [old, "{options}", "{prompt}"]'


AGAIN = 'resume: [old, "{options}", resume, "{handle}", "{prompt}"]'


@each(
    "old, new, path, message",
    [
        (AGAIN, AGAIN.replace('"{handle}", ', ""), "resume", "has no slot for the session id"),
        (AGAIN, AGAIN.replace("old", '"--id={handle}"'), "resume[3]", "has more than one slot for the session id"),
        (AGAIN, AGAIN.replace(', "{prompt}"', ""), "resume", "has no slot for the prompt"),
        (AGAIN, AGAIN.replace('"{options}", ', ""), "resume", "has no slot for the options"),
        (AGAIN, AGAIN.replace("old", '"{options}"'), "resume[1]", "has more than one slot for the options"),
        (AGAIN, AGAIN.replace("old", '"{prompt}"'), "resume[4]", "has more than one slot for the prompt"),
        (AGAIN, AGAIN.replace("old", "--auto"), "resume", "--auto lets the engine act without asking"),
        (OLD, OLD.replace("old", '"{handle}"'), "start[0]", "can't hold the session id"),
        (OLD, OLD.replace(', "{prompt}"', ""), "start", "has no slot for the prompt"),
        (OLD, OLD.replace('"{options}", ', ""), "start", "has no slot for the options"),
        (OLD, OLD.replace("old", "--Auto"), "start", "--Auto lets the engine act without asking"),
        ('["--", "{text}"]', '["--"]', "prompt[0].tokens", "has no slot for the prompt"),
        ('["--", "{text}"]', '["{text}", "{text}"]', "prompt[0].tokens[1]", "has more than one slot for the prompt"),
        ('["--", "{text}"]', '[--auto, "{text}"]', "prompt[0].tokens", "--auto lets the engine act"),
        (
            "    unverified: true\n  - since",
            "    interactive: [--auto]\n    unverified: true\n  - since",
            "interactive",
            "--auto lets the engine act",
        ),
    ],
)
def test_what_is_wrong_with_a_launch_is_reported_with_its_place(old: str, new: str, path: str, message: str) -> None:
    """A slot that is missing, doubled or misplaced, or a flag that widens approval, is reported with its place."""
    assert SMALL.count(old) == 1
    (error,) = mistakes_in(SMALL.replace(old, new))
    assert error.path == f"$.launch[0].{path}"
    assert message in error.what
    assert error.hint
    assert 14 <= error.line <= 20


def test_text_of_a_prompt_that_goes_by_standard_input_is_no_token() -> None:
    """If the prompt goes to stdin, its tokens must not hold it too, else it would be sent twice."""
    (error,) = mistakes_in(SMALL.replace('tokens: ["-"]', 'tokens: ["{text}"]'))
    assert (error.path, error.what) == ("$.launch[1].prompt[0].tokens[0]", "can't hold the prompt")


def test_a_flag_that_widens_at_other_releases_alone_is_none() -> None:
    """A flag is checked only at the releases of the launch that uses it."""
    named = SMALL.replace("new, ", "new, --late, ")
    widening = "auto_flags:\n  - {flag: --late, UNTIL, unverified: true}\n"
    assert mistakes_in(named.replace("auto_flags:\n", widening.replace("UNTIL", "until: 0.140.0"))) == []
    reported = mistakes_in(named.replace("auto_flags:\n", widening.replace("UNTIL", "until: 0.150.0")))
    assert [error.path for error in reported] == ["$.launch[1].start", "$.launch[1].resume"]


@pytest.mark.parametrize("key", ["start", "resume"])
def test_a_prompt_that_has_no_place_is_never_left_out(key: str) -> None:
    """Building a turn fails if the prompt is an argument and the template has no slot for it."""
    known = launched("iflow", key, ["{options}", "--resume", "{handle}"]).at()
    by_argument = tuple(channel for channel in known.launch.prompt if channel.via == "argument")
    contract: EngineContract = replace(known, launch=replace(known.launch, prompt=by_argument))
    with pytest.raises(ContractError, match="the template of iflow has no slot for the prompt"):
        resumed_turn(contract, "hello", Mode.AUTO, IDS["iflow"]) if key == "resume" else first_turn(
            contract, "hello", Mode.AUTO
        )


NONE = "  - {transport: none, unverified: true}\n"


KEPT = """\
  - {transport: acp, argv: [--acp, "{options}"], options: [--auto], interactive: {mode: default},
     permission_requests: [x/ask], one_time: {allow: allow_once, deny: reject_once},
    keeps_session_id: true, private_store: false,
     evidence: [{clause: resume.accepted}]}
"""


def test_a_kept_engine_that_says_all_is_valid() -> None:
    """The complete sample, from which the other tests are made, has no errors."""
    assert NONE in SMALL
    assert mistakes_in(SMALL.replace(NONE, KEPT)) == []


@each(
    "old, new, path, message",
    [
        ("options: [--auto]", "options: [--none]", "$.sticky[0].options[0]", "--none isn't a declared option"),
        (', "{options}"]', "]", "$.sticky[0].argv", "no slot for options"),
        ("allow: allow_once", "allow: allow_always", "$.sticky[0].one_time.allow", "covers more than one"),
        ("allow: allow_once", "allow: acceptForSession", "$.sticky[0].one_time.allow", "covers more than one"),
        ("permission_requests: [x/ask], ", "", "$.sticky[0]", "'permission_requests' is a required property"),
        ("interactive: {mode: default}", "interactive: {}", "$.sticky[0].interactive", "non-empty"),
        ("mode: default", "query: {argv: [c], key: k}", "$.sticky[0].interactive.query", "'values' is a required"),
    ],
)
def test_what_is_wrong_with_a_kept_engine_is_reported(old: str, new: str, path: str, message: str) -> None:
    """Each error in a sticky section is reported with its place."""
    assert KEPT.count(old) == 1
    (error, *_) = mistakes_in(SMALL.replace(NONE, KEPT.replace(old, new)))
    assert error.path == path
    assert message in error.what


def test_small_contract_is_valid() -> None:
    """The small contract that the other tests edit has no errors."""
    assert mistakes_in(SMALL) == []


COPIED = """\
copied_settings:
  files: [{file: "{X}/a.json", into: "{home}/a.json", keys: [a]}]
  unverified: true
"""


@each(
    "old, new, path, message",
    [
        (
            "  - since: 0.140.0\n    start",
            "  - since: 0.139.0\n    start",
            "$.launch[1]",
            "covers releases that entry 0 also covers",
        ),
        ("  - since: 0.140.0\n    start", "  - start", "$.launch[1]", "covers releases that entry 0 also covers"),
        (
            "  - since: 0.140.0\n    start",
            "  - until: 0.1.0\n    start",
            "$.launch[1]",
            "covers releases that entry 0 also covers",
        ),
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.140.0",
            "$.options[1].until",
            "is not after",
        ),
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.99.0",
            "$.options[1].until",
            "is not after",
        ),
        ("clause: stdin.open", "clause: stdin.shut", "$.deviations[0].clause", "unknown clause 'stdin.shut'"),
        ("clause: stdin.open", "clause: handle.present", "$.deviations[0].clause", "is a baseline"),
        ("clause: stdin.open", "clause: interactive.no-auto-flags", "$.deviations[0].clause", "is a baseline"),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: s0000000",
            "$.handle[0].nonexistent_id",
            "does not have the shape",
        ),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: 's00000000 '",
            "$.handle[0].nonexistent_id",
            "does not have the shape",
        ),
        ("(?P<version>.+)", "(.+)", "$.version[0].pattern", "has no group named `version`"),
        (
            "locations: [SMALL_HOME]",
            "locations: [SMALL_KEY]",
            "$.environment[0].locations[0]",
            "SMALL_KEY is also listed under `pass`",
        ),
        ("locations: [SMALL_HOME]", "locations: [A_Token]", "$.environment[0].locations[0]", "may contain a secret"),
        (
            "locations: [SMALL_HOME]",
            "locations: [SMALL_HOME, XAPIKEY]",
            "$.environment[0].locations[1]",
            "may contain a secret",
        ),
        (
            '{directory: "{HOME}/small"',
            '{directory: "{HOME}/{X}"',
            "$.resume_probe[0].directory",
            "unknown slot {X}",
        ),
        (
            "deviations:\n",
            'instruction_files: [{named_in: {file: "{X}/a", pattern: (?P<names>a)}, unverified: true}]\ndeviations:\n',
            "$.instruction_files[0].named_in.file",
            "unknown slot {X}",
        ),
        (
            "deviations:\n",
            'unsafe_settings:\n  - {name: a, files: "{X}/*", pattern: a, remedy: a, unverified: true}\ndeviations:\n',
            "$.unsafe_settings[0].files",
            "unknown slot {X}",
        ),
        (
            "deviations:\n",
            f"{COPIED}deviations:\n",
            "$.copied_settings.files[0].file",
            "unknown slot {X}",
        ),
        (
            "deviations:\n",
            "copied_settings: {env: [OTHER], unverified: true}\ndeviations:\n",
            "$.copied_settings.env[0]",
            "OTHER is not listed under `pass`",
        ),
        (
            "deviations:\n",
            "copied_settings: {env: [SMALL_KEY], unverified: true}\ndeviations:\n",
            "$.copied_settings.env[0]",
            "may contain a secret",
        ),
        (
            'prompt: [{via: stdin, tokens: ["-"]}]\n    auto: [--auto]',
            'prompt: [{via: stdin, tokens: ["-"]}]\n    auto: [--all]',
            "$.launch[1].auto[0]",
            "--all isn't a declared option",
        ),
    ],
)
def test_what_a_schema_can_not_say_is_reported(old: str, new: str, path: str, message: str) -> None:
    """Overlapping ranges, undeclared names and malformed values are reported with place and remedy."""
    assert SMALL.count(old) == 1
    error = mistakes_in(SMALL.replace(old, new))[0]
    assert error.path == path
    assert message in error.what
    assert error.line > 1
    assert error.hint


def test_shape_that_admits_a_flag_is_reported() -> None:
    """A shape that matches `--x` is an error."""
    broken = SMALL.replace("shape: 's[0-9]{8}'", "shape: '.*'")
    assert any(error.path == "$.handle[0].shape" and "look like flags" in error.what for error in mistakes_in(broken))


@pytest.mark.parametrize("key", ["auto", "interactive", "model"])
def test_token_of_a_launch_is_an_option_by_name_or_alias(key: str) -> None:
    """Every option in a launch must be declared by name or alias, with or without an attached value."""
    declared = SMALL.replace("flag: --late,", "flag: --late, aliases: [-l],")
    for token in ("--late", "-l", "--late=1", "word"):
        assert mistakes_in(declared.replace("    model: []", f"    {key}: [{token}]", 1).replace(*_twice(key))) == []
    broken = declared.replace("    model: []", f"    {key}: [--late, --latest=1]", 1).replace(*_twice(key))
    error = only_mistake(broken)
    assert (error.path, error.what) == (f"$.launch[0].{key}[1]", "--latest=1 isn't a declared option")


def _twice(key: str) -> tuple[str, str, int]:
    """Return the replacement that writes each key of the small contract's first launch twice."""
    old = "    auto: [--auto]\n"
    return (old, "    model: []\n", 1) if key == "auto" else (old, old + "    model: []\n" * (key != "model"), 1)


@pytest.mark.parametrize("dead", ["s00000001", "s12345678"])
def test_dead_session_id_must_have_room_for_a_number(dead: str) -> None:
    """A nonexistent id needs six zeros in a row, which recordings replace by a number; else it is reported."""
    errors = mistakes_in(SMALL.replace("nonexistent_id: s00000000", f"nonexistent_id: {dead}"))
    said = [(error.path, error.what, bool(error.hint)) for error in errors]
    assert said == ([] if "000000" in dead else [("$.handle[0].nonexistent_id", "has no room for a number", True)])


@pytest.mark.parametrize(
    "shape, message",
    [
        ("s0{8}", "has no room for a number"),
        ("s[0-9]{8}|--[a-z]", "matches values that look like flags"),
        ("s[0-9]{8}|--[A-Z]", None),
    ],
)
def test_shape_leaves_room_for_numbers_and_none_for_flags(shape: str, message: str | None) -> None:
    """The shape of session ids must match a numbered id, and must not match a flag in lower case."""
    errors = mistakes_in(SMALL.replace("shape: 's[0-9]{8}'", f"shape: '{shape}'"))
    assert [error.what for error in errors] == ([message] if message else [])


@each(
    "old, new, hint",
    [
        (
            "value: none, since: 0.140.0",
            "value: none, since: 0.140.0, until: 0.1.0",
            "`until` is the first release for which the claim no longer holds",
        ),
        ("until: 0.140.0\n", "until: 0.141.0\n", "give the entries of this section ranges that don't overlap"),
        ("(?P<version>.+)", "(.+)", r"such as (?P<version>\S+)"),
        ("clause: stdin.open", "clause: stdin.shut", "see clauses.yaml"),
        ("clause: stdin.open", "clause: handle.present", "a release that violates it is broken"),
        ("    model: []\n    unverified", "    model: [--x]\n    unverified", "declare it under `options`"),
        ("nonexistent_id: s00000000", "nonexistent_id: s0000000", "the shape is s[0-9]{8}"),
        (
            "nonexistent_id: s00000000",
            "nonexistent_id: s12345678",
            "recordings write a number into its last run of at least six zeros",
        ),
    ],
)
def test_what_is_reported_of_a_meaning_comes_with_its_remedy(old: str, new: str, hint: str) -> None:
    """Each error that a schema can't find says what to write instead."""
    assert SMALL.count(old) == 1
    assert mistakes_in(SMALL.replace(old, new))[0].hint == hint


def test_contract_without_deviations_is_whole() -> None:
    """A section that may be empty may be left out."""
    assert mistakes_in(SMALL[: SMALL.index("deviations:")]) == []


@each("path", ["{home}/../x", "{work}/a/../../x", "/etc/x", "x", "{home}", "{home}//x", "{shared}/x"])
@each("place", ["hermetic", "canary", "control"])
def test_a_file_outside_of_the_sandbox_is_reported(path: str, place: str) -> None:
    """The files of a sandbox, of canaries and of their control run are below one of its folders."""
    files = f"files: [{{path: '{path}', content: x}}]"
    if place == "hermetic":
        text = SMALL.replace("files: []", files)
    else:
        offered = files if place == "canary" else f"options: [--auto], control: {{{files}}}"
        text = SMALL + f"canaries:\n  - {{name: one, kind: mcp, {offered}, unverified: true}}\n"
    error = only_mistake(text)
    assert error.path.endswith("files[0].path")
    assert (error.file, error.line > 1, error.hint) == (
        "small.yaml",
        True,
        "A path below {work}, {home} or {tmp}, without `..`.",
    )


@each(
    "published, at",
    [
        ("npm: {package: small, executables: [node_modules/../../x]}", "$.published.npm.executables[0]"),
        ("npm: {package: small, executables: [/bin/sh]}", "$.published.npm.executables[0]"),
        ("npm: {package: ../small, executables: [x]}", "$.published.npm.package"),
        ("npm: {package: --global, executables: [x]}", "$.published.npm.package"),
        ("pypi: {package: --upgrade}", "$.published.pypi.package"),
    ],
)
def test_a_program_outside_of_its_package_is_reported(published: str, at: str) -> None:
    """An executable is below the root of its installation, and a package is a name, not a path or an option."""
    assert only_mistake(SMALL.replace("published: {}", f"published: {{{published}}}")).path == at


@pytest.mark.parametrize("name", ["..", "../sh", "/bin/sh", "-x"])
def test_an_executable_is_a_name(name: str) -> None:
    """The name of the executable leads to no other folder."""
    assert only_mistake(SMALL.replace("executable: small", f"executable: {name}")).path == "$.executable"


def test_the_file_of_a_tool_is_a_name() -> None:
    """The probe removes the file after the call, so its name leads to no other folder."""
    call = "tool_call: {name: write, arguments: {}, creates_file: ../x}"
    error = only_mistake(SMALL.replace("model: stub,", f"model: stub, {call},"))
    assert error.path.endswith("tool_call.creates_file")


def test_an_engine_without_auto_flags_says_so_with_evidence() -> None:
    """The contract has no mistake and lists no flag, and an empty list names the way to say it."""
    flags = "auto_flags:\n  - {flag: --auto, unverified: true}\n"
    none = 'auto_flags: {none: true, evidence: [{observed: "no help page names one", releases: [0.140.0]}]}\n'
    text = SMALL.replace("auto: [--auto]", "auto: []").replace(flags, none)
    assert mistakes_in(text) == []
    assert load.Contract(load.parse(text, "small.yaml")).at("0.140.0").auto_flags == ()
    assert "{none: true, evidence: [...]}" in str(only_mistake(SMALL.replace(flags, "auto_flags: []\n")))
    passed = mistakes_in(SMALL.replace(flags, none))
    assert [error.path for error in passed] == ["$.launch[0].auto", "$.launch[1].auto"]
