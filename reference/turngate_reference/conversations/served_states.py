"""The states of the runs behind handles, in the server's database."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from msgspec.structs import replace

from turngate import EnvironmentFailed
from turngate_reference.data_dir import DataDir
from turngate_reference.handle_record import HandleRecord
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Summary
from turngate_reference.states import ENDED


@contextmanager
def opened_store(data: DataDir) -> Iterator[Store]:
    """Open the server's database; EnvironmentFailed if it is missing or can't be used."""
    if not data.database.exists():
        raise EnvironmentFailed(f"the server's database {data.database} is missing", "restore it")
    try:
        with closing(Store(data.database)) as store:
            yield store
    except sqlite3.Error as error:
        raise EnvironmentFailed(f"the database {data.database} can't be used: {error}", "retry later") from error


class ServedStates(dict[str, Summary]):
    """The state of every served run, by its handle."""

    def updated(self, record: HandleRecord) -> HandleRecord:
        """Return the record of a conversation or run as the database has it."""
        run = self.get(record.handle)
        # an ended run continues only at a terminal, which does not update the database
        if run is None or (run.state in ENDED and record.turns > run.turn_index):
            return record
        return replace(record, state=run.state, turns=run.turn_index, updated_at=run.updated_at)

    def is_unfinished(self, record: HandleRecord) -> bool:
        """Whether the record belongs to a run that has not ended."""
        run = self.get(record.handle)
        return run is not None and run.state not in ENDED


def read(data: DataDir) -> ServedStates:
    """Read the states of all served runs; EnvironmentFailed if the database can't be read."""
    with opened_store(data) as store:
        return ServedStates({run.handle: run for run in runs.summaries(store)})
