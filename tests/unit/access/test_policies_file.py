"""The policies file: it comes before the environment, and nothing that it says is guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.errors import Malformed
from ledger.core.ids import Tenant
from ledger.core.policy import Policy
from ledger.core.vocabulary import EffectClass
from ledger.policies_file import read_policies
from ledger.settings import Settings

UNDER = Policy(settle_margin_us=3_000_000, open_steps_max=500)


def _read(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policies.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_tenants_rules_come_before_those_for_all_and_those_before_the_environment(
    tmp_path: Path,
) -> None:
    text = """{
      "all": {"four_eyes": ["NON_IDEMPOTENT_WRITE"], "settle_margin_ms_by_tool": {"pay": 60000}},
      "tenants": {"acme": {"four_eyes": [], "settle_margin_ms": 1}}
    }"""
    policies = read_policies(_read(tmp_path, text), under=UNDER)
    others, acme = policies.of(Tenant("others")), policies.of(Tenant("acme"))
    assert others.four_eyes == {EffectClass.NON_IDEMPOTENT_WRITE}
    assert (others.margin_us("pay"), others.margin_us("send")) == (60_000_000, 3_000_000)
    assert (acme.four_eyes, acme.margin_us("send")) == (frozenset(), 1_000)
    assert (acme.margin_us("pay"), acme.open_steps_max) == (60_000_000, 500)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"all": {"four_eye": []}}', "policies.json:all.four_eye"),
        ('{"all": {"four_eyes": ["WRITES"]}}', "policies.json:all.four_eyes.0"),
        ('{"tenants": {"a": {"open_steps_max": 2001}}}', "policies.json:tenants.a.open_steps_max"),
        ('{"all": {"settle_margin_ms": -1}}', "policies.json:all.settle_margin_ms"),
        ("{", "policies.json"),
    ],
)
def test_what_is_not_understood_is_named_and_nothing_is_taken(
    tmp_path: Path, text: str, path: str
) -> None:
    with pytest.raises(Malformed) as caught:
        read_policies(_read(tmp_path, text), under=UNDER)
    assert caught.value.path == path


def test_the_settings_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _read(tmp_path, '{"all": {"four_eyes": ["IDEMPOTENT_WRITE"]}}')
    monkeypatch.setenv("LEDGER_POLICIES_FILE", str(path))
    monkeypatch.setenv("LEDGER_SETTLE_MARGIN_MS", "7")
    policy = Settings().policies().of(Tenant("any"))
    assert policy.needs_two(EffectClass.IDEMPOTENT_WRITE)
    assert not policy.needs_two(EffectClass.NON_IDEMPOTENT_WRITE)
    assert policy.settle_margin_us == 7_000
