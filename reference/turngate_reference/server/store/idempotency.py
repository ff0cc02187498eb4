"""Idempotent requests: the same key, path and body get the same answer, and nothing is done twice."""

import json
import sqlite3
from typing import Any

from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.requests import IdempotencyKey


class IdempotentRequest:
    """A request that may have been made before; one without a key is always new."""

    def __init__(self, scope: str, key: IdempotencyKey | None) -> None:
        self._scope, self._key = scope, key

    def answer(self, connection: sqlite3.Connection) -> dict[str, Any] | None:
        """Return the earlier answer to the request; ApiError if the key was used with another body."""
        if self._key is None:
            return None
        row = connection.execute(
            "SELECT body_digest, answer_json FROM idempotency WHERE scope = ? AND key = ?",
            (self._scope, self._key.text),
        ).fetchone()
        if row is None:
            return None
        if row["body_digest"] != self._key.digest:
            hint = "use a new key for each new request"
            raise ApiError(
                "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was already used with a different body", hint
            )
        answer: dict[str, Any] = json.loads(row["answer_json"])
        return answer

    def keep(self, connection: sqlite3.Connection, run_id: str, answer: dict[str, Any]) -> None:
        """Save the answer for repeated requests, with the run that it is about."""
        if self._key is not None:
            connection.execute(
                "INSERT INTO idempotency (scope, key, run_id, body_digest, answer_json) VALUES (?, ?, ?, ?, ?)",
                (self._scope, self._key.text, run_id, self._key.digest, json.dumps(answer)),
            )
