"""The releases that the files of a project pin."""

from pathlib import Path

import pytest

from tests.tables import each
from turngate import UsageError, load_contract
from turngate_probes.releases.project_pins import ProjectPin, project_pin

CODEX = load_contract("codex")
OTHER = "@openai/codex-sdk"


@each(
    "name, text, line",
    [
        (
            "package-lock.json",
            '{"packages": {\n"node_modules/@openai/codex": {\n  "version": "0.147.0",\n  "resolved": ""}}}',
            3,
        ),
        ("npm-shrinkwrap.json", '{"dependencies": {"@openai/codex": {"version": "0.147.0"}}}', 1),
        ("pnpm-lock.yaml", "packages:\n\n  '@openai/codex@0.147.0':\n    resolution: {}\n", 3),
        ("pnpm-lock.yaml", "packages:\n\n  /@openai/codex/0.147.0:\n    resolution: {}\n", 3),
        ("yarn.lock", '"@openai/codex@^0.140.0":\n  version "0.147.0"\n  resolved ""\n', 2),
        ("yarn.lock", '"@openai/codex@npm:^0.140.0":\n  version: 0.147.0\n  resolution: ""\n', 2),
        ("bun.lock", '{"packages": {\n"@openai/codex": ["@openai/codex@0.147.0", "", {}, "sha512-x"]}}', 2),
        ("uv.lock", '[[package]]\nname = "openai-codex-cli-bin"\nversion = "0.147.0"\n', 3),
        ("poetry.lock", '[[package]]\nname = "openai-codex-cli-bin"\nversion = "0.147.0"\n', 3),
        ("Pipfile.lock", '{"openai-codex-cli-bin": {"hashes": ["a"],\n"version": "==0.147.0"}}', 2),
        ("package.json", '{"devDependencies": {"@openai/codex": "0.147.0"}}', 1),
        ("requirements-dev.txt", "x==1\nopenai-codex-cli-bin==0.147.0 --hash=sha256:00\n", 2),
        ("pyproject.toml", '[project]\ndependencies = ["openai-codex-cli-bin==0.147.0"]\n', 2),
        ("Dockerfile", "FROM node\nRUN npm install -g @openai/codex@0.147.0 && true\n", 2),
        ("ci.Dockerfile", "RUN pip install openai-codex-cli-bin==0.147.0\n", 1),
        ("Dockerfile", "ARG CODEX=0.147.0\nRUN npm install -g @openai/codex@${CODEX}\n", 2),
        ("Dockerfile", 'ENV CODEX "0.147.0"\nRUN npm install -g @openai/codex@$CODEX\n', 2),
        ("mise.toml", '[tools]\n"npm:@openai/codex" = "0.147.0"\n', 2),
        (".mise.toml", '[tools]\ncodex = { version = "0.147.0" }\n', 2),
        ("mise.local.toml", '[tools]\ncodex = "0.147.0"\n', 2),
        (".tool-versions", "nodejs 20.0.0\nnpm:@openai/codex 0.147.0\n", 2),
        (".config/mise.toml", '[tools]\ncodex = "0.147.0"\n', 2),
        (".config/mise/config.toml", '[tools]\ncodex = "0.147.0"\n', 2),
        (".tool-versions", "codex 0.147.0\n", 1),
    ],
)
def test_a_pin_is_found_with_its_line(tmp_path: Path, name: str, text: str, line: int) -> None:
    """The version and the place of a pin are found, and a package with a similar name is another one."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert project_pin(tmp_path, CODEX) == ProjectPin("0.147.0", f"{name}:{line}")
    (tmp_path / name).write_text(text.replace("@openai/codex", OTHER).replace("codex-cli-bin", "codex-cli-bin-x"))
    if "openai" in text:
        assert project_pin(tmp_path, CODEX) is None


def test_a_variable_that_a_dockerfile_does_not_set_is_no_pin(tmp_path: Path) -> None:
    """Its value comes from whoever builds the image."""
    (tmp_path / "Dockerfile").write_text("ARG CODEX\nRUN npm install -g @openai/codex@${CODEX} x@${OTHER}\n")
    assert project_pin(tmp_path, CODEX) is None


@each("text", ["^0.147.0", "~0.147.0", ">=0.147.0", "0.147", "latest", "0.147.0 || 0.148.0"])
def test_a_range_is_no_pin(tmp_path: Path, text: str) -> None:
    """Only an exact version is a pin."""
    (tmp_path / "package.json").write_text(f'{{"dependencies": {{"@openai/codex": "{text}"}}}}')
    assert project_pin(tmp_path, CODEX) is None


def test_pins_that_differ_are_refused(tmp_path: Path) -> None:
    """Two files with different versions are an error that names both places."""
    (tmp_path / "package.json").write_text('{"dependencies": {"@openai/codex": "0.147.0"}}')
    (tmp_path / "Dockerfile").write_text("RUN npm install -g @openai/codex@0.150.0")
    with pytest.raises(UsageError, match=r"0.150.0 in Dockerfile:1, but 0.147.0 in package.json:1 \(.*--from codex@"):
        project_pin(tmp_path, CODEX)


def test_files_that_cannot_be_read_pin_nothing(tmp_path: Path) -> None:
    """A device and a folder in place of a file are ignored, and so is a file that is no text."""
    (tmp_path / "package.json").symlink_to("/dev/zero")
    (tmp_path / "yarn.lock").mkdir()
    (tmp_path / "bun.lock").write_bytes(b"\xff\x00")
    assert project_pin(tmp_path, CODEX) is None
