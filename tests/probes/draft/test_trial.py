"""Trying an unknown CLI in a sandbox."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.probes.draft.engine import VARIABLES, install
from turngate.contract.hermetic import Hermetic
from turngate_probes.draft.trial import CHANNELS, Command, Trial, attempt, every_variable
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.sandbox import sandbox

pytestmark = pytest.mark.long

Try = Callable[..., Trial]
START, RESUME = "--json {options} {prompt}", "--json {options} --resume {handle} {prompt}"


@pytest.fixture(name="tried")
def _tried(tmp_path: Path) -> Try:
    """Return a function that tries an executable with these variables and templates."""

    def tried(executable: Path, env: Mapping[str, str] = VARIABLES, start: str = START, resume: str = RESUME) -> Trial:
        hermetic = Hermetic(env=env, files=(), model="stub")
        command = Command(executable, hermetic, tuple(start.split()), tuple(resume.split()))
        with sandbox(hermetic, tmp_path / "boxes", "new", keep=False) as box:
            return attempt(command, box, Interrupt())

    return tried


def test_turns_show_the_session_id_and_the_ways_to_pass_a_prompt(tried: Try, tmp_path: Path) -> None:
    """The id is the value with which a resume carries the first prompt; each way is tried with a prompt like a flag."""
    trial = tried(install(tmp_path))
    assert (trial.session, trial.stored) == (trial.resumes[0].session, "{HOME}/.acme")
    assert trial.version
    assert trial.version.text == "acme 1.0.0\n"
    assert (trial.turns[0].arrived, trial.turns[0].is_dashed) == (True, False)
    arrived = {turn.channel: turn.arrived for turn in trial.turns[1:]}
    assert arrived == {channel: channel.tokens in (("-",), ("--", "{text}")) for channel in CHANNELS}
    assert len(trial.good) == 4


def test_a_session_that_does_not_continue_is_none(tried: Try, tmp_path: Path) -> None:
    """An engine that forgets the conversation has no id that continues it, though its resume asks the model."""
    trial = tried(install(tmp_path, **{"json.loads(file.read_text())": "[]"}))
    assert trial.session is None
    assert [(turn.asked, turn.went_well) for turn in trial.resumes] == [(True, True)]


def test_a_resume_that_fails_is_seen_as_such(tried: Try, tmp_path: Path) -> None:
    """A resume that the engine refuses asks the model for nothing, while the first turn did."""
    trial = tried(install(tmp_path, **{"not (re.fullmatch": "(re.fullmatch"}))
    assert (trial.turns[0].went_well, trial.resumes[0].asked, trial.session) == (True, False, None)


def test_without_arguments_only_a_bare_prompt_is_tried(tried: Try, tmp_path: Path) -> None:
    """Without templates no argument is guessed: the prompt is the only one, and no session is resumed."""
    trial = tried(install(tmp_path), start="", resume="")
    assert [turn.argv for turn in trial.turns] == [(trial.turns[0].prompt,)]
    assert (trial.turns[0].asked, trial.resumes) == (True, ())


def test_a_page_on_standard_error_is_read(tried: Try, tmp_path: Path) -> None:
    """Version and help may be on either stream; the pages say which."""
    text = {
        'cli.add_argument("--version", action="version", version="acme 1.0.0")': (
            'cli.add_argument("--version", action="store_true")\n'
            'if sys.argv[1:] == ["--version"]:\n    print("acme 2.1.0", file=sys.stderr)\n    sys.exit()'
        )
    }
    trial = tried(install(tmp_path, **text), start="", resume="")
    assert trial.version
    assert (trial.version.stream, trial.pages[0].stream) == ("stderr", "stdout")


def test_without_a_request_the_output_is_kept(tried: Try, tmp_path: Path) -> None:
    """If nothing asks the model, the turns show what was printed, and which hosts were refused."""
    trial = tried(install(tmp_path), {**VARIABLES, "ACME_BASE_URL": "http://models.test"})
    assert (trial.hosts, trial.stored) == (("models.test",), None)
    assert [turn.channel.via for turn in trial.turns] == ["argument", "stdin"]
    assert b"acme: the model failed" in trial.turns[0].outcome.stderr


def test_only_the_variables_that_a_turn_needs_stay(tried: Try, tmp_path: Path) -> None:
    """Where those of all vendors were set, those without which a turn asks the model for the same are left out."""
    program = install(tmp_path, ACME_BASE_URL="OPENAI_BASE_URL", ACME_API_KEY="OPENAI_API_KEY")
    trial = tried(program, every_variable(), start="", resume="")
    assert trial.hermetic.env.keys() == {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
    assert (trial.turns[0].asked, trial.is_guess) == (True, False)


def test_variables_are_a_guess_if_no_turn_ends_well(tried: Try, tmp_path: Path) -> None:
    """A turn that asks the model and fails shows no more of them than one that asks nothing; those given are none."""
    changes = {"ACME_BASE_URL": "OPENAI_BASE_URL", "ACME_API_KEY": "OPENAI_API_KEY"}
    fails = {'print(json.dumps({"type": "done"}))': "sys.exit(3)"}
    trial = tried(install(tmp_path, **changes, **fails), every_variable(), start="", resume="")
    assert (trial.turns[0].asked, trial.turns[0].went_well, trial.is_guess) == (True, False, True)
    assert tried(install(tmp_path), every_variable(), start="", resume="").is_guess
    assert not tried(install(tmp_path, **fails), start="", resume="").is_guess


def test_an_argument_can_name_a_place_in_the_sandbox(tried: Try, tmp_path: Path) -> None:
    """{home} and {url} in the templates are the home of the CLI and the address of the stub model."""
    program = install(tmp_path, **{'default="acme-1"': 'default="acme-1", type=lambda path: Path(path).name'})
    trial = tried(program, start="--model {home}/tuned {options} --json {prompt}", resume="")
    assert trial.turns[0].went_well
    assert trial.turns[0].requests[-1].model == "tuned"
    assert Path(trial.turns[0].argv[1]).is_absolute()


def test_a_command_that_prints_neither_version_nor_help(tried: Try, tmp_path: Path) -> None:
    """A CLI that only fails is tried, too."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    trial = tried(silent)
    assert (trial.version, trial.pages, trial.good, trial.session) == (None, (), (), None)
