"""Proposes engine upgrades: runs the gate for each release that is newer than its pin, and reports on GitHub.

A green gate opens or updates one pull request for the engine, with the release in the history. Its description has
what the release changed, and the gate's report with what to change in the contract. Its title says whether changes are
required. A red gate opens or
updates an issue instead. Needs `git`, `gh` and `turngate` on PATH, and runs in a clean checkout of the base branch.

Exit codes: 0 every newer release went through the gate, or there is none; 2 something failed, see the log.
"""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

GREEN, RED = 0, 1
# GitHub rejects descriptions of more than 65,536 characters
LONGEST_BODY = 60_000
BOT = ("-c", "user.name=github-actions[bot]", "-c", "user.email=41898282+github-actions[bot]@users.noreply.github.com")
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
# strangers can open issues, but can't label them, so this label marks the watch's own
LABEL = "engine-upgrade"


class Failed(Exception):  # noqa: N818 - it ends one engine, not the run
    """A command failed, or printed unexpected output."""


@dataclass(frozen=True)
class Upgrade:
    """A release of an engine that is newer than its pin, and the commit that the gate runs on."""

    engine: str
    pinned: str
    newest: str
    base: str

    @property
    def branch(self) -> str:
        """The branch of the engine's pull request."""
        return f"watch/{self.engine}"

    @property
    def subject(self) -> str:
        """The beginning of every title for this engine."""
        return f"Upgrade {self.engine} to "

    @property
    def marker(self) -> str:
        """A comment in the description, from which the next run sees that nothing changed."""
        return f"<!-- turngate watch: {self.engine} {self.pinned} {self.newest} {self.base} -->"


@dataclass(frozen=True)
class Post:
    """An open pull request or issue on GitHub."""

    number: int
    title: str
    body: str


def main(arguments: list[str] | None = None) -> int:
    """Run the gate for each upgrade; a failure of one engine does not affect the others."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="main", help="target branch of pull requests")
    parser.add_argument("--remote", default="origin")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help="only these engines")
    asked = parser.parse_args(arguments)
    if run("git", "status", "--porcelain"):
        print("the checkout has changes: commit or stash them first", file=sys.stderr)
        return 2
    start, worst = run("git", "rev-parse", "--abbrev-ref", "HEAD"), 0
    start = run("git", "rev-parse", "HEAD") if start == "HEAD" else start
    run("git", "fetch", "--quiet", asked.remote, asked.base)
    base = run("git", "rev-parse", "FETCH_HEAD")
    run("gh", "label", "create", LABEL, "--force", "--description", "Proposed by the engine watch")
    for row in json.loads(run("turngate", "engines", "list", "--newest", "--json")):
        if asked.engines and row["engine"] not in asked.engines:
            continue
        try:
            print(f"{row['engine']}: {watch(row, base, asked.base, asked.remote)}", flush=True)
        except Failed as failure:
            first = str(failure).splitlines()[0].replace("%", "%25")
            print(f"::error title={row['engine']}::{first}", flush=True)
            print(failure, file=sys.stderr, flush=True)
            worst = 2
        finally:
            restore(start)
    return worst


def watch(row: dict[str, Any], base: str, base_branch: str, remote: str) -> str:
    """Run the gate for the newest release of one engine, unless already reported; return what was done."""
    engine, pinned, newest = row["engine"], row["pinned"], row["newest"]
    if not pinned:
        return "not pinned"
    if not VERSION.fullmatch(newest or ""):
        raise Failed(f"the newest release of {engine} is unknown: {row.get('problem') or newest}")
    if numbers(newest) <= numbers(pinned):
        return f"{pinned} is the newest release"
    upgrade = Upgrade(engine, pinned, newest, base)
    requests, issues = posts("pr", upgrade), posts("issue", upgrade)
    if any(upgrade.marker in post.body for post in (*requests, *issues)):
        return f"{newest} is already reported"
    restore(base)
    with TemporaryDirectory() as folder:
        code, report, changes_required = gate(upgrade, Path(folder))
        body = Path(folder) / "body.md"
        body.write_text(f"{upgrade.marker}\n{bounded(what_changed(upgrade) + report)}", "utf-8")
        if code == RED:
            return publish("issue", f"{upgrade.subject}{newest}: the gate is red", body, issues)
        commit(upgrade, remote)
        title = f"{upgrade.subject}{newest}{' (changes required)' if changes_required else ''}"
        places = ("--head", upgrade.branch, "--base", base_branch)
        done = publish("pr", title, body, requests, *places)
        for post in issues:
            run("gh", "issue", "close", str(post.number), "--comment", f"The gate of {engine} {newest} is green.")
        return done


def gate(upgrade: Upgrade, folder: Path) -> tuple[int, str, bool]:
    """Run the gate; return the exit code, the Markdown report, and whether a green gate requires changes."""
    markdown, data = folder / "gate.md", folder / "gate.json"
    target = f"{upgrade.engine}@{upgrade.newest}"
    argv = ("turngate", "gate", target, "--report", str(markdown), "--report", str(data))
    code = subprocess.run(argv, check=False).returncode
    if code not in (GREEN, RED) or not (markdown.is_file() and data.is_file()):
        raise Failed(f"the gate of {target} has no result: exit code {code}")
    return code, markdown.read_text("utf-8"), code == GREEN and json.loads(data.read_text("utf-8"))["changes_required"]


def what_changed(upgrade: Upgrade) -> str:
    """Add the release to the history in the checkout, and return what changed since the pin, as Markdown."""
    engine, since, until = upgrade.engine, upgrade.pinned, upgrade.newest
    run(sys.executable, "-m", "tests.tools.history", engine, "--versions", until)
    run(sys.executable, "-m", "tests.tools.compatibility")
    told = run("turngate", "history", engine, "--from", since, "--to", until)
    # names that an engine prints could hold a fence
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", told)), default=0))
    return f"## What changed since {since}\n\n{fence}text\n{told}\n{fence}\n\n"


def commit(upgrade: Upgrade, remote: str) -> None:
    """Push the changes as the only commit of the engine's branch."""
    run("git", "add", "--all")
    run("git", *BOT, "commit", "--quiet", "--message", f"Upgrade {upgrade.engine} to {upgrade.newest}")
    run("git", "push", "--quiet", "--force", remote, f"HEAD:refs/heads/{upgrade.branch}")


def posts(kind: str, upgrade: Upgrade) -> list[Post]:
    """Return the open pull requests, or issues, about the engine."""
    fields = ("--state", "open", "--label", LABEL, "--limit", "200", "--json", "number,title,body")
    only = ("--head", upgrade.branch) if kind == "pr" else ()
    listed = json.loads(run("gh", kind, "list", *only, *fields))
    return [Post(**post) for post in listed if post["title"].startswith(upgrade.subject)]


def publish(kind: str, title: str, body: Path, existing: list[Post], *create: str) -> str:
    """Update the existing pull request or issue, or open one; return what was done."""
    said = ("--title", title, "--body-file", str(body))
    article, name = ("a", "pull request") if kind == "pr" else ("an", "issue")
    if existing:
        number = existing[0].number
        run("gh", kind, "edit", str(number), *said)
        return f"updated {name} {number}: {title}"
    run("gh", kind, "create", *said, "--label", LABEL, *create)
    return f"opened {article} {name}: {title}"


def bounded(report: str) -> str:
    """Shorten a report to GitHub's limit, without cutting into the evidence of a clause."""
    if len(report) <= LONGEST_BODY:
        return report
    kept, left_out = "", "\nThe rest is not shown: see the report of the workflow run.\n"
    for part in re.split(r"(?=^<details>|^#)", report, flags=re.MULTILINE):
        if len(kept) + len(part) > LONGEST_BODY:
            break
        kept += part
    return (kept or report.partition("\n")[0]) + left_out


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without a suffix such as `-beta.1`."""
    return tuple(int(number) for number in version.partition("-")[0].split("."))


def restore(place: str) -> None:
    """Check out a branch or commit, and remove everything that a gate left behind."""
    run("git", "checkout", "--quiet", "--force", place)
    run("git", "clean", "--quiet", "-d", "--force")


def run(*argv: str) -> str:
    """Run a command and return its output; Failed names the command and its error output."""
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Failed(f"{' '.join(argv[:3])} failed with exit code {ended.returncode}\n{ended.stderr.strip()}")
    return ended.stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        print(failed, file=sys.stderr)
        sys.exit(2)
