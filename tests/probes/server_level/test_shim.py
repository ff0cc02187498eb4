"""The shim that replaces the engine on the server's PATH."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.probes import turns as t
from turngate.process.sessions import TAG
from turngate_probes.server_level import shim
from turngate_probes.server_level.shim import Shim


@dataclass(frozen=True, slots=True)
class ShimStand:
    """The shim, and an engine that prints what it was given."""

    root: Path
    shim: Shim

    def run(self, *words: str, cwd: Path | None = None, tag: str = "/a/b") -> "subprocess.CompletedProcess[bytes]":
        """Run the shim as the server would."""
        env = {"PATH": os.environ["PATH"], TAG: tag}
        where = cwd or self.root
        command = (str(self.shim.folder / "codex"), *words)
        return subprocess.run(command, cwd=where, env=env, input=b"said\n", capture_output=True, check=False)


def stand(folder: Path, *, hide: bool = False, given: dict[str, str] | None = None) -> ShimStand:
    """Write an engine that prints its arguments, its input and an id on both streams, and exits with 7."""
    engine = folder / "an engine"
    engine.write_text(f'#!/bin/sh\necho "$*" {t.SESSION}\ncat\necho late {t.SESSION}! >&2\nexit 7\n')
    engine.chmod(0o755)
    return ShimStand(folder, shim.install(t.CODEX, engine, folder, hide=hide, given=given))


def test_it_is_the_engine(tmp_path: Path) -> None:
    """The shim passes arguments, both streams, input and exit code through."""
    done = stand(tmp_path).run("exec", "a b")
    assert (done.returncode, done.stdout, done.stderr) == (
        7,
        f"exec a b {t.SESSION}\nsaid\n".encode(),
        f"late {t.SESSION}!\n".encode(),
    )


def test_it_can_hide_ids(tmp_path: Path) -> None:
    """The shim can remove ids from both streams, and changes nothing else."""
    done = stand(tmp_path, hide=True).run("exec", "a b")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"exec a b \nsaid\n", b"late !\n")


def test_it_gives_variables_and_keeps_the_output(tmp_path: Path) -> None:
    """Behind a server that is not ours, the engine still gets what it needs, and its output is kept and passed on."""
    made = stand(tmp_path, given={"COLOUR": "deep 'blue'"})
    (tmp_path / "an engine").write_text('#!/bin/sh\necho "$COLOUR"\necho late >&2\nexit 7\n')
    done = made.run("exec")
    (start,) = made.shim.starts(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"deep 'blue'\n", b"late\n")
    assert [made.shim.printed(start, name) for name in ("stdout", "stderr")] == [done.stdout, done.stderr]
    assert start.tag == "/a/b"
    assert made.run("exec", tag="").returncode == 7
    assert made.shim.starts(tmp_path)[1].tag.startswith("/shim-")


@pytest.mark.long
@pytest.mark.parametrize("hide", [False, True])
def test_it_notes_every_start_in_a_directory(tmp_path: Path, hide: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    """Starts in one directory are listed in order, with tag and arguments; others are not, nor what asks the engine."""
    made, work = stand(tmp_path, hide=hide), tmp_path / "work"
    work.mkdir()
    made.run("exec", "", "two\nlines 'quoted'", cwd=work)
    made.run("--version", tag="/c")
    for asked in (t.CODEX.version_query.argv, *(page.argv for page in t.CODEX.help.pages)):
        made.run(*asked, cwd=work)
    made.run("exec", "resume", cwd=work, tag="/d")
    assert [(start.tag, start.cwd, start.arguments) for start in made.shim.starts(work)] == [
        ("/a/b", str(work), ("exec", "", "two\nlines 'quoted'")),
        ("/d", str(work), ("exec", "resume")),
    ]


def test_a_note_that_is_half_written_is_no_start(tmp_path: Path) -> None:
    """A record that was not fully written is ignored."""
    made = stand(tmp_path)
    (tmp_path / "starts" / "1").write_bytes(b"/a/b\0/wo")
    assert made.shim.starts(Path("/wo")) == []
