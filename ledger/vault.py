"""Sealing and opening payloads (formats, section 2; rules, section 9).

Payloads are sealed before the log's head is locked, under a data key of their subject or run. Under
the lock every key is checked to be open still; what was sealed under a destroyed key, or under
another owner's than the run turns out to have, is sealed anew before it is chained.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.core.commands import Command, OpenRun, Payload, PlanSteps, Request, Slot
from ledger.core.errors import InvariantViolation
from ledger.core.ids import DataKeyId, PayloadId, RunId, Tenant
from ledger.core.log import Log
from ledger.core.run_events import SealedRef
from ledger.core.sealing import (
    KEY_LENGTH,
    NONCE_LENGTH,
    SALT_LENGTH,
    cipher_of,
    commits_to,
    open_sealed,
    payload_commitment,
    seal,
)
from ledger.core.value import value
from ledger.keyring import Keyring
from ledger.store.interface import Changing, Reading, Store
from ledger.store.tables import DATA_KEYS, PAYLOADS, SUBJECTS, Row

_FINGERPRINT: Final = b"ledger.arguments.v1\x00"
_SECRET_ID: Final = DataKeyId("key-index-secret")
_CACHED_KEYS_MAX: Final = 2_000
"""A key with what seals under it takes about 4 KiB."""
_RANDOM_LENGTH: Final = 16 + SALT_LENGTH + NONCE_LENGTH
"""What sealing one payload takes: its id, its salt and its nonce."""

_Filled = tuple[Command, list[tuple[Slot, Payload]]]
"""A command and its payloads, of which there is one at least."""


@dataclass(slots=True)
class Sealed:
    """A payload ready to be stored: how an entry names it, its sealed bytes, what it was made
    of."""

    ref: SealedRef
    sealed: bytes
    payload: Payload
    owner: str
    tool: str


@value()
class Prepared:
    """A request with its payloads sealed."""

    request: Request
    sealed: dict[Slot, Sealed]

    def refs(self) -> Mapping[Slot, SealedRef]:
        """How the request's payloads will stand in entries."""
        return {slot: sealed.ref for slot, sealed in self.sealed.items()}


@value()
class Opened:
    """A stored payload, opened."""

    content: bytes
    salt: bytes
    media_type: str
    key_id: str


@value()
class Gone:
    """A payload whose data key was destroyed by the entry at `index`."""

    index: int


@value()
class _DataKey:
    id: DataKeyId
    key: bytes
    cipher: AESGCM
    wrapped: bytes
    stored: bool


class Vault:
    """Data keys of all tenants, and what they seal. Safe to use from several threads."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._open: dict[tuple[Tenant, str], _DataKey] = {}
        self._keys: dict[str, bytes] = {}
        self._lock = Lock()

    # The tenant's key-index secret

    def new_secret(self, tenant: Tenant) -> bytes:
        """A new key-index secret, wrapped."""
        return self._keyring.wrap(os.urandom(KEY_LENGTH), tenant=tenant, data_key_id=_SECRET_ID)

    def open_secret(self, tenant: Tenant, wrapped: bytes) -> bytes:
        """The key-index secret of a tenant. Raises `KeyMissing`."""
        return self._keyring.unwrap(wrapped, tenant=tenant, data_key_id=_SECRET_ID)

    # Before the lock

    def prepare(self, store: Store, log: Log, requests: Sequence[Request]) -> list[Prepared]:
        """Seals every payload of `requests`, in order. A run that an earlier one of them opens
        gives its subject to the later ones. Reads only for keys that are not known yet."""
        given = [(request, list(request.command.payloads())) for request in requests]
        filled = [(request.command, payloads) for request, payloads in given if payloads]
        if not filled:
            return [Prepared(request, {}) for request in requests]
        subjects = self._opened_subjects(requests)
        unread = self._without_key(log, filled, subjects)
        if unread or not self._has_keys(log, _owners(filled, subjects)):
            with store.read() as reading:
                subjects = self._subjects(reading, log, unread) | subjects
                self._load_open_keys(reading, log, _owners(filled, subjects))
        count = sum(len(payloads) for _, payloads in filled)
        random = _pieces(os.urandom(_RANDOM_LENGTH * count))
        prepared = []
        for request, payloads in given:
            sealed = {}
            for slot, payload in payloads:
                owner = _owner(request.command, payload, subjects)
                tool = _tool_of(request.command, slot)
                sealed[slot] = self._seal(log, slot, payload, owner, tool, next(random))
            prepared.append(Prepared(request, sealed))
        return prepared

    def _opened_subjects(self, requests: Sequence[Request]) -> dict[str, str]:
        return {
            request.command.run: request.command.subject
            for request in requests
            if isinstance(request.command, OpenRun)
        }

    def _without_key(
        self, log: Log, filled: Sequence[_Filled], opened: Mapping[str, str]
    ) -> set[str]:
        """Runs whose own key is not known: they may have a subject, under whose key theirs lies."""
        concerned = {
            run_of(command)
            for command, payloads in filled
            if not all(payload.subject for _, payload in payloads)
        }
        return {
            run
            for run in concerned
            if run not in opened and (log.tenant, f"run:{run}") not in self._open
        }

    def _has_keys(self, log: Log, owners: Iterable[str]) -> bool:
        return all((log.tenant, owner) in self._open for owner in owners)

    def _subjects(self, reading: Reading, log: Log, runs: set[str]) -> dict[str, str]:
        if not runs:
            return {}
        rows = reading.get(SUBJECTS, [(log.tenant, run) for run in sorted(runs)])
        return {str(row[1]): str(row[2]) for row in rows}

    def _load_open_keys(self, reading: Reading, log: Log, owners: Iterable[str]) -> None:
        missing = sorted(o for o in owners if (log.tenant, o) not in self._open)
        if not missing:
            return
        rows = reading.get_by(
            DATA_KEYS, ("tenant", "owner", "open"), [(log.tenant, owner, 1) for owner in missing]
        )
        with self._lock:
            self._trim()
            for row in rows:
                self._remember(log.tenant, row)
            for owner in missing:
                if (log.tenant, owner) not in self._open:
                    self._open[(log.tenant, owner)] = self._new_key(log.tenant)

    def _trim(self) -> None:
        if len(self._open) > _CACHED_KEYS_MAX:
            self._open.clear()
        if len(self._keys) > _CACHED_KEYS_MAX:
            self._keys.clear()

    def _remember(self, tenant: Tenant, row: Row) -> _DataKey:
        key_id, _, owner, wrapped, is_open, _ = row
        named = DataKeyId(str(key_id))
        key = self._keyring.unwrap(bytes(wrapped), tenant=tenant, data_key_id=named)  # type: ignore[arg-type]
        known = _DataKey(named, key, cipher_of(key), bytes(wrapped), stored=True)  # type: ignore[arg-type]
        self._keys[named] = key
        if is_open:
            self._open[(tenant, str(owner))] = known
        return known

    def _open_key(self, log: Log, owner: str) -> _DataKey:
        """The owner's key. Another log's thread may just have emptied the memory: a new one does,
        for under the lock it gives way to the stored one."""
        known = self._open.get((log.tenant, owner))
        if known is None:
            with self._lock:
                known = self._open.setdefault((log.tenant, owner), self._new_key(log.tenant))
        return known

    def _new_key(self, tenant: Tenant) -> _DataKey:
        named = DataKeyId(os.urandom(16).hex())
        key = os.urandom(KEY_LENGTH)
        wrapped = self._keyring.wrap(key, tenant=tenant, data_key_id=named)
        return _DataKey(named, key, cipher_of(key), wrapped, stored=False)

    def _seal(
        self, log: Log, slot: Slot, payload: Payload, owner: str, tool: str, random: bytes
    ) -> Sealed:
        """`random`: `_RANDOM_LENGTH` bytes that were never used before."""
        data_key = self._open_key(log, owner)
        payload_id = PayloadId(random[:16].hex())
        salt = random[16 : 16 + SALT_LENGTH]
        name = slot[0]
        sealed = seal(
            payload.content,
            key=data_key.cipher,
            salt=salt,
            nonce=random[16 + SALT_LENGTH :],
            origin=log.origin,
            payload_id=payload_id,
            name=name,
        )
        ref = SealedRef(
            payload_id,
            name,
            data_key.id,
            payload.media_type,
            payload_commitment(salt=salt, payload=payload.content).hex(),
            fingerprint(data_key.key, tool, payload.content) if name == "arguments" else b"",
        )
        return Sealed(ref, sealed, payload, owner, tool)

    # Under the lock

    def settle(
        self,
        changing: Changing,
        log: Log,
        prepared: Sequence[Prepared],
        subjects: Mapping[str, str],
    ) -> None:
        """Makes sure, under the head's lock, that every payload lies under an open key of its
        owner: `subjects` are those of the runs concerned. Stores keys that are new."""
        wrong: list[tuple[Prepared, Slot, str]] = []
        used: dict[str, str] = {}
        for one in prepared:
            for slot, sealed in one.sealed.items():
                owner = _owner(one.request.command, sealed.payload, subjects)
                if owner != sealed.owner:
                    wrong.append((one, slot, owner))
                else:
                    used[owner] = sealed.ref.key_id
        if wrong:
            self._load_open_keys(changing, log, {owner for _, _, owner in wrong})
            for one, slot, owner in wrong:
                old = one.sealed[slot]
                one.sealed[slot] = self._sealed_anew(log, slot, old, owner)
                used[owner] = one.sealed[slot].ref.key_id
        replaced = self._confirm(changing, log, used)
        if replaced:
            for one in prepared:
                for slot, old in one.sealed.items():
                    if old.owner in replaced:
                        one.sealed[slot] = self._sealed_anew(log, slot, old, old.owner)

    def _sealed_anew(self, log: Log, slot: Slot, old: Sealed, owner: str) -> Sealed:
        random = os.urandom(_RANDOM_LENGTH)
        return self._seal(log, slot, old.payload, owner, old.tool, random)

    def _confirm(self, changing: Changing, log: Log, used: Mapping[str, str]) -> set[str]:
        """Owners whose key was destroyed or minted elsewhere meanwhile, now with the right one."""
        if not used:
            return set()
        rows = changing.get_by(
            DATA_KEYS,
            ("tenant", "owner", "open"),
            [(log.tenant, owner, 1) for owner in sorted(used)],
        )
        replaced = set()
        with self._lock:
            stored = {str(row[2]): self._remember(log.tenant, row) for row in rows}
            for owner, key_id in used.items():
                if owner in stored:
                    if stored[owner].id != key_id:
                        replaced.add(owner)
                    continue
                minted = self._open.get((log.tenant, owner))
                # One that is stored by now, though not as open, was destroyed since.
                spent = minted is None or minted.stored or changing.get(DATA_KEYS, [(minted.id,)])
                if minted is None or spent:
                    minted = self._open[(log.tenant, owner)] = self._new_key(log.tenant)
                if minted.id != key_id:
                    replaced.add(owner)
                self._keys[minted.id] = minted.key
                changing.insert(
                    DATA_KEYS, [(minted.id, log.tenant, owner, minted.wrapped, 1, None)]
                )
        return replaced

    def forget_keys(self) -> None:
        """Others appended to the log: what they destroyed must not be opened from memory."""
        with self._lock:
            self._keys.clear()

    # Comparing and opening

    def fingerprint_under(
        self, reading: Reading, log: Log, *, key_id: str, tool: str, content: bytes
    ) -> bytes | None:
        """The keyed digest of arguments under a data key, None if that key was destroyed."""
        key = self._key(reading, log.tenant, key_id)
        return fingerprint(key, tool, content) if isinstance(key, bytes) else None

    def fingerprint_of(self, reading: Reading, log: Log, ref: SealedRef, tool: str) -> bytes:
        """The keyed digest of stored arguments, empty where they were erased."""
        opened = self.open(reading, log, ref.id)
        if not isinstance(opened, Opened):
            return b""
        key = self.fingerprint_under(
            reading, log, key_id=ref.key_id, tool=tool, content=opened.content
        )
        return key or b""

    def open(self, reading: Reading, log: Log, payload_id: str) -> Opened | Gone:
        """A stored payload. Raises `SealBroken` where the stored bytes are not what was sealed."""
        rows = reading.get(PAYLOADS, [(log.number, bytes.fromhex(payload_id))])
        if not rows:
            raise InvariantViolation(f"payload {payload_id} is named but not stored")
        _, _, _, name, key_id, media_type, sealed = rows[0]
        key = self._key(reading, log.tenant, str(key_id))
        if isinstance(key, Gone):
            return key
        opened = open_sealed(
            bytes(sealed),  # type: ignore[arg-type]
            key=key,
            origin=log.origin,
            payload_id=PayloadId(payload_id),
            name=str(name),
        )
        return Opened(opened.payload, opened.salt, str(media_type), str(key_id))

    def holds(self, reading: Reading, log: Log, payload_id: str, payload: Payload) -> bool:
        """Whether the stored payload has these bytes: its commitment is recomputed with its own
        salt. False if it was erased."""
        opened = self.open(reading, log, payload_id)
        if isinstance(opened, Gone):
            return False
        commitment = payload_commitment(salt=opened.salt, payload=opened.content)
        return commits_to(commitment, salt=opened.salt, payload=payload.content)

    def is_erased(self, reading: Reading, log: Log, key_id: str) -> bool:
        """Whether a data key was destroyed."""
        return isinstance(self._key(reading, log.tenant, key_id), Gone)

    def _key(self, reading: Reading, tenant: Tenant, key_id: str) -> bytes | Gone:
        known = self._keys.get(key_id)
        if known is not None:
            return known
        rows = reading.get(DATA_KEYS, [(key_id,)])
        if not rows:
            raise InvariantViolation(f"data key {key_id} is named but not stored")
        destroyed = rows[0][5]
        if destroyed is not None:
            return Gone(int(destroyed))
        with self._lock:
            return self._remember(tenant, rows[0]).key


def fingerprint(key: bytes, tool: str, content: bytes) -> bytes:
    """A keyed digest that compares arguments of a tool: HMAC-SHA-256 under their data key."""
    return hmac.digest(key, _FINGERPRINT + tool.encode() + b"\x00" + content, "sha256")[:16]


def run_of(command: Command) -> RunId:
    """The run that a command names, empty if none."""
    return getattr(command, "run", RunId(""))


def _owners(filled: Sequence[_Filled], subjects: Mapping[str, str]) -> set[str]:
    return {
        _owner(command, payload, subjects)
        for command, payloads in filled
        for _, payload in payloads
    }


def _pieces(random: bytes) -> Iterator[bytes]:
    for start in range(0, len(random), _RANDOM_LENGTH):
        yield random[start : start + _RANDOM_LENGTH]


def _owner(command: Command, payload: Payload, subjects: Mapping[str, str]) -> str:
    run = run_of(command)
    subject = payload.subject or subjects.get(run, "")
    return f"subject:{subject}" if subject else f"run:{run}"


def _tool_of(command: Command, slot: Slot) -> str:
    if isinstance(command, PlanSteps) and slot[0] == "arguments":
        return command.steps[slot[1]].tool
    return ""
