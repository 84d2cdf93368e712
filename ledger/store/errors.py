"""What a store raises. Each says whether the transaction's effect is certain."""

from __future__ import annotations


class StoreError(Exception):
    """Trouble of the store, never of the caller's state. Nothing of it is ever kept as an
    answer."""


class StoreUnavailable(StoreError):
    """The transaction did not happen and may be tried again: connection refused or lost before
    COMMIT, lock timeout, serialisation failure (40001, 40P01), database busy, disk full, read-only,
    not durable enough."""


class CommitUnknown(StoreError):
    """COMMIT was sent and no clear answer came. The transaction may have happened. Look it up on a
    new connection while holding the head lock; never guess."""


class HeadMissing(StoreError):
    """The log has no head row: it was never made here, or this is another database."""


class DuplicateRow(StoreError):
    """A row with an equal unique key exists. The transaction was rolled back whole."""


class NotDurable(StoreError):
    """The store's settings cannot make an acknowledged append survive power loss. Refuse to
    serve."""


class WrongSchema(StoreError):
    """The database was migrated by other migrations than this build's: a digest differs, or a newer
    one was applied."""
