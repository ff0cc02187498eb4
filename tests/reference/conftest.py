import os
from pathlib import Path

import pytest

from tests.reference.desk import Desk


@pytest.fixture(name="desk")
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """Sit a person down at an empty desk."""
    desk = Desk(tmp_path, capsys)
    monkeypatch.setenv("TURNGATE_DATA_DIR", str(desk.data))
    monkeypatch.setenv("PATH", f"{desk.path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(tmp_path)
    return desk
