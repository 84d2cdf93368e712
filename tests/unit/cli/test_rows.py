"""Tables of the command line: they fit, break where a reader would, and hide nothing."""

from __future__ import annotations

import pytest
from rich.text import Text

from ledger.cli.rows import Column, Rows, fold


def _shown(rows: Rows, width: int) -> list[str]:
    return [line.plain for line in rows.lines(width)]


def _unknowns() -> Rows:
    rows = Rows(
        [
            Column("run", folds=True),
            Column("effect"),
            Column("tool", folds=True, below=True),
            Column("why", below=True),
        ]
    )
    rows.add("invoice-2026-11-30/customer-0000417", "NON_IDEMPOTENT_WRITE", "send 1", "timeout")
    rows.add("order-1", Text("PROPOSE", "red"), "look 2", "")
    return rows


def test_a_table_that_fits_stands_on_one_line_each() -> None:
    assert _shown(_unknowns(), 120) == [
        "run                                  effect                tool    why",
        "─" * 74,
        "invoice-2026-11-30/customer-0000417  NON_IDEMPOTENT_WRITE  send 1  timeout",
        "order-1                              PROPOSE               look 2",
    ]


def test_an_id_is_folded_after_a_separator_and_a_word_never() -> None:
    assert _shown(_unknowns(), 60) == [
        "run                    effect                tool    why",
        "─" * 60,
        "invoice-2026-11-30/    NON_IDEMPOTENT_WRITE  send 1  timeout",
        "customer-0000417",
        "order-1                PROPOSE               look 2",
    ]


def test_a_table_that_does_not_fit_stands_in_two_storeys_with_names() -> None:
    assert _shown(_unknowns(), 44) == [
        "run                     effect",
        "─" * 44,
        "invoice-2026-11-30/     NON_IDEMPOTENT_WRITE",
        "customer-0000417",
        "    tool: send 1",
        "    why: timeout",
        "order-1                 PROPOSE",
        "    tool: look 2",
    ]


@pytest.mark.parametrize("width", range(36, 130))
def test_no_line_is_wider_than_asked_for_or_ends_in_spaces(width: int) -> None:
    shown = _shown(_unknowns(), width)
    assert [line for line in shown if len(line) > width or line != line.rstrip()] == []
    assert "invoice-2026-11-30/customer-0000417" in "".join(line.split(" ")[0] for line in shown)


def test_a_column_that_holds_nothing_is_not_shown_and_a_band_crosses_all() -> None:
    rows = Rows([Column("entry", right=True), Column("step"), Column("state")])
    rows.band(Text("2026-12-01 +00:00"))
    rows.add("1,284", "", "OPEN")
    assert _shown(rows, 80) == ["entry  state", "─" * 12, "2026-12-01 +00:00", "1,284  OPEN"]


def test_where_nothing_can_be_folded_nothing_is_cut_off() -> None:
    rows = Rows([Column("state"), Column("effect")])
    rows.add("RECONCILED_NOT_EXECUTED", "NON_IDEMPOTENT_WRITE")
    assert "RECONCILED_NOT_EXECUTED  NON_IDEMPOTENT_WRITE" in _shown(rows, 20)


def test_a_row_has_as_many_cells_as_there_are_columns() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Rows([Column("a"), Column("b")]).add("1")


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("nobody can say (holder_dead)", 20, ["nobody can say", "(holder_dead)"]),
        ("abcdef", 3, ["abc", "def"]),
        ("ab cd ef", 5, ["ab cd", "ef"]),
        ("", 5, [""]),
        ("日本語", 4, ["日本", "語"]),
    ],
)
def test_text_is_folded_at_a_space_a_separator_or_the_width(
    text: str, width: int, lines: list[str]
) -> None:
    assert [line.plain for line in fold(Text(text), width)] == lines
