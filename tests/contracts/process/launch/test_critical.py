"""Slow operations are forbidden while other threads wait."""

import os
import threading
from pathlib import Path

import pytest

from turngate.process.execution import ProcessRequest, run
from turngate.process.family import end_orphans
from turngate.process.launch import critical, refuse_in_critical


def test_no_process_is_started_or_ended_in_a_critical_section() -> None:
    """Starting or ending a process in a critical section raises an error; after the section it works."""
    request = ProcessRequest(("true",), Path("/"), {"PATH": os.defpath})
    with critical("a transaction"):
        with pytest.raises(RuntimeError, match="process is started in a transaction"):
            run(request)
        with pytest.raises(RuntimeError, match="processes are ended in a transaction"):
            end_orphans([])
    assert run(request).exit_code == 0


def test_a_section_is_that_of_its_thread_and_of_the_innermost_block() -> None:
    """Other threads are not affected, and the error names the innermost section."""
    with critical("outer"):
        with critical("inner"), pytest.raises(RuntimeError, match="work in inner"):
            refuse_in_critical("work")
        with pytest.raises(RuntimeError, match="work in outer"):
            refuse_in_critical("work")
        raised: list[BaseException] = []

        def elsewhere() -> None:
            try:
                refuse_in_critical("work")
            except RuntimeError as error:
                raised.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert not raised
