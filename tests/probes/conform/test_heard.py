"""Standard input of a call."""

import io
import os
from pathlib import Path

import pytest

from turngate_probes.conform.calls import CallRecord
from turngate_probes.conform.heard import Heard


def test_it_is_kept_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines can be read as they come, and the end is noted."""
    read_end, write_end = os.pipe()
    monkeypatch.setattr("turngate_probes.conform.heard.STDIN", read_end)
    record = CallRecord(tmp_path)
    heard = Heard(record)
    stream = io.BufferedReader(heard)
    os.write(write_end, b"one\ntwo")
    assert stream.readline() == b"one\n"
    assert not heard.over.is_set()
    os.close(write_end)
    assert heard.over.wait(60)
    assert stream.read() == b"two"
    assert (record.folder / "stdin").read_bytes() == b"one\ntwo"
    assert (record.folder / "closed").exists()
    os.close(read_end)
