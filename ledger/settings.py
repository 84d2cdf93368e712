"""Every setting of the server, as one typed value. Read from the environment (`LEDGER_*`) once.

Nothing else reads the environment. Sizes are in bytes, durations say their unit.
"""

from __future__ import annotations

import ipaddress
from dataclasses import fields
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ledger.access_settings import AccessSettings
from ledger.core.commands import OPEN_STEPS_MAX
from ledger.core.policy import Policies, Policy
from ledger.limits import Limits
from ledger.policies_file import read_policies

_LIMITS = Limits()
_ACCESS = AccessSettings()


class Settings(BaseSettings):
    """What `python -m server` is told. Each name is a variable: `listen` is `LEDGER_LISTEN`."""

    model_config = SettingsConfigDict(
        env_prefix="LEDGER_", frozen=True, extra="ignore", populate_by_name=True
    )

    # Where things stand
    folder: Path = Field(default=Path("ledger-data"), validation_alias="LEDGER_DATA")
    """`LEDGER_DATA`, the data folder: ledger.db, principals.json, tokens/, keys/, mark/."""
    store: str = "sqlite"
    """`sqlite` (ledger.db in the data folder), `sqlite:PATH`, `postgres`, or `postgresql://...`."""
    postgres_dsn: str = ""
    postgres_password_file: Path | None = None
    keys_dir: Path | None = None
    """Signing and key-encryption keys, the same on each replica; unset: `keys` beside the data."""
    mark_dir: Path | None = None
    """High-water marks, never in the database's own backup; unset: `mark` in the data folder."""
    migrate: bool = True
    tenant: str = "default"
    """The tenant of the embedded default, made with its origin at the first start."""
    origin: str = ""
    """Name of a tenant's first log; unset: `ledger.local/` and 26 random characters."""

    # How it is reached
    listen: str = "127.0.0.1:7420"
    tls_certificate: Path | None = None
    tls_private_key: Path | None = None
    tls_client_ca: Path | None = None
    """Callers must show a certificate of this authority."""
    plaintext_beyond_loopback: bool = False
    """Only where something else keeps others off the port, such as a container published on the
    host's loopback address."""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_keys: Path | None = None
    """JSON Web Key Set of the issuer."""
    reflection: bool = False
    """Answers gRPC reflection to callers that are authenticated."""
    ready_file: Path | None = None
    """Written when the server serves: one JSON object with `address` and `pid`."""
    stop_with_stdin: bool = False
    """Stops, as told by SIGTERM, when standard input is closed: never outlives who started it."""
    metrics_listen: str = ""
    """Prometheus metrics over HTTP, on a loopback address only; unset: none."""

    # What it says
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # Limits (contract, section 12)
    payload_bytes_max: int = Field(default=_LIMITS.payload_bytes_max, ge=1, le=64 << 20)
    message_bytes_max: int = Field(default=_LIMITS.message_bytes_max, ge=64 << 10, le=256 << 20)
    commands_max: int = Field(default=_LIMITS.commands_max, ge=1, le=10_000)
    steps_max: int = Field(default=_LIMITS.steps_max, ge=1, le=4_000)
    after_max: int = Field(default=_LIMITS.after_max, ge=0, le=64)
    evidence_max: int = Field(default=_LIMITS.evidence_max, ge=1, le=32)
    labels_max: int = Field(default=_LIMITS.labels_max, ge=0, le=16)
    answer_bytes_max: int = Field(default=_LIMITS.answer_bytes_max, ge=64 << 10, le=256 << 20)
    page_max: int = Field(default=_LIMITS.page_max, ge=1, le=10_000)
    page_default: int = Field(default=_LIMITS.page_default, ge=1, le=10_000)
    streams_max: int = Field(default=_LIMITS.streams_max, ge=1, le=10_000)
    requests_max: int = Field(default=_LIMITS.requests_max, ge=1, le=100_000)

    # Time
    reading_threads: int = Field(default=4, ge=1, le=64)
    drain_ms_max: int = Field(default=20_000, ge=0, le=600_000)
    """How long a stopping server takes reports of started work and works off what it accepted."""
    drain_quiet_ms: int = Field(default=500, ge=0, le=60_000)
    """A stopping server ends once no report came for so long."""
    sign_ms: int = Field(default=1_000, ge=10, le=3_600_000)
    """How often heads that moved are signed without being asked."""
    sweep_ms: int = Field(default=1_000, ge=10, le=3_600_000)
    """How often it looks for runs whose holder is dead."""
    check_ms: int = Field(default=5_000, ge=100, le=600_000)
    """How often the store is asked whether it still keeps its promises."""
    poll_ms: int = Field(default=1_000, ge=10, le=60_000)
    """How often watchers look without being woken."""
    policies_file: Path | None = None
    """Rules for deciding: who has to agree, and margins by tool, for all tenants or single ones."""
    open_steps_max: int = Field(default=OPEN_STEPS_MAX, ge=1, le=OPEN_STEPS_MAX)
    """How many steps of a run may be planned or started at once."""
    settle_margin_ms: int = Field(default=0, ge=0, le=604_800_000)
    """How long past an operation deadline `not_executed` stays refused."""

    # What is recorded of access (contract, section 10); rates are for each principal
    access_refusals_per_minute_max: int = Field(default=_ACCESS.refusals_per_minute_max, ge=1)
    """Refusals with entries of their own; those beyond are counted, and the count is recorded."""
    access_reads_per_minute_max: int = Field(default=_ACCESS.reads_per_minute_max, ge=1)
    """Recorded reads: payloads, pages of the access log. Those beyond are refused."""
    access_queued_max: int = Field(default=_ACCESS.queued_max, ge=1)
    """Entries of the access log that may wait to be written."""
    access_counts_ms: int = Field(default=_ACCESS.suppressed_ms, ge=10, le=3_600_000)
    """How long refusals may stay only counted in memory."""

    def access(self) -> AccessSettings:
        """How the access log is kept."""
        return AccessSettings(
            refusals_per_minute_max=self.access_refusals_per_minute_max,
            reads_per_minute_max=self.access_reads_per_minute_max,
            queued_max=self.access_queued_max,
            suppressed_ms=self.access_counts_ms,
        )

    @property
    def limits(self) -> Limits:
        """The limits as one value."""
        return Limits(**{field.name: getattr(self, field.name) for field in fields(Limits)})

    def policies(self) -> Policies:
        """What each tenant's decisions are bound by. Raises `OSError` and `Malformed` where the
        file cannot be read or is not understood."""
        under = Policy(
            settle_margin_us=self.settle_margin_ms * 1_000, open_steps_max=self.open_steps_max
        )
        if self.policies_file is None:
            return Policies(under)
        return read_policies(self.policies_file, under=under)

    @property
    def keys_folder(self) -> Path:
        """Where keys stand."""
        return self.keys_dir or self.folder / "keys"

    @property
    def mark_folder(self) -> Path:
        """Where high-water marks stand."""
        return self.mark_dir or self.folder / "mark"

    @property
    def store_url(self) -> str:
        """The store's address, as `ledger.store.opening.open_store` takes it."""
        if self.store == "sqlite":
            return f"sqlite:{quote(str(self.folder / 'ledger.db'))}"
        return self.postgres_dsn if self.store == "postgres" else self.store

    def store_address(self) -> str:
        """`store_url` with the password of `postgres_password_file` filled in. Holds a secret."""
        if self.postgres_password_file is None:
            return self.store_url
        parts = urlsplit(self.store_url)
        user, _, place = parts.netloc.rpartition("@")
        password = self.postgres_password_file.read_text(encoding="utf-8").strip()
        netloc = f"{user.partition(':')[0]}:{quote(password, safe='')}@{place}"
        return urlunsplit(parts._replace(netloc=netloc))

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.store == "postgres" and not self.postgres_dsn:
            raise ValueError("LEDGER_STORE is postgres: name the database in LEDGER_POSTGRES_DSN")
        if not self.store_url.startswith(("sqlite:", "postgresql:", "postgres:")):
            raise ValueError("LEDGER_STORE is sqlite, sqlite:PATH, postgres or postgresql://...")
        if (self.tls_certificate is None) != (self.tls_private_key is None):
            raise ValueError("LEDGER_TLS_CERTIFICATE and LEDGER_TLS_PRIVATE_KEY go together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("LEDGER_TLS_CLIENT_CA needs LEDGER_TLS_CERTIFICATE")
        jwt = (bool(self.jwt_issuer), bool(self.jwt_audience), self.jwt_keys is not None)
        if any(jwt) and not all(jwt):
            raise ValueError(
                "LEDGER_JWT_ISSUER, LEDGER_JWT_AUDIENCE and LEDGER_JWT_KEYS go together"
            )
        if self.page_default > self.page_max:
            raise ValueError("LEDGER_PAGE_DEFAULT is above LEDGER_PAGE_MAX")
        if self.payload_bytes_max > self.message_bytes_max:
            raise ValueError("LEDGER_PAYLOAD_BYTES_MAX is above LEDGER_MESSAGE_BYTES_MAX")
        self._stay_on_loopback()
        return self

    def _stay_on_loopback(self) -> None:
        if self.metrics_listen and not is_loopback(host_of(self.metrics_listen)):
            raise ValueError("LEDGER_METRICS_LISTEN is not a loopback address")
        allowed = self.tls_certificate is not None or self.plaintext_beyond_loopback
        if not allowed and not is_loopback(host_of(self.listen)):
            raise ValueError(
                "LEDGER_LISTEN is not a loopback address and there is no TLS: tokens and records "
                "would cross a network in the clear. Set LEDGER_TLS_CERTIFICATE and "
                "LEDGER_TLS_PRIVATE_KEY, or listen on 127.0.0.1"
            )


def host_of(address: str) -> str:
    """The host of `host:port`, without the brackets of an IPv6 address."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise ValueError(f"{address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]")


def port_of(address: str) -> int:
    """The port of `host:port`."""
    return int(address.rpartition(":")[2])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. A name but localhost may resolve to anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
