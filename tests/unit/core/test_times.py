"""Ledger time and its one written form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import Malformed
from ledger.core.times import TIME_LENGTH, TIME_US_MAX, format_time, parse_time

times = st.integers(min_value=0, max_value=TIME_US_MAX)


@given(times)
def test_a_time_is_written_as_the_calendar_says_and_read_back(time_us: int) -> None:
    text = format_time(time_us)
    assert len(text) == TIME_LENGTH
    assert parse_time(text) == time_us
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert round(seconds * 1_000_000) == pytest.approx(time_us, abs=64)


@given(times, times)
def test_the_order_of_texts_is_the_order_of_times(one: int, other: int) -> None:
    assert (format_time(one) < format_time(other)) == (one < other)


def test_known_times_are_written_right() -> None:
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert format_time(951_782_400_000_000) == "2000-02-29T00:00:00.000000Z"
    assert format_time(1_767_225_600_000_001) == "2026-01-01T00:00:00.000001Z"
    assert format_time(TIME_US_MAX) == "9999-12-31T23:59:59.999999Z"


@pytest.mark.parametrize("time_us", [-1, TIME_US_MAX + 1])
def test_a_time_outside_the_form_is_not_written(time_us: int) -> None:
    with pytest.raises(ValueError, match="1970 to 9999"):
        format_time(time_us)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00.0000000Z",
        "2026-01-01T00:00:00.000000",
        "2026-01-01T00:00:00.000000z",
        "2026-01-01t00:00:00.000000Z",
        "2026-01-01 00:00:00.000000Z",
        "2026-01-01T00:00:00,000000Z",
        "2026-01-01T00:00:00.00000 Z",
        "2026-01-01T00:00:00.+00000Z",
        "2026-01-01T00:00:00.0000_0Z",
        "2026-01-01T00:00:60.000000Z",
        "2026-01-01T24:00:00.000000Z",
        "2026-02-29T00:00:00.000000Z",
        "2026-13-01T00:00:00.000000Z",
        "2026-1-001T00:00:00.000000Z",
        "1969-12-31T23:59:59.999999Z",
        "0000-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:00.00000\u0660Z",
        "\u0662026-01-01T00:00:00.000000Z",
        "2026-01-01T 0:00:00.000000Z",
        "2026-01-01T00:00:00.000000Z\n",
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse_time(text, path="$.recorded_at")
