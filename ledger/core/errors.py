"""The two exceptions that everything in the core may raise.

A refusal is a value and evidence of tampering is a list of findings; neither stands here.
"""

from __future__ import annotations


class Malformed(ValueError):
    """Bytes or a value that break a format, with the place where they do.

    `path` is rooted at `$` (`$.run.prev`, `$.payloads[0].id`, `$["two words"]`); `reason` is one
    English sentence part that never repeats the offending text, which may be secret.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[Malformed], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class InvariantViolation(AssertionError):
    """Our own mistake: something that the code before this line had promised is not so.

    Nobody catches it: what follows a broken invariant cannot be trusted to be recorded rightly.
    """
