"""What can be checked of Dockerfile and docker-compose.yml without a container engine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.house.sources import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

SECRET_WORD = re.compile(r"(password|secret|token|_key)$", re.IGNORECASE)


def instructions() -> Iterator[tuple[str, str]]:
    """(instruction, rest) of each line of the Dockerfile, continued lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word.upper(), rest.strip()


def words_of(instruction: str) -> list[str]:
    """The rest of every line that begins with one instruction, in order."""
    return [rest for word, rest in instructions() if word == instruction]


def is_pinned(image: str) -> bool:
    """Whether an image names a version of at least two numbers, which does not move by much."""
    return re.search(r":\d+\.\d+", image) is not None


def ledger_commands() -> dict[str, list[str]]:
    """What the two files ask the `ledger` command to do, by the place that asks."""
    asked = {
        f"{name}: command": service["command"]
        for name, service in SERVICES.items()
        if "build" in service
    }
    for name, service in SERVICES.items():
        test = service.get("healthcheck", {}).get("test", [])
        if test[1:2] == ["ledger"]:
            asked[f"{name}: healthcheck"] = test[2:]
    asked["Dockerfile: CMD"] = yaml.safe_load(words_of("CMD")[-1])
    asked["Dockerfile: HEALTHCHECK"] = yaml.safe_load(
        words_of("HEALTHCHECK")[-1].partition(" CMD ")[2]
    )[1:]
    return asked


def test_the_services_are_the_server_its_migration_and_postgresql() -> None:
    assert SERVICES.keys() == {"postgres", "migrate", "server"}
    assert is_pinned(SERVICES["postgres"]["image"])
    assert SERVICES["postgres"]["image"].startswith("postgres:18.")


def test_every_image_is_pinned_and_the_product_is_built_in_two_stages() -> None:
    stages = [rest.split()[0] for rest in words_of("FROM")]
    assert len(stages) == 2
    assert all(is_pinned(image) for image in stages)
    assert len(set(stages)) == 1, "an interpreter's environment moves only to its own image"


def test_the_image_runs_as_a_user_that_is_not_root() -> None:
    user = words_of("USER")[-1]
    assert user.split(":")[0] not in {"root", "0"}
    last_stage = DOCKERFILE.rpartition("FROM ")[2]
    assert f"\nUSER {user}\n" in last_stage


def test_ports_are_published_on_the_loopback_address_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:7420:7420"]
    assert words_of("EXPOSE") == ["7420"]


def test_postgresql_is_reached_from_inside_only_and_keeps_its_durable_settings() -> None:
    assert SERVICES["postgres"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    settings = set(SERVICES["postgres"]["command"].split()) - {"postgres", "-c"}
    assert settings == {"fsync=on", "full_page_writes=on", "synchronous_commit=on"}


def test_what_stays_running_has_a_health_check_and_starts_in_order() -> None:
    for name in ("postgres", "server"):
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
        assert SERVICES[name]["restart"] == "unless-stopped"
    assert SERVICES["server"]["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_what_must_outlive_a_container_is_in_a_named_volume() -> None:
    mounted = {
        name: [tuple(volume.split(":")) for volume in service["volumes"]]
        for name, service in SERVICES.items()
    }
    kept = SERVICES["server"]["environment"]["LEDGER_DATA"]
    assert mounted["server"] == mounted["migrate"] == [("ledger", kept)]
    assert mounted["postgres"] == [("postgres", "/var/lib/postgresql")]
    assert COMPOSE["volumes"].keys() == {"ledger", "postgres"}
    assert f"LEDGER_DATA={kept}" in DOCKERFILE


def test_no_secret_stands_in_either_file() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert not SECRET_WORD.search(name), f"{name} belongs in a file"
            assert not re.search(r"//[^/@]*:[^/@]*@", str(value)), f"{name} holds a password"
    assert all(secret.keys() == {"file"} for secret in COMPOSE["secrets"].values())
    assert not [rest for word, rest in instructions() if word == "ARG"]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "secrets/" in ignored


def test_the_image_is_built_from_files_that_exist_and_are_let_in() -> None:
    copied = [
        source
        for rest in words_of("COPY")
        if not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied
    for source in copied:
        assert f"!{source}" in let_in
        assert source == "server.py" or (ROOT / source).exists()


@pytest.mark.skipif(
    not (ROOT / "ledger" / "cli").exists(), reason="the command line is not written yet"
)
@pytest.mark.parametrize("place", sorted(ledger_commands()))
def test_every_command_of_the_containers_is_one_that_the_command_line_knows(place: str) -> None:
    command, *options = ledger_commands()[place]
    ended = subprocess.run(
        [sys.executable, "-c", "from ledger.cli import main; main()", command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "COLUMNS": "200"},
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for option in options:
        assert not option.startswith("--") or option in ended.stdout
