#!/usr/bin/env python3
"""A client of Gapless in Python: writes, retries, reads, follows, and believes nothing that it cannot compute.

With `gapless dev` in another terminal, from the root of the repository:

    python3 -m venv venv && venv/bin/pip install grpcio grpcio-tools
    mkdir -p stubs
    venv/bin/python -m grpc_tools.protoc -I crates/api/proto --python_out=stubs --grpc_python_out=stubs \\
        crates/api/proto/gapless/v1/*.proto
    PYTHONPATH=stubs venv/bin/python examples/python/ledger.py 127.0.0.1:7400 demo 1

The stubs are all that knows the protocol; the rest is grpcio and the standard library.
"""

import json
import sys
import uuid

import grpc
from gapless.v1 import ledger_pb2 as ledger
from gapless.v1 import ledger_pb2_grpc as services
from gapless.v1 import write_pb2 as write

import proofs


class Shop:
    """One workspace of a namespace, seen by one client."""

    def __init__(self, channel, namespace, workspace):
        self.calls = services.LedgerStub(channel)
        self.place = {"namespace": namespace, "workspace": workspace}

    def sell(self, amount, key):
        """An event with an invoice number. The key is chosen once for what is intended, and kept for every retry of it."""
        request = write.WriteRequest(
            **self.place,
            client_id="python",
            idempotency_key=key,
            event_type="ItemSold",
            payload=json.dumps({"amount": amount}).encode(),
            operations=[write.Operation(next_number=write.NextNumber(sequence="invoice"))],
            include_tx_proof=True,
        )
        answer = self.calls.Write(request, timeout=10)
        if answer.HasField("error"):
            raise SystemExit(f"refused: {answer.error.message}")
        return answer.success

    def events(self, first):
        """What happened from an offset on, until now."""
        request = ledger.ReadWorkspaceRequest(**self.place, **{"from": first})
        return [answer.event for answer in self.calls.ReadWorkspace(request, timeout=10)]

    def follow(self, first):
        """What happened from an offset on, then what happens, without a seam."""
        return self.calls.Subscribe(ledger.SubscribeRequest(**self.place, **{"from": first}), timeout=60)

    def check_history(self, kept):
        """Holds what was kept of an event, its block header, against what the ledger says of its history now."""
        proof = self.calls.GetInclusionProof(
            ledger.GetInclusionProofRequest(**self.place, workspace_offset=kept.height), timeout=10
        )
        if proofs.leaf_hash(proof.leaf) != kept.leaf_hash:
            raise SystemExit(f"event {kept.height} is not the one that was written")
        now = proof.proof
        proofs.check_inclusion(kept.leaf_hash, kept.height - 1, now.tree_size, now.root, now.hashes)
        older = self.calls.GetConsistencyProof(
            ledger.GetConsistencyProofRequest(**self.place, old_size=kept.height, new_size=now.tree_size), timeout=10
        )
        proofs.check_consistency(kept.height, kept.root, now.tree_size, now.root, older.hashes)
        return now.tree_size


def main(address, namespace, workspace):
    with grpc.insecure_channel(address) as channel:
        shop = Shop(channel, namespace, int(workspace))

        key = uuid.uuid4().bytes
        first = shop.sell(3, key)
        print(f"sold: event {first.workspace_offset}, invoice {first.numbers['invoice']}")

        again = shop.sell(3, key)
        assert again.duplicate and not first.duplicate
        again.duplicate = False
        assert again == first, "a retry gets the first answer"
        print(f"retried: still event {again.workspace_offset}, nothing was done")

        read = shop.events(first.workspace_offset)
        print(f"read: {[json.loads(event.payload) for event in read]}")

        followed = shop.follow(first.workspace_offset)
        before = next(followed).event
        second = shop.sell(4, uuid.uuid4().bytes)
        live = next(followed).event
        followed.cancel()
        assert (before.workspace_offset, live.workspace_offset) == (first.workspace_offset, second.workspace_offset)
        print(f"followed: event {before.workspace_offset}, then live event {live.workspace_offset}")

        size = shop.check_history(first.block_header)
        print(f"proven: event {first.workspace_offset} is one of {size}, and its past is unchanged")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: ledger.py ADDRESS NAMESPACE WORKSPACE")
    main(*sys.argv[1:])
