"""Tests of what a proof takes along from a user's settings and variables: only what a contract lists."""

import functools
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.contracts.releases import NEWEST
from tests.tables import each
from turngate.contract.home_and_workspace import CopiedFile, CopiedSettings
from turngate.process import copied_values
from turngate.process.copied_values import CopiedValues

CLAUDE, CODEX = NEWEST["claude"], NEWEST["codex"]
PLANTED = "sk-planted-0123456789abcdefghij"
SECRET = {"apiKeyHelper": "x", "env": {"ANTHROPIC_API_KEY": "k"}, "hooks": {"Stop": []}, "mcpServers": {"a": {}}}


def copied(home: Path, **env: str) -> CopiedValues:
    """Return what a proof of Claude Code takes along in a home."""
    return copied_values.copied_values(CLAUDE, {"HOME": str(home), **env})


def settings(home: Path, text: str) -> Path:
    """Write the settings of Claude Code's user."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_only_listed_values_are_copied(tmp_path: Path) -> None:
    """No credential, hook or server is in the sandbox of a proof."""
    settings(tmp_path, json.dumps({"viewMode": "verbose", "verbose": True, **SECRET}))
    (file,) = copied(tmp_path).files
    assert (file.path, json.loads(file.content)) == (
        "{home}/.claude/settings.json",
        {"verbose": True, "viewMode": "verbose"},
    )
    assert copied(tmp_path).names == ("{CLAUDE_CONFIG_DIR}/settings.json: verbose, viewMode",)
    (tmp_path / ".claude.json").write_text('{"verbose": true, "oauthAccount": {"a": "b"}}')
    assert {file.path: json.loads(file.content) for file in copied(tmp_path).files}["{home}/.claude/.claude.json"] == {
        "verbose": True
    }


@each("engine", [engine for engine, contract in NEWEST.items() if contract.copied_settings != CopiedSettings()])
def test_no_secret_is_copied_whatever_the_engine(tmp_path: Path, engine: str) -> None:
    """A text that looks like a secret stays in the home, even under a key that the contract lists."""
    contract = NEWEST[engine]
    for file in contract.copied_settings.files:
        path = tmp_path / file.file.partition("/")[2]
        path.parent.mkdir(exist_ok=True)
        document: dict[str, Any] = {}
        for *above, last in (key.split(".") for key in file.keys):
            functools.reduce(lambda inner, key: inner.setdefault(key, {}), above, document)[last] = PLANTED
        tables = "".join(f'{key} = "{PLANTED}"\n' for key in file.keys)
        path.write_text(json.dumps(document) if path.suffix == ".json" else tables)
    places = dict.fromkeys(contract.store.locations if contract.store else (), str(tmp_path))
    env = {"HOME": str(tmp_path), **places, **dict.fromkeys(contract.copied_settings.env, PLANTED)}
    assert copied_values.copied_values(contract, env) == CopiedValues()


def test_the_content_decides_the_digest(tmp_path: Path) -> None:
    """Another value has another digest, what isn't listed changes nothing, and no value has none."""
    assert copied(tmp_path) == CopiedValues()
    path = settings(tmp_path, '{"viewMode": "verbose"}')
    first = copied(tmp_path)
    assert first.digest
    path.write_text('{"viewMode": "verbose", "theme": "dark"}')
    assert copied(tmp_path) == first
    path.write_text('{"viewMode": "default"}')
    assert copied(tmp_path).digest not in ("", first.digest)
    path.write_text('{"theme": "dark"}')
    assert copied(tmp_path) == CopiedValues()


def test_settings_are_where_the_variables_of_the_turn_say(tmp_path: Path) -> None:
    """A location variable moves the settings."""
    settings(tmp_path, '{"viewMode": "verbose"}')
    (tmp_path / "elsewhere").mkdir()
    assert not copied(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "elsewhere")).digest


@each("text", ["", "{", "[]", "7", '{"verbose": {"a": 1}}', '{"viewMode": ["x"]}', "\udcff" * 2])
def test_what_can_not_be_copied_is_left_out(tmp_path: Path, text: str) -> None:
    """Broken files, and values of another type, are not copied."""
    settings(tmp_path, "").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert copied(tmp_path) == CopiedValues()
    settings(tmp_path, json.dumps({"viewMode": "x" * (copied_values.MAX_TEXT + 1)}))
    assert copied(tmp_path) == CopiedValues()


def test_no_file_of_a_user_holds_up_a_proof(tmp_path: Path) -> None:
    """A pipe and a folder in the place of settings are none."""
    (tmp_path / ".claude").mkdir()
    os.mkfifo(tmp_path / ".claude" / "settings.json")
    (tmp_path / ".claude.json").mkdir()
    assert copied(tmp_path) == CopiedValues()


def test_values_of_toml_and_variables_are_copied(tmp_path: Path) -> None:
    """A TOML file is written with dotted keys, and of the variables only those of the list are taken."""
    path = tmp_path / "config.toml"
    path.write_text('hide = true\n[history]\npersistence = "none \\"x\\" é"\n[mcp_servers.a]\ncommand = "x"\n')
    listed = CopiedSettings(
        (CopiedFile("{CODEX_HOME}/config.toml", "{home}/.codex/config.toml", ("hide", "history.persistence", "no")),),
        ("CODEX_OSS_PORT",),
    )
    env = {"CODEX_HOME": str(tmp_path), "CODEX_OSS_PORT": "1", "OPENAI_API_KEY": "k"}
    found = copied_values.copied_values(replace(CODEX, copied_settings=listed), env)
    assert tomllib.loads(found.files[0].content) == {"hide": True, "history": {"persistence": 'none "x" é'}}
    assert found.env == {"CODEX_OSS_PORT": "1"}
