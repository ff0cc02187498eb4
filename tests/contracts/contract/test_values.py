from typing import Any

from jsonschema import Draft202012Validator

from tests.tables import each
from turngate.contract.values import ABSENT, either, has, keys, matching

STORE = either(has("kind", "sqlite"), ("file", "query"), ("pattern",))


@each(
    "rule, value, valid",
    [
        (STORE, {"kind": "sqlite", "file": "f", "query": "q"}, True),
        (STORE, {"kind": "sqlite", "file": "f"}, False),
        (STORE, {"kind": "sqlite", "file": "f", "query": "q", "pattern": "p"}, False),
        (STORE, {"kind": "glob", "pattern": "p"}, True),
        (STORE, {"kind": "glob", "pattern": "p", "file": "f"}, False),
        (STORE, {}, False),
        (has("kind"), {"kind": "anything"}, True),
        (has("kind"), {}, False),
        (ABSENT, None, False),
        (matching("^a+$").extra_json_schema, "aa", True),
        (matching("^a+$").extra_json_schema, "ab", False),
        (keys("a", "b").extra_json_schema, {"a": 1}, True),
        (keys("a", "b").extra_json_schema, {"a": 1, "c": 1}, False),
    ],
)
def test_schema_accepts_only_what_the_rule_says(rule: Any, value: Any, valid: bool) -> None:  # noqa: FBT001
    """Each helper returns a JSON Schema that accepts and rejects what its name says."""
    assert Draft202012Validator(rule).is_valid(value) is valid
