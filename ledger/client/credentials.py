"""Where to call and with which token, which channel is safe to send it over, and the channel's
options.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import grpc

from ledger.client.errors import CredentialMissing, InvalidRequest, Violation

TOKEN_ID: Final = "runtime"  # noqa: S105 - the id of a token file, not a token
DEFAULT_TARGET: Final = "127.0.0.1:7420"
TokenSource: TypeAlias = Callable[[], str]
"""Gives the bearer token for the next call."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS, and mutual TLS where a client certificate is given. All PEM bytes.

    Without `root_certificates` the system's are used.
    """

    root_certificates: bytes | None = None
    certificate_chain: bytes | None = None
    private_key: bytes | None = field(default=None, repr=False)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """gRPC's own form."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.root_certificates,
            private_key=self.private_key,
            certificate_chain=self.certificate_chain,
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect, how, and as whom."""

    target: str
    token: TokenSource | None
    tls: Tls | None
    message_bytes_max: int

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The call's credential; none where the client certificate is the identity."""
        return () if self.token is None else (("authorization", f"Bearer {self.token()}"),)

    def options(self) -> list[tuple[str, int]]:
        """Channel options.

        Pings each 20 s are twice as rare as the default server allows. Retries are ours alone, by
        request id. A lost server is looked for at least every second, so that the first calls after
        a restart find it; one attempt to connect, handshake included, may take two.
        """
        options = [
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.max_send_message_length", self.message_bytes_max + 4096),
            ("grpc.max_receive_message_length", -1),
        ]
        if is_loopback(self.target):
            options.append(("grpc.enable_http_proxy", 0))
        return options


def endpoint(
    target: str,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    token_id: str = TOKEN_ID,
    tls: Tls | None = None,
    allow_plaintext: bool = False,
    message_bytes_max: int,
) -> Endpoint:
    """An endpoint whose token is never sent in the clear beyond this machine, unless asked for.

    The token is `token`, else the file `token_file`, else `LEDGER_TOKEN_FILE`, else
    `<data folder>/tokens/<token_id>`; with a client certificate it may be absent. Raises
    `CredentialMissing` where none is found, and `InvalidRequest` for plaintext to another machine.
    """
    if tls is None and not allow_plaintext and not is_loopback(target):
        raise InvalidRequest(
            Violation(
                "target",
                "is another machine and no TLS was given; pass tls=Tls(...), or "
                "allow_plaintext=True where the network itself is trusted",
            )
        )
    source = _source(token, token_file, token_id, required=tls is None or not tls.private_key)
    return Endpoint(target, source, tls, message_bytes_max)


def find_target(target: str | None, *, environment: Mapping[str, str] | None = None) -> str:
    """The target given, else `LEDGER_SERVER`, else where a server stands that was told nothing."""
    environment = os.environ if environment is None else environment
    return target or environment.get("LEDGER_SERVER") or DEFAULT_TARGET


def is_loopback(target: str) -> bool:
    """Whether a gRPC target stays on this machine: a unix socket, localhost or a loopback
    address.
    """
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    address = target
    for scheme in ("dns:///", "dns:", "ipv4:", "ipv6:"):
        address = address.removeprefix(scheme)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        host = address
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token_file(token_id: str, *, environment: Mapping[str, str] | None = None) -> Path:
    """`LEDGER_TOKEN_FILE`, else `tokens/<token_id>` in `LEDGER_DATA`, else in `./ledger-data`."""
    environment = os.environ if environment is None else environment
    named = environment.get("LEDGER_TOKEN_FILE")
    if named:
        return Path(named)
    return Path(environment.get("LEDGER_DATA") or "ledger-data") / "tokens" / token_id


class TokenFile:
    """A token file, read again whenever it was replaced, so that rotated tokens are picked up."""

    __slots__ = ("_path", "_seen", "_token")

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises `CredentialMissing` where that fails."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""
        self()

    def __call__(self) -> str:
        """The token as the file holds it now."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen != self._seen:
                self._token = self._path.read_text("ascii").strip()
                self._seen = seen
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialMissing(
                f"the token file {self._path} could not be read ({type(error).__name__}). Nothing "
                "was sent. Give token=, token_file= or LEDGER_TOKEN_FILE, or run where the "
                "server's data folder is (LEDGER_DATA, else ./ledger-data)."
            ) from error
        if not self._token:
            raise CredentialMissing(f"the token file {self._path} is empty. Nothing was sent.")
        return self._token


def _source(
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    token_id: str,
    *,
    required: bool,
) -> TokenSource | None:
    if token is not None:
        return lambda: token
    if token_file is not None:
        return TokenFile(Path(token_file))
    path = find_token_file(token_id)
    if not required and not path.exists():
        return None
    return TokenFile(path)
