"""The auditor's pinned policy: which keys may sign. It never comes from what is being judged.

A file of lines; one that begins with `#` is a comment. Two spellings are read: a verifier key alone
on its line, and the lines of C2SP tlog-policy that say the same (`log <verifier key> [url]`,
`quorum none`). Witness quorums are refused by name until they are checked: a policy must not be
weaker than it reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core.errors import Malformed
from ledger.core.note_key import Algorithm, VerifierKey


class PolicyUnreadable(ValueError):
    """A policy file that pins nothing, or says what is not understood here. Names the line."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The pinned keys of logs, at least one."""

    log_keys: tuple[VerifierKey, ...]

    def __post_init__(self) -> None:
        if not self.log_keys:
            raise PolicyUnreadable("The policy pins no key.")


def read_policy(text: str) -> Policy:
    """Read a policy. Raises `PolicyUnreadable`."""
    keys: list[VerifierKey] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        match words:
            case ["log", key] | ["log", key, _]:
                keys.append(_key(key, number))
            case ["quorum", "none"]:
                pass
            case [("witness" | "group" | "quorum") as word, *_]:
                raise PolicyUnreadable(
                    f"Line {number}: `{word}` asks for witnesses, which are not checked here yet."
                )
            case [key]:
                keys.append(_key(key, number))
            case _:
                raise PolicyUnreadable(f"Line {number} is neither a key nor a line of a policy.")
    if len({(key.name, key.key_id) for key in keys}) != len(keys):
        raise PolicyUnreadable("The policy pins one key twice.")
    return Policy(tuple(keys))


def _key(text: str, number: int) -> VerifierKey:
    try:
        key = VerifierKey.parse(text)
    except Malformed as fault:
        raise PolicyUnreadable(f"Line {number} is no verifier key: {fault}.") from None
    if key.algorithm is not Algorithm.ED25519:
        raise PolicyUnreadable(f"Line {number} is a witness's key, not a log's.")
    return key
