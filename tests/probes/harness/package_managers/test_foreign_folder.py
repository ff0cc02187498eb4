"""Every command that starts a package manager, called in a folder whose files want to run, or to learn a secret."""

import json
import sys
from pathlib import Path

import pytest

from tests.longer import first_quick
from tests.probes import wheels
from tests.probes.matrix.conftest import Shop
from tests.probes.matrix.conftest import _shop as _shop  # noqa: PLC0414 - a fixture
from tests.tools.history import fill
from turngate import cli
from turngate_probes.harness.registry_hosts import configured
from turngate_probes.releases.source import published

NPM = (
    "gate --clause version.readable",
    "gate codex@latest --from codex@0.162.0 --clause version.readable",
    "probe codex@0.163.0 --level static",
    "probe codex@latest --level static",
    "matrix codex --versions latest:1 --level static --results results",
    "matrix codex --versions latest:1 --plan github",
    "bisect codex version.readable --results results",
    "engines install codex@0.163.0",
    "engines list --newest",
    "contracts record codex@0.163.0 --case main --into recordings",
    "contracts new acme --npm @vendor/engine",
    "probe codex=asking/codex --level static",
)
PIP = (
    "gate --clause version.readable",
    "gate hermes@latest --clause version.readable",
    "probe hermes@latest --level static",
    "matrix hermes --versions latest:1 --level static --results results",
    "bisect hermes version.readable --results results",
    "engines install hermes@latest",
    "contracts record hermes@latest --case main --into recordings",
    "contracts new acme --pypi acme",
)
# prints no version, since a registry that it asks through the proxy of the sandbox is out of reach
ASKING = f"""#!{sys.executable} -IS
import os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
with socket.create_connection((proxy.hostname, proxy.port)) as connection:
    connection.sendall(b"CONNECT unknown.example:443 HTTP/1.1\\r\\nHost: unknown.example\\r\\n\\r\\n")
    connection.recv(1000)
"""


@pytest.fixture(name="ran")
def _ran(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a hostile file of each manager; return the file that tells what ran, if anything did."""
    folder, ran = shop.folder / "project", shop.folder / "ran"
    told = f"with open({str(ran)!r}, 'a') as file:\n    file.write(__file__ + chr(10))\n"
    files = {f"{name}/{part}.py": told for name in ("pip", "venv", "json", "ssl") for part in ("__init__", "__main__")}
    program = f"#!{sys.executable}\n{told}"
    files |= {f"{where}{name}": program for where in ("", "node_modules/.bin/") for name in ("npm", "node", "python")}
    script = {"preinstall": f"echo script > {ran}", "install": f"echo script > {ran}"}
    files |= {
        ".npmrc": "registry=http://127.0.0.1:9/${OPENAI_API_KEY}/\n",
        "package.json": json.dumps(
            {"dependencies": {"@openai/codex": "0.162.0"}, "scripts": script, "workspaces": ["**"]}
        ),
        "requirements.txt": "hermes-agent==0.1.0\n",
        "pip.conf": "[global]\nindex-url = http://127.0.0.1:9/\n",
        "setup.cfg": "[metadata]\nname = hostile\n",
        "setup.py": told,
        "pyproject.toml": "[project]\nname = 'hostile'\n",
        "asking/codex": ASKING,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    monkeypatch.setenv("PATH", f":node_modules/.bin:{shop.folder / 'bin'}")
    monkeypatch.setenv("HOME", str(shop.folder / "home"))
    wheels.use(shop.folder / "index", monkeypatch)
    configured.cache_clear()
    return ran


def surroundings(shop: Shop) -> list[tuple[Path, dict[str, str]]]:
    """Return the folder and the variables of each call of npm."""
    lines = (shop.folder / "surroundings").read_text().splitlines()
    return [(Path(call["folder"]), call["env"]) for call in map(json.loads, lines)]


@pytest.mark.long
@pytest.mark.parametrize("command", first_quick(NPM, 2))
def test_npm_runs_elsewhere_and_knows_no_secret(shop: Shop, ran: Path, command: str) -> None:
    """No file of the folder runs, and npm is called outside of it, without the variables that it doesn't need."""
    cli.run(command.split())
    calls = surroundings(shop)
    assert calls, "npm was called"
    for folder, env in calls:
        assert not folder.is_relative_to(Path.cwd())
        assert "a-secret" not in env.values()
        assert all(Path(entry).is_absolute() for entry in env["PATH"].split(":"))
    assert not ran.exists(), ran.read_text()


@pytest.mark.long
@pytest.mark.parametrize("command", first_quick(PIP))
def test_pip_is_not_taken_from_the_folder(
    shop: Shop, ran: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file of the folder runs as pip: the real one says that the user's own index has no such release."""
    cli.run(command.split())
    said = capsys.readouterr()
    assert "there is no such release" in said.out + said.err
    assert not ran.exists(), ran.read_text()


def test_the_history_of_an_engine_is_filled_elsewhere(shop: Shop, ran: Path) -> None:
    """Looking up when releases were published asks npm elsewhere, too."""
    with pytest.raises(AttributeError):  # this registry tells no dates
        fill.refreshed("codex", published("codex"))
    assert len(surroundings(shop)) == 2
    assert not any(folder.is_relative_to(Path.cwd()) for folder, _ in surroundings(shop))
    assert not ran.exists()
