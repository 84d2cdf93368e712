"""Makes the files that later releases must still read: a small log of this release on both stores.

    python -m tests.golden.make_release

Run once, when a release is tagged; what it wrote is never made again. The folder it writes,
`tests/golden/release-<version>/`, holds for each store a whole data folder (keys and tokens of
nobody), and for PostgreSQL a dump as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from ledger.client import EffectClass, Ledger, LedgerError, Step, Verdict
from tests.support.postgres import PostgresServer, binaries
from tests.support.server_process import LedgerServer

HERE = Path(__file__).resolve().parent
DATABASE = "ledger"


def main() -> int:
    """Writes the folder of the installed version; refuses to write over one."""
    folder = HERE / f"release-{version('agent-effects-ledger')}"
    if folder.exists():
        sys.stderr.write(f"{folder} exists and is never made again.\n")
        return 1
    _of_sqlite(folder / "sqlite")
    _of_postgres(folder / "postgres")
    return 0


def _of_sqlite(folder: Path) -> None:
    server = LedgerServer(folder)
    _write_log(server)
    database = folder / "ledger.db"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM INTO ?", (str(folder / "whole.db"),))
    connection.close()
    for leftover in folder.glob("ledger.db*"):
        leftover.unlink()
    (folder / "whole.db").rename(database)
    _tidy(folder)


def _of_postgres(folder: Path) -> None:
    # The oldest version served: what it dumps, every later one loads.
    oldest = min(binaries(), key=lambda found: found.version_major)
    with PostgresServer(None, oldest) as postgres:
        dsn = postgres.create_database(DATABASE)
        _write_log(LedgerServer(folder, dsn))
        environment = {**os.environ, "PGCONNECT_TIMEOUT": "10"}
        dumped = subprocess.run(
            [
                str(oldest.program("pg_dump")),
                "--inserts",
                "--no-owner",
                "--no-privileges",
                "--dbname=service=dumped",
            ],
            check=True,
            capture_output=True,
            text=True,
            env={**environment, "PGSERVICEFILE": str(_service_file(folder, dsn))},
        )
        (folder / "service.conf").unlink()
    # Commands of psql are none of the database's.
    lines = [line for line in dumped.stdout.splitlines() if not line.startswith("\\")]
    (folder / "dump.sql").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _tidy(folder)


def _service_file(folder: Path, dsn: str) -> Path:
    """The address in a file: a password never stands in an argument list."""
    from psycopg.conninfo import conninfo_to_dict

    path = folder / "service.conf"
    parts = conninfo_to_dict(dsn)
    text = "[dumped]\n" + "".join(f"{name}={value}\n" for name, value in parts.items())
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _tidy(folder: Path) -> None:
    for leftover in folder.glob("*.log"):
        leftover.unlink()
    for leftover in folder.glob("ready*"):
        leftover.unlink()
    for leftover in folder.rglob("*.lock"):
        leftover.unlink()
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


def _write_log(server: LedgerServer) -> None:
    """A run of every kind, and a checkpoint over all of it."""
    server.start()
    try:
        with (
            _client(server, "runtime") as runtime,
            _client(server, "reviewer") as reviewer,
            _client(server, "admin") as admin,
        ):
            _completed_run(runtime)
            _reconciled_run(runtime, reviewer)
            _cancelled_run(runtime, admin)
            checkpoint = admin.checkpoint()
            (server.folder / "checkpoint").write_text(checkpoint.note, encoding="utf-8")
            (server.folder / "verifier.key").write_text(
                checkpoint.verifier_key + "\n", encoding="utf-8"
            )
        server.stop()
    finally:
        server.close()


def _client(server: LedgerServer, principal: str) -> Ledger:
    return Ledger.connect(server.address, token_file=server.folder / "tokens" / principal)


def _completed_run(runtime: Ledger) -> None:
    with runtime.run("golden-completed", holder="golden", labels={"kind": "golden"}) as run:
        run.plan(
            [
                Step("look", "shop.look", "1", {"n": 1}, effect_class=EffectClass.READ_ONLY),
                Step("pay", "shop.pay", "1", {"n": 2}, key=b"order 7"),
                Step("mail", "shop.mail", "1", {"n": 3}, after=("pay",)),
                Step("never", "shop.mail", "1", {"n": 4}),
            ]
        )
        with run.effect("look") as effect:
            effect.succeeded({"found": True})
        with run.effect("pay") as effect:
            effect.succeeded({"receipt": "A-1"}, external_reference="A-1")
        with run.effect("mail") as effect:
            effect.no_effect({"why": "no address"})
        run.attach_evidence("a note", kind="note", step="mail")
        run.withdraw("never", reason="not_needed")


def _reconciled_run(runtime: Ledger, reviewer: Ledger) -> None:
    with runtime.run("golden-reconciled", holder="golden") as run:
        run.plan(
            [
                Step("again", "shop.pay", "1", {"n": 2}, key=b"order 7"),
                Step("lost", "shop.courier", "1", {"to": "x"}),
            ]
        )
        with run.effect("again") as effect:
            assert effect.replayed
        with run.effect("lost") as effect:
            effect.unknown("timeout", note="no answer")
        unknown = next(iter(reviewer.unknowns(run="golden-reconciled")))
        reviewer.reconcile(
            unknown, Verdict.EXECUTED, reason_code="receipt_found", reason="the courier has it"
        )
        run.stop("waiting")


def _cancelled_run(runtime: Ledger, admin: Ledger) -> None:
    run_id = "golden-cancelled"
    # Leaving a run whose lease was broken raises, as it must.
    with contextlib.suppress(LedgerError), runtime.run(run_id, holder="golden") as run:
        run.plan([Step("open", "shop.hold", "1", {"n": 5})])
        admin.allow_downgrade(
            tool="shop.hold",
            tool_version="2",
            effect_class=EffectClass.IDEMPOTENT_WRITE,
            reason="checked",
        )
        runtime.request_cancel(run_id, reason="no_longer_needed")
        admin.break_lease(run_id, reason="golden")


if __name__ == "__main__":
    sys.exit(main())
