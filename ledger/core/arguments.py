"""The bytes of structured arguments: any I-JSON value, written as RFC 8785 canonical JSON.

The SDK sends arguments in this form, so that two processes which mean the same call commit to the
same bytes. What JSON cannot carry exactly is refused with its path, never rounded.
"""

from __future__ import annotations

import math
from typing import Final

import orjson

from ledger.core.canonical import DEPTH_MAX, INT_MAX, ROOT, member_path, utf16_order
from ledger.core.errors import Malformed

# ECMA-262 Number::toString writes plain digits between these and an exponent beyond
# (RFC 8785, section 3.2.2.3).
_PLAIN_POINT_MAX: Final = 21
_PLAIN_POINT_MIN: Final = -5


def encode_arguments(value: object, *, depth_max: int = DEPTH_MAX) -> bytes:
    """The RFC 8785 bytes of a value made of dict, list, tuple, str, int, float, bool and None.

    A tuple is written as an array. Integers beyond 2**53-1 either way, NaN, infinities, lone
    surrogates, keys that are not strings, subclasses and other types, and more than `depth_max`
    levels raise `Malformed` with the path. Equal values of different spelling (1 and 1.0, 0 and
    -0.0) give equal bytes, as in JSON.
    """
    parts: list[bytes] = []
    _write(value, ROOT, depth_max, parts)
    return b"".join(parts)


def _write(value: object, path: str, depth_left: int, parts: list[bytes]) -> None:
    kind = type(value)
    if value is None:
        parts.append(b"null")
    elif value is True:
        parts.append(b"true")
    elif value is False:
        parts.append(b"false")
    elif isinstance(value, str) and kind is str:
        parts.append(_string(value, path))
    elif isinstance(value, int) and kind is int:
        if not -INT_MAX <= value <= INT_MAX:
            raise Malformed(path, "is an integer beyond 2^53-1, which JSON cannot carry exactly")
        parts.append(b"%d" % value)
    elif isinstance(value, float) and kind is float:
        parts.append(_number(value, path).encode("ascii"))
    elif isinstance(value, (list, tuple)) and kind in (list, tuple):
        _write_array(value, path, depth_left, parts)
    elif isinstance(value, dict) and kind is dict:
        _write_object(value, path, depth_left, parts)
    else:
        raise Malformed(path, f"is a {kind.__name__}, which JSON cannot carry")


def _write_array(
    items: list[object] | tuple[object, ...], path: str, depth_left: int, parts: list[bytes]
) -> None:
    if depth_left == 0:
        raise Malformed(path, "is nested too deep")
    parts.append(b"[")
    for position, item in enumerate(items):
        if position:
            parts.append(b",")
        _write(item, f"{path}[{position}]", depth_left - 1, parts)
    parts.append(b"]")


def _write_object(
    members: dict[object, object], path: str, depth_left: int, parts: list[bytes]
) -> None:
    if depth_left == 0:
        raise Malformed(path, "is nested too deep")
    written: list[tuple[bytes, str, bytes]] = []
    for name in members:
        if not isinstance(name, str) or type(name) is not str:
            raise Malformed(path, "has a member whose name is not a string")
        bytes_of_name = _string(name, path)
        written.append((utf16_order(name), name, bytes_of_name))
    parts.append(b"{")
    for position, (_, name, bytes_of_name) in enumerate(sorted(written)):
        parts.append(b"," + bytes_of_name if position else bytes_of_name)
        parts.append(b":")
        _write(members[name], member_path(path, name), depth_left - 1, parts)
    parts.append(b"}")


def _string(text: str, path: str) -> bytes:
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        raise Malformed(path, "holds a lone surrogate") from None


def _number(value: float, path: str) -> str:
    """ECMA-262 Number::toString, which RFC 8785 section 3.2.2.3 prescribes.

    `repr` already finds the shortest digits that read back as the same double; only their layout
    differs between Python and ECMAScript.
    """
    if not math.isfinite(value):
        raise Malformed(path, "is not a finite number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + (int(exponent) if exponent else 0)
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    point -= leading
    digits = digits.strip("0")
    return sign + _lay_out(digits, point)


def _lay_out(digits: str, point: int) -> str:
    """Place the decimal point after `point` of the significant `digits`."""
    count = len(digits)
    if count <= point <= _PLAIN_POINT_MAX:
        return digits + "0" * (point - count)
    if 0 < point <= _PLAIN_POINT_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if _PLAIN_POINT_MIN <= point <= 0:
        return "0." + "0" * -point + digits
    exponent = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{tail}e{'+' if exponent > 0 else '-'}{abs(exponent)}"
