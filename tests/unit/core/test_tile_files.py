"""Names of tile files and entry bundles (C2SP tlog-tiles)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import Malformed
from ledger.core.tile_files import (
    TilePath,
    decode_bundle,
    encode_bundle,
    entries_path,
    parse_path,
    tile_path,
)


@pytest.mark.parametrize(
    ("level", "index", "width", "path"),
    [
        (0, 0, 256, "tile/0/000"),
        (0, 999, 256, "tile/0/999"),
        (0, 1000, 256, "tile/0/x001/000"),
        (0, 1_234_067, 256, "tile/0/x001/x234/067"),
        (1, 1067, 112, "tile/1/x001/067.p/112"),
        (63, 0, 1, "tile/63/000.p/1"),
        (None, 1_234_067, 256, "tile/entries/x001/x234/067"),
        (None, 273, 112, "tile/entries/273.p/112"),
    ],
)
def test_a_tile_has_the_path_of_the_specification(
    level: int | None, index: int, width: int, path: str
) -> None:
    if level is None:
        assert entries_path(index=index, width=width) == path
    else:
        assert tile_path(level=level, index=index, width=width) == path
    assert parse_path(path) == TilePath(level, index, width)


@given(
    st.none() | st.integers(min_value=0, max_value=63),
    st.integers(min_value=0, max_value=2**53),
    st.integers(min_value=1, max_value=256),
)
def test_a_path_is_read_back(level: int | None, index: int, width: int) -> None:
    if level is None:
        path = entries_path(index=index, width=width)
    else:
        path = tile_path(level=level, index=index, width=width)
    assert parse_path(path) == TilePath(level, index, width)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile/0/0",
        "tile/0/0000",
        "tile/00/000",
        "tile/64/000",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/x001",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/999",
        "tile/-1/000",
        "tile/0/../000",
        "/tile/0/000",
        "tile/0/000\n",
        "tile/0/\u0660\u0660\u0660",
        "tile/data/000",
    ],
)
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(Malformed):
        parse_path(path)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_a_bundle_is_length_and_entry_after_one_another(entries: list[bytes]) -> None:
    octets = encode_bundle(entries)
    assert octets == b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
    assert decode_bundle(octets, width=len(entries)) == entries


def test_a_bundle_that_is_cut_or_of_another_width_is_refused() -> None:
    octets = encode_bundle([b"abc", b"", b"de"])
    for length in range(len(octets)):
        with pytest.raises(Malformed):
            decode_bundle(octets[:length], width=3)
    for width in (2, 4):
        with pytest.raises(Malformed, match="holds 3"):
            decode_bundle(octets, width=width)
    with pytest.raises(Malformed):
        decode_bundle(octets + b"\x00", width=3)


def test_an_entry_beyond_two_length_bytes_does_not_go_into_a_bundle() -> None:
    assert decode_bundle(encode_bundle([bytes(65_535)]), width=1) == [bytes(65_535)]
    with pytest.raises(ValueError, match="longer"):
        encode_bundle([bytes(65_536)])


@pytest.mark.parametrize(("index", "width"), [(-1, 256), (0, 0), (0, 257)])
def test_a_tile_that_cannot_be_has_no_path(index: int, width: int) -> None:
    with pytest.raises(ValueError, match="width"):
        tile_path(level=0, index=index, width=width)
    with pytest.raises(ValueError, match="level"):
        tile_path(level=64, index=0)
