"""The releases that the files of a project pin."""

from pathlib import Path

import pytest

from tests.tables import each
from turngate import UsageError, load_contract
from turngate_probes.releases.project_pins import ProjectPin, project_pin, project_pins

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


PNPM_LOCK = """packages:

  '@openai/codex@0.147.0':
    hasBin: true

  '@openai/codex@0.147.0-linux-x64':
    os: [linux]

snapshots:

  '@openai/codex@0.147.0':
    optionalDependencies:
      '@openai/codex-linux-x64': '@openai/codex@0.147.0-linux-x64'
"""
NPM_LOCK = """{"packages": {
"node_modules/@openai/codex": {
  "version": "0.147.0", "optionalDependencies": {"@openai/codex-linux-x64": "npm:@openai/codex@0.147.0-linux-x64"}
},
"node_modules/@openai/codex-linux-x64": {"name": "@openai/codex", "version": "0.147.0-linux-x64"}
}}"""


@pytest.mark.parametrize("name, text", [("pnpm-lock.yaml", PNPM_LOCK), ("package-lock.json", NPM_LOCK)])
def test_the_binaries_of_a_release_are_no_other_release(tmp_path: Path, name: str, text: str) -> None:
    """Codex publishes them as versions of its package; whoever installs one of these by name pins it."""
    (tmp_path / "package.json").write_text('{"dependencies": {"@openai/codex": "0.147.0"}}')
    (tmp_path / name).write_text(text)
    assert {version for version, *_ in found(tmp_path)} == {"0.147.0"}
    assert project_pin(tmp_path, CODEX) is not None
    (tmp_path / "Dockerfile").write_text("RUN npm i -g @openai/codex@0.147.0-linux-x64\n")
    assert "0.147.0-linux-x64" in {version for version, *_ in found(tmp_path)}


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


def found(folder: Path, engine: str = "codex") -> list[tuple[str | None, str, str]]:
    """Return version, place and text of what a project says of an engine, in all of its folders."""
    contract = load_contract(engine)
    pins = project_pins(folder, [contract], below=True).by_engine[engine]
    return [(pin.version, pin.place, pin.text) for pin in pins]


@each(
    "name, text, engine, release",
    [
        (".github/workflows/ci.yml", "  - run: npm i -g @openai/codex@0.116.0\n", "codex", "0.116.0"),
        (".github/workflows/ci.yml", '  - run: npx -y "@openai/codex@0.116.0" exec\n', "codex", "0.116.0"),
        (".github/workflows/ci.yml", "  - run: npx -y @openai/codex exec\n", "codex", ""),
        (".github/workflows/ci.yml", "  - run: npm i -g @openai/codex@${{ env.V }}\n", "codex", "${{ env.V }}"),
        (".github/workflows/ci.yml", "  - uses: openai/codex-action@v1.2.3\n", "codex", "openai/codex-action@v1.2.3"),
        (
            ".github/workflows/ci.yml",
            "  - uses: openai/codex-action@v1\n    with:\n      prompt: go\n      codex-version: '0.116.0'\n",
            "codex",
            "0.116.0",
        ),
        (
            ".github/workflows/ci.yml",
            "  - uses: openai/codex-action@v1\n  - uses: another/action@v1\n    with:\n      codex-version: 0.116.0\n",
            "codex",
            "openai/codex-action@v1",
        ),
        (".gitlab-ci.yml", "  script: uvx --from hermes_agent==0.19.0 hermes\n", "hermes", "0.19.0"),
        (
            ".devcontainer/devcontainer.json",
            '{"postCreateCommand": "npm i -g opencode-ai@1.18.33"}',
            "opencode",
            "1.18.33",
        ),
        (
            ".devcontainer/devcontainer.json",
            '{"features": {"ghcr.io/anthropics/devcontainer-features/claude-code:1.0.5": {}}}',
            "claude",
            "ghcr.io/anthropics/devcontainer-features/claude-code:1.0.5",
        ),
        ("nix/shell.nix", "{ pkgs }: [ pkgs.codex ]\n", "codex", ""),
        ("flake.nix", '{ inputs.x.url = "github:sadjow/claude-code-nix"; }\n', "claude", ""),
        ("devbox.json", '{"packages": ["codex@0.116.0"]}', "codex", "0.116.0"),
        ("docker/api/Dockerfile", "FROM node\nRUN npm i -g @openai/codex@0.116.0\n", "codex", "0.116.0"),
        (".tool-versions", "gemini-cli 0.37.2\n", "gemini", "0.37.2"),
        (".tool-versions", "gemini-cli latest\n", "gemini", "latest"),
        ("mise.toml", '[tools]\n"npm:@google/gemini-cli" = "0.37"\n', "gemini", "0.37"),
        ("mise.toml", '[tools]\nclaude-code = "2.1.330"\n', "claude", "2.1.330"),
        ("mise.toml", '[tools]\n"aqua:openai/codex" = "0.116.0"\n', "codex", "0.116.0"),
        ("mise.toml", '[tools]\n"ubi:openai/codex[exe=codex]" = "latest"\n', "codex", "latest"),
        (".tool-versions", "github:openai/codex rust-v0.116.0\n", "codex", "rust-v0.116.0"),
        (
            "turngate.toml",
            'engines = ["codex@0.169.0"]\nin-use = ["claude@2.1.0", "codex@0.116.0"]\n',
            "codex",
            "0.116.0",
        ),
        ("pyproject.toml", '[tool.turngate]\nin-use = [\n  "codex@0.116.0",\n]\n', "codex", "0.116.0"),
        ("requirements.txt", "kimi_cli==1.52.0\n", "kimi", "1.52.0"),
        ("requirements.txt", "mistral-vibe[x] >= 1.2, <2\n", "vibe", ">= 1.2, <2"),
        ("requirements.txt", "mistral-vibe\n", "vibe", ""),
        ("requirements/dev.txt", "mistral-vibe==1.2.0\n", "vibe", "1.2.0"),
        ("pyproject.toml", '[tool.poetry.dependencies]\nkimi-cli = "^1.52"\n', "kimi", "^1.52"),
        ("pyproject.toml", '[project]\ndependencies = ["kimi-cli~=1.52.0"]\n', "kimi", "~=1.52.0"),
        ("package.json", '{"dependencies": {"@openai/codex": "^0.147.0"}}', "codex", "^0.147.0"),
        ("package.json", '{"dependencies": {"@openai/codex": "0.147.0 || 0.148.0"}}', "codex", "0.147.0 || 0.148.0"),
        ("package.json", '{"scripts": {"a": "npx -y @openai/codex@0.116.0 exec"}}', "codex", "0.116.0"),
        ("web/package.json", '{"dependencies": {"codex": "npm:@openai/codex@0.116.0"}}', "codex", "0.116.0"),
        ("setup.sh", "curl -fsSL https://claude.ai/install.sh | bash\n", "claude", "claude.ai/install.sh"),
        ("Brewfile", 'brew "codex"\n', "codex", ""),
        ("tools.sh", "mise use -g codex@0.116.0\n", "codex", "0.116.0"),
        ("Makefile", "x:\n\tnpm i -g @openai/codex@$(VERSION)\n", "codex", "$(VERSION)"),
    ],
)
def test_every_place_that_names_an_engine_is_found(
    tmp_path: Path, name: str, text: str, engine: str, release: str
) -> None:
    """It has a release, or is told with what stands in its place; a comment is no place."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    ((version, place, said),) = found(tmp_path, engine)
    assert (version or said, place.rpartition(":")[0]) == (release, name)
    assert (version is None) == (not release[:1].isdigit() or release.count(".") != 2 or " " in release)
    if file.suffix != ".json":
        file.write_text("".join(f"  # {line}\n" for line in text.splitlines()))
        assert found(tmp_path, engine) == []


@each("tool", ["codex", '"npm:@openai/codex"'])
def test_each_release_of_a_list_is_found(tmp_path: Path, tool: str) -> None:
    """Mise installs them all."""
    (tmp_path / "mise.toml").write_text(f'[tools]\n{tool} = ["0.150.1", "0.147.0", "latest"]\n')
    place = "mise.toml:2"
    assert found(tmp_path) == [("0.150.1", place, ""), ("0.147.0", place, ""), (None, place, "latest")]


def test_a_contract_uses_no_release(tmp_path: Path) -> None:
    """It says where the releases of an engine are."""
    (tmp_path / "engine.yaml").write_text('schema: turngate.contract/3\nnpm:\n  "@openai/codex": x\n')
    assert found(tmp_path) == []
    (tmp_path / "engine.yaml").write_text('"@openai/codex": 0.147.0\n')
    assert len(found(tmp_path)) == 1


def test_a_setting_of_turngate_is_no_pin_of_the_project(tmp_path: Path) -> None:
    """The gate reads its settings itself, and they override what the files pin."""
    (tmp_path / "turngate.toml").write_text('in-use = ["codex@0.147.0"]\n')
    assert project_pin(tmp_path, CODEX) is None


def test_each_stage_of_a_dockerfile_has_values_of_its_own(tmp_path: Path) -> None:
    """What a stage sets by ARG ends with it, what it sets by ENV goes on in the stages that are based on it."""
    (tmp_path / "Dockerfile").write_text(
        "ARG ALL=0.1.0\nFROM node AS base\nARG V=0.116.0\nENV E=0.117.0 F=x\nRUN npm i -g @openai/codex@$V\n"
        "FROM base\nARG V=0.169.0\nARG ALL\nRUN npm i @openai/codex@${V}\n"
        "RUN npm i @openai/codex@$E @openai/codex@$ALL\n"
        "FROM other\nRUN npm i @openai/codex@$E\nRUN npm i @openai/codex@${UNSET:-0.2.0}\n"
    )
    assert found(tmp_path) == [
        ("0.116.0", "Dockerfile:5", ""),
        ("0.169.0", "Dockerfile:9", ""),
        ("0.117.0", "Dockerfile:10", ""),
        ("0.1.0", "Dockerfile:10", ""),
        (None, "Dockerfile:12", "$E"),
        ("0.2.0", "Dockerfile:13", ""),
    ]


def test_a_lock_file_says_what_a_range_means(tmp_path: Path) -> None:
    """That beside the range or above it does; another one does not, and a command is no range."""
    for folder in ("web", "web/app", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "package.json").write_text('{"dependencies": {"@openai/codex": "^0.147.0"}}')
    (tmp_path / "web/package-lock.json").write_text('{"x": {"node_modules/@openai/codex": {"version": "0.148.0"}}}')
    (tmp_path / "web/run.sh").write_text("npx -y @openai/codex@latest\n")
    assert found(tmp_path) == [
        (None, "other/package.json:1", "^0.147.0"),
        ("0.148.0", "web/package-lock.json:1", ""),
        (None, "web/run.sh:1", "latest"),
    ]


def test_folders_of_dependencies_are_not_searched(tmp_path: Path) -> None:
    """What others pin is not the project's, and no link leads out of it."""
    for folder in ("node_modules/x", ".git", "env", "real"):
        (tmp_path / "project" / folder).mkdir(parents=True)
        (tmp_path / "project" / folder / "run.sh").write_text("npm i @openai/codex@0.116.0\n")
    (tmp_path / "project/env/pyvenv.cfg").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/run.sh").write_text("npm i @openai/codex@0.117.0\n")
    (tmp_path / "project/link").symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path / "project") == [("0.116.0", "real/run.sh:1", "")]
    assert project_pin(tmp_path / "project", CODEX) is None


def test_a_file_that_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it pins is unknown."""
    (tmp_path / "package.json").write_text(" " * 100)
    monkeypatch.setattr("turngate_probes.releases.project_pins.MOST_BYTES", 99)
    assert project_pins(tmp_path, [CODEX]).not_searched == ("package.json is longer than 0 MB",)


def test_a_text_that_is_too_long_for_one_that_people_write_is_told(tmp_path: Path) -> None:
    """It is not searched if it names an engine, and a value that doubles with each line ends somewhere."""
    (tmp_path / "long.yml").write_text(" " * 2**20 + "npm i @openai/codex@0.116.0")
    (tmp_path / "other.yml").write_text(" " * 2**21)
    (tmp_path / "Dockerfile").write_text("ARG V=$V$V\n" * 1000 + "RUN npm i @openai/codex@$V\n")
    searched = project_pins(tmp_path, [CODEX])
    assert searched.not_searched == ("long.yml is longer than 1 MB",)
    (pin,) = searched.by_engine["codex"]
    assert (pin.version, pin.place) == (None, "Dockerfile:1001")
