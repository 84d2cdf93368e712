"""A line to a PostgreSQL server that can be cut at one sentence, before or after it is heard."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Cut = Literal["before the server hears it", "before the answer comes back"]


class CuttingProxy:
    """Forwards loopback connections to the server of `dsn`; `self.dsn` leads through it.

    Once `cut_at(words, how)` was called, the first connection whose client sends these bytes is
    cut: before the server gets them, or once the server has answered, with the answer thrown away.
    The cut happens once; later connections pass."""

    def __init__(self, dsn: str) -> None:
        parameters = conninfo_to_dict(dsn)
        self._host, self._port = str(parameters["host"]), int(str(parameters["port"]))
        self._lock = threading.Lock()
        self._words: bytes | None = None
        self._how: Cut = "before the server hears it"
        self._lines: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(
            dsn, host="127.0.0.1", port=self._listening.getsockname()[1], sslmode="disable"
        )

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        for line in self._lines:
            _end(line)

    def cut_at(self, words: bytes, how: Cut) -> None:
        """Arms the cut."""
        with self._lock:
            self._words, self._how = words, how

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = self._connect()
                self._lines += [client, server]
                answers_go_nowhere = threading.Event()
                for work in (
                    lambda c=client, s=server, e=answers_go_nowhere: self._hear(c, s, e),
                    lambda c=client, s=server, e=answers_go_nowhere: self._answer(c, s, e),
                ):
                    threading.Thread(target=work, daemon=True).start()

    def _connect(self) -> socket.socket:
        if self._host.startswith("/"):
            line = socket.socket(socket.AF_UNIX)
            line.connect(f"{self._host}/.s.PGSQL.{self._port}")
            return line
        return socket.create_connection((self._host, self._port))

    def _hear(
        self, client: socket.socket, server: socket.socket, answers_go_nowhere: threading.Event
    ) -> None:
        with suppress(OSError):
            while octets := client.recv(65_536):
                how = self._how_to_cut(octets)
                if how == "before the server hears it":
                    break
                if how is not None:
                    answers_go_nowhere.set()
                server.sendall(octets)
        if not answers_go_nowhere.is_set():
            _end(client)
            _end(server)

    def _answer(
        self, client: socket.socket, server: socket.socket, answers_go_nowhere: threading.Event
    ) -> None:
        with suppress(OSError):
            while octets := server.recv(65_536):
                if answers_go_nowhere.is_set():
                    break
                client.sendall(octets)
        _end(client)
        _end(server)

    def _how_to_cut(self, octets: bytes) -> Cut | None:
        with self._lock:
            if self._words is None or self._words not in octets:
                return None
            self._words = None
            return self._how


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
