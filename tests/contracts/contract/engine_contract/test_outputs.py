"""Other output modes of an engine: how arguments choose them, and what their sections may say."""

import pytest

from tests.contracts.contract.small import SMALL, mistakes_in, only_mistake
from tests.tables import each
from turngate import UsageError, load_contract
from turngate.contract.load import Contract, parse
from turngate.errors import ContractError

MODE = """\
outputs:
  - name: text
    replaces: [new]
    arguments: [plain]
    streams:
      stdout: {framing: text}
      stderr: {framing: text, records: [{name: id, at: first, pattern: 'id: (?P<id>s.+)'}]}
    events: {stream: stderr, field: name, names: [id]}
    handle: {stream: stderr, record: first, match: {name: id}, field: id}
    end: {stream: stderr, match: {name: id}}
    final: {stream: stdout}
    since: 0.140.0
    unverified: true
"""
WITH_MODE = SMALL.replace("  - since: 0.140.0\n", "  - since: 0.140.0\n    output: json\n") + MODE


def test_an_output_mode_replaces_arguments_and_sections() -> None:
    """A contract in another output mode has its arguments and sections, and all else of the default one."""
    default = Contract(parse(WITH_MODE, "small.yaml")).at("0.140.0")
    mode = default.in_output("text")
    assert mistakes_in(WITH_MODE) == []
    assert (mode.launch.start[0], mode.launch.resume[0], mode.launch.output) == ("plain", "plain", "text")
    assert (mode.handle.stream, mode.handle.shape) == ("stderr", default.handle.shape)
    assert (mode.streams.stdout.framing, mode.final.field, mode.failures) == ("text", None, ())
    assert mode.options == default.options
    assert default.in_output("json") is default


@pytest.mark.parametrize("engine, version", [("codex", "0.169.0"), ("claude", "2.1.330")])
def test_an_unknown_output_mode_is_refused_with_those_that_exist(engine: str, version: str) -> None:
    """The error for an unknown output mode names the known ones, the default one first."""
    with pytest.raises(UsageError, match=f"{engine} {version} has no output mode 'xml' .choose one of json, "):
        load_contract(engine, version).in_output("xml")


def test_an_engine_with_one_output_mode_says_so() -> None:
    """The error for an engine without other output modes says that its contract describes only one."""
    with pytest.raises(UsageError, match="describes only one"):
        Contract(parse(SMALL, "small.yaml")).at().in_output("text")


@each(
    "old, new, path, message",
    [
        ("replaces: [new]", "replaces: [old]", "replaces", "`launch.start` doesn't have old"),
        ("output: json", "output: text", "name", "the default output mode has no other name"),
        ("arguments: [plain]", "arguments: [--auto]", "arguments", "--auto lets the engine act without asking"),
        (
            "end: {stream: stderr",
            "end: {stream: stdout",
            "end.stream",
            "stdout is framed as text, so it has no records",
        ),
        ("final: {stream: stdout}", "final: {stream: stdout, since: 1.0.0}", "final.since", "belongs to the whole"),
    ],
)
def test_what_is_wrong_with_an_output_mode_is_reported_with_its_place(
    old: str, new: str, path: str, message: str
) -> None:
    """Arguments that no template has, one name for two modes, and rules that no record can meet are reported."""
    assert WITH_MODE.count(old) == 1
    error = mistakes_in(WITH_MODE.replace(old, new))[0]
    assert error.path == f"$.outputs[0].{path}"
    assert message in error.what


def test_a_record_in_a_text_needs_the_framing_text() -> None:
    """Records by pattern belong to a stream that is framed as text."""
    error = only_mistake(WITH_MODE.replace("framing: text, records", "framing: ndjson, records"))
    assert error.path == "$.outputs[0].streams.stderr.framing"


def test_an_engine_whose_templates_lack_the_arguments_can_t_be_used_in_that_mode() -> None:
    """A mode whose arguments are not in the templates is a mistake of the contract."""
    contract = Contract(parse(WITH_MODE.replace("replaces: [new]", "replaces: [old]"), "small.yaml")).at("0.140.0")
    with pytest.raises(ContractError, match="replaces arguments that new"):
        contract.in_output("text")
