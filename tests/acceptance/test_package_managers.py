"""The real npm and pip, in a folder whose settings want to send them elsewhere."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.acceptance.command import Command
from turngate_probes.harness.package_managers import find_program

NEWEST = "9.9.9"


class Registry(ThreadingHTTPServer):
    """A registry of npm and PyPI on loopback, in which every package has one release; it notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        """The address, without a scheme."""
        return f"127.0.0.1:{self.server_port}"


class Asked(BaseHTTPRequestHandler):
    """Tells of one release for each package of npm or PyPI; there is nothing to download."""

    server: Registry

    def do_GET(self) -> None:
        """Answer one request."""
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        name = unquote(self.path.strip("/").rpartition("/")[2])
        dist = {"tarball": f"http://{self.server.url}/absent.tgz", "integrity": f"sha512-{'A' * 86}=="}
        package = {"name": name, "version": NEWEST, "dist": dist}
        document: dict[str, object] = {"name": name, "dist-tags": {"latest": NEWEST}, "versions": {NEWEST: package}}
        wheel = f"{name.replace('-', '_')}-{NEWEST}-py3-none-any.whl"
        body = f'<a href="{wheel}">{wheel}</a>' if "/simple/" in self.path else json.dumps(document)
        self.send_response(404 if "absent" in self.path else 200)
        self.send_header("Content-Type", "text/html" if "/simple/" in self.path else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(name="registry")
def _registry() -> Iterator[Registry]:
    yield from _served()


@pytest.fixture(name="stranger")
def _stranger() -> Iterator[Registry]:
    yield from _served()


def _served() -> Iterator[Registry]:
    with Registry() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.engines
@pytest.mark.parametrize(
    "command, told",
    [
        ("engines list --newest", NEWEST),
        ("engines install codex@latest", "no such release"),
        ("probe codex@latest --level static", "no such release"),
        ("matrix codex --versions latest:1 --plan github", NEWEST),
        ("gate codex@latest --clause version.readable", NEWEST),
    ],
)
@pytest.mark.parametrize("cache", ["outside", "inside"])
def test_only_the_users_own_registry_is_asked(
    tmp_path: Path, registry: Registry, stranger: Registry, command: str, told: str, cache: str
) -> None:
    """The user's registry and token count, and no .npmrc of the folder, even if the cache is a workspace in it."""
    project = tmp_path / "project"
    project.mkdir()
    files = {
        project
        / ".npmrc": f"registry=http://{stranger.url}/${{OPENAI_API_KEY}}/\n@openai:registry=http://{stranger.url}",
        project / "package.json": json.dumps({"dependencies": {"@openai/codex": "0.1.0"}, "workspaces": ["**"]}),
        project / "pip/__main__.py": f"open({str(tmp_path / 'ran')!r}, 'w')",
        tmp_path / ".npmrc": f"registry=http://{registry.url}/\n//{registry.url}/:_authToken=${{MY_TOKEN}}\n",
        tmp_path / ".config/pip/pip.conf": f"[global]\nindex-url = http://{registry.url}/simple/\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    npm = find_program("npm")
    assert npm, "npm is needed"
    env = {
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "a-secret",
        "MY_TOKEN": "mine",
        "TURNGATE_CACHE_DIR": str((project if cache == "inside" else tmp_path) / "cache"),
    }
    ran = Command(project, f"{Path(npm).parent}:/usr/bin:/bin", tuple(env.items())).run(*command.split())
    assert told in ran.out + ran.err
    assert stranger.asked == []
    assert {sent for path, sent in registry.asked if "/simple/" not in path} == {"Bearer mine"}
    assert "a-secret" not in str(registry.asked)
    assert not (tmp_path / "ran").exists()
