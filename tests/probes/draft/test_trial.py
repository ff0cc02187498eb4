"""Trying an unknown CLI in a sandbox."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.probes.draft.engine import VARIABLES, install
from turngate.contract.hermetic import Hermetic
from turngate.errors import EnvironmentFailed
from turngate_probes.draft.trial import Command, Trial, attempt
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.sandbox import sandbox

Try = Callable[..., Trial]


@pytest.fixture(name="tried")
def _tried(tmp_path: Path) -> Try:
    """Return a function that tries an executable with these variables and templates."""

    def tried(executable: Path, env: dict[str, str], start: str = "", resume: str = "") -> Trial:
        hermetic = Hermetic(env=env, files=(), model="stub")
        command = Command(executable, hermetic, tuple(start.split()), tuple(resume.split()))
        with sandbox(hermetic, tmp_path / "boxes", "new", keep=False) as box:
            return attempt(command, box, Interrupt())

    return tried


def test_two_turns_find_the_session_id(tried: Try, tmp_path: Path) -> None:
    """The id is the value with which the second turn continues the first one's conversation."""
    trial = tried(install(tmp_path), VARIABLES)
    assert trial.session is not None
    assert (trial.session.path, trial.session.record) == ("session", "first")
    assert trial.version.text == "acme 1.0.0\n"
    assert [request.protocol for request in trial.first.requests] == ["openai.chat"]
    assert trial.second is not None


def test_a_session_that_does_not_continue_is_none(tried: Try, tmp_path: Path) -> None:
    """An engine that forgets the conversation has no id that continues it; the candidates stay."""
    trial = tried(install(tmp_path, **{"json.loads(file.read_text())": "[]"}), VARIABLES)
    assert (trial.session, trial.second) == (None, None)
    assert [candidate.path for candidate in trial.tried] == ["session"]


def test_a_page_on_standard_error_is_read(tried: Try, tmp_path: Path) -> None:
    """Version and help may be on either stream; the pages say which."""
    text = {
        'cli.add_argument("--version", action="version", version="acme 1.0.0")': (
            'cli.add_argument("--version", action="store_true")\n'
            'if sys.argv[1:] == ["--version"]:\n    print("acme 2.1.0", file=sys.stderr)\n    sys.exit()'
        )
    }
    trial = tried(install(tmp_path, **text), VARIABLES)
    assert (trial.version.stream, trial.pages[0].stream) == ("stderr", "stdout")


def test_without_a_request_the_reason_is_shown(tried: Try, tmp_path: Path) -> None:
    """If no request reaches the stub model, the error shows the command, its output, and what to pass."""
    with pytest.raises(EnvironmentFailed, match="no request reached the stub model from: acme --json Which") as failed:
        tried(install(tmp_path), {"ACME_API_KEY": "stub"})
    assert "KeyError: 'ACME_BASE_URL'" in failed.value.hint
    assert "--env NAME={url}/v1" in failed.value.hint


def test_a_refused_host_is_named(tried: Try, tmp_path: Path) -> None:
    """A connection to another machine is refused, and the error names the host."""
    with pytest.raises(EnvironmentFailed, match="no request reached") as failed:
        tried(install(tmp_path), {**VARIABLES, "ACME_BASE_URL": "http://models.test"})
    assert "connections to models.test were refused" in failed.value.hint


def test_a_command_that_prints_no_version(tried: Try, tmp_path: Path) -> None:
    """A CLI without a version can't be drafted; the error shows what it printed."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\necho no idea\n")
    silent.chmod(0o755)
    with pytest.raises(EnvironmentFailed, match="silent --version printed nothing useful") as failed:
        tried(silent, {})
    assert "no idea" in failed.value.hint
