"""The README's Python, as a reader pastes it beside a tool of his own."""

from __future__ import annotations

import re

from tests.e2e.pages.conftest import Reader
from tests.support.pages import ROOT, documented

SHOP = """
def send_invoice(order, *, key, token):
    open("sent.txt", "a").write(f"{order} {key} {token}\\n")
    return f"INV-{order}"
"""


def test_the_readmes_lines_of_python_send_one_invoice(reader: Reader) -> None:
    (reader.folder / "shop.py").write_text(SHOP)
    reader.python(documented("README.md", "sdk"))
    (sent,) = (reader.folder / "sent.txt").read_text().splitlines()
    assert re.fullmatch(r"4711 d:\S+ 1", sent)
    with reader.client() as client:
        run = client.get_run("order-4711")
    assert run.run.status.name == "COMPLETED"
    assert [step.state.name for step in run.steps] == ["SUCCEEDED"]


def test_the_readmes_prose_fits_a_hundred_columns() -> None:
    long = [
        line
        for line in (ROOT / "README.md").read_text("utf-8").splitlines()
        if len(line) > 100 and not line.startswith(("<!--", "python3 -m venv"))
    ]
    assert not long
