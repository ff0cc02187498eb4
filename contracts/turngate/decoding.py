"""Turns data and JSON into typed values, safely in any thread.

msgspec learns a type when the type is first decoded or converted to. If two threads do that at once, with one type or
with types that share a part, the process crashes. Here one type is learned at a time. Therefore everything else uses
these functions instead of msgspec's own. Encoding learns nothing, and is safe.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_Hook = Callable[[type[Any], Any], Any]
_LEARNING = Lock()


@overload
def convert(value: Any, kind: type[_T], *, strict: bool = ..., dec_hook: _Hook | None = ...) -> _T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = ..., dec_hook: _Hook | None = ...) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True, dec_hook: _Hook | None = None) -> Any:
    """Convert as `msgspec.convert` does, with the same errors; a union of classes is a `kind`, too."""
    _decoder(kind)
    return msgspec.convert(value, kind, strict=strict, dec_hook=dec_hook)


@overload
def decode(data: bytes | str | msgspec.Raw, kind: type[_T], *, dec_hook: _Hook | None = ...) -> _T: ...
@overload
def decode(data: bytes | str | msgspec.Raw, kind: Any, *, dec_hook: _Hook | None = ...) -> Any: ...
def decode(data: bytes | str | msgspec.Raw, kind: Any, *, dec_hook: _Hook | None = None) -> Any:
    """Decode JSON as `msgspec.json.decode` does, with the same errors; the hook is kept, so it must be a function."""
    return _decoder(kind, dec_hook).decode(data)


@cache
def _decoder(kind: Any, dec_hook: _Hook | None = None) -> msgspec.json.Decoder[Any]:
    with _LEARNING:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)
