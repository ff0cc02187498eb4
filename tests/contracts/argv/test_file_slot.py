"""The slot for the folder of the files that a contract supplies."""

from msgspec.structs import replace

from turngate.argv.file_slot import as_in_contract, digest
from turngate.contract import load
from turngate.contract.launch import Guards

FILES = {"ask.toml": "ask = true\n", "env.cjs": ""}
CODEX = replace(load.contract("codex").at("0.169.0"), guards=Guards(files=FILES))


def test_a_folder_is_named_by_the_content_of_its_files() -> None:
    """The order of the files doesn't matter, their names and contents do."""
    assert digest(FILES) == digest(dict(reversed(FILES.items())))
    assert len({digest(FILES), digest(FILES | {"env.cjs": " "}), digest({"ask.toml": "ask = true\n"})}) == 3


def test_arguments_are_read_as_the_contract_writes_them() -> None:
    """Only the folder of the contract's own files is the slot."""
    folder = f"/home/me/.cache/turngate/supplied/{digest(FILES)}"
    tokens = ("--policy", f"{folder}/ask.toml", "--file", "/tmp/other/ask.toml")
    assert as_in_contract(tokens, CODEX) == ("--policy", "{files}/ask.toml", "--file", "/tmp/other/ask.toml")
