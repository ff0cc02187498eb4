"""The real codex in wrappers, as a test of the probe: some break it, some break the sandbox, some are documented."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes import engines
from turngate.contract.clauses import Reason, Result
from turngate.contract.verdict import ClauseResult, Verdict, verdict
from turngate.files import default_cache
from turngate_probes.harness.interrupt import Obstacle

pytestmark = pytest.mark.engines

RENAMES = """
done = subprocess.run((REAL, *sys.argv[1:]), stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout.replace(b'"thread_id"', b'"session_id"'))
sys.exit(done.returncode)
"""
DROPS = """
argv = sys.argv[1:]
if "resume" in argv and "--help" not in argv:
    at = argv.index("resume")
    del argv[at : at + 2]
sys.exit(subprocess.run((REAL, *argv)).returncode)
"""


@pytest.fixture(name="codex", scope="module")
def _codex() -> Path:
    """Return the pinned release of the real codex, from the cache or from npm."""
    return engines.pinned_release("codex")[1]


# takes the documented options of `podman run` and no others, and gives the engine only what they pass on
PODMAN = """
import argparse, os
parser = argparse.ArgumentParser(allow_abbrev=False)
for switch in ("--rm", "--interactive", "--init"):
    parser.add_argument(switch, action="store_true", required=True)
parser.add_argument("--network", choices=["host"], required=True)
parser.add_argument("--userns", choices=["keep-id"], required=True)
parser.add_argument("--env", action="append", required=True)
parser.add_argument("--volume", action="append", required=True)
parser.add_argument("--workdir", required=True)
parser.add_argument("image", choices=["my-codex-image"])
parser.add_argument("command", nargs=argparse.REMAINDER)
assert sys.argv[1] == "run"
asked = parser.parse_args(sys.argv[2:])
assert asked.command[0] == "codex"
binds = [word for volume in asked.volume for word in ("--bind", *volume.split(":"))]
roots = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", *ENGINE, "--unshare-pid")
env = {name: os.environ[name] for name in asked.env} | {"PATH": os.environ["PATH"]}
argv = ("bwrap", *roots, "--die-with-parent", *binds, "--chdir", asked.workdir, REAL, *asked.command[1:])
os.execvpe("bwrap", argv, env)
"""


def mounts(codex: Path) -> tuple[str, ...]:
    """Return the options with which a container has the engine even if the cache is in `/tmp`, which it has not."""
    root = codex.parents[2]
    return ("--ro-bind", str(root), str(root)) if root.is_relative_to("/tmp") else ()


def wrapped(codex: Path, folder: Path, code: str) -> Path:
    """Create an executable that runs `code`, in which REAL is the real codex, and ENGINE the options to mount it."""
    wrapper = folder / "codex"
    constants = f"REAL = {str(codex)!r}\nENGINE = {mounts(codex)!r}\n"
    wrapper.write_text(f"#!{sys.executable} -IS\nimport subprocess, sys\n{constants}{code}")
    wrapper.chmod(0o755)
    return wrapper


def judged(executable: Path) -> dict[str, ClauseResult]:
    """Run cases of sessions, approval modes and tool calls, and judge their clauses."""
    # not below the system's temporary directory, which some engines don't trust
    played = engines.play(executable, default_cache(), "main", "bad-handles", "auto", "tool-call")
    return played.judged()


def assert_passes(executable: Path) -> None:
    """Check that nothing fails, and that the sessions were tested."""
    results = judged(executable)
    assert engines.failing(results) == set()
    assert results["resume.context-carried"].result is Result.PASS


def test_the_real_codex_as_it_is(codex: Path) -> None:
    """Without changes to the real codex nothing fails."""
    assert engines.failing(judged(codex)) == set()


def test_a_codex_that_renames_its_id_is_broken(codex: Path, tmp_path: Path) -> None:
    """If `thread_id` is renamed in the output, only the clause about the id's presence fails."""
    results = judged(wrapped(codex, tmp_path, RENAMES))
    assert engines.failing(results) == {"handle.present"}
    assert verdict(results.values()) is Verdict.BROKEN


def test_a_codex_that_drops_the_session_is_broken(codex: Path, tmp_path: Path) -> None:
    """If `resume ID` is removed from argv, every turn exits with 0, and the clause about context fails."""
    results = judged(wrapped(codex, tmp_path, DROPS))
    assert "resume.context-carried" in engines.failing(results)
    assert "requests to gpt-" in results["resume.accepted"].detail
    assert verdict(results.values()) is Verdict.BROKEN


PRINTS_TWICE = """
done = subprocess.run((REAL, *sys.argv[1:]), stdout=subprocess.PIPE)
records = b'{"' in done.stdout[:2]
sys.stdout.buffer.writelines(line * (1 + records) for line in done.stdout.splitlines(keepends=True))
sys.exit(done.returncode)
"""
PRINTS_CRLF = """
done = subprocess.run((REAL, *sys.argv[1:]), stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout.replace(b"\\n", b"\\r\\n"))
sys.exit(done.returncode)
"""


@pytest.mark.parametrize(
    "code, clause", [(PRINTS_TWICE, "stream.records-once"), (PRINTS_CRLF, "stream.line-ends")], ids=["twice", "crlf"]
)
def test_a_wrapper_whose_output_is_misread_is_broken(codex: Path, tmp_path: Path, code: str, clause: str) -> None:
    """Each record twice, or CR before each LF, fails the clause about it alone, and the release is broken."""
    results = judged(wrapped(codex, tmp_path, code))
    assert engines.failing(results) == {clause}
    assert verdict(results.values()) is Verdict.BROKEN


DOCS = (Path(__file__).parents[2] / "docs/wrappers.md").read_text("utf-8")


def scripted(folder: Path, text: str) -> Path:
    """Create an executable script."""
    path = folder / "codex"
    path.write_text(text)
    path.chmod(0o755)
    return path


def stopped(executable: Path) -> Obstacle:
    """Run the main case, which a wrapper stops, and return why."""
    played = engines.play(executable, default_cache(), "main")
    assert played.observed.turns == {}
    return played.observed.stopped["main"]


def test_a_codex_without_its_environment_is_not_judged(codex: Path, tmp_path: Path) -> None:
    """Behind `env -i`, the missing variables are named, and no turn is judged."""
    wrapper = scripted(tmp_path, f'#!/bin/sh\nexec env -i PATH="$PATH" HOME="$HOME" {codex} "$@"\n')
    why = stopped(wrapper)
    assert why.reason is Reason.WRAPPER
    assert "doesn't pass on CODEX_HOME, TURNGATE_STUB_KEY" in why.text


def test_a_codex_that_npx_must_fetch_is_not_judged(tmp_path: Path) -> None:
    """If npx has no cache, the refused registry is named, and no turn is judged."""
    why = stopped(scripted(tmp_path, '#!/bin/sh\nexec npx -y @openai/codex@0.169.0 "$@"\n'))
    assert why.reason is Reason.WRAPPER
    assert re.search(r"needs the package registry \S+, which", why.text)


def test_the_documented_npx_wrapper_passes(tmp_path: Path) -> None:
    """The documented command fills a cache, and behind the documented script nothing fails."""
    fill, script = re.findall(r"```sh[^\n]*\n(.*?)```", DOCS, re.DOTALL)[:2]
    cache = tmp_path / "npx-engines"
    subprocess.run(["/bin/sh", "-c", fill.replace("$HOME/.cache/npx-engines", str(cache))], check=True)
    wrapper = scripted(tmp_path, script.replace("/home/me/.cache/npx-engines", str(cache)))
    assert_passes(wrapper)


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="Bubblewrap, which the recipe uses, exists only for Linux"
)


@pytest.fixture(name="bubblewrap")
def _bubblewrap() -> None:
    if not shutil.which("bwrap"):
        pytest.fail("this test needs Bubblewrap: apt-get install bubblewrap")
    tried = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.fail(f"this test needs user namespaces, which this machine forbids: {tried.stderr}")


@on_linux
@pytest.mark.usefixtures("bubblewrap")
def test_the_documented_container_passes(codex: Path, tmp_path: Path) -> None:
    """Behind the documented container script nothing fails."""
    script = re.findall(r"```sh[^\n]*\n(.*?)```", DOCS, re.DOTALL)[2]
    script = script.replace("/opt/codex/bin/codex", str(codex))
    assert_passes(scripted(tmp_path, script.replace("--tmpfs /tmp", " ".join(("--tmpfs /tmp", *mounts(codex))))))


@on_linux
@pytest.mark.usefixtures("bubblewrap")
def test_the_documented_podman_wrapper_passes(codex: Path, tmp_path: Path) -> None:
    """Behind the documented script nothing fails, with Bubblewrap in place of Podman."""
    script = re.findall(r"```sh[^\n]*\n(.*?)```", DOCS, re.DOTALL)[3]
    (tmp_path / "podman").mkdir()
    podman = wrapped(codex, tmp_path / "podman", PODMAN)
    wrapper = scripted(tmp_path, script.replace("exec podman ", f"exec {podman} "))
    assert_passes(wrapper)
