"""The server's own log lines: structured, on standard error, never with payloads or tokens."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO, cast

import structlog


class _Lossy:
    """A stream that loses what cannot be written. A full disk under the log decides no answer."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure_logs(*, form: Literal["auto", "json", "console"], level: str) -> None:
    """Sets the form of every log line: `auto` is console on a terminal, else JSON, one object a
    line. Lines below `level` cost nothing."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.processors.JSONRenderer()
    if console:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    steps: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not console:
        # Local variables stay out of tracebacks: they hold what callers sent.
        frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        steps.append(structlog.processors.ExceptionRenderer(frames))
    structlog.configure(
        processors=[*steps, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lossy(sys.stderr))),
        cache_logger_on_first_use=True,
    )
