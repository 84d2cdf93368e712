"""A reader with a server: pastes what a page shows, in a folder of his own."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.client import Ledger
from tests.support.command_line import CommandLine, Ended
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

ADDRESS = "127.0.0.1:7420"
"""Where pages say that the server is; the reader's own is on a free port."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Pastes blocks. Only the server's address is another one than the page's."""

    server: LedgerServer
    ledger: CommandLine

    @property
    def folder(self) -> Path:
        """Where he stands."""
        return self.ledger.folder

    def client(self, principal: str = "runtime") -> Ledger:
        """A client as one of the embedded principals."""
        return Ledger.connect(self.server.address, token=self.server.token(principal))

    def python(self, block: str) -> str:
        """Run a block of Python, with the folder's own modules; answers what it printed."""
        said = io.StringIO()
        code = compile(block.replace(ADDRESS, self.server.address), "<page>", "exec")
        sys.path.insert(0, str(self.folder))
        try:
            with contextlib.redirect_stdout(said):
                exec(code, {"__name__": "__main__"})  # noqa: S102 - the page's own text
        finally:
            sys.path.remove(str(self.folder))
            sys.modules.pop("shop", None)
        return said.getvalue().rstrip("\n")

    def commands(self, block: str, *, code: int | None = 0) -> str:
        """Run a block of nothing but `ledger` commands, a line each; answers what they printed.

        `code` is the exit code of each. Quicker than a shell, which loads all of Python each time.
        """
        said = []
        for line in block.splitlines():
            first, *arguments = shlex.split(line)
            assert first == "ledger", f"a shell is needed for: {line}"
            ended = self.ledger(*arguments, code=code)
            said.append(ended.out + ended.err)
        return "".join(said)

    def shell(self, block: str, *, code: int | None = 0) -> Ended:
        """Paste a block into a shell that stops at the first command that fails."""
        return self.ledger.run(["bash", "-euc", block], code=code)


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader who has a server; the whole log is verified when the last page is read."""
    folder = tmp_path_factory.mktemp("reader")
    server = LedgerServer(folder / "ledger-data")
    try:
        server.start()
        told = {"LEDGER_SERVER": server.address, "LEDGER_DATA": str(server.folder)}
        yield Reader(server, CommandLine(folder, told))
        verify_whole_log(server)
    finally:
        server.close()


@pytest.fixture(autouse=True)
def data_folder(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK finds tokens in the reader's data folder, as beside a server."""
    monkeypatch.setenv("LEDGER_DATA", str(reader.server.folder))
    monkeypatch.chdir(reader.folder)
