"""The draft that is written from a trial."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from turngate import Ended, ProcessOutcome
from turngate.contract import lint, load
from turngate.contract.hermetic import Hermetic
from turngate.contract.home_and_workspace import SetupFile
from turngate.contract.load import GAP
from turngate_probes.draft import contract as drafts
from turngate_probes.draft.contract import Engine, draft, reported
from turngate_probes.draft.reading import read
from turngate_probes.draft.trial import ARGUMENT, REPLY, Page, Trial, TrialTurn
from turngate_probes.stub_model import Exchange

ENGINE = Engine("acme", "acme", {"pypi": {"package": "acme-cli"}})
START, RESUME = ("--json", "{options}", "{prompt}"), ("--json", "{options}", "--id", "{handle}", "{prompt}")
UUID = "0199b2a1-7f3c-7000-8000-0123456789ab"
HELP = """Usage: acme
  -p, --plan         plan only
  --json             print events
  --id <session-id>  Resume an existing session by ID
  --output streaming
  --yolo             never ask for approval
"""


def stdout(session: str) -> str:
    """Return the output of a turn."""
    return f'{{"type": "start", "id": "{session}"}}\n{{"type": "text", "text": "{REPLY}"}}\n{{"type": "done"}}\n'


def turn(
    printed: str = "", *, prompt: str = "Hi tgn-0011223344556677", session: str = "", asked: bool = True
) -> TrialTurn:
    """Return a turn that prints this, and ends well if it asked the model."""
    request = Exchange(0.0, "POST", "/v1", "openai.chat", None, (prompt,), ("tgn-0011223344556677",), reply="text")
    error = b"" if asked else b"no such session\x1b[0m\n"
    outcome = ProcessOutcome(Ended.EXIT, 0 if asked else 1, printed.encode(), error, 0, 1.0, 1.0, ())
    requests = (request,) if asked else ()
    return TrialTurn((prompt,), ARGUMENT, prompt, outcome, read(printed.encode()), requests, session)


FIRST, RESUMED = turn(stdout(UUID)), turn(stdout(UUID), session=UUID)
TRIAL = Trial(
    START,
    RESUME,
    Hermetic(env={"ACME_KEY": "x"}, files=(), model="stub"),
    Page(("--version",), "stderr", "Acme (v1.2.0)\n"),
    (Page(("--help",), "stdout", HELP),),
    (FIRST, turn(stdout(UUID.replace("ab", "cd")), prompt="--tgn-0011223344556677")),
    (RESUMED,),
    UUID,
    "{HOME}/.acme",
)


def data(trial: Trial, engine: Engine = ENGINE) -> dict[str, Any]:
    """Return the draft of a trial, whose only mistakes are its gaps."""
    document = load.parse(draft(engine, trial), "acme.yaml", ours=True)
    assert {problem.what for problem in lint.problems(document)} <= {lint.IS_GAP}
    assert document.data["schema"] == load.schema("engine")["properties"]["schema"]["const"]
    found: dict[str, Any] = document.data
    return found


def gaps(trial: Trial) -> set[str]:
    """Return the sections of a draft that have gaps."""
    return {str(path[0]) for path in load.parse(draft(ENGINE, trial), "acme.yaml", ours=True).gaps()}


def test_what_was_measured_is_a_claim_and_the_rest_a_gap() -> None:
    """The draft claims only what the turns showed, with evidence. With its gaps filled in, it is a valid contract."""
    drafted = data(TRIAL)
    assert drafted["version"]["pattern"] == r"Acme \(v(?P<version>\S+)\)"
    assert drafted["version"]["stream"] == "stderr"
    assert drafted["help"]["pages"] == [{"argv": ["--help"], "names": ["--json", "--id"]}]
    assert drafted["launch"]["prompt"] == [{"via": "argument", "tokens": ["{text}"]}]
    place = {key: drafted["handle"][key] for key in ("record", "field", "shape")}
    assert place == {"record": "first", "field": "id", "shape": drafts.UUID}
    assert drafted["end"]["match"] == {"type": "done"}
    assert (drafted["final"]["match"], drafted["final"]["field"]) == ({"type": "text"}, "text")
    assert drafted["end"]["evidence"] == [{"observed": "3 turns against the stub model", "releases": ["1.2.0"]}]
    assert drafted["events"]["names"] == ["start", "text", "done"]
    assert drafted["resume_probe"]["directory"] == "{HOME}/.acme"
    assert gaps(TRIAL) == {"vendor", "launch", "options", "auto_flags", "hermetic"}
    text = draft(ENGINE, TRIAL)
    for gap, value in (
        ("vendor", "Acme"),
        ("auto", "[--yolo]"),
        ("model", "[]"),
        ("tool_call", "{name: save, arguments: {}}"),
    ):
        text = text.replace(f"{gap}: {GAP}", f"{gap}: {value}")
    text = text.replace("options: GAP", "options: [{flag: --yolo, value: none, unverified: true}]")
    text = text.replace("auto_flags: GAP", "auto_flags: [{flag: --yolo, unverified: true}]")
    assert list(lint.problems(load.parse(text, "acme.yaml"))) == []


@pytest.mark.parametrize(
    "printed", ["1.2.0 (build 4711)", "acme 1.2.0, core 3.0", "acme\n1.2.0", "acme 1.2.0 2026-01-01"]
)
def test_a_version_with_more_that_may_change_is_a_gap(printed: str) -> None:
    """A build number, a second version, a date or a second line is never guessed into the pattern."""
    drafted = data(replace(TRIAL, version=Page(("--version",), "stdout", printed)))
    assert (drafted["version"]["argv"], drafted["version"]["pattern"]) == (["--version"], GAP)


def test_a_version_other_than_the_registrys_is_a_gap() -> None:
    """If the number that is printed is not the release that was installed, it is no version."""
    assert data(TRIAL, replace(ENGINE, release="2.0.0"))["version"]["pattern"] == GAP
    assert data(TRIAL, replace(ENGINE, release="1.2.0"))["version"]["pattern"] != GAP


def test_a_gap_shows_the_lines_of_the_help_that_may_fill_it() -> None:
    """Without templates nothing is guessed: the comments name the options of any name, and what to look out for."""
    bare = replace(TRIAL, start=(), resume=(), resumes=(), session=None)
    text = draft(ENGINE, bare)
    assert gaps(bare) >= {"help", "launch", "streams", "events", "handle", "end", "final"}
    launch = text[text.index("# launch.start") : text.index("\nlaunch:")]
    for line in ("-p may mean --plan", "--output streaming", "--id <session-id>  Resume an existing session by ID"):
        assert line in launch
    resume = launch[launch.index("# launch.resume") : launch.index("# launch.auto")]
    assert "#   |   --id <session-id>  Resume an existing session by ID\n" in resume
    assert "--json" not in resume.partition("Its help says:")[2]
    assert "#   |   --yolo             never ask for approval" in launch


def test_a_resume_that_fails_is_shown_as_what_it_is() -> None:
    """The draft says what the resume printed, keeps what the first turn showed, and lists the values that may be it."""
    failed = replace(TRIAL, resumes=(turn(session=UUID, asked=False),), session=None)
    text, drafted = draft(ENGINE, failed), data(failed)
    assert drafted["launch"]["resume"] == GAP
    assert drafted["launch"]["start"] == [*START]
    assert drafted["end"]["match"] == {"type": "done"}
    assert "stderr: no such session\\x1b[0m" in text
    assert f"#   | id of the first record: {UUID}" in text
    lines = [*reported(failed)]
    assert "first turn, prompt by argument: the prompt reached the model; exit code 0" in lines
    failure = f"resume of {UUID}, prompt by argument: it asked the model for no answer; exit code 1"
    assert lines[lines.index(failure) + 1] == "    stderr: no such session\x1b[0m"


def test_what_is_ambiguous_is_a_gap_with_its_candidates() -> None:
    """An answer in two places, an id in two, and noise between the records are gaps, and the comments list them."""
    printed = "Loading 3 of 4\n" + stdout(UUID).replace('"done"', f'"done", "result": "{REPLY}", "sid": "{UUID}"')
    ambiguous = replace(TRIAL, turns=(turn(printed),), resumes=(turn(printed, session=UUID),))
    text, drafted = draft(ENGINE, ambiguous), data(ambiguous)
    assert (drafted["final"]["match"], drafted["final"]["unverified"]) == (GAP, True)
    assert "#   | result of a record with {type: done}" in text
    assert drafted["handle"]["field"] == GAP
    assert f"#   | sid of the last record: {UUID}" in text
    assert drafted["streams"]["stdout"] == {"framing": "ndjson", "noise": GAP}
    assert "#   | Loading 3 of 4" in text


def test_an_id_in_a_line_of_text_is_shown_with_its_stream() -> None:
    """If no record has an id, the comments quote the lines of both streams, and say how to describe one."""
    printed = turn(f"Loading\n{REPLY}\n")
    outcome = replace(printed.outcome, stderr=b"\nsession_id: 20261125_154042_55bf0b\n")
    text = draft(ENGINE, replace(TRIAL, turns=(replace(printed, outcome=outcome),), resumes=(), session=None))
    assert "#   | stderr: session_id: 20261125_154042_55bf0b" in text
    assert "A session id in plain text" in (joined := re.sub(r"\n# ", " ", text))
    assert "#   | Loading" in text
    assert "`noise` or `records` of the stream" in joined
    assert "such as [session, end], and add `field: name`" in joined


def test_an_id_of_another_shape_is_shown_not_generalised() -> None:
    """Only UUIDs have a known shape; of other ids the draft shows those that were printed, and asks for six zeros."""
    numbered = replace(
        TRIAL, turns=(turn(stdout("conv-1")),), resumes=(turn(stdout("conv-1"), session="conv-1"),), session="conv-1"
    )
    drafted = data(numbered)["handle"]
    assert (drafted["field"], drafted["shape"], drafted["nonexistent_id"]) == ("id", GAP, GAP)
    assert "#   | conv-1" in (text := draft(ENGINE, numbered))
    assert "at least six zeros in a row" in re.sub(r"\n# ", " ", text)


def test_a_prompt_that_is_taken_for_a_flag_is_remarked() -> None:
    """If no prompt with a dash arrived, the draft says which clause will fail and what to do."""
    text = draft(ENGINE, replace(TRIAL, turns=(FIRST,)))
    assert "prompt.not-a-flag will fail. Put `--` before the" in text
    assert "prompt.not-a-flag" not in draft(ENGINE, TRIAL)


def test_what_comes_from_the_engine_stays_a_comment() -> None:
    """No line of a help page or of an output gets out of its comment, whatever breaks it."""
    hostile = "--json\rvendor: x\u2028title: y\x85engine: z\n\x00--id session"
    failed = turn("", asked=False)
    trial = replace(
        TRIAL, start=(), pages=(Page(("--help",), "stdout", hostile),), turns=(failed,), resumes=(), session=None
    )
    drafted = data(trial)
    assert (drafted["vendor"], drafted["title"], drafted["engine"]) == (GAP, "acme", "acme")


def test_an_option_is_named_on_the_page_that_explains_it() -> None:
    """A page above that only mentions an option does not get it, and the value of an option is no subcommand."""
    pages = (
        Page(("--help",), "stdout", "Commands: run, resume\nExample: acme run --json\n--output json\n--quiet"),
        Page(("run", "--help"), "stdout", "--json\n--output json"),
        Page(("resume", "--help"), "stdout", "--id SESSION\n--json"),
    )
    start = ("run", "--json", "--output", "json", "--quiet", "{options}", "{prompt}")
    resume = ("resume", "--json", "--id={handle}", "{options}", "{prompt}")
    drafted = data(replace(TRIAL, pages=pages, start=start, resume=resume))
    assert drafted["help"]["pages"] == [
        {"argv": ["--help"], "names": ["run", "--quiet", "resume"]},
        {"argv": ["run", "--help"], "names": ["--json", "--output"]},
        {"argv": ["resume", "--help"], "names": ["--json", "--id"]},
    ]


def test_variables_of_which_nobody_knows_that_they_are_needed_are_a_gap() -> None:
    """If no turn ended well, none was tried without one of them: they are listed in the comment, not claimed."""
    failed = replace(FIRST, outcome=replace(FIRST.outcome, exit_code=1))
    guess = replace(TRIAL, turns=(failed,), resumes=(), session=None, is_guess=True)
    drafted, text = data(guess), draft(ENGINE, guess)
    assert (drafted["environment"]["pass"], drafted["hermetic"]["env"]) == ([], GAP)
    assert drafted["hermetic"]["unverified"]
    assert "did not exit with 0, so it was not tried which of them are needed:\n#   | ACME_KEY=x\n" in text
    assert data(replace(guess, is_guess=False))["hermetic"]["env"] == {"ACME_KEY": "x"}


def test_a_resume_that_could_not_be_tried_is_kept() -> None:
    """An engine that prints plain text names no session: the given arguments stand, and it is said why none was tried.

    If none were given, the draft asks for them.
    """
    trial = replace(TRIAL, turns=(turn(f"{REPLY}\n"),), resumes=(), session=None)
    drafted, text = data(trial), draft(ENGINE, trial)
    assert drafted["launch"]["resume"] == list(TRIAL.resume)
    assert drafted["handle"]["field"] == GAP
    why = "not tried, since the first turn printed no value that may be its session id"
    assert f"resume: {why}" in reported(trial)
    assert f"# A resume was {why}.\n" in text
    assert "repeat the command with --resume-args." not in text
    assert "repeat the command with --resume-args." in draft(ENGINE, replace(trial, resume=()))
    assert "resume: not tried, since no first turn worked" in reported(replace(trial, turns=(turn(asked=False),)))


def test_the_keys_of_a_document_are_no_kinds() -> None:
    """Records without a kind leave a gap; the comment shows their keys, which one turn can't show completely."""
    whole = turn(f'{{"session": "{UUID}", "answer": "{REPLY}"}}')
    trial = replace(TRIAL, turns=(whole,), resumes=(), session=None)
    assert data(trial)["events"] == {"stream": "stdout", "names": GAP, "unverified": True}
    assert "#   | session\n#   | answer\n" in draft(ENGINE, trial)


def test_an_option_that_names_the_sandbox_is_one_of_the_probe_alone() -> None:
    """No orchestrator has the home of a probe: such an option is not in `launch`, but in `hermetic.options`."""
    start = ("--config", "{home}/.acme.json", *START)
    drafted = data(replace(TRIAL, start=start))
    assert drafted["launch"]["start"] == [*START]
    assert drafted["hermetic"]["options"] == ["--config", "{home}/.acme.json"]


def test_files_are_readable_in_the_draft() -> None:
    """The text of a configuration file is a block, and nothing is an alias. Refused hosts are named, not declared."""
    files = (SetupFile("{home}/.acme.toml", 'url = "{url}"\nmodel = "stub"\n'),)
    trial = replace(TRIAL, hosts=("stats.test",), hermetic=Hermetic(env={"A_KEY": "x"}, files=files, model="stub"))
    text = draft(ENGINE, trial)
    assert '    content: |\n      url = "{url}"\n      model = "stub"\n' in text
    assert "&id" not in text
    assert "#   | stats.test" in text
    assert "egress" not in data(trial)["hermetic"]
