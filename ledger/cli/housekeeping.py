"""`ledger migrate`, `ledger keys ...` and `ledger tenants ...`: on the data folder and the store
themselves, with no server between.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli import options
from ledger.cli.screen import table
from ledger.cli.stops import Code, Stop, extra_missing
from ledger.cli.teaching import taught
from ledger.core import ids
from ledger.core.errors import Malformed
from ledger.core.events import AccessAdministered
from ledger.core.ids import Origin, PrincipalId, Tenant
from ledger.core.note_key import Signer, VerifierKey
from ledger.core.vocabulary import ActorKind, Auth
from ledger.keyring import KeyMissing, Keyring

if TYPE_CHECKING:
    from ledger.core.log import Log
    from ledger.settings import Settings
    from ledger.signing import Checkpoints
    from ledger.store.interface import Store
    from ledger.tenants import Tenants

keys = typer.Typer(
    help="Make and list the keys that seal payloads and sign checkpoints.",
    no_args_is_help=True,
)
tenants = typer.Typer(help="Make and list tenants, each with a log.", no_args_is_help=True)

KEK: Final = "kek"
OPERATOR: Final = "operator"
"""`actor.role` of who acts on the data folder."""
LOG: Final = "log"
ACCESS: Final = "/access"
"""What an access log's name has behind the name of the log that it stands beside."""
_CURRENT: Final = "current"

KeysFolder = Annotated[
    Path | None,
    typer.Option(
        "--keys-dir",
        envvar="LEDGER_KEYS_DIR",
        metavar="FOLDER",
        help="Where keys stand; unset: keys in the data folder.",
    ),
]


def migrate(
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Bring the store's tables up to this version. Safe to repeat; applies each step once.

    `ledger serve` does this by itself unless LEDGER_MIGRATE=false. The store is that of the
    variables LEDGER_STORE and LEDGER_POSTGRES_DSN, else ledger.db in the data folder.

    [bold]Examples[/bold]

      ledger migrate
      LEDGER_STORE=postgres LEDGER_POSTGRES_DSN=postgresql://... ledger migrate --json
    """
    screen = options.screen_of(machine, no_color)
    with opened_store(folder, command="migrate") as (store, _):
        applied = store.migrate()
    screen.final({"applied": applied})
    screen.say("Nothing to apply." if not applied else "Applied: " + ", ".join(applied))


def new_key(
    keys_folder: KeysFolder = None,
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Make a key-encryption key that wraps every data key from now on.

    The older ones stay, because what they wrapped is still read with them. Every replica needs the
    same files; a running server takes the new one at its next start. The key itself is never shown.

    [bold]Examples[/bold]

      ledger keys new
      ledger keys new --keys-dir /etc/ledger/keys
    """
    screen = options.screen_of(machine, no_color)
    below = keys_folder or folder / "keys"
    key_id = Keyring.new(below)
    screen.final({"kek": key_id, "folder": str(below / KEK)})
    screen.say(
        f"Key-encryption key {key_id} stands in {below / KEK} and wraps new data keys.",
        "Copy it to a safe place apart from the database: without it nothing sealed can be read.",
    )


def list_keys(
    keys_folder: KeysFolder = None,
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """List keys by id, and which ones are in use. Shows no secret.

    [bold]Example[/bold]

      ledger keys list
    """
    screen = options.screen_of(machine, no_color)
    below = keys_folder or folder / "keys"
    found = [*_keks(below), *_log_keys(below)]
    if machine:
        for item in found:
            screen.item(item)
        screen.final({"count": len(found)})
        return
    if not found:
        screen.say(f"There are no keys in {below}; `ledger keys new` makes one.")
        return
    rows = table("kind", "id", "in use", "of")
    for item in found:
        in_use = "yes" if item["in_use"] else ""
        rows.add(str(item["kind"]), str(item["id"]), in_use, str(item.get("origin", "")))
    screen.say(rows)


def show_key(
    origin: Annotated[
        str, typer.Argument(metavar="ORIGIN", help="The log; may be left out if there is one.")
    ] = "",
    access: Annotated[
        bool, typer.Option("--access", help="That of the access log beside it.")
    ] = False,
    keys_folder: KeysFolder = None,
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Show the verifier key of a log: what auditors pin. It is public.

    Hand it over by another way than the log itself, such as on paper.

    [bold]Examples[/bold]

      ledger keys show
      ledger keys show --access
      ledger keys show example.org/audit --data /var/lib/ledger > audit.key
    """
    screen = options.screen_of(machine, no_color)
    below = keys_folder or folder / "keys"
    found = _named_keys([*_log_keys(below)], origin, access=access)
    in_use = [item for item in found if item["in_use"]]
    if len(in_use) != 1:
        raise Stop(
            f"there is no signing key of {origin or 'a log'} in {below}."
            if not in_use
            else f"there are several logs in {below}.",
            safe="Nothing was changed.",
            next="`ledger keys list` shows what is there; name the origin.",
            code=Code.WRONG_USAGE,
        )
    screen.final(in_use[0])
    screen.say(str(in_use[0]["verifier_key"]))


def new_tenant(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="The new tenant's id.")],
    origin: Annotated[
        str,
        typer.Option(
            "--origin",
            metavar="NAME",
            help="The name of its log, for ever, such as example.org/audit. Unset: a random one.",
        ),
    ] = "",
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Make a tenant with an empty log of its own.

    Who may call for it stands in principals.json of the data folder; the server reads the file anew
    when it changes.

    [bold]Examples[/bold]

      ledger tenants new acme
      ledger tenants new acme --origin audit.acme.example/agents
    """
    screen = options.screen_of(machine, no_color)
    with opened_store(folder, command="tenants new") as (store, settings):
        from ledger.store.errors import DuplicateRow
        from ledger.tenants import random_origin

        store.migrate()
        try:
            log = tenants_of(store, settings).new(
                Tenant(tenant), Origin(origin) if origin else random_origin()
            )
        except DuplicateRow:
            raise Stop(
                f"tenant {tenant!r} exists, or a log of the name {origin!r} does.",
                safe="Nothing was changed.",
                next="`ledger tenants list` shows both.",
                code=Code.REFUSED,
            ) from None
        except Malformed as fault:
            raise Stop(
                f"that is no name for it: {fault}.",
                safe="Nothing was changed.",
                next="Tenants are ids; origins are lower case, such as example.org/audit.",
                code=Code.WRONG_USAGE,
            ) from None
        access = tenants_of(store, settings).access(log.tenant)
        for one in (log, access):
            checkpoints_of(store, settings).begin(one)
        record_act(store, access, AccessAdministered(act="tenants.new", origin=log.origin))
    screen.final({"tenant": log.tenant, "origin": log.origin})
    screen.say(f"Tenant {log.tenant} has the log {log.origin}.")


def list_tenants(
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """List tenants and the names of their logs.

    [bold]Example[/bold]

      ledger tenants list --data /var/lib/ledger
    """
    screen = options.screen_of(machine, no_color)
    with opened_store(folder, command="tenants list") as (store, settings):
        logs = tenants_of(store, settings).all()
    if machine:
        for log in logs:
            screen.item({"tenant": log.tenant, "origin": log.origin})
        screen.final({"count": len(logs)})
        return
    rows = table("tenant", "log")
    for log in logs:
        rows.add(log.tenant, log.origin)
    screen.say(rows)


@contextmanager
def opened_store(folder: Path, *, command: str) -> Iterator[tuple[Store, Settings]]:
    """The store of a data folder, with the settings that name it."""
    try:
        from ledger.log_reading import NotSigning
        from ledger.marks import MarkBroken
        from ledger.settings import Settings
        from ledger.store.errors import StoreError
        from ledger.store.opening import open_store
    except ModuleNotFoundError as error:
        raise extra_missing(error, command=command) from None
    os.environ["LEDGER_DATA"] = str(folder)
    try:
        settings = Settings()
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = open_store(settings.store_address())
    except ModuleNotFoundError as error:
        raise extra_missing(error, command=command, extra="postgres") from None
    except ValueError as fault:
        raise Stop(
            f"the settings do not name a store: {fault}",
            safe="Nothing was changed.",
            next="Check the variables LEDGER_STORE and LEDGER_POSTGRES_DSN.",
            code=Code.WRONG_USAGE,
        ) from None
    try:
        yield store, settings
    except (StoreError, KeyMissing, MarkBroken, NotSigning) as fault:
        raise Stop(
            str(fault),
            safe="Nothing was acknowledged.",
            next="See that the database answers and that the keys folder is the store's own.",
            code=Code.UNAVAILABLE,
        ) from None
    finally:
        store.close()


def tenants_of(store: Store, settings: Settings) -> Tenants:
    """The store's tenants. Raises `KeyMissing` where its keys are not here."""
    from ledger.tenants import Tenants
    from ledger.vault import Vault

    return Tenants(store, Vault(Keyring.load(settings.keys_folder)))


def checkpoints_of(store: Store, settings: Settings) -> Checkpoints:
    """What signs the store's logs."""
    from ledger.log_keys import LogKeys
    from ledger.marks import Marks
    from ledger.signing import Checkpoints

    return Checkpoints(store, keys=LogKeys(settings.keys_folder), marks=Marks(settings.mark_folder))


def log_of(store: Store, settings: Settings, tenant: str, *, access: bool = False) -> Log:
    """A tenant's log, or its access log. Raises `Stop` where there is none."""
    from ledger.tenants import UnknownTenant

    tenants = tenants_of(store, settings)
    try:
        return tenants.access(Tenant(tenant)) if access else tenants.log(Tenant(tenant))
    except UnknownTenant as unknown:
        raise Stop(
            str(unknown), next="`ledger tenants list` names those there are.", code=Code.REFUSED
        ) from None


def record_act(store: Store, access: Log, body: AccessAdministered, *, by: str = "") -> bool:
    """Records an act on the data folder in a tenant's access log, as of whom the operating system
    names, or `by`. Whether it could: an act that mends the log itself may come before that."""
    from ledger.access_appending import AccessAppender, AccessNotRecorded
    from ledger.batch import random_request_id
    from ledger.core.access import Access
    from ledger.core.run_events import Actor
    from ledger.ledger_time import LedgerTime

    named = by or f"os:{getpass.getuser()}"
    try:
        who = ids.any_id(PrincipalId, named, path="by")
    except Malformed:
        who = PrincipalId(f"os:{os.getuid()}")
    actor = Actor(who, ActorKind.HUMAN, Auth.INTERNAL, OPERATOR)
    try:
        AccessAppender(store, access, LedgerTime()).append(
            [Access(actor, random_request_id(), body)]
        )
    except AccessNotRecorded:
        return False
    return True


def _keks(below: Path) -> Iterator[dict[str, object]]:
    folder = below / KEK
    current = _named(folder)
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if len(path.name) == 32:
            yield {"kind": "key-encryption", "id": path.name, "in_use": path.name == current}


def _log_keys(below: Path) -> Iterator[dict[str, object]]:
    for folder in sorted((below / LOG).glob("*")):
        current = _named(folder)
        for path in sorted(folder.glob("*")):
            key = _verifier_key(path)
            if key is not None:
                yield {
                    "kind": "checkpoint-signing",
                    "id": path.name,
                    "in_use": path.name == current,
                    "origin": key.name,
                    "verifier_key": str(key),
                }


def _named_keys(
    found: list[dict[str, object]], origin: str, *, access: bool
) -> list[dict[str, object]]:
    """The keys of the log that is meant: of its access log, named after it, only if asked for."""
    if origin:
        named = origin + ACCESS if access else origin
        return [item for item in found if item["origin"] == named]
    origins = {str(item["origin"]) for item in found}
    beside = {name for name in origins if name.removesuffix(ACCESS) in origins - {name}}
    return [item for item in found if (item["origin"] in beside) == access]


def _verifier_key(path: Path) -> VerifierKey | None:
    if path.name == _CURRENT or not path.is_file():
        return None
    try:
        return Signer.parse(path.read_text("ascii").strip()).key
    except (Malformed, UnicodeDecodeError):
        return None


def _named(folder: Path) -> str:
    current = folder / _CURRENT
    return current.read_text("ascii").strip() if current.is_file() else ""


keys.command("new", help=taught(new_key))(new_key)
keys.command("list", help=taught(list_keys))(list_keys)
keys.command("show", help=taught(show_key))(show_key)
tenants.command("new", help=taught(new_tenant))(new_tenant)
tenants.command("list", help=taught(list_tenants))(list_tenants)
