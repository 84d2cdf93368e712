"""Help texts: docstrings as they stand in the source, set anew to the reader's width."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

INDENT: Final = "  "


def taught(command: Callable[..., Any]) -> str:
    """A command's docstring as its help: text flows, examples keep their lines."""
    return paragraphs(inspect.getdoc(command) or "")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph that is not indented: the terminal breaks them itself."""
    joined = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.split("\n")
        flows = not any(line.startswith(INDENT) for line in lines)
        joined.append(" ".join(lines) if flows else paragraph)
    return "\n\n".join(joined)
