"""Page tokens: read back as written, and nothing else is taken."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import Malformed
from ledger.paging import read_token, write_token


@given(st.integers(0, 2**53 - 1), st.text(max_size=40))
def test_a_token_is_read_back(number: int, text: str) -> None:
    assert read_token(write_token((number, text)), (int, str)) == (number, text)


def test_no_token_is_the_beginning() -> None:
    assert read_token("", (int,)) is None


def encoded(octets: bytes) -> str:
    """A token of any content."""
    return base64.urlsafe_b64encode(octets).decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "!!!!",
        "ü",
        encoded(b"{}"),
        encoded(b"[]"),
        encoded(b"[1,2]"),
        encoded(b'["1"]'),
        encoded(b"[true]"),
        encoded(b"[-1]"),
        encoded(b"[9007199254740992]"),
        encoded(b"[1.0]"),
        encoded(b"[1"),
        "A" * 2_000,
    ],
)
def test_anything_else_is_refused(token: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_token(token, (int,))
    assert caught.value.path == "page_token"
