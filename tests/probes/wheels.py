"""A package index of a folder: wheels that a test builds, which the real pip installs without any network."""

import hashlib
import zipfile
from pathlib import Path

import pytest

PACKAGE = "vendor-codex"
SCRIPT = "[console_scripts]\ncodex = vendor_codex:main\n"
CODE = "def main() -> None:\n    import vendor_help\n\n    print(f'codex-cli {vendor_help.VERSION}')\n"


def build(
    folder: Path,
    name: str,
    version: str,
    files: dict[str, str],
    *,
    tag: str = "py3-none-any",
    entry_points: str = "",
    requires: tuple[str, ...] = (),
    python: str = ">=3.11",
) -> str:
    """Write a wheel and return its sha256."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    content = {
        **files,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/RECORD": "",
    }
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points
    wheel = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            member = zipfile.ZipInfo(path)
            member.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            archive.writestr(member, text)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def publish(folder: Path, version: str) -> str:
    """Publish a release of `vendor-codex`, a script with a dependency, and return its sha256."""
    build(folder, "vendor-help", version, {"vendor_help.py": f"VERSION = {version!r}\n"})
    requires = (f"vendor-help=={version}",)
    return build(folder, PACKAGE, version, {"vendor_codex.py": CODE}, entry_points=SCRIPT, requires=requires)


def pin(folder: Path, version: str) -> str:
    """Return a `requirements.txt` that pins a published release and its dependency."""
    digests = {name: wheel_digest(folder, name, version) for name in (PACKAGE, "vendor-help")}
    return "".join(f"{name}=={version} \\\n    --hash=sha256:{digest}\n" for name, digest in digests.items())


def wheel_digest(folder: Path, name: str, version: str) -> str:
    """Return the sha256 of a published wheel."""
    (wheel,) = folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find packages in this folder alone."""
    folder.mkdir(exist_ok=True)
    for name, value in {"CONFIG_FILE": "/dev/null", "NO_INDEX": "1", "FIND_LINKS": str(folder)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    for name in ("EXTRA_INDEX_URL", "INDEX_URL"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
