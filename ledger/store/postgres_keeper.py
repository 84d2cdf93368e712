"""A bounded number of connections, the one used last first: its prepared statements are warm.

The driver's own pool hands them out in turn, which warms each anew, waits out a timeout where a
server refuses at once, and gives out dead ones or asks each time. This one never retries: it gives
an idle connection or opens one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ledger.store.errors import NotDurable, StoreUnavailable
from ledger.store.postgres_connection import PostgresConnection, Target
from ledger.store.settings import StoreSettings


class ConnectionKeeper:
    """At most `connections_max` connections at a time. Threads may share it."""

    def __init__(self, target: Target, settings: StoreSettings, *, connections_max: int) -> None:
        self._target = target
        self._settings = settings
        self._places = threading.BoundedSemaphore(connections_max)
        self._rooms = threading.Lock()
        self._idle: list[PostgresConnection] = []
        self._in_use: set[PostgresConnection] = set()
        self._closed = False

    def take(self) -> PostgresConnection:
        """An idle connection or a new one. Raises `StoreUnavailable` where all are in use for
        longer than a lock may be waited for."""
        return self._placed(lambda: self._pop_idle() or self._open())

    def take_new(self) -> PostgresConnection:
        """A new connection; the idle ones, made before something was found wrong, are closed."""
        with self._rooms:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        return self._placed(self._open)

    def give_back(self, connection: PostgresConnection) -> None:
        """Rolls back what is open, then keeps the connection, or closes it if it is broken."""
        connection.rollback()
        with self._rooms:
            self._in_use.discard(connection)
            kept = not (connection.broken or self._closed)
            if kept:
                self._idle.append(connection)
        if not kept:
            connection.close()
        self._places.release()

    def close(self) -> None:
        """Closes idle connections and cuts those in use, whose threads then close them."""
        with self._rooms:
            self._closed = True
            idle, self._idle = self._idle, []
            for connection in self._in_use:
                connection.cut()
        for connection in idle:
            connection.close()

    def _placed(self, find: Callable[[], PostgresConnection]) -> PostgresConnection:
        if not self._places.acquire(timeout=self._settings.lock_wait_ms_max / 1000):
            raise StoreUnavailable("every connection is in use")
        try:
            return self._use(find())
        except BaseException:
            self._places.release()
            raise

    def _pop_idle(self) -> PostgresConnection | None:
        with self._rooms:
            return self._idle.pop() if self._idle else None

    def _open(self) -> PostgresConnection:
        if self._closed:
            raise StoreUnavailable("the store was closed")
        try:
            return PostgresConnection(self._target, self._settings)
        except NotDurable as fault:
            raise StoreUnavailable(f"not durable enough: {fault}") from fault

    def _use(self, connection: PostgresConnection) -> PostgresConnection:
        with self._rooms:
            if not self._closed:
                self._in_use.add(connection)
                return connection
        connection.close()
        raise StoreUnavailable("the store was closed")
