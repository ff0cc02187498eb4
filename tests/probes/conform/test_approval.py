"""Settings files and variables that let an engine act without asking."""

import json
import os
from pathlib import Path

import pytest

from tests.tables import each
from turngate import load_contract
from turngate_probes.conform.player import described
from turngate_probes.releases.pins import pinned_version

START = ("exec", "--json", "--skip-git-repo-check")
ASKS, ALLOWS = '{"permission": {"bash": "ask", "edit": {"*": "deny"}}}', '{"permission": {"bash": "allow"}}'
CONFIG = "home/.codex/config.toml"
GEMINI_TURN, CLAUDE_TURN, OC = ("--skip-trust", "-p", "hi"), ("-p", "hi"), ("run", "hi")
ASKED, AGENT = {"OPENCODE_PERMISSION": '{"bash": "ask", "edit": "ask"}'}, "---\npermission:\n  bash: allow\n---\nhi\n"
BUILD = '{"agent": {"build": {"permission": {"bash": "allow", "edit": "allow"}}}}'
ABOVE_TRUSTED, READ_ONLY = '[projects."{above}"]\ntrust_level = "trusted"', ("--sandbox", "read-only")
W_ASKS = '{"default_agent": "w", "permission": "ask"}'
RULES, RULE = "home/.codex/rules/default.rules", 'prefix_rule(pattern=["touch"])'
WIDE, NARROW = 'sandbox_mode = "workspace-write"', 'sandbox_mode = "read-only"'
WRITES, READS = 'default_permissions = ":workspace"', 'default_permissions = ":read-only"'
OWN, OWN_KEY = 'permissions.own.filesystem = {"/" = "write"}', "permissions.own.filesystem./"
GLOBAL, ASKING = "home/.config/opencode/opencode.json", "---\npermission:\n  bash: ask\n  edit: ask\n---\nhi\n"


def permit(permission: object) -> str:
    """Return a settings file of OpenCode with these permissions, in their order."""
    return json.dumps({"permission": permission})


BOTH_ASK, BOTH_ALLOW = permit({"bash": "ask", "edit": "ask"}), permit({"bash": "allow", "edit": "allow"})


def policy(*lines: str) -> str:
    """Return a rule of a policy with these lines."""
    return "\n".join(("[[rule]]", *lines, ""))


@each(
    "engine, argv, files, env, count",
    [
        ("codex", (*START, "-"), {CONFIG: 'sandbox_mode = "workspace-write"'}, {}, 1),
        (
            "codex",
            (*START, "-"),
            {"own/config.toml": '[projects."{work}"]\ntrust_level = "trusted"'},
            {"CODEX_HOME": "own"},
            1,
        ),
        ("codex", (*START, "-"), {CONFIG: '[projects."/x"]\ntrust_level = "trusted"'}, {}, 0),
        (
            "codex",
            (*START, "-"),
            {CONFIG: 'sandbox_mode = "read-only"\n[projects."{work}"]\ntrust_level = "trusted"'},
            {},
            0,
        ),
        ("codex", (*START, "-"), {CONFIG: '[profiles.x]\nsandbox_mode = "workspace-write"'}, {}, 0),
        ("codex", (*START, "-"), {CONFIG: 'profile = "x"\nprofiles.x.sandbox_mode = "workspace-write"'}, {}, 1),
        ("codex", (*START, "-"), {CONFIG: 'x = """\nsandbox_mode = "workspace-write"\n"""'}, {}, 0),
        ("codex", (*START, "-"), {CONFIG: 'default_permissions = ":workspace"'}, {}, 1),
        (
            "codex",
            (*START, "-"),
            {CONFIG: 'default_permissions = ":read-only"\nsandbox_mode = "danger-full-access"'},
            {},
            0,
        ),
        (
            "codex",
            (*START, "-"),
            {CONFIG: 'default_permissions = "own"\npermissions.own.filesystem = {"/" = "read", "{work}" = "write"}'},
            {},
            1,
        ),
        ("codex", (*START, "--ignore-user-config", "-"), {CONFIG: 'sandbox_mode = "workspace-write"'}, {}, 0),
        (
            "codex",
            (*START, "--sandbox", "read-only", "-"),
            {CONFIG: 'sandbox_mode = "workspace-write"'},
            {},
            0,
        ),
        (
            "codex",
            (*START, "-c", 'sandbox_mode="read-only"', "-"),
            {CONFIG: 'sandbox_mode = "workspace-write"'},
            {},
            0,
        ),
        ("codex", (*START, "-"), {CONFIG: 'sandbox_mode = "read-only"'}, {}, 0),
        ("codex", (*START, "-"), {CONFIG: '[projects."{work}"]\ntrust_level = "untrusted"'}, {}, 1),
        ("codex", (*START, "-"), {CONFIG: ABOVE_TRUSTED}, {}, 0),
        ("codex", (*START, "-"), {CONFIG: ABOVE_TRUSTED, ".git/HEAD": ""}, {}, 1),
        ("codex", (*START, "-"), {CONFIG: ABOVE_TRUSTED, "work/.git/HEAD": ""}, {}, 0),
        ("codex", (*START, *READ_ONLY, "-"), {CONFIG: ABOVE_TRUSTED, ".git/HEAD": ""}, {}, 0),
        ("codex", (*START, *READ_ONLY, "-"), {RULES: RULE}, {}, 1),
        ("codex", (*START, "--ignore-user-config", "-"), {RULES: RULE}, {}, 1),
        ("codex", (*START, "--ignore-rules", "-"), {RULES: RULE}, {}, 0),
        ("codex", (*START, "-"), {RULES: RULE.replace(")", ', decision="prompt")')}, {}, 0),
        ("codex", (*START, "-"), {RULES: f"# {RULE}"}, {}, 0),
        ("codex", ("app-server",), {RULES: RULE}, {}, 1),
        ("codex", ("app-server",), {CONFIG: 'sandbox_mode = "workspace-write"'}, {}, 0),
        (
            "claude",
            CLAUDE_TURN,
            {"work/.claude/settings.json": '{"permissions": {"defaultMode": "acceptEdits"}}'},
            {},
            1,
        ),
        ("claude", CLAUDE_TURN, {"work/.claude/settings.json": '{"permissions": {"allow": ["Bash"]}}'}, {}, 0),
        (
            "claude",
            CLAUDE_TURN,
            {"home/.claude/settings.json": '{"permissions": {"allow": ["Read", "Bash"]}}'},
            {},
            1,
        ),
        ("gemini", GEMINI_TURN, {"home/.gemini/settings.json": '{"tools": {"allowed": ["write_file"]}}'}, {}, 1),
        ("gemini", GEMINI_TURN, {"work/.gemini/settings.json": '{"tools": {"allowed": ["write_file"]}}'}, {}, 0),
        (
            "gemini",
            GEMINI_TURN,
            {"home/.gemini/settings.json": '{"general": {"defaultApprovalMode": "auto_edit"}}'},
            {},
            1,
        ),
        (
            "gemini",
            ("--approval-mode", "default", *GEMINI_TURN),
            {"home/.gemini/settings.json": '{"general": {"defaultApprovalMode": "auto_edit"}}'},
            {},
            0,
        ),
        (
            "gemini",
            GEMINI_TURN,
            {"home/.gemini/policies/a.toml": '[[rule]]\ntoolName = "replace"\ndecision = "allow"'},
            {},
            1,
        ),
        ("opencode", ("run", "hi"), {}, {}, 1),
        ("opencode", ("run", "--agent", "plan", "hi"), {}, {}, 1),  # it runs commands
        ("opencode", ("run", "hi"), {}, {"OPENCODE_PERMISSION": '{"*": "deny"}'}, 0),
        ("opencode", ("run", "hi"), {"work/opencode.json": ASKS}, {}, 0),
        ("opencode", ("run", "hi"), {"home/.config/opencode/opencode.json": ASKS}, {}, 0),
        (
            "opencode",
            ("run", "hi"),
            {"home/.config/opencode/opencode.json": ASKS, "work/opencode.json": ALLOWS},
            {},
            1,
        ),
        ("opencode", ("run", "hi"), {"work/opencode.json": ALLOWS}, {"OPENCODE_CONFIG_CONTENT": ASKS}, 0),
        ("opencode", OC, {"work/opencode.json": permit({"bash": "ask", "edit": "ask", "*": "allow"})}, {}, 1),
        ("opencode", OC, {"work/opencode.json": permit({"bash": "allow", "edit": "allow", "*": "ask"})}, {}, 0),
        (
            "opencode",
            OC,
            {"work/opencode.json": permit({"edit": "ask", "bash": {"*": "allow", "git *": "ask"}})},
            {},
            1,
        ),
        (
            "opencode",
            OC,
            {"work/opencode.json": permit({"edit": "ask", "bash": {"git *": "allow", "*": "ask"}})},
            {},
            0,
        ),
        (
            "opencode",
            OC,
            {GLOBAL: permit({"bash": {"*": "ask"}}), "work/opencode.json": permit({"bash": "allow"})},
            {},
            1,
        ),
        ("opencode", OC, {GLOBAL: permit("ask"), "work/opencode.json": permit({"webfetch": "allow"})}, {}, 0),
        ("opencode", OC, {GLOBAL: BOTH_ASK}, {"OPENCODE_PERMISSION": '{"*": "allow"}'}, 1),
        ("opencode", OC, {GLOBAL: BOTH_ALLOW}, {"OPENCODE_PERMISSION": '{"*": "ask"}'}, 0),
        ("opencode", OC, {GLOBAL: BOTH_ALLOW, "home/.config/opencode/opencode.jsonc": BOTH_ASK}, {}, 0),
        ("opencode", OC, {"home/.config/opencode/config.json": BOTH_ASK}, {}, 0),
        ("opencode", OC, {"own/opencode/opencode.json": BOTH_ASK}, {"XDG_CONFIG_HOME": "own"}, 0),
        ("opencode", OC, {GLOBAL: BOTH_ASK}, {"XDG_CONFIG_HOME": "own"}, 1),
        ("opencode", OC, {"own": BOTH_ALLOW, "work/opencode.json": BOTH_ASK}, {"OPENCODE_CONFIG": "own"}, 0),
        ("opencode", OC, {"own": BOTH_ASK, "work/opencode.json": BOTH_ALLOW}, {"OPENCODE_CONFIG": "own"}, 1),
        ("opencode", OC, {"work/opencode.json": BOTH_ASK, "work/.opencode/opencode.json": BOTH_ALLOW}, {}, 1),
        ("opencode", OC, {"work/opencode.json": BOTH_ALLOW, "work/.opencode/opencode.json": BOTH_ASK}, {}, 0),
        (
            "opencode",
            OC,
            {"work/.opencode/opencode.json": BOTH_ALLOW, "own/opencode.json": BOTH_ASK},
            {"OPENCODE_CONFIG_DIR": "own"},
            0,
        ),
        (
            "opencode",
            OC,
            {"own/opencode.json": BOTH_ASK},
            {"OPENCODE_CONFIG_DIR": "own", "OPENCODE_CONFIG_CONTENT": BOTH_ALLOW},
            1,
        ),
        ("opencode", OC, {"home/.opencode/opencode.json": BOTH_ASK}, {}, 0),
        ("opencode", OC, {"opencode.json": BOTH_ASK}, {}, 0),
        ("opencode", OC, {"opencode.json": BOTH_ASK, "work/.git/HEAD": ""}, {}, 1),
        ("opencode", OC, {"work/opencode.json": BOTH_ASK}, {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}, 1),
        ("opencode", OC, {"work/opencode.json": BOTH_ASK}, {"OPENCODE_DISABLE_PROJECT_CONFIG": "0"}, 0),
        (
            "opencode",
            OC,
            {"work/opencode.json": '{"tools": {"bash": false, "edit": false}, "permission": {"*": "allow"}}'},
            {},
            1,
        ),
        ("opencode", OC, {"work/opencode.json": '{"agent": {"build": {"tools": {"*": false}}}}'}, {}, 0),
        (
            "opencode",
            OC,
            {"work/opencode.json": '{"agent": {"build": {"permission": "ask"}}, "permission": "allow"}'},
            {},
            0,
        ),
        ("opencode", OC, {"work/opencode.json": BUILD, "work/.opencode/agent/build.md": ASKING}, {}, 0),
        ("opencode", ("run", "--agent", "w", "hi"), {"work/.opencode/agents/w.md": ASKING}, {}, 0),
        ("opencode", OC, {"work/.opencode/agents/w.md": ASKING}, {}, 1),
        ("opencode", OC, {"work/.opencode/agents/w.md": ASKING, GLOBAL: '{"default_agent": "w"}'}, {}, 0),
        ("opencode", OC, {"work/.opencode/agents/w.md": AGENT, "work/opencode.json": W_ASKS}, {}, 1),
        ("opencode", (*OC[:1], "--agent", "build", "hi"), {"work/opencode.json": W_ASKS}, {}, 0),
        ("opencode", ("acp",), {}, {}, 0),
        ("opencode", ("acp",), {"work/opencode.json": ALLOWS}, {}, 1),
        ("opencode", ("acp",), {"opencode.json": BOTH_ALLOW, "work/opencode.json": BOTH_ASK}, {}, 0),
        ("opencode", OC, {"home/.config/opencode/opencode.jsonc": f"// https://x\n{ASKS[:-1]},}}"}, {}, 0),
        ("opencode", OC, {"work/opencode.jsonc": ASKS}, {}, 0),
        ("opencode", OC, {"work/.opencode/opencode.json": ASKS}, {}, 0),
        ("opencode", OC, {"own/opencode.json": ASKS}, {"OPENCODE_CONFIG_DIR": "own"}, 0),
        ("opencode", OC, {"work/opencode.json": '{"permission": "ask"}'}, {}, 0),
        ("opencode", OC, {"work/opencode.json": '{"tools": {"bash": false, "write": false}}'}, {}, 0),
        ("opencode", OC, {}, {"OPENCODE_PERMISSION": '{"*": "ask", "bash": "allow", "edit": "allow"}'}, 1),
        ("opencode", OC, {}, {"OPENCODE_PERMISSION": '{"bash": {"*": "allow"}, "edit": {"*": "allow"}}'}, 1),
        ("opencode", OC, {}, ASKED, 0),
        ("opencode", OC, {}, {**ASKED, "OPENCODE_CONFIG_CONTENT": BUILD}, 1),
        ("opencode", OC, {"work/opencode.json": BUILD}, ASKED, 1),
        ("opencode", OC, {"home/.config/opencode/agent/w.md": AGENT}, ASKED, 0),
        ("opencode", ("run", "--agent", "w", "hi"), {"home/.config/opencode/agent/w.md": AGENT}, ASKED, 1),
        ("opencode", ("run", "--agent=w", "hi"), {"home/.config/opencode/agent/w.md": AGENT}, ASKED, 1),
        (
            "gemini",
            GEMINI_TURN,
            {"home/.gemini/policies/a.toml": policy('toolName = "*"', 'decision = "allow"')},
            {},
            1,
        ),
        (
            "gemini",
            GEMINI_TURN,
            {"home/.gemini/policies/a.toml": policy('decision = "allow"', 'toolName = ["replace"]')},
            {},
            1,
        ),
        (
            "gemini",
            GEMINI_TURN,
            {"home/.gemini/policies/a.toml": policy('decision = "allow"') + policy('toolName = "*"')},
            {},
            0,
        ),
        (
            "gemini",
            GEMINI_TURN,
            {"own/.gemini/settings.json": '{"general": {"defaultApprovalMode": "auto_edit"}}'},
            {"GEMINI_CLI_HOME": "own"},
            1,
        ),
        ("gemini", GEMINI_TURN, {"home/.gemini/settings.json": '{"tools": {"allowed": ["ShellTool"]}}'}, {}, 1),
        ("gemini", GEMINI_TURN, {"home/.gemini/settings.json": '{"tools": {"autoAccept": true}}'}, {}, 0),
        (
            "claude",
            CLAUDE_TURN,
            {"work/.claude/settings.local.json": '{"permissions": {"allow": ["Write"]}}'},
            {},
            1,
        ),
        ("claude", CLAUDE_TURN, {"home/.claude/settings.json": '{"hooks": {"PreToolUse": [{"hooks": []}]}}'}, {}, 1),
        ("claude", CLAUDE_TURN, {"home/.claude/settings.json": '{"hooks": {"Stop": [{"hooks": []}]}}'}, {}, 0),
    ],
)
def test_a_file_can_skip_approval(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    argv: tuple[str, ...],
    files: dict[str, str],
    env: dict[str, str],
    count: int,
) -> None:
    """As on the real CLI: an option or a variable can outrank it, and one engine acts unless something makes it ask."""
    for name in ("work", "home", *files):
        path = tmp_path / name
        (path.parent if name in files else path).mkdir(parents=True, exist_ok=True)
        if name in files:
            text = files[name].replace("{work}", str(tmp_path / "work")).replace("{above}", str(tmp_path))
            path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path / "work")
    given = {name: str(tmp_path / value) if value == "own" else value for name, value in env.items()}
    found = described(
        load_contract(engine, pinned_version(engine)), argv, {"HOME": str(tmp_path / "home"), **given}, None
    )
    assert len(found.auto_approving) == count, found


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """Neither one that is no text, nor a pipe, which would block."""
    policies = tmp_path / ".gemini/policies"
    policies.mkdir(parents=True)
    (policies / "a.toml").write_bytes(b"\xff")
    os.mkfifo(policies / "b.toml")
    (policies / "c.toml").write_text(policy('toolName = "run_shell_command"', 'decision = "allow"', "priority = 100"))
    found = described(load_contract("gemini", "0.61.0"), GEMINI_TURN, {"HOME": str(tmp_path)}, None)
    assert found.auto_approving == (f"rule.0.toolName in {policies / 'c.toml'}",)


@each(
    "version, argv, files, found",
    [
        ("0.169.0", "-p x", {"x.config.toml": WIDE}, "sandbox_mode in x.config.toml"),
        ("0.169.0", "--profile=x", {"x.config.toml": WIDE, "config.toml": NARROW}, "sandbox_mode in x.config.toml"),
        ("0.169.0", "-px", {"x.config.toml": WIDE, "config.toml": READS}, "sandbox_mode in x.config.toml"),
        ("0.169.0", "-p x", {"x.config.toml": NARROW, "config.toml": WIDE}, ""),
        ("0.169.0", "-p x", {"x.config.toml": NARROW, "config.toml": WRITES}, ""),
        ("0.169.0", "-p x", {"x.config.toml": READS, "config.toml": WIDE}, ""),
        ("0.169.0", "-p x", {"x.config.toml": WRITES}, "default_permissions in x.config.toml"),
        ("0.169.0", "-p x", {"x.config.toml": 'model = "m"', "config.toml": WIDE}, "sandbox_mode in config.toml"),
        (
            "0.169.0",
            "-p x",
            {"x.config.toml": 'default_permissions = "own"', "config.toml": OWN},
            f"{OWN_KEY} in config.toml",
        ),
        ("0.169.0", "-p x", {"y.config.toml": WIDE}, ""),
        ("0.169.0", "-p x", {"config.toml": f"[profiles.x]\n{WIDE}"}, ""),
        ("0.169.0", "-p x --sandbox read-only", {"x.config.toml": WIDE}, ""),
        ("0.169.0", "-p x --ignore-user-config", {"x.config.toml": WIDE}, ""),
        ("0.117.0", "-p x", {"config.toml": f"[profiles.x]\n{WIDE}"}, "profiles.x.sandbox_mode in config.toml"),
        ("0.117.0", "-p x", {"config.toml": f"{WIDE}\n[profiles.x]\n{NARROW}"}, ""),
        ("0.117.0", "-p x", {"config.toml": f'profile = "y"\n[profiles.y]\n{WIDE}\n[profiles.x]\nmodel = "m"'}, ""),
        ("0.117.0", "-p x", {"x.config.toml": WIDE}, ""),
    ],
)
def test_a_profile_is_judged_by_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, argv: str, files: dict[str, str], found: str
) -> None:
    """By those that the release reads, which replace those below; the key and its file are named."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    for name, text in files.items():
        (home / name).write_text(text, "utf-8")
    started = described(load_contract("codex", version), (*START, *argv.split(), "-"), {"CODEX_HOME": str(home)}, None)
    assert [one.replace(f"{home}/", "") for one in started.auto_approving] == ([found] if found else [])
    assert started.kind == "turn"


@each(
    "engine, argv, file, text, found",
    [
        ("claude", CLAUDE_TURN, ".claude/settings.json", '{"permissions": {"allow": ["Bash"]}}', "permissions.allow"),
        ("codex", (*START, "-"), ".codex/rules/a.rules", f"\n{RULE}", "prefix_rule"),
        ("opencode", OC, ".config/opencode/opencode.json", ALLOWS, "permission.bash"),
    ],
)
def test_the_key_that_skips_approval_is_named(
    tmp_path: Path, engine: str, argv: tuple[str, ...], file: str, text: str, found: str
) -> None:
    """With its file, in which it may be one of many."""
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    started = described(load_contract(engine, pinned_version(engine)), argv, {"HOME": str(tmp_path)}, None)
    assert started.auto_approving == (f"{found} in {path}",)


@each(
    "settings, acts",
    [
        ({}, ["OpenCode by itself"]),
        ({"agent": {"w": {"permission": "ask"}}}, []),
        ({"agent": {"w": {"permission": {"bash": "ask"}}}}, ["OpenCode by itself"]),
        ({"agent": {"w": {"permission": "allow"}}, "permission": "ask"}, []),
    ],
)
def test_a_client_may_choose_an_agent_that_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], acts: list[str]
) -> None:
    """For each turn of a process, so this is not held against it; nor is an agent that it may never choose."""
    monkeypatch.chdir(tmp_path)
    env = {"HOME": str(tmp_path), "OPENCODE_CONFIG_CONTENT": json.dumps(settings)}
    started = described(load_contract("opencode", "1.18.33"), ("acp",), env, None)
    assert (list(started.unless_asked), started.auto_approving) == (acts, ())
