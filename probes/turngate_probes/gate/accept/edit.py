"""Edits a contract like a person: comments, anchors, quotes and layout of all other lines stay. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from turngate.contract.versions import stretches

Claim = CommentedMap


def read(text: str) -> CommentedMap:
    """Read the text of a contract, including comments and layout."""
    contract: CommentedMap = _yaml().load(text)
    return contract


def written(contract: object) -> str:
    """Return the text of a contract."""
    text = StringIO()
    _yaml().dump(contract, text)
    return text.getvalue()


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # keep the author's line breaks
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(type(None), lambda to, _: to.represent_scalar("tag:yaml.org,2002:null", "null"))
    return yaml


def entries(contract: Mapping[str, Any], section: str) -> list[Claim]:
    """List the claims of a section, which may be a single claim."""
    claims = contract.get(section, [])
    return [claims] if isinstance(claims, CommentedMap) else list(claims)


def close(claim: Claim, version: str, observed: str) -> None:
    """End a claim before a version, with the observation as evidence."""
    if "until" in claim:
        claim["until"] = version
    else:
        claim.insert(_place_of_until(claim), "until", version)
    _observe(claim, observed)


def change(contract: Claim, entry: Claim, version: str, values: Mapping[str, Any], observed: str) -> Claim:
    """Return the contract with an entry that changes from a version on, with the observation as evidence."""
    before, stretch = written(contract), stretches(entry)[-1].data
    changed = deepcopy(
        CommentedMap(since=version, set=CommentedMap(values), evidence=CommentedSeq(stretch["evidence"]))
    )
    _forget_anchors(changed)
    _observe(changed, observed)
    keys = list(entry)
    if "changes" not in keys:
        entry.insert(keys.index("evidence"), "changes", CommentedSeq())
    entry["changes"].append(changed)
    return read(_lifted(before, written(contract)))


def added(text: str, section: str, claims: list[dict[str, Any]]) -> str:
    """Return the text with claims added to a section, or to a new section at the end."""
    contract = read(text)
    if not contract.get(section):
        contract.pop(section, None)
        return "\n".join([written(contract).rstrip("\n"), "", written({section: claims})])
    contract[section].extend(claims)
    return _lifted(text, written(contract))


def _lifted(before: str, after: str) -> str:
    """Move lines added at the end of a section above the blank lines and comments before the next section."""
    old, new = before.splitlines(), after.splitlines()
    at = top = next((i for i, (line, other) in enumerate(zip(old, new, strict=False)) if line != other), len(old))
    if at == len(old) or not old[at].startswith(" "):
        while not old[top - 1].strip() or old[top - 1].startswith("#"):
            top -= 1
    return "\n".join([*old[:top], *new[at : at + len(new) - len(old)], *old[top:], ""])


def observation(observed: str) -> CommentedMap:
    """Return an observation as evidence."""
    evidence = CommentedMap(observed=DoubleQuotedScalarString(observed))
    evidence.fa.set_flow_style()
    return evidence


def _observe(claim: Claim, observed: str) -> None:
    """Put an observation before a claim's other evidence; a claim without evidence gets none."""
    if "evidence" not in claim:
        return
    if claim["evidence"].anchor.value:  # other claims refer to it
        claim["evidence"] = deepcopy(claim["evidence"])
        _forget_anchors(claim["evidence"])
    claim["evidence"].insert(0, observation(observed))


def _place_of_until(claim: Claim) -> int:
    keys = list(claim)
    if "since" in keys:
        return keys.index("since") + 1
    return keys.index("evidence") if claim.fa.flow_style() and "evidence" in keys else 0


def _forget_anchors(node: Any) -> None:
    """Remove anchors from a copy: an anchor must be unique, and references mean the original."""
    if isinstance(node, (CommentedMap, CommentedSeq)):
        node.yaml_set_anchor(None)
        for child in node.values() if isinstance(node, CommentedMap) else node:
            _forget_anchors(child)
