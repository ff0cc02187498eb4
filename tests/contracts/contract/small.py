"""A small contract, and the errors in it after an edit."""

from turngate.contract import lint
from turngate.contract.load import Contract, parse
from turngate.errors import ContractError

SMALL = """\
schema: turngate.engine-contract/2
contract_version: "1.0"
engine: small
title: Small
vendor: Nobody
lifecycle: {status: active}
executable: small
published: {}
version:
  - {argv: [--version], pattern: '(?P<version>.+)', unverified: true}
help:
  - {pages: [{argv: [--help], names: [--json]}], unverified: true}
launch:
  - until: 0.140.0
    start: [old, "{options}", "{prompt}"]
    resume: [old, "{options}", resume, "{handle}", "{prompt}"]
    prompt: [{via: argument, tokens: ["--", "{text}"]}]
    auto: [--auto]
    model: []
    unverified: true
  - since: 0.140.0
    start: [new, "{options}", "{prompt}"]
    resume: [new, "{options}", resume, "{handle}", "{prompt}"]
    prompt: [{via: stdin, tokens: ["-"]}]
    auto: [--auto]
    model: []
    evidence: [{clause: resume.accepted}]
options:
  - {flag: --auto, value: none, unverified: true}
  - {flag: --late, value: none, since: 0.140.0, unverified: true}
auto_flags:
  - {flag: --auto, unverified: true}
streams:
  - {stdout: {framing: ndjson, noise: [a+]}, stderr: {framing: text}, unverified: true}
events:
  - {stream: stdout, field: type, names: [a], unverified: true}
handle:
  - {handle_type: session_id, stream: stdout, record: first, field: id, shape: 's[0-9]{8}', nonexistent_id: s00000000,
     unverified: true}
end:
  - {stream: stdout, unverified: true}
final:
  - {stream: stdout, field: text, unverified: true}
environment:
  - {pass: [SMALL_KEY], locations: [SMALL_HOME], unverified: true}
resume_probe:
  - {directory: "{HOME}/small", unverified: true}
hermetic:
  - {env: {}, files: [], model: stub, unverified: true}
sticky:
  - {transport: none, unverified: true}
deviations:
  - {clause: stdin.open, symptom: hang, action: close it, unverified: true}
"""


def mistakes_in(text: str) -> list[ContractError]:
    """Return all errors in a contract."""
    return list(lint.problems(parse(text, "small.yaml", ours=True)))


def only_mistake(text: str) -> ContractError:
    """Return the only error in a contract."""
    (error,) = mistakes_in(text)
    return error


def line_of(text: str) -> int:
    """Return the line of the small contract that holds this text."""
    return SMALL[: SMALL.index(text)].count("\n") + 1


def small() -> Contract:
    """Load the small contract."""
    return Contract(parse(SMALL, "small.yaml", ours=True))
