"""The schemas of contracts and simulations, whose claims have a range, evidence and changes."""

from tests.tools.schemas.generate import Schema, schema
from turngate.contract.defaults import DEFAULTS
from turngate.contract.engine_contract import EngineContract
from turngate.contract.load import ALL_OF, CONTRACT, NONE, ONE_OF, SIMULATION, catalogue
from turngate.contract.simulation import Simulation
from turngate.contract.versions import Basis

OF_RESOLVED = ("release", "unverified", "some_deviate")
NO_AUTO_FLAGS: Schema = {
    "type": ["array", "object"],
    "properties": {
        NONE: {"const": True, "description": "The engine has no flag that widens approval or sandbox."},
        "evidence": {
            "$ref": "#/$defs/Basis/properties/evidence",
            "description": "What proves that the engine has no such flag: write what was run, and on which releases.",
        },
        "note": {"$ref": "#/$defs/Basis/properties/note"},
    },
    "required": [NONE, "evidence"],
    "additionalProperties": False,
    "description": "Each flag that widens approval or sandbox, so that the engine can act without asking."
    " Absent: the options of `launch.auto`. If the engine has none, write `{none: true, evidence: [...]}`.",
}


def engine() -> Schema:
    """Return the schema of `engines/*.yaml`."""
    whole = schema(EngineContract, id=CONTRACT, title="Engine contract")
    properties, defs = whole["properties"], whole["$defs"]
    for name in OF_RESOLVED:
        del properties[name]
    whole["required"] = [name for name in whole["required"] if name not in DEFAULTS]
    for section in ONE_OF:
        ref, absent = properties[section]["$ref"], properties[section].get("description", "")
        about = f"{_claim(defs[ref.rpartition('/')[2]], ref)} {absent}".rstrip()
        several = {"type": "array", "minItems": 1, "items": {"$ref": ref}}
        properties[section] = {"description": about, "if": {"type": "array"}, "then": several, "else": {"$ref": ref}}
    for section in ALL_OF:
        ref = properties[section]["items"]["$ref"]
        absent = properties[section].get("description", "")
        properties[section]["description"] = f"{_claim(defs[ref.rpartition('/')[2]], ref)} {absent}".rstrip()
    properties["auto_flags"] |= NO_AUTO_FLAGS
    defs["Deviation"]["properties"]["symptom"]["enum"] = sorted({s for c in catalogue().values() for s in c.symptoms})
    return _based(whole)


def simulation() -> Schema:
    """Return the schema of `simulations/*.yaml`."""
    whole = schema(Simulation, id=SIMULATION, title="Simulation")
    _claim(whole, "#")
    whole["properties"] = {"engine": schema(EngineContract)["properties"]["engine"]} | whole["properties"]
    whole["required"] = ["engine", *whole["required"]]
    return _based(whole)


def _claim(definition: Schema, ref: str) -> str:
    """Turn the schema of a mapping into that of a claim, and return its description."""
    basis = {key: {"$ref": f"#/$defs/Basis/properties/{key}"} for key in Basis.__struct_fields__}
    of_change = {key: rule for key, rule in basis.items() if key != "until"}
    changed = {
        key: {"if": {"type": "null"}, "else": {"$ref": f"{ref}/properties/{key}"}} for key in definition["properties"]
    }
    values = {
        "type": "object",
        "minProperties": 1,
        "properties": changed,
        "additionalProperties": False,
        "description": "Keys that have another value from there on; null removes one.",
    }
    change = {
        "type": "object",
        "properties": {"set": values} | of_change,
        "required": ["since"],
        "additionalProperties": False,
    }
    changes = {"type": "array", "minItems": 1, "items": change, "description": "What differs in later releases."}
    definition["properties"] |= basis | {"changes": changes}
    return str(definition["description"])


def _based(whole: Schema) -> Schema:
    """Add what all files with claims have in common."""
    whole["properties"] = {"schema": {"const": whole["$id"]}} | whole["properties"]
    whole["required"] = ["schema", *whole["required"]]
    based = schema(Basis)
    whole["$defs"] |= based.pop("$defs") | {"Basis": {key: based[key] for key in ("description", "properties")}}
    return whole
