"""A line to a server that can swallow a request, or the answer to one, for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

_CHUNK: Final = 65_536


class WithholdingProxy:
    """Forwards loopback connections to wherever `where()` says the server is now.

    From the moment that the file `control` holds the word `request`, nothing that a client sends
    is passed on; while it holds `answer`, nothing that the server sends. `swallowed` is set by the
    first bytes withheld, `heard` by the first that a client sends with the answer withheld."""

    def __init__(self, control: Path, where: Callable[[], str]) -> None:
        self.swallowed = threading.Event()
        self.heard = threading.Event()
        self._control = control
        self._where = where
        self._lines: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._listening)
        for line in self._lines:
            _end(line)

    def pass_all(self) -> None:
        """Withholds nothing more."""
        self._control.unlink(missing_ok=True)
        self.swallowed.clear()
        self.heard.clear()

    def withhold(self, what: Literal["request", "answer"]) -> None:
        """From now on; see the class."""
        self._control.write_text(what, encoding="utf-8")

    def cut(self) -> None:
        """Ends every line and withholds nothing more; new lines pass."""
        self.pass_all()
        lines, self._lines = self._lines, []
        for line in lines:
            _end(line)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    host, _, port = self._where().rpartition(":")
                    server = socket.create_connection((host, int(port)))
                except OSError:
                    _end(client)  # a server that is down refuses
                    continue
                self._lines += [client, server]
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._hear, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _hear(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while octets := client.recv(_CHUNK):
                withheld = self._withheld()
                if withheld == "request":
                    self.swallowed.set()
                    continue
                server.sendall(octets)
                if withheld == "answer":
                    self.heard.set()
        _end(client)
        _end(server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while octets := server.recv(_CHUNK):
                if self._withheld() == "answer":
                    self.swallowed.set()
                    continue
                client.sendall(octets)
        _end(client)
        _end(server)

    def _withheld(self) -> str:
        try:
            return self._control.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
