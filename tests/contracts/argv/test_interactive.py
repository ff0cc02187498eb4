from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.releases import NEWEST
from tests.tables import each
from turngate.argv.interactive import allowed_hint, check_interactive, read_options
from turngate.contract.launch import AllowedKey, InteractiveUse, Option
from turngate.contract.versions import ClaimEvidence
from turngate.errors import RefusedError
from turngate.model import Mode

SEEN = (ClaimEvidence(observed="seen"),)
CONTRACT = replace(
    NEWEST["codex"],
    options=(
        Option("--dir", "many", ("-d",), interactive=InteractiveUse(evidence=SEEN, path="workspace")),
        Option("--file", "required", interactive=InteractiveUse(evidence=SEEN, path="workspace")),
        Option(
            "--set",
            "many",
            ("-s",),
            interactive=InteractiveUse(
                evidence=SEEN,
                keys=(
                    AllowedKey(key="a.b", values=("low", "high")),
                    AllowedKey(key="count", pattern="[0-9]+"),
                ),
            ),
        ),
        Option("--level", "required", interactive=InteractiveUse(evidence=SEEN, values=("one", "two"))),
        Option("--name", "required", interactive=InteractiveUse(evidence=SEEN, pattern=".+")),
        Option("--quiet", "none", ("-q",), interactive=InteractiveUse(evidence=SEEN)),
        Option("--program", "required"),
        Option("--switch", "none"),
    ),
)


def check(*tokens: str, workspace: Path | None = None) -> None:
    """Check the options of a caller."""
    check_interactive(CONTRACT, read_options(CONTRACT, tokens), workspace)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with directories and with links that stay inside or lead out."""
    work = tmp_path / "work"
    (work / "sub" / "deep").mkdir(parents=True)
    (work / "file").touch()
    (work / "in").symlink_to("sub/deep")
    (work / "out").symlink_to("/")
    (work / "up").symlink_to("..")
    (work / "sub" / "away").symlink_to(tmp_path)
    (work / "dangling").symlink_to(tmp_path / "not-there")
    (work / "loop").symlink_to("loop")
    (work / "there").symlink_to("back")
    (work / "back").symlink_to("there")
    (tmp_path / "work-too").mkdir()
    return work


@each(
    "tokens",
    [
        ("--set", "a.b=low"),
        ("-s=a.b=high",),
        ("--set=count=12",),
        ("-s", 'a.b="low"'),
        ("-s", "a.b='low'"),
        ("--level", "one"),
        ("--level=two",),
        ("--name", "a name"),
        ("--name=x=y",),
        ("--quiet",),
        ("-q",),
        ("--set", "a.b=low", "-s", "count=1", "--quiet"),
        (),
    ],
)
def test_what_is_listed_is_allowed(tokens: tuple[str, ...]) -> None:
    """Listed values, patterns, override keys and switches are accepted, in each form of an option."""
    check(*tokens)


@each(
    "tokens, why",
    [
        (("--program", "x"), "is not allowed in mode interactive"),
        (("--switch",), "is not allowed in mode interactive"),
        (("--level", "three"), "has a value that is not allowed"),
        (("--level", "One"), "has a value that is not allowed"),
        (("--level=",), "has a value that is not allowed"),
        (("--name=",), "has a value that is not allowed"),
        (("--name", "a\nb"), "contains a character that can't be printed"),
        (("--name", "a\x1bb"), "contains a character that can't be printed"),
        (("--name", "a\u2028b"), "contains a character that can't be printed"),
        (("--name", "a\udcffb"), "contains a character that can't be printed"),
        (("-s", "a.b=low\n"), "contains a character that can't be printed"),
        (("-s", "a.b"), "gives a.b a value that is not allowed"),
        (("-s", "a.b="), "gives a.b a value that is not allowed"),
        (("-s", "a.b=mid"), "gives a.b a value that is not allowed"),
        (("-s", "a.b= low"), "gives a.b a value that is not allowed"),
        (("-s", "a.b=\"low'"), "gives a.b a value that is not allowed"),
        (("-s", 'a.b="low" # c'), "gives a.b a value that is not allowed"),
        (("-s", "count=1.5"), "gives count a value that is not allowed"),
        (("-s", "count=[1]"), "gives count a value that is not allowed"),
        (("-s", "A.b=low"), "sets a key that is not allowed"),
        (("-s", "a.b.c=low"), "sets a key that is not allowed"),
        (("-s", "a=low"), "sets a key that is not allowed"),
        (("-s", " a.b=low"), "sets a key that is not allowed"),
        (("-s", "a.b =low"), "sets a key that is not allowed"),
        (("-s", "a .b=low"), "sets a key that is not allowed"),
        (("-s", '"a".b=low'), "sets a key that is not allowed"),
        (("-s", 'a."b"=low'), "sets a key that is not allowed"),
        (("-s", "a={b='low',c='x'}"), "sets a key that is not allowed"),
        (("-s", "=low"), "sets a key that is not allowed"),
        (("-s=",), "sets a key that is not allowed"),
        (("--dir", "sub"), "is unknown"),
        (("--quiet", "--level", "one", "--program=x"), "--program=x"),
    ],
)
def test_anything_else_is_refused(tokens: tuple[str, ...], why: str) -> None:
    """The error names the option, gives the reason, and lists everything that is allowed."""
    with pytest.raises(RefusedError) as refused:
        check(*tokens)
    assert why in refused.value.what
    assert refused.value.hint == allowed_hint(CONTRACT, Mode.INTERACTIVE)
    assert refused.value.subject


@each(
    "path", [".", "./", "sub", "sub/deep", "file", "in", "in/new", "new/file.txt", "sub//deep", "{work}", "{work}/sub"]
)
def test_a_path_in_the_workspace_is_allowed(path: str, workspace: Path) -> None:
    """A path in the workspace is accepted: relative or absolute, existing or not, also through a link inside."""
    check("--dir", path.replace("{work}", str(workspace)), workspace=workspace)


@each(
    "path, why",
    [
        ("/", "points outside"),
        ("/etc/passwd", "points outside"),
        ("{work}-too", "points outside"),
        ("{parent}", "points outside"),
        ("out", "points outside"),
        ("out/etc", "points outside"),
        ("up", "points outside"),
        ("sub/away/x", "points outside"),
        ("loop", "can't be resolved"),
        ("loop/x", "can't be resolved"),
        ("there/x", "can't be resolved"),
        ("x" * 300, "can't be resolved"),
        ("dangling", "points outside"),
        ("dangling/x", "points outside"),
        ("{work}/out", "points outside"),
        ("..", "not plain"),
        ("sub/../..", "not plain"),
        ("sub/..", "not plain"),
        ("in/../..", "not plain"),
        ("{work}/../work", "not plain"),
        ("~", "not plain"),
        ("~root", "not plain"),
        ("$HOME", "not plain"),
        ("sub,/etc", "not plain"),
        ("sub:/etc", "not plain"),
        ("sub;/etc", "not plain"),
        ("sub /etc", "not plain"),
        (" /etc", "not plain"),
        ("out ", "not plain"),
        ("'/etc'", "not plain"),
        ('"/etc"', "not plain"),
        ("%2Fetc", "not plain"),
        ("file:///etc", "not plain"),
        ("\\etc", "not plain"),
        ("s*", "not plain"),
        ("s\u00fcb", "not plain"),
        ("@file", "not plain"),
        ("", "not plain"),
        ("sub\n", "can't be printed"),
        ("sub\udcff", "can't be printed"),
    ],
)
def test_a_path_that_may_lead_out_is_refused(path: str, why: str, workspace: Path) -> None:
    """A path is rejected if a link leads out, or if the engine may expand, split, trim, unquote or normalize it."""
    path = path.replace("{work}", str(workspace)).replace("{parent}", str(workspace.parent))
    with pytest.raises(RefusedError, match=why):
        check(f"--dir={path}", workspace=workspace)


@pytest.mark.parametrize("order", [("--dir=sub", "--file=away"), ("--file=away", "--dir=sub")])
def test_a_path_counts_from_every_other_path_too(order: tuple[str, str], workspace: Path) -> None:
    """A path is resolved from each other path too: `away` is new here, but a link out of the workspace from `sub`."""
    check("--file=away", workspace=workspace)
    with pytest.raises(RefusedError, match="'--file=away' points outside the workspace"):
        check(*order, workspace=workspace)


def test_a_workspace_may_be_a_link(workspace: Path, tmp_path: Path) -> None:
    """If the workspace is a link, its target counts."""
    (tmp_path / "link").symlink_to(workspace)
    check("--dir", "sub", "--dir", str(workspace / "sub"), workspace=tmp_path / "link")


def test_the_path_of_the_workspace_itself_may_hold_spaces(tmp_path: Path) -> None:
    """The workspace path may hold spaces; if engines could split it there, absolute paths are rejected."""
    (odd := tmp_path / "my s\u00fcb").mkdir()
    (split := tmp_path / "a,b").mkdir()
    check("--dir", f"{odd}/x", "--dir", str(odd), workspace=odd)
    with pytest.raises(RefusedError, match="not plain"):
        check("--dir", f"{odd}/x y", workspace=odd)
    check("--dir", "x", workspace=split)
    with pytest.raises(RefusedError, match="not plain"):
        check("--dir", f"{split}/x", workspace=split)


def test_a_link_counts_when_the_turn_is_built(workspace: Path) -> None:
    """If a directory is replaced by a link between two turns, the second turn rejects it."""
    check("--dir", "sub/deep", workspace=workspace)
    (workspace / "sub" / "deep").rmdir()
    (workspace / "sub" / "deep").symlink_to("/etc")
    with pytest.raises(RefusedError, match="points outside"):
        check("--dir", "sub/deep", workspace=workspace)


@given(st.text(max_size=30))
def test_no_text_leads_out_of_the_workspace(path: str) -> None:
    """A path is accepted only if it stays inside after normalization; no text raises another error."""
    try:
        check(f"--dir={path}", workspace=Path("/w"))
    except RefusedError:
        return
    for cleaned in (path, path.strip(), path.strip("\"'"), *path.split(",")):
        assert Path("/w", cleaned).is_relative_to("/w")
        assert ".." not in Path(cleaned).parts
        assert not cleaned.startswith("~")


@given(st.text(max_size=30) | st.from_regex(r"(a\.b|count)=.*", fullmatch=True))
def test_no_text_sets_another_key_or_value(override: str) -> None:
    """An override is accepted only with a listed key, spelled as listed, and a listed value."""
    try:
        check(f"--set={override}")
    except RefusedError:
        return
    key, _, value = override.partition("=")
    bare = value[1:-1] if value[:1] in ("'", '"') else value
    assert (key == "a.b" and bare in ("low", "high")) or (key == "count" and bare.isdecimal() and bare.isascii())
