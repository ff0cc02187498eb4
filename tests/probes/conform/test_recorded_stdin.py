"""Standard input of a call."""

import io
import os
from pathlib import Path

import pytest

from turngate_probes.conform.calls import CallRecord
from turngate_probes.conform.recorded_stdin import RecordedStdin


def test_it_is_kept_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines can be read as they come, and the end is noted."""
    read_end, write_end = os.pipe()
    monkeypatch.setattr("turngate_probes.conform.recorded_stdin.STDIN", read_end)
    record = CallRecord(tmp_path)
    received = RecordedStdin(record)
    stream = io.BufferedReader(received)
    os.write(write_end, b"one\ntwo")
    assert stream.readline() == b"one\n"
    assert not received.over.is_set()
    os.close(write_end)
    assert received.over.wait(60)
    assert stream.read() == b"two"
    assert (record.folder / "stdin").read_bytes() == b"one\ntwo"
    assert (record.folder / "closed").exists()
    os.close(read_end)
