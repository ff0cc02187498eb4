"""The sandbox: its directories, its environment and its removal."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract import load
from turngate.contract.hermetic import Hermetic
from turngate.contract.home_and_workspace import SetupFile
from turngate.errors import ContractError
from turngate.process.copied_values import CopiedValues, copied_values
from turngate.process.supplied_files import supplied_root
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox, sandbox, save_streams, secrets_of, sweep, with_copied

HERMETIC = Hermetic(
    env={"ENGINE_HOME": "{home}/.engine", "HOME": "{home}/own"},
    files=(SetupFile("{home}/.engine/config.toml", 'url = "{url}/v1"\nwork = "{work}"\ntmp = "{tmp}"\n'),),
    model="stub",
)


def test_it_is_furnished_as_the_contract_says(tmp_path: Path) -> None:
    """The sandbox has its directories, and the contract's files with their slots filled."""
    with sandbox(HERMETIC, tmp_path / "deep", "main", keep=False) as box:
        assert all(folder.is_dir() for folder in (box.home, box.work, box.other, box.root / "tmp"))
        written = (box.home / ".engine/config.toml").read_text()
        assert written == f'url = "{box.backend.url}/v1"\nwork = "{box.work}"\ntmp = "{box.root}/tmp"\n'


@pytest.mark.parametrize("path", ["{home}/../../escaped", "{tmp}/../../../escaped", "/{home}/../escaped", "escaped"])
def test_no_file_of_a_contract_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A path that leads out of the sandbox is refused, and nothing is written there."""
    monkeypatch.chdir(tmp_path)
    with sandbox(HERMETIC, tmp_path / "boxes", "main", keep=False) as box:
        with pytest.raises(ContractError, match="leads out of the sandbox"):
            box.place([SetupFile(path, "x")])
        assert not list(tmp_path.rglob("escaped"))


def test_no_link_of_an_engine_leads_a_file_out_of_it(tmp_path: Path) -> None:
    """A linked folder is refused; a linked file is replaced, and what it pointed at is unchanged."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    with sandbox(HERMETIC, tmp_path / "boxes", "main", keep=False) as box:
        (box.home / "folder").symlink_to(outside)
        (box.home / "file").symlink_to(outside / "file")
        for name in ("folder/file", "folder/new/file"):
            with pytest.raises(ContractError, match="leads out of the sandbox"):
                box.place([SetupFile(f"{{home}}/{name}", "x")])
        box.place([SetupFile("{home}/file", "x")])
        assert (box.home / "file").read_text() == "x"
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("file", "mine")]


def test_its_mcp_server_has_a_tool_that_acts(tmp_path: Path) -> None:
    """The server speaks the protocol that engines speak, and its tool creates the file that it is told to."""
    with sandbox(HERMETIC, tmp_path, "server", keep=True) as box:
        box.offer_mcp_server()
        requests = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "act", "arguments": {}}},
            {"jsonrpc": "2.0", "id": 4, "method": "ping"},
        ]
        lines = "".join(f"{json.dumps(request)}\n" for request in requests)
        command = (box.fill("{mcp_server}"), str(box.work / "acted"))
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=60)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
        assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
        assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["act"]
        assert (box.work / "acted").exists()


def test_it_is_gone_afterwards_even_after_an_error(tmp_path: Path) -> None:
    """The sandbox is removed, even after an exception."""

    def fail(box: Sandbox) -> None:
        (box.work / "notes").touch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), sandbox(HERMETIC, tmp_path, "main", keep=False) as box:
        fail(box)
    assert list(tmp_path.iterdir()) == []


def test_a_kept_one_stays_under_its_name(tmp_path: Path) -> None:
    """With `keep` the sandbox stays on disk under the name of its case."""
    with sandbox(HERMETIC, tmp_path, "main", keep=True) as box:
        pass
    assert box.root == tmp_path / "main"
    assert (box.home / ".engine/config.toml").exists()


def test_two_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """Two sandboxes of the same case have separate directories and backends."""
    with sandbox(HERMETIC, tmp_path, "main", keep=False) as one, sandbox(HERMETIC, tmp_path, "main", keep=False) as two:
        assert one.root != two.root
        assert one.backend.url != two.backend.url


def test_sandboxes_can_share_a_folder(tmp_path: Path) -> None:
    """Sandboxes of one probe fill {shared} with the same path, which evidence doesn't name; alone each has its own."""
    with (
        sandbox(HERMETIC, tmp_path, "main", keep=False, shared=tmp_path / "both") as one,
        sandbox(HERMETIC, tmp_path, "auto", keep=False, shared=tmp_path / "both") as two,
        sandbox(HERMETIC, tmp_path, "auto", keep=False) as other,
    ):
        assert one.fill("{shared}") == two.fill("{shared}") == str(tmp_path / "both")
        assert one.places()[str(tmp_path / "both")] == "<shared>"
        assert other.shared.parent == other.root


def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only PATH and the locale are inherited, never the user's keys or settings."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-users-own")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/users/own")
    monkeypatch.setenv("LANG", "C.UTF-8")
    with sandbox(HERMETIC, tmp_path, "main", keep=False) as box:
        env = box.env(HERMETIC, box.other)
        assert "OPENAI_API_KEY" not in env
        assert env["PATH"] == os.environ["PATH"]
        assert env["LANG"] == "C.UTF-8"
        assert env["PWD"] == str(box.other)
        assert env["TMPDIR"] == str(box.root / "tmp")
        places = {name: value for name, value in env.items() if name.startswith("XDG_")}
        assert len(places) == 4
        assert all(value.startswith(str(box.home)) for value in places.values())


def test_the_contract_has_the_last_word_on_the_environment(tmp_path: Path) -> None:
    """Variables in the contract override those of the sandbox, with their slots filled."""
    with sandbox(HERMETIC, tmp_path, "main", keep=False) as box:
        env = box.env(HERMETIC, box.work)
        assert env["ENGINE_HOME"] == f"{box.home}/.engine"
        assert env["HOME"] == f"{box.home}/own"


def test_what_keeps_it_closed_outranks_settings_of_the_user(tmp_path: Path) -> None:
    """JSON is merged, and the value of the contract counts."""
    (tmp_path / ".gemini").mkdir()
    mine = {"general": {"sessionRetention": {"maxCount": 1}, "enableAutoUpdate": True}}
    (tmp_path / ".gemini/settings.json").write_text(json.dumps(mine))
    contract = load.contract("gemini").at()
    both = with_copied(contract, copied_values(contract, {"HOME": str(tmp_path)}))
    (own,), (file,) = contract.hermetic.files, both.hermetic.files
    general = json.loads(file.content).pop("general")
    assert general == json.loads(own.content)["general"] | {"sessionRetention": {"maxCount": 1}}
    alone = with_copied(replace(contract, hermetic=HERMETIC), copied_values(contract, {"HOME": str(tmp_path)}))
    assert json.loads(alone.hermetic.files[-1].content) == {"general": {"sessionRetention": {"maxCount": 1}}}


def test_no_key_of_a_toml_file_is_set_twice(tmp_path: Path) -> None:
    """The contract outranks settings of the user, and what a case places outranks both."""
    own = 'model = "stub"\n[features]\nplugins = false\n'
    mine = SetupFile("{home}/config.toml", 'model = "mine"\nsandbox_mode = "read-only"\nhistory.persistence = "none"\n')
    hermetic = replace(HERMETIC, files=(SetupFile("{home}/config.toml", own),))
    contract = with_copied(replace(load.contract("codex").at(), hermetic=hermetic), CopiedValues((mine,)))
    with sandbox(contract.hermetic, tmp_path, "main", keep=False) as box:
        path, more = box.home / "config.toml", 'sandbox_mode = "danger-full-access"\napproval_policy = "never"'
        both = {"model": "stub", "history": {"persistence": "none"}, "features": {"plugins": False}}
        assert tomllib.loads(path.read_text()) == both | {"sandbox_mode": "read-only"}
        box.place([SetupFile("{home}/config.toml", more)])
        placed = {"sandbox_mode": "danger-full-access", "approval_policy": "never"}
        assert tomllib.loads(path.read_text()) == both | placed


def test_every_proxy_is_the_backend_but_for_loopback(tmp_path: Path) -> None:
    """All proxy variables point to the backend; loopback addresses bypass the proxy."""
    with sandbox(HERMETIC, tmp_path, "main", keep=False) as box:
        env = box.env(HERMETIC, box.work)
        proxies = {
            env[name] for base in ("http", "https", "all") for name in (f"{base}_proxy", f"{base}_proxy".upper())
        }
        assert proxies == {box.backend.url}
        assert env["NO_PROXY"] == env["no_proxy"] == "127.0.0.1,localhost,::1"


def test_a_backend_that_is_away_takes_no_part_in_the_journal(tmp_path: Path) -> None:
    """With an unreachable model URL, the config uses that URL and the proxy is still the backend."""
    away = "http://127.0.0.1:1"
    with sandbox(HERMETIC, tmp_path, "main", keep=False, model_url=away) as box:
        assert f'url = "{away}/v1"' in (box.home / ".engine/config.toml").read_text()
        assert box.env(HERMETIC, box.work)["HTTPS_PROXY"] == box.backend.url
        urls = dict.fromkeys((box.backend.url, away), "<backend>")
        folders = {str(box.root): "<sandbox>", str(box.shared): "<shared>", str(supplied_root()): "<supplied>"}
        assert box.places() == folders | urls


HOLDING = """
import sys
import tomllib
from pathlib import Path
from turngate_probes.harness.sandbox import claimed
with claimed(Path(sys.argv[1]), "main-") as root:
    (root / "left").write_text("much")
    print(root, flush=True)
    sys.stdin.read()
"""


def holding(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that holds a sandbox until its stdin ends; return the process and the sandbox's path."""
    pipe = subprocess.PIPE
    process = subprocess.Popen((sys.executable, "-c", HOLDING, str(parent)), stdin=pipe, stdout=pipe, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.mark.long
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """The next run removes the sandbox of a killed process, and leaves one that is in use."""
    killed, orphan = holding(tmp_path)
    killed.kill()
    killed.communicate()
    alive, held = holding(tmp_path)
    (tmp_path / "note").write_text("")
    assert orphan.is_dir()
    CaseRunner.of(tmp_path, 1, Interrupt(), keep=True)
    assert orphan.is_dir()
    with sandbox(HERMETIC, tmp_path, "main", keep=False) as box:
        CaseRunner.of(tmp_path, 1, Interrupt())
        assert {path.name for path in tmp_path.iterdir()} == {box.root.name, held.name, "note"}
    assert (held / "left").exists()
    alive.communicate("")
    assert not held.exists()


def test_nothing_is_swept_where_nothing_is(tmp_path: Path) -> None:
    """Cleaning up a missing folder does not create it."""
    sweep(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_secrets_of_the_account_are_found_by_the_names_of_variables(tmp_path: Path) -> None:
    """Secrets are found by variable name and replaced in output; very short values are not."""
    account = {"MY_API_KEY": "abcdef", "A_TOKEN": "abcdefgh", "PASSPORT": "no", "HOME": "/home/me"}
    assert sorted(secrets_of(account)) == ["abcdef", "abcdefgh"]
    with sandbox(HERMETIC, tmp_path, "main", keep=False, account=account) as box:
        assert box.without_secrets(b"x abcdefgh y abcdef /home/me") == b"x <secret> y <secret> /home/me"
        assert box.env(HERMETIC, box.work) == {**account, "PWD": str(box.work)}
        assert not (box.home / ".engine").exists()


def test_a_turn_is_kept_whole(tmp_path: Path) -> None:
    """The command, stdout, stderr and each request are saved in a folder named after the step."""
    requests = (t.exchange(body=b"first"), t.exchange(body=b"second"))
    turn = t.turn("main/first", stderr=b"\xffwarning", requests=requests)
    save_streams(turn, tmp_path)
    folder = tmp_path / "turns" / "first"
    assert (folder / "stdout").read_bytes() == turn.stdout
    assert (folder / "stderr").read_bytes() == b"\xffwarning"
    assert [(folder / f"request-{i}.json").read_bytes() for i in (1, 2)] == [b"first", b"second"]
    command = json.loads((folder / "command.json").read_text())
    assert command == {"argv": list(turn.argv), "exit_code": 0, "ended": "exit"}


def test_a_page_is_kept_without_requests(tmp_path: Path) -> None:
    """A command without a turn is saved without requests."""
    save_streams(t.page("static/help-1", "usage"), tmp_path)
    assert sorted(path.name for path in (tmp_path / "turns/help-1").iterdir()) == ["command.json", "stderr", "stdout"]
