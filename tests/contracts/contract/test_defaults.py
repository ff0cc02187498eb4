"""What a contract says with the sections that it leaves out."""

import re
from typing import Any

from tests.contracts.contract.small import SMALL, mistakes_in
from tests.tables import each
from turngate.contract.defaults import DEFAULTS, completed
from turngate.contract.engine_contract import EngineContract
from turngate.contract.load import Contract, parse


def without(*sections: str, **launch: str) -> str:
    """Return the small contract without these sections, and with other values in both entries of `launch`."""
    text = SMALL
    for section in sections:
        text = re.sub(rf"(?m)^{section}:.*\n(?:[ -].*\n)*", "", text)
    for key, value in launch.items():
        text = re.sub(rf"(?m)^    {key}: .*$", f"    {key}: {value}", text)
    return text


def at(text: str, version: str = "1.0.0") -> EngineContract:
    """Return what a valid contract says about a release."""
    assert mistakes_in(text) == []
    return Contract(parse(text, "small.yaml")).at(version)


def test_a_section_that_is_left_out_has_a_default_and_is_unverified() -> None:
    """All of them may be absent, which reports tell like any other claim without evidence."""
    contract = at(without(*DEFAULTS))
    assert {*DEFAULTS} <= {*contract.unverified}
    assert (contract.version_query.argv, contract.streams.stdout.framing) == (("--version",), "ndjson")
    assert (contract.resume_probe.directory, contract.resume_probe.unsupported) == (None, None)
    assert (contract.environment.passed, contract.environment.locations) == ((), ())


def test_records_are_on_standard_output_unless_the_contract_says_otherwise() -> None:
    """The places of id, end, answer and kinds need no stream, and the type of a session id is the usual one."""
    silent = SMALL.replace("stream: stdout, ", "").replace("handle_type: session_id, ", "")
    assert silent.count("stdout") == SMALL.count("stdout") - 4
    assert at(silent) == at(SMALL)


def test_what_is_written_has_no_default() -> None:
    """A section that is there means what it says, also if it is empty."""
    written: dict[str, Any] = {section: [] for section in DEFAULTS}
    launched = {"launch": {"auto": ["--yes"]}, "hermetic": {"env": {"KEY": "stub"}}}
    assert completed(launched | written) == launched | written


@each(
    "printed, version",
    [
        ("acme 1.0.0", "1.0.0"),
        ("2.1.330 (Acme Code, 2026-11-28)", "2.1.330"),
        ("Acme v12.34.56-beta.1.\nRun `acme update`.", "12.34.56-beta.1"),
        ("acme 1.0.10+build", "1.0.10"),
        ("acme 1.0.0 (node 20.1)", None),
        ("acme 1.0.0, node 20.1.0", None),
        ("acme 1.0.0.5", None),
        ("acme .1.2.3", None),
        ("acme 1.2", None),
        ("1" * 20_000, None),
    ],
)
def test_the_version_is_the_only_number_with_dots(printed: str, version: str | None) -> None:
    """Where another number might be the version, none is read."""
    found = re.fullmatch(completed({})["version"]["pattern"], printed)
    assert (found and found["version"]) == version


@each(
    "auto, model, options, widening",
    [
        ("[--yes]", "[]", {"--yes": "none"}, ["--yes"]),
        ("[--yes, -a]", "[]", {"--yes": "none", "-a": "none"}, ["--yes", "-a"]),
        ("[-c, ask=never, -c, box=off]", "[]", {"-c": "many"}, ["-c"]),
        ("[--approval, never, --yes]", "[]", {"--approval": "required", "--yes": "none"}, ["--approval", "--yes"]),
        (
            "[--approval=never]",
            '[--model, "{model}"]',
            {"--approval": "required", "--model": "required"},
            ["--approval"],
        ),
    ],
)
def test_options_and_auto_flags_are_those_that_launch_passes(
    auto: str, model: str, options: dict[str, str], widening: list[str]
) -> None:
    """An option takes a value if one follows it; whatever value an option of mode auto has, it widens approval."""
    contract = at(without("options", "auto_flags", auto=auto, model=model))
    assert {option.flag: option.value for option in contract.options} == options
    assert not any(option.interactive for option in contract.options)
    assert [flag.flag for flag in contract.auto_flags] == widening
    assert not any(flag.safe_values for flag in contract.auto_flags)


def test_a_flag_of_mode_auto_is_refused_elsewhere_without_a_list_of_them() -> None:
    """Arguments of both modes that act unasked are a mistake, as they are with such a list."""
    text = without("options", "auto_flags").replace("start: [old, ", "start: [--auto, ")
    assert [error.path for error in mistakes_in(text)] == ["$.launch[0].start"]


@each("auto", ["[]", "[auto]"])
def test_an_engine_without_options_for_mode_auto_has_no_default_for_auto_flags(auto: str) -> None:
    """Only its author knows whether it has none or acts unasked by itself, so the contract has to say it."""
    (error,) = mistakes_in(without("options", "auto_flags", auto=auto))
    assert (error.path, error.line > 1, "none: true" in error.hint) == ("$.launch", True, True)
    assert "`auto_flags` is absent" in error.what


def test_the_variables_of_a_probe_are_passed_but_not_those_with_its_folders() -> None:
    """A variable that names a folder of the sandbox says where sessions are, which other turns must not share."""
    env = 'env: {KEY: stub, URL: "{url}/v1", ACME_HOME: "{home}/.acme", CACHE: "{shared}"}'
    assert at(without("environment").replace("env: {}", env)).environment.passed == ("KEY", "URL")


def test_the_variables_of_the_store_are_locations() -> None:
    """They keep their values from turn to turn, so that a resume finds its session; HOME always does."""
    store = 'store: {locations: {HOME: /x, A: "{HOME}/a", B: "{A}/b"}, check: {kind: glob, pattern: "{B}/{handle}"}}\n'
    environment = at(without("environment").replace("env: {}", "env: {KEY: stub, B: x}") + store).environment
    assert (environment.passed, environment.locations) == (("KEY",), ("A", "B"))
