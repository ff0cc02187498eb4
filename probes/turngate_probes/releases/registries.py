"""The registries that have the releases of an engine."""

import shutil

from turngate import NotFoundError, NotInstalledError, Stop, load_contract
from turngate.contract import load
from turngate_probes.releases.npm import NO_NPM, NpmRegistry
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.registry import Registry, RegistryName


def registries(engine: str) -> dict[str, Registry]:
    """Return the registries that have an engine's releases, by their names, without querying them."""
    contract, wheels = load_contract(engine), load.contract(engine).document.data["published"].get("pypi")
    return {
        **({"npm": NpmRegistry(engine, contract.npm.package, contract.npm.executables)} if contract.npm else {}),
        **({"pypi": PypiRegistry(engine, wheels["package"], (contract.executable,))} if wheels else {}),
    }


def default_registry(engine: str) -> Registry | None:
    """Return the registry that an engine's releases come from if none is named: npm if it is there, else PyPI."""
    return next(iter(registries(engine).values()), None)


def published(engine: str, name: RegistryName | None = None, stop: Stop | None = None) -> Registry:
    """Query a registry for the releases of an engine; None is its default one.

    TurngateError if it has none or can't be reached.
    """
    known = registries(engine)
    if not known:
        note = load_contract(engine).lifecycle.note or "pass an executable: ENGINE=/path/to/executable"
        raise NotFoundError(f"no release of {engine} is published", note)
    name = name or next(iter(known.values())).name
    if name not in known:
        raise NotFoundError(f"{engine} is not published on {name}", f"use --registry {next(iter(known))}")
    if name == "npm" and "pypi" in known and not shutil.which("npm"):
        raise NotInstalledError(NO_NPM, f"or install {engine} from PyPI, which needs no Node: --registry pypi")
    return known[name].listed(stop)
