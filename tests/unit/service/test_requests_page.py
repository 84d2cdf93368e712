"""The page about request contents: its example, bytes and table are what the server does."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ledger.service.decode import METHODS
from ledger.service.request_content import left_out
from tests.support.pages import ROOT, documented

PAGE = "docs/formats/requests.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def said_digest() -> str:
    """The digest that the page ends with."""
    found = re.search(r"The digest is `([0-9a-f]{64})`", TEXT)
    assert found is not None
    return found[1]


def test_the_example_is_what_the_server_computes() -> None:
    names: dict[str, Any] = {}
    exec(documented("docs/formats/requests.md", "digest-example"), names)  # noqa: S102 - the page's own code
    assert names["digest"].hex() == said_digest()


def test_the_bytes_shown_are_the_bytes_hashed() -> None:
    block = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert block is not None
    octets = b"".join(
        bytes.fromhex(line[:48].replace(" ", "")) for line in block[1].strip().split("\n")
    )
    assert hashlib.sha256(octets).hexdigest() == said_digest()


def test_the_table_lists_what_is_left_out() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|$", TEXT, re.MULTILINE)
    said = {method: re.findall(r"`([\w.]+)`", fields) for method, fields in rows}
    assert said == {
        name: list(left_out(method.message.DESCRIPTOR)) for name, method in METHODS.items()
    }
