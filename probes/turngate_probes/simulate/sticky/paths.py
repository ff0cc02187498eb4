"""Sets values at dotted paths."""

from typing import Any


def put_at(document: Any, path: str, value: object) -> Any:
    """Set the value at a dotted path, in which a number is an index of a list; return the object or list."""
    step, dot, below = path.partition(".")
    if not step.isdecimal():
        fields = document if isinstance(document, dict) else {}
        fields[step] = put_at(fields.get(step), below, value) if dot else value
        return fields
    items = document if isinstance(document, list) else []
    items += [None] * (int(step) + 1 - len(items))
    items[int(step)] = put_at(items[int(step)], below, value) if dot else value
    return items
