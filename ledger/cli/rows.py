"""Tables that fit: on one line each where the width allows, else folded, else in two storeys.

A state, a time or a number is never broken over lines, an id only where it must be and then after
one of its own separators. No line ends in spaces, and a column that holds nothing is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.text import Text

_GAP: Final = 2
_FOLDED_MIN: Final = 14
"""The fewest columns an id is folded to before the table is built in two storeys."""
_SEPARATORS: Final = "/-_.:@,"


@dataclass(frozen=True, slots=True)
class Column:
    """How a column behaves. `folds`: it may be broken over lines. `below`: where the table is too
    wide it stands under its row, named unless it is the only one.
    """

    name: str
    right: bool = False
    folds: bool = False
    below: bool = False


@dataclass(slots=True)
class Rows:
    """Rows under columns, and lines of their own between them."""

    columns: Sequence[Column]
    _rows: list[list[Text] | Text] = field(default_factory=list)

    def add(self, *cells: str | Text) -> None:
        """One row; as many cells as columns."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self._rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def band(self, text: Text) -> None:
        """A line across, such as the day of what follows."""
        self._rows.append(text)

    def lines(self, width: int) -> list[Text]:
        """The table as lines of at most `width` columns; more only where nothing can be folded."""
        shown = [n for n in range(len(self.columns)) if self._longest(n)]
        upper, lower = shown, list[int]()
        widths = self._fitted(upper, width)
        if widths is None and any(self.columns[n].below for n in shown):
            upper = [n for n in shown if not self.columns[n].below]
            lower = [n for n in shown if self.columns[n].below]
            widths = self._fitted(upper, width)
        if widths is None:
            widths = {n: self._least(n) for n in upper}
        head = [Text(self.columns[n].name, "bold") for n in upper]
        lines = self._storey(head, upper, widths)
        lines.append(Text("─" * min(width, sum(widths.values()) + _GAP * (len(upper) - 1))))
        for row in self._rows:
            if isinstance(row, Text):
                lines.append(row)
                continue
            lines += self._storey([row[n] for n in upper], upper, widths)
            named = len(lower) > 1
            lines += self._under(
                [(self.columns[n].name if named else "", row[n]) for n in lower if row[n]], width
            )
        return lines

    def _storey(self, cells: list[Text], upper: list[int], widths: dict[int, int]) -> list[Text]:
        folded = [fold(cell, widths[n]) for n, cell in zip(upper, cells, strict=True)]
        return [
            _joined(
                [
                    (parts[at] if at < len(parts) else Text(), widths[n], self.columns[n].right)
                    for n, parts in zip(upper, folded, strict=True)
                ]
            )
            for at in range(max(map(len, folded), default=0))
        ]

    def _under(self, named: list[tuple[str, Text]], width: int) -> list[Text]:
        lines = list[Text]()
        for name, cell in named:
            head = f"    {name}: " if name else " " * 7
            for at, part in enumerate(fold(cell, max(width - len(head), _FOLDED_MIN))):
                lines.append(Text.assemble((head if not at else " " * len(head), "dim"), part))
        return lines

    def _fitted(self, shown: list[int], width: int) -> dict[int, int] | None:
        """The columns' widths; None where they do not fit even folded."""
        widths = {n: self._natural(n) for n in shown}
        over = sum(widths.values()) + _GAP * (len(shown) - 1) - width
        while over > 0:
            wide = [n for n in shown if widths[n] > self._least(n)]
            if not wide:
                return None
            widths[max(wide, key=widths.__getitem__)] -= 1
            over -= 1
        return widths

    def _natural(self, n: int) -> int:
        return max(self._longest(n), len(self.columns[n].name))

    def _least(self, n: int) -> int:
        return min(self._natural(n), _FOLDED_MIN) if self.columns[n].folds else self._natural(n)

    def _longest(self, n: int) -> int:
        return max((row[n].cell_len for row in self._rows if not isinstance(row, Text)), default=0)


def fold(text: Text, width: int) -> list[Text]:
    """The text in lines of at most `width` columns, broken after a separator where one stands in
    the line's second half.
    """
    lines = list[Text]()
    while text.cell_len > width:
        plain = text.plain
        most = _prefix(plain, width)
        # A space is the better place, and may stand just after the line's last column.
        at = plain.rfind(" ", 0, most + 1)
        if at <= most // 2:
            at = max(plain.rfind(mark, 0, most) for mark in _SEPARATORS) + 1
        if at <= most // 2:
            at = most
        line, text = text[:at], text[at:]
        line.rstrip()
        lines.append(line)
        while text.plain.startswith(" "):
            text = text[1:]
    return [*lines, text]


def _prefix(plain: str, width: int) -> int:
    """How many characters fit in so many columns; at least one."""
    most = min(len(plain), width)
    while most > 1 and cell_len(plain[:most]) > width:
        most -= 1
    return max(most, 1)


def _joined(cells: list[tuple[Text, int, bool]]) -> Text:
    line = Text()
    for at, (cell, width, right) in enumerate(cells):
        pad = " " * (width - cell.cell_len)
        line.append(" " * _GAP if at else "")
        line.append_text(Text.assemble(pad, cell) if right else Text.assemble(cell, pad))
    line.rstrip()
    return line
