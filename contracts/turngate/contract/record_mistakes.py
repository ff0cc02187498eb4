"""Mistakes in rules about records: rules for streams that have none, and answers without a place."""

from collections.abc import Iterator

from turngate.contract.load import Document
from turngate.contract.versions import Claim
from turngate.errors import ContractError

_ONLY_RECORDS = ("match", "field", "group")


def record_errors(document: Document, claim: Claim) -> Iterator[ContractError]:
    """Find rules that no record can meet, in a claim of `events`, `handle`, `end`, `failures` or `final`."""
    stream, section = claim.data["stream"], claim.entry[0]
    is_text = [streams.data[stream]["framing"] == "text" for streams in document.meeting("streams", claim)]
    if section == "final":
        yield from _answer_errors(document, claim, is_text)
    elif is_text and all(is_text):
        message = f"{stream} is framed as text, so it has no records"
        yield document.error(claim.at("stream"), message, "name the stream with the records, or correct `streams`")


def _answer_errors(document: Document, final: Claim, is_text: list[bool]) -> Iterator[ContractError]:
    stream = final.data["stream"]
    if is_text and all(is_text):
        for key in _ONLY_RECORDS:
            if key in final.data:
                message = f"{stream} is framed as text, so all of it is the answer"
                yield document.error(final.at(key), message, f"remove `{key}`, or correct `streams`")
    elif is_text and not any(is_text) and "field" not in final.data:
        yield document.error(final.at(), f"names no field of the records on {stream}", "add the path of the answer")
