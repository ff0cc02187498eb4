from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.tables import each
from turngate.contract.load import parse
from turngate.contract.yaml_edit import applied, replaced, without_pairs
from turngate.contract.yaml_text import Node, nodes
from turngate.files import contract_files

LAYOUTS = """\
# above
a:
  b: {c: [1, 2], d: "x: y", e: {}}   # beside
  # between
  f:
    - g: |
        text

        # no comment
      h: >-
        folded
    - - i: 1
        j: 2

  k: "quoted
    text"
l: {m: 1,
  n: [a,
    b]}

o:
p: last
"""


def mappings(node: Node, data: Any) -> Iterator[tuple[Node, dict[str, Any]]]:
    """Yield every mapping of a text, with its data."""
    if node.pairs:
        yield node, data
        for key, value in node.pairs:
            yield from mappings(value, data[key.text])
    for item, inner in zip(node.items, data if node.items else (), strict=True):
        yield from mappings(item, inner)


@each("text", [LAYOUTS, LAYOUTS.replace("\n", "\r\n"), LAYOUTS.rstrip()])
def test_each_key_can_be_removed(text: str) -> None:
    """What is left is the data without the key, and each comment that is not in its value."""
    root = nodes(text, "f")
    assert root
    document = parse(text, "f")
    for number, (node, _) in enumerate(mappings(root, document.data)):
        for i, (key, _) in enumerate(node.pairs):
            left = applied(text, without_pairs(text, node, {i}))
            expected = deepcopy(document.data)
            _, mapping = [*mappings(root, expected)][number]
            del mapping[str(key.text)]
            assert parse(left, "f").data == expected, f"{key.text}:\n{left}"
            assert "# above" in left
            assert ("# between" in left) == (key.text != "a")


def test_each_section_of_a_contract_can_be_removed() -> None:
    """No comment, blank line or alias of a real contract confuses where a section ends."""
    text = contract_files()["codex"].read_text()
    root, whole = nodes(text, "f"), [*parse(text, "f", ours=True).data.items()]
    assert root
    for key, _ in root.pairs:
        gone = {i for i, (other, _) in enumerate(root.pairs) if other.start > key.start}
        kept = parse(applied(text, without_pairs(text, root, gone)), "f", ours=True).data
        assert list(kept.items()) == whole[: len(root.pairs) - len(gone)]


def test_a_scalar_is_replaced_with_its_anchor_kept() -> None:
    """An alias still finds it, and what is beside it stays."""
    text = "a: &x 'old'  # beside\nb: *x\n"
    root = nodes(text, "f")
    assert root
    edit = replaced(text, root.pairs[0][1], "new")
    assert applied(text, [edit, edit]) == "a: &x new  # beside\nb: *x\n"


def test_an_edit_within_another_is_left_out() -> None:
    """The larger one wins, whatever the order."""
    assert applied("abcdef", [(2, 3, "x"), (1, 4, "-"), (5, 6, "")]) == "a-e"
