"""The draft that is written from a trial."""

from dataclasses import replace

import yaml

from turngate.contract import lint, load
from turngate.contract.hermetic import Hermetic
from turngate.contract.load import Contract
from turngate.contract.surroundings import SetupFile
from turngate_probes.draft.arguments import Arguments, variables
from turngate_probes.draft.contract import Draft, Engine, draft
from turngate_probes.draft.reading import candidates, read
from turngate_probes.draft.trial import FIRST, Page, Trial, TrialTurn
from turngate_probes.stub_model import Exchange

STDOUT = f'{{"type": "start", "session": "0a1b2c3d4e5f"}}\n{{"type": "text", "text": "{FIRST}"}}\n{{"type": "done"}}\n'
ENGINE = Engine("acme", "acme", {"pypi": {"package": "acme-cli"}})
TURN = TrialTurn(read(STDOUT.encode()), 0, (Exchange(0.0, "POST", "/v1/messages", "anthropic"),))
ARGUMENTS = Arguments(
    ("--json", "{options}", "{prompt}"), ("--json", "{options}", "--resume", "{handle}", "{prompt}"), ("--yes",), ()
)
(SESSION,) = candidates(TURN.output, [])
TRIAL = Trial(
    Page(("--version",), "stderr", "Acme (v1.2.0)\n"),
    (Page(("--help",), "stdout", "--json --resume --yes"),),
    ARGUMENTS,
    TURN,
    TURN,
    SESSION,
    (SESSION,),
    (),
)


def made(trial: Trial, hermetic: Hermetic | None = None) -> Draft:
    """Return the draft of a trial."""
    return draft(ENGINE, trial, hermetic or Hermetic(env=variables(set()), files=(), model="stub"))


def test_a_draft_is_a_valid_contract() -> None:
    """The draft has what was seen, with evidence; guesses are unverified."""
    drafted = made(TRIAL)
    assert drafted.missing == ()
    document = load.parse(drafted.text, "acme.yaml")
    assert list(lint.problems(document)) == []
    contract = Contract(document).at("1.2.0")
    assert (contract.version_query.pattern, contract.version_query.stream) == (r"Acme \(v(?P<version>\S+)\)", "stderr")
    assert (contract.handle.field, contract.handle.record, contract.handle.shape) == (
        "session",
        "first",
        "[0-9a-f]{12}",
    )
    assert contract.end.match == {"type": "done"}
    assert (contract.final.match, contract.final.field) == ({"type": "text"}, "text")
    assert contract.events.names == ("start", "text", "done")
    assert contract.help.pages[0].names == ("--json", "--resume", "--yes")
    assert set(contract.hermetic.env) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}
    unverified = {claim.path[0] for claim in document.claims() if claim.data.get("unverified")}
    assert unverified >= {"launch", "events", "environment", "sticky"}
    assert not unverified & {"handle", "end", "final"}
    assert drafted.version == "1.2.0"


def test_what_was_not_seen_is_left_to_the_user() -> None:
    """Without a resumed session the candidate is a guess, and the resume is named as missing."""
    drafted = made(replace(TRIAL, session=None, second=None))
    assert any("'resume' is a required property" in line for line in drafted.missing)
    data = yaml.safe_load(drafted.text)
    assert data["handle"]["unverified"] is True
    assert "session id: no value that was tried continues the first turn: check --resume-args" in drafted.seen


def test_files_are_readable_in_the_draft() -> None:
    """The text of a configuration file is a block, and nothing is an alias. Refused hosts are declared."""
    files = (SetupFile("{home}/.acme.toml", 'url = "{url}"\nmodel = "stub"\n'),)
    drafted = made(replace(TRIAL, hosts=("stats.test",)), Hermetic(env={"A_KEY": "x"}, files=files, model="stub"))
    assert '    content: |\n      url = "{url}"\n      model = "stub"\n' in drafted.text
    assert "&id" not in drafted.text
    hermetic = yaml.safe_load(drafted.text)["hermetic"]
    assert (hermetic["egress"], hermetic["env"]) == (["stats.test"], {"A_KEY": "x"})
