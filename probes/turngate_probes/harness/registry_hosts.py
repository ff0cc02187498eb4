"""Recognises the hosts of package registries: by the settings of the user's tools, and by their names."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit

from turngate import MachineError, UsageError
from turngate.sanitize import names_registry
from turngate_probes.harness.package_managers import NPM_FLAGS, find_program, module, run_away

_TIMEOUT = 20.0
# the settings of npm, pnpm, Yarn, Bun, pip and uv
_VARIABLE = re.compile(r"registry|index_url|_index$|registry_server", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s'\",]+")


def is_registry(host: str) -> bool:
    """Whether a host is one of a package registry."""
    return names_registry(host) or host in configured()


def refused_registry(hosts: Iterable[str], stdout: bytes, stderr: bytes) -> str | None:
    """Return the package registry that kept a command from running: its output names it, or there is no output."""
    output = stdout + stderr
    blamed = (host for host in hosts if not output.strip() or host.encode() in output)
    return next(filter(is_registry, blamed), None)


@cache
def configured() -> frozenset[str]:
    """Return the hosts of the registries that the user's package managers use."""
    return frozenset(host for url in _urls() if (host := urlsplit(url).hostname))


def _urls() -> Iterator[str]:
    yield from (url for name, value in os.environ.items() if _VARIABLE.search(name) for url in _URL.findall(value))
    if npm := find_program("npm"):
        with suppress(ValueError):
            settings = json.loads(_printed(npm, "config", "list", "--json", *NPM_FLAGS) or "{}")
            yield from (str(value) for name, value in settings.items() if name.rpartition(":")[2] == "registry")
    yield from _URL.findall(_printed(*module("pip", "config", "list")))


def _printed(*argv: str) -> str:
    with suppress(MachineError, UsageError):
        return run_away(argv, _TIMEOUT).stdout.decode("utf-8", "replace")
    return ""
