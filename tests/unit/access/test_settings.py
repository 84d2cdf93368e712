"""Settings: defaults, limits, and addresses that are refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from ledger.limits import Limits
from ledger.settings import Settings, is_loopback


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEDGER_DATA", "LEDGER_STORE", "LEDGER_LISTEN"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_is_loopback_sqlite_in_the_data_folder_and_the_written_limits() -> None:
    settings = Settings()
    assert settings.listen == "127.0.0.1:7420"
    assert settings.store_url == "sqlite:ledger-data/ledger.db"
    assert settings.limits == Limits()


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_DATA", "/somewhere with space")
    monkeypatch.setenv("LEDGER_STEPS_MAX", "7")
    settings = Settings()
    assert settings.store_url == "sqlite:/somewhere%20with%20space/ledger.db"
    assert settings.limits.steps_max == 7


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:7420", "localhost:1", "127.9.9.9:5"])
def test_a_loopback_address_needs_no_tls(listen: str) -> None:
    assert Settings(listen=listen).listen == listen


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:7420", "[::]:7420", "10.0.0.1:7420", "example.org:7420", "localhost.:1"]
)
def test_any_other_address_without_tls_is_refused(listen: str) -> None:
    with pytest.raises(ValidationError, match="in the clear"):
        Settings(listen=listen)
    tls = Settings(listen=listen, tls_certificate=Path("c"), tls_private_key=Path("k"))
    assert tls.listen == listen
    assert Settings(listen=listen, plaintext_beyond_loopback=True).listen == listen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listen": "nothing"}, "not host:port"),
        ({"listen": "127.0.0.1:99999"}, "not host:port"),
        ({"store": "mysql://x"}, "LEDGER_STORE"),
        ({"store": "postgres"}, "LEDGER_POSTGRES_DSN"),
        ({"tls_certificate": Path("c")}, "go together"),
        ({"tls_client_ca": Path("c")}, "LEDGER_TLS_CERTIFICATE"),
        ({"jwt_issuer": "https://i"}, "go together"),
        ({"metrics_listen": "0.0.0.0:9464"}, "loopback"),
        ({"page_default": 1_000, "page_max": 10}, "LEDGER_PAGE_MAX"),
        ({"payload_bytes_max": 2 << 20, "message_bytes_max": 1 << 20}, "LEDGER_MESSAGE_BYTES_MAX"),
        ({"labels_max": 17}, "16"),
        ({"after_max": 65}, "64"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(**given)  # type: ignore[arg-type]


def test_the_password_comes_from_its_file_and_stands_nowhere_else(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p@ss:w/rd\n")
    settings = Settings(
        store="postgres",
        postgres_dsn="postgresql://ledger@db.example:5432/ledger?sslmode=require",
        postgres_password_file=secret,
    )
    assert settings.store_address() == (
        "postgresql://ledger:p%40ss%3Aw%2Frd@db.example:5432/ledger?sslmode=require"
    )
    assert "p%40ss" not in repr(settings)


def test_a_host_name_may_resolve_to_anything() -> None:
    assert is_loopback("localhost")
    assert not is_loopback("loopback.example")
