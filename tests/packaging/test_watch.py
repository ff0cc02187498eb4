"""The watch for new releases, on a local bare repository, with a `gh` and a `turngate` that record their calls."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PIN = "pins/codex/package.json"
REPORT = "## ❌ codex 0.170.0\n\nresume.dead-handle fails\n"

# each program records its arguments and answers from files next to it
GH = """
import json, sys
from pathlib import Path
home, argv = Path(__file__).parent, sys.argv[1:]
body = argv[argv.index("--body-file") + 1] if "--body-file" in argv else None
call = {"argv": argv, "body": Path(body).read_text() if body else None}
with (home / "gh.calls").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
if argv[1] == "list":
    listed = home / f"{argv[0]}.json"
    print(listed.read_text() if listed.exists() else "[]")
"""
TURNGATE = """
import json, sys
from pathlib import Path
home, argv = Path(__file__).parent, sys.argv[1:]
if argv[0] == "engines":
    print((home / "engines.json").read_text())
    sys.exit()
if argv[0] == "history":
    print((home / "history.txt").read_text(), " ".join(argv))
    sys.exit()
with (home / "gate.calls").open("a") as calls:
    calls.write(json.dumps(argv) + "\\n")
played = json.loads((home / "gate.json").read_text())
for word in argv:
    if word.endswith(".md"):
        Path(word).write_text(played["report"])
    if word.endswith(".json"):
        Path(word).write_text(json.dumps({"changes_required": played.get("changes", False)}))
sys.exit(played["code"])
"""
# what adds a release to the history, and what renders that
FILL = """
import sys
from pathlib import Path
if sys.argv[1:] == ["codex", "--versions", "0.666.0"]:
    sys.exit("the registry is away")
Path("history.jsonl").write_text(" ".join(sys.argv[1:]))
"""
RENDER = """
from pathlib import Path
Path("README.md").write_text(f"rendered {Path('history.jsonl').read_text()}")
"""
CHANGES = "0.170.0: compatible\n  Option `--b` is new (`codex exec`).\n"


@dataclass
class Watched:
    """A checkout of a bare repository, and the folder of the two recording programs."""

    checkout: Path
    bare: Path
    programs: Path
    env: dict[str, str] = field(default_factory=dict)

    def git(self, *argv: str) -> str:
        """Run git in the checkout."""
        ended = subprocess.run(
            ("git", *argv), cwd=self.checkout, env=self.env, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def write(self, name: str, data: Any) -> None:
        """Set the output of a program."""
        (self.programs / name).write_text(json.dumps(data))

    def watch(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run the watch script."""
        command = (sys.executable, str(ROOT / ".github/watch.py"), *argv)
        return subprocess.run(command, cwd=self.checkout, env=self.env, capture_output=True, text=True, check=False)

    def calls(self, *command: str) -> list[dict[str, Any]]:
        """Return the calls of `gh` that begin with these words."""
        file = self.programs / "gh.calls"
        listed = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [call for call in listed if tuple(call["argv"][: len(command)]) == command]

    def proposed(self, path: str) -> str:
        """Return the contents of a file on the proposed branch."""
        return self.git("--git-dir", str(self.bare), "show", f"watch/codex:{path}")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """Create a repository with one pin, whose engine has a newer release that passes the gate."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, code in (("gh", GH), ("turngate", TURNGATE)):
        (programs / name).write_text(f"#!{sys.executable}\n{code}")
        (programs / name).chmod(0o755)
    author = {f"GIT_{role}_{key}": "x" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", **author}
    made = Watched(tmp_path / "checkout", tmp_path / "bare", programs, env)
    subprocess.run(("git", "init", "-q", "--bare", "-b", "main", made.bare), env=env, check=True)
    subprocess.run(("git", "clone", "-q", made.bare, made.checkout), env=env, check=True, capture_output=True)
    (made.checkout / PIN).parent.mkdir(parents=True)
    (made.checkout / PIN).write_text("codex@0.169.0")
    for name, code in (("history", FILL), ("compatibility", RENDER)):
        (made.checkout / "tests/tools" / name).mkdir(parents=True)
        (made.checkout / "tests/tools" / name / "__main__.py").write_text(code)
    (programs / "history.txt").write_text(CHANGES)
    made.git("checkout", "-q", "-b", "main")
    made.git("add", "--all")
    made.git("commit", "-q", "-m", "Pin")
    made.git("push", "-q", "origin", "main")
    made.write("engines.json", [{"engine": "codex", "pinned": "0.169.0", "newest": "0.170.0", "problem": None}])
    made.write("gate.json", {"code": 0, "report": REPORT})
    return made


def posted(call: dict[str, Any], number: int = 7) -> list[dict[str, Any]]:
    """Return what `gh` would list after the recorded calls."""
    title = call["argv"][call["argv"].index("--title") + 1]
    return [{"number": number, "title": title, "body": call["body"]}]


@pytest.mark.long
def test_a_green_gate_opens_one_pull_request(watched: Watched) -> None:
    """The pull request has the files that passed the gate, and the gate's report as its description."""
    ended = watched.watch()
    assert ended.returncode == 0, ended.stderr
    assert "opened a pull request: Upgrade codex to 0.170.0" in ended.stdout
    (call,) = watched.calls("pr", "create")
    assert REPORT in call["body"]
    assert call["argv"][call["argv"].index("--head") + 1] == "watch/codex"
    assert call["argv"][call["argv"].index("--base") + 1] == "main"
    assert watched.proposed(PIN) == "codex@0.169.0", "a person pins a release"
    assert not watched.calls("issue", "create")


@pytest.mark.long
def test_the_pull_request_adds_the_release_to_the_history(watched: Watched) -> None:
    """The release is in the history and in the tables, and the description has in plain words what it changed."""
    assert watched.watch().returncode == 0
    assert watched.proposed("history.jsonl") == "codex --versions 0.170.0"
    assert watched.proposed("README.md") == "rendered codex --versions 0.170.0"
    (call,) = watched.calls("pr", "create")
    assert f"## What changed since 0.169.0\n\n```text\n{CHANGES}" in call["body"]
    assert "history codex --from 0.169.0 --to 0.170.0\n```\n" in call["body"]
    assert call["body"].index("What changed") < call["body"].index(REPORT)


@pytest.mark.long
def test_what_an_engine_wrote_stays_in_its_block(watched: Watched) -> None:
    """A name with backticks ends no block of the description."""
    (watched.programs / "history.txt").write_text("Option `--a```` is new.\n# Not a heading\n")
    watched.watch()
    (call,) = watched.calls("pr", "create")
    assert "\n`````text\nOption" in call["body"]
    assert call["body"].count("`````") == 2


@pytest.mark.long
def test_a_release_that_can_not_be_added_to_the_history_is_an_error(watched: Watched) -> None:
    """Nothing is proposed then, and the next run tries again."""
    watched.write("engines.json", [{"engine": "codex", "pinned": "0.169.0", "newest": "0.666.0", "problem": None}])
    ended = watched.watch()
    assert ended.returncode == 2
    assert "the registry is away" in ended.stderr
    assert not watched.calls("pr", "create")


@pytest.mark.long
def test_the_title_says_that_changes_are_required(watched: Watched) -> None:
    """The title says that changes are required, as long as they are."""
    watched.write("gate.json", {"code": 0, "report": REPORT, "changes": True})
    assert "opened a pull request: Upgrade codex to 0.170.0 (changes required)" in watched.watch().stdout
    (call,) = watched.calls("pr", "create")
    watched.write("pr.json", posted(call))
    watched.write("gate.json", {"code": 0, "report": REPORT})
    watched.git("commit", "-q", "--allow-empty", "-m", "The changes")
    watched.git("push", "-q", "origin", "main")
    assert "updated pull request 7: Upgrade codex to 0.170.0\n" in watched.watch().stdout


@pytest.mark.long
def test_the_checkout_is_left_as_it_was(watched: Watched) -> None:
    """The checkout keeps its branch, commit and files."""
    before = watched.git("rev-parse", "HEAD")
    watched.watch()
    assert watched.git("rev-parse", "HEAD") == before
    assert watched.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert watched.git("status", "--porcelain") == ""


@pytest.mark.long
def test_a_second_run_changes_nothing(watched: Watched) -> None:
    """While pin, release and base are unchanged, the gate is not run again."""
    watched.watch()
    (call,) = watched.calls("pr", "create")
    watched.write("pr.json", posted(call))
    ended = watched.watch()
    assert "0.170.0 is already reported" in ended.stdout
    assert len((watched.programs / "gate.calls").read_text().splitlines()) == 1


@pytest.mark.long
@pytest.mark.parametrize("news", ["release", "base"])
def test_news_update_the_pull_request(watched: Watched, news: str) -> None:
    """A newer release or a newer base replaces the proposed commit."""
    watched.watch()
    (call,) = watched.calls("pr", "create")
    watched.write("pr.json", posted(call))
    if news == "release":
        watched.write("engines.json", [{"engine": "codex", "pinned": "0.169.0", "newest": "0.171.0"}])
    else:
        watched.git("commit", "-q", "--allow-empty", "-m", "Another change")
        watched.git("push", "-q", "origin", "main")
    ended = watched.watch()
    newest = "0.171.0" if news == "release" else "0.170.0"
    assert f"updated pull request 7: Upgrade codex to {newest}" in ended.stdout
    (edit,) = watched.calls("pr", "edit")
    assert edit["argv"][2] == "7"
    assert watched.proposed("history.jsonl") == f"codex --versions {newest}"
    assert len(watched.calls("pr", "create")) == 1


@pytest.mark.long
def test_a_red_gate_opens_an_issue_instead(watched: Watched) -> None:
    """A failed gate pushes nothing. A second run updates nothing, and a passed gate closes the issue."""
    watched.write("gate.json", {"code": 1, "report": REPORT})
    ended = watched.watch()
    assert "opened a issue" not in ended.stdout
    assert "opened an issue: Upgrade codex to 0.170.0: the gate is red" in ended.stdout
    (call,) = watched.calls("issue", "create")
    assert REPORT in call["body"]
    assert CHANGES in call["body"]
    assert not watched.calls("pr", "create")
    assert "watch/codex" not in watched.git("ls-remote", "origin")
    watched.write("issue.json", posted(call))
    assert "is already reported" in watched.watch().stdout
    watched.write("gate.json", {"code": 0, "report": REPORT})
    watched.write("engines.json", [{"engine": "codex", "pinned": "0.169.0", "newest": "0.171.0"}])
    watched.watch()
    (closed,) = watched.calls("issue", "close")
    assert closed["argv"][2] == "7"


@pytest.mark.long
def test_only_what_carries_the_label_is_ours(watched: Watched) -> None:
    """An issue with our title but without the label is left alone, since anybody can open one."""
    watched.watch()
    lists = watched.calls("pr", "list") + watched.calls("issue", "list")
    assert len(lists) == 2
    for call in lists + watched.calls("pr", "create"):
        assert call["argv"][call["argv"].index("--label") + 1] == "engine-upgrade"


@pytest.mark.long
@pytest.mark.parametrize(
    "row, message",
    [
        ({"pinned": "0.170.0", "newest": "0.170.0"}, "0.170.0 is the newest release"),
        ({"pinned": "0.169.0", "newest": "0.168.9"}, "0.169.0 is the newest release"),
        ({"pinned": None, "newest": "0.170.0"}, "not pinned"),
    ],
)
def test_nothing_newer_means_nothing_to_do(watched: Watched, row: dict[str, Any], message: str) -> None:
    """Without a newer release the gate is not run."""
    watched.write("engines.json", [{"engine": "codex", **row}])
    ended = watched.watch()
    assert (ended.returncode, ended.stdout) == (0, f"codex: {message}\n")
    assert not (watched.programs / "gate.calls").exists()


@pytest.mark.long
@pytest.mark.parametrize("newest", [None, "", "0.170.0; touch x", "--accept", "latest"])
def test_a_version_that_is_none_is_an_error(watched: Watched, newest: str | None) -> None:
    """An invalid version is an error and isn't passed to any command."""
    watched.write("engines.json", [{"engine": "codex", "pinned": "0.169.0", "newest": newest, "problem": None}])
    ended = watched.watch()
    assert ended.returncode == 2
    assert "::error title=codex::the newest release of codex is unknown" in ended.stdout
    assert not (watched.programs / "gate.calls").exists()


@pytest.mark.long
def test_an_engine_that_fails_leaves_the_others_alone(watched: Watched) -> None:
    """The failure is annotated, other engines are checked, and the exit code says that one is unanswered."""
    broken = {"engine": "aider", "pinned": "1.0.0", "newest": None, "problem": "the registry is away"}
    codex = {"engine": "codex", "pinned": "0.169.0", "newest": "0.170.0", "problem": None}
    watched.write("engines.json", [broken, codex])
    ended = watched.watch()
    assert ended.returncode == 2
    assert "the registry is away" in ended.stdout
    assert len(watched.calls("pr", "create")) == 1
    assert "opened a pull request" not in watched.watch("aider").stdout


@pytest.mark.long
def test_an_unanswered_gate_proposes_nothing(watched: Watched) -> None:
    """An unanswered gate opens neither a pull request nor an issue, and the next run tries again."""
    watched.write("gate.json", {"code": 2, "report": REPORT})
    ended = watched.watch()
    assert ended.returncode == 2
    assert "codex@0.170.0 has no result: exit code 2" in ended.stdout
    assert not watched.calls("pr", "create")
    assert not watched.calls("issue", "create")


def test_uncommitted_changes_are_never_lost(watched: Watched) -> None:
    """With uncommitted changes in the checkout the script refuses to run."""
    (watched.checkout / "mine").write_text("precious")
    ended = watched.watch()
    assert ended.returncode == 2
    assert "commit or stash them" in ended.stderr
    assert (watched.checkout / "mine").read_text() == "precious"


@pytest.mark.long
def test_a_long_report_is_cut_between_sections(watched: Watched) -> None:
    """GitHub limits descriptions, so a long report is cut between sections, with a note."""
    details = "<details><summary>x</summary>\n" + "evidence\n" * 5000 + "</details>\n"
    watched.write("gate.json", {"code": 0, "report": REPORT + details * 3})
    watched.watch()
    (call,) = watched.calls("pr", "create")
    assert len(call["body"]) < 65_536
    assert call["body"].count("<details>") == call["body"].count("</details>") == 1
    assert "The rest is not shown" in call["body"]


def test_the_workflow_calls_the_script() -> None:
    """The workflow has the rights to push and to open issues and pull requests, and runs once at a time."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/watch.yml").read_text())
    assert set(workflow["permissions"]) == {"contents", "issues", "pull-requests"}
    assert workflow["concurrency"] == "watch"
    steps = workflow["jobs"]["watch"]["steps"]
    assert "python .github/watch.py" in steps[-1]["run"]
    assert "schedule" in workflow[True]
