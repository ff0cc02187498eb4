import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.reference.cli_env import Desk
from tests.reference.server_env import House, house
from turngate.contract import load

parsed_once = cache(load.parse)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what hundreds of commands would spend their time on: parsing one contract again, and the disk."""
    monkeypatch.setattr(load, "parse", parsed_once)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(name="desk")
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """Sit a person down at an empty desk."""
    desk = Desk(tmp_path, capsys)
    monkeypatch.setenv("TURNGATE_DATA_DIR", str(desk.data))
    monkeypatch.setenv("PATH", f"{desk.path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(tmp_path)
    return desk


@pytest.fixture(name="closed_house")
def _closed_house(desk: Desk) -> House:
    """Build a server that is not open yet."""
    desk.fifos()
    return house(desk)


@pytest.fixture(name="house")
def _house(closed_house: House) -> Iterator[House]:
    """Open a server for a test."""
    closed_house.keep_session()
    closed_house.open()
    yield closed_house
    closed_house.server.close()
