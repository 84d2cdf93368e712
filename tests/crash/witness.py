"""Calls that remember what was acknowledged, and the log held against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc

from ledger.core.entry import Entry
from ledger.keyring import Keyring
from ledger.store.opening import open_store
from ledger.tenants import Tenants
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from ledger.vault import Vault
from tests.crash.appends import Append, Made
from tests.crash.mortal_server import MortalServer
from tests.support.calls import TIMEOUT_S, Calls
from tests.support.oracle import verify_log
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log


class Acknowledged:
    """Every append that was acknowledged to anybody: index and leaf hash."""

    def __init__(self) -> None:
        self.leaves: dict[int, bytes] = {}

    def hear(self, answer: Any) -> None:
        """Takes what an answer promises."""
        for append in _appends_of(answer):
            known = self.leaves.setdefault(append.index, append.leaf_hash)
            assert known == append.leaf_hash, "one index was acknowledged with two leaves"
            assert append.tree_size > append.index

    def verify(self, server: LedgerServer, *, access: bool = True) -> list[Entry]:
        """Verifies the server's whole log, and that nothing acknowledged is missing from it."""
        entries = verify_whole_log(server, access=access)
        self.verify_in(entries)
        return entries

    def verify_in(self, entries: list[Entry]) -> None:
        """Nothing acknowledged is missing from the entries."""
        for index, leaf in self.leaves.items():
            assert index < len(entries), "an acknowledged entry is missing"
            assert entries[index].leaf_hash == leaf


class WitnessedCalls(Calls):
    """Calls as one principal, each answer heard."""

    def __init__(
        self, server: LedgerServer, acknowledged: Acknowledged, principal: str = "runtime"
    ) -> None:
        super().__init__(server, principal)
        self._acknowledged = acknowledged

    def call(self, method: str, message: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """See `Calls.call`."""
        answer = super().call(method, message, timeout_s=timeout_s)
        self._acknowledged.hear(answer)
        return answer


class Witness:
    """A server's log under the eyes of one that keeps every acknowledgement."""

    def __init__(self, server: MortalServer) -> None:
        self.server = server
        self.acknowledged = Acknowledged()

    def made(self, kind: Made, run: str) -> Append:
        """Makes the state for an append of that kind."""
        calls = self.calls()
        try:
            return kind(calls, run)
        finally:
            calls.close()

    def calls(self, principal: str = "runtime") -> WitnessedCalls:
        """New calls; the caller closes them."""
        return WitnessedCalls(self.server, self.acknowledged, principal)

    def send(self, append: Append, *, timeout_s: float = TIMEOUT_S) -> Any:
        """Sends an append and answers what came, or the error that came instead."""
        calls = self.calls(append.principal)
        try:
            return calls.call(append.method, append.message, timeout_s=timeout_s)
        except grpc.RpcError as error:
            return error
        finally:
            calls.close()

    def verify(self, *, access: bool = True) -> list[Entry]:
        """See `Acknowledged.verify`."""
        return self.acknowledged.verify(self.server, access=access)

    def verify_rows(self) -> list[Entry]:
        """Everything that must hold of the store's rows, inline projections included, whether the
        server runs or not. Only after a first start."""
        store = open_store(self.server.store_url)
        try:
            keyring = Keyring.load(self.server.keys)
            (log,) = Tenants(store, Vault(keyring)).all()
            entries = verify_log(store, log, keyring)
        finally:
            store.close()
        self.acknowledged.verify_in(entries)
        return entries

    def verify_once(self, append: Append, answer: Any) -> None:
        """The log holds what the append stands for exactly once, and the answer tells where."""
        entries = self.verify()
        for request_id, count in append.entries.items():
            found = of_request(entries, request_id)
            assert [part for part, _ in found] == list(range(count))
        told = {promised.index: promised for promised in _appends_of(answer)}
        for request_id, count in append.entries.items():
            last = of_request(entries, request_id)[-1][1]
            promised = told.pop(last.index, None)
            if promised is None:
                assert request_id in append.by_state, "what was appended is not told"
                continue
            assert promised.leaf_hash == last.leaf_hash
            assert promised.entries == count
            assert promised.tree_size <= len(entries)
        assert not told, "an append is told that is none"


def of_request(entries: list[Entry], request_id: str) -> list[tuple[int, Entry]]:
    """The entries of a request id with their parts, in the log's order."""
    found = []
    for entry in entries:
        request = entry.event["request"]
        assert isinstance(request, dict)
        if request["id"] == request_id and not entry.run_id.startswith("_"):
            found.append((int(str(request["part"])), entry))
    return found


def _appends_of(answer: Any) -> Iterator[types_pb2.Append]:
    if isinstance(answer, pb.SubmitResponse):
        for result in answer.results:
            which = result.WhichOneof("result")
            assert which is not None
            if which != "error":
                yield from _appends_of(getattr(result, which))
    elif "append" in answer.DESCRIPTOR.fields_by_name and answer.HasField("append"):
        yield answer.append


UNAVAILABLE: Final = grpc.StatusCode.UNAVAILABLE
