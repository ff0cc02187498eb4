"""A simulated engine is known by a line near the start of its file."""

import os
import shutil
from pathlib import Path

from turngate.runtime.simulated import MARKER, is_simulated


def test_a_marked_file_is_simulated_and_so_are_its_links_and_copies(tmp_path: Path) -> None:
    """The marker is found wherever the file is reached from."""
    engine = tmp_path / "engine"
    engine.write_bytes(b"#!/bin/sh\n" + MARKER + b"\nexec true\n")
    (tmp_path / "link").symlink_to(engine)
    shutil.copy(engine, tmp_path / "copy")
    assert all(is_simulated(tmp_path / name) for name in ("engine", "link", "copy"))


def test_anything_else_is_not(tmp_path: Path) -> None:
    """Neither a program that mentions the marker, nor one that says it late, nor what can't be read is simulated."""
    mentions, late, binary = tmp_path / "mentions", tmp_path / "late", tmp_path / "binary"
    mentions.write_bytes(b"#!/bin/sh\necho '" + MARKER + b"'\n")
    late.write_bytes(b"#\n" * 4096 + MARKER + b"\n")
    binary.write_bytes(os.urandom(10_000))
    assert not any(map(is_simulated, (mentions, late, binary, tmp_path, tmp_path / "none")))
