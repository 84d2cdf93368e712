"""Keys of signed notes (C2SP signed-note): their names, ids, written forms and signatures.

A verifier key is written `name+hex(key id)+base64(algorithm || public key)`, a signing key
`PRIVATE+KEY+name+hex(key id)+base64(algorithm || seed)`, as in the Go package sumdb/note.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.core import ed25519
from ledger.core.base64_text import decode_base64, encode_base64
from ledger.core.errors import Malformed

KEY_ID_LENGTH: Final = 4
TIMESTAMP_LENGTH: Final = 8
TIMESTAMP_S_MAX: Final = 2**63 - 1

_PRIVATE: Final = "PRIVATE+KEY+"
_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")


class Algorithm(IntEnum):
    """The signature types that are known here, by their assigned bytes."""

    ED25519 = 0x01
    COSIGNATURE_V1 = 0x04
    """Ed25519 over a checkpoint with a timestamp (C2SP tlog-cosignature)."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under a name: what an auditor pins.

    Made by `VerifierKey.of` or `VerifierKey.parse`, which refuse keys that prove nothing.
    """

    name: str
    algorithm: Algorithm
    public_key: bytes
    key_id: bytes
    _point: Ed25519PublicKey = field(repr=False, compare=False)

    @classmethod
    def of(cls, *, name: str, algorithm: Algorithm, public_key: bytes) -> VerifierKey:
        """Load a public key of 32 bytes. Raises `Malformed` for a bad name, point or length."""
        require_key_name(name)
        point = ed25519.load_public_key(public_key, path="$.public_key")
        return cls(name, algorithm, public_key, key_id(name, algorithm, public_key), point)

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read the written form. Raises `Malformed`, also where the key id is not the key's own."""
        name, algorithm, public_key, claimed_id = _parse_key_text(text)
        key = cls.of(name=name, algorithm=algorithm, public_key=public_key)
        if key.key_id != claimed_id:
            raise Malformed("$.key_id", "is not the id of this name and key")
        return key

    def as_cosigner(self) -> VerifierKey:
        """The same public key for `cosignature/v1` lines; its key id is another one."""
        return VerifierKey.of(
            name=self.name, algorithm=Algorithm.COSIGNATURE_V1, public_key=self.public_key
        )

    def verifies(self, *, message: bytes, signature: bytes) -> bool:
        """Whether the 64 bytes are this key's Ed25519 signature over exactly this message."""
        return ed25519.verifies(self._point, message=message, signature=signature)

    def __str__(self) -> str:
        material = encode_base64(bytes([self.algorithm]) + self.public_key)
        return f"{self.name}+{self.key_id.hex()}+{material}"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private Ed25519 key under a name. Its `repr` does not show the seed."""

    name: str
    algorithm: Algorithm
    seed: bytes = field(repr=False)
    key: VerifierKey

    @classmethod
    def of(cls, *, name: str, seed: bytes, algorithm: Algorithm = Algorithm.ED25519) -> Signer:
        """The signer of a 32-byte seed: a log's (ED25519) or a witness's (COSIGNATURE_V1).

        Raises `Malformed` for a bad name and ValueError for a seed of another length.
        """
        public_key = ed25519.load_seed(seed).public_key().public_bytes_raw()
        key = VerifierKey.of(name=name, algorithm=algorithm, public_key=public_key)
        return cls(name, algorithm, seed, key)

    @classmethod
    def parse(cls, text: str) -> Signer:
        """Read the written form of a private key. Raises `Malformed`, never showing the text."""
        if not text.startswith(_PRIVATE):
            raise Malformed("$", "is not a private key of a signed note")
        name, algorithm, seed, claimed_id = _parse_key_text(text.removeprefix(_PRIVATE))
        if len(seed) != ed25519.SEED_LENGTH:
            raise Malformed("$.seed", "is not an Ed25519 seed of 32 bytes")
        signer = cls.of(name=name, seed=seed, algorithm=algorithm)
        if signer.key.key_id != claimed_id:
            raise Malformed("$.key_id", "is not the id of this name and key")
        return signer

    def private_text(self) -> str:
        """The written form, to be kept secret."""
        material = encode_base64(bytes([self.algorithm]) + self.seed)
        return f"{_PRIVATE}{self.name}+{self.key.key_id.hex()}+{material}"

    def sign(self, message: bytes) -> bytes:
        """64 bytes, the same for the same message (RFC 8032)."""
        return ed25519.load_seed(self.seed).sign(message)


def key_id(name: str, algorithm: Algorithm, public_key: bytes) -> bytes:
    """SHA-256(name || 0x0A || algorithm || public key)[:4]."""
    octets = name.encode("utf-8") + b"\n" + bytes([algorithm]) + public_key
    return hashlib.sha256(octets).digest()[:KEY_ID_LENGTH]


def require_key_name(name: str) -> None:
    """A key name is not empty and holds no plus, Unicode space or control character."""
    if not is_key_name(name):
        raise Malformed("$.name", "is not the name of a note's key")


def is_key_name(name: str) -> bool:
    """Whether a signature line can carry this name."""
    return bool(name) and not any(c == "+" or c.isspace() or c < " " for c in name)


def _parse_key_text(text: str) -> tuple[str, Algorithm, bytes, bytes]:
    name, _, rest = text.partition("+")
    id_text, _, material_text = rest.partition("+")
    require_key_name(name)
    if not _KEY_ID.fullmatch(id_text):
        raise Malformed("$.key_id", "is not 8 lower-case hexadecimal characters")
    material = decode_base64(material_text, path="$.material")
    try:
        algorithm = Algorithm(material[0] if material else 0)
    except ValueError:
        raise Malformed("$.material", "is of an algorithm not known here") from None
    return name, algorithm, material[1:], bytes.fromhex(id_text)
