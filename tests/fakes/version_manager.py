"""Tiny version managers that lie on disk as the real ones do, and whose shims pick a release by the directory."""

import json
import os
from pathlib import Path

PACKAGE = "@openai/codex"
MANAGERS = ("mise", "asdf", "volta", "nodenv")
_NODES = {"0.147.0": "20.1.0", "0.169.0": "22.1.0"}
_INSTALLS = {"mise": "mise/installs/npm-openai-codex", "asdf": ".asdf/installs/nodejs", "nodenv": ".nodenv/versions"}
_FILES = {"mise": "mise.toml", "asdf": ".tool-versions", "nodenv": ".node-version"}
# what each does, up from the directory, then for its user
_PICKS = {
    "mise": """spec() { sed -n 's/^"npm:@openai.codex" = "\\(.*\\)"/\\1/p' "$1"; }; file=mise.toml""",
    "asdf": """spec() { sed -n 's/^nodejs //p' "$1"; }; file=.tool-versions""",
    "nodenv": """spec() { cat "$1"; }; file=.node-version""",
}


class VersionManager:
    """A manager of a kind below `root`, with the home of its user there; `ran` gets a line when it runs a release."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind, self.root, self.home, self.ran = kind, root, root / "home", root / "ran"
        self.home.mkdir(parents=True, exist_ok=True)
        write = {"mise": self._mise, "asdf": self._asdf, "volta": self._volta, "nodenv": self._nodenv}[kind]
        self.shim = write()
        for release in _NODES:
            self._install(release)

    def choose(self, release: str, folder: Path | None = None) -> Path:
        """Let a folder, or else the user, choose a release; return the file that says so."""
        if self.kind == "volta":
            if folder is None:
                return self._write("home/.volta/tools/user/bins/codex.json", json.dumps({"version": release}))
            (folder / "package.json").write_text(json.dumps({"dependencies": {PACKAGE: "*"}}))
            _package(folder / "node_modules", release, self.ran)
            return folder / "package.json"
        node = _NODES[release]
        text = {"mise": f'[tools]\n"npm:{PACKAGE}" = "{release}"\n', "asdf": f"nodejs {node}\n", "nodenv": f"{node}\n"}
        users = {"mise": "home/.config/mise/config.toml", "asdf": "home/.tool-versions", "nodenv": ".nodenv/version"}
        file = folder / _FILES[self.kind] if folder else self.root / users[self.kind]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text[self.kind])
        return file

    def _install(self, release: str) -> None:
        if self.kind != "volta":
            name = release if self.kind == "mise" else _NODES[release]
            _package(self.root / _INSTALLS[self.kind] / name / "lib/node_modules", release, self.ran)
            return
        _package(self.root / "home/.volta/tools/image" / release / "lib/node_modules", release, self.ran)

    def _mise(self) -> Path:
        self._write("bin/mise", self._picking(self.root / "home/.config/mise/config.toml"))
        return self._link("mise/shims/codex", self.root / "bin/mise")

    def _asdf(self) -> Path:
        self._write("bin/asdf", self._picking(self.home / ".tool-versions"))
        plugins = "".join(f"# asdf-plugin: nodejs {node}\n" for node in _NODES.values())
        return self._write(".asdf/shims/codex", f'#!/bin/sh\n{plugins}exec {self.root}/bin/asdf exec "codex" "$@"\n')

    def _nodenv(self) -> Path:
        self._write(".nodenv/libexec/nodenv", self._picking(self.root / ".nodenv/version"))
        start = f'#!/bin/sh\nset -e\nprogram="${{0##*/}}"\nexport NODENV_ROOT="{self.root}/.nodenv"\n'
        return self._write(
            ".nodenv/shims/codex", f'{start}exec "{self.root}/.nodenv/libexec/nodenv" exec "$program" "$@"\n'
        )

    def _volta(self) -> Path:
        own = f"{self.root}/home/.volta/tools"
        script = f"""#!/bin/sh
if [ -e node_modules/.bin/codex ]; then exec node_modules/.bin/codex "$@"; fi
release=$(sed 's/.*: "\\(.*\\)".*/\\1/' {own}/user/bins/codex.json)
exec {own}/image/$release/bin/codex "$@"
"""
        return self._link("home/.volta/bin/codex", self._write("home/.volta/bin/volta-shim", script))

    def _picking(self, of_user: Path) -> str:
        """Return the script that looks for the nearest file, and runs what it names."""
        return f"""#!/bin/sh
[ "$1" = exec ] && shift 2
{_PICKS[self.kind]}
folder=$PWD
while [ ! -e "$folder/$file" ] && [ "$folder" != / ]; do folder=$(dirname "$folder"); done
if [ -e "$folder/$file" ]; then chosen=$(spec "$folder/$file"); else chosen=$(spec {of_user}); fi
exec {self.root}/{_INSTALLS[self.kind]}/$chosen/bin/codex "$@"
"""

    def _write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def _link(self, name: str, target: Path) -> Path:
        link = self.root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        return link


def _package(modules: Path, release: str, ran: Path) -> None:
    """Install a release as npm does, with its program linked beside."""
    package = modules / PACKAGE
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": PACKAGE, "version": release}))
    program = package / "bin/codex.js"
    program.write_text(f"#!/bin/sh\necho {release} in $PWD with $NODE_OPTIONS >>{ran}\necho codex-cli {release}\n")
    program.chmod(0o755)
    links = (
        modules / ".bin"
        if modules.name == "node_modules" and modules.parent.name != "lib"
        else modules.parents[1] / "bin"
    )
    links.mkdir(exist_ok=True)
    (links / "codex").symlink_to(os.path.relpath(program, links))
