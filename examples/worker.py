"""Totals by day, computed by any number of such workers exactly as by one: `worker.py ADDRESS NAMESPACE PROJECTION`.
The stubs of the protocol are made as python/ledger.py says; the rest is grpcio and the standard library."""
import grpc, json, os, queue, sys, time
from gapless.v1 import projections_pb2 as p, projections_pb2_grpc as services
token = lambda slot: p.HeldSlot(partition=slot.partition, slot=slot.slot, token=slot.token)

def commit(calls, place, slot):
    """The row of the event's day as it shall be, with the version it was computed from."""
    fields = json.loads(slot.event.payload)
    at = {"table": "daily", "id": fields["day"]}
    row = calls.Query(p.QueryRequest(**place, **at, workspace=slot.event.workspace), timeout=30).rows[0]
    total, count, last = 0, 0, 0
    if slot.event.event_type == "ItemSold":
        total, count, last = row.columns["total"].integer, row.columns["n"].integer + 1, fields["amount"]
    columns = {name: p.ColumnValue(integer=value) for name, value in zip(("total", "n", "last"), (total + last, count, last))}
    rows, reads = [p.RowWrite(**at, columns=columns)], [p.RowRead(**at, version=row.version)]
    return p.WorkRequest(commit=p.WorkCommit(held=token(slot), content=p.CommitContent(rows=rows, reads=reads)))

def work(calls, place, held):
    """One stream. If it breaks, what is held is named on the next one, and what still holds is done again."""
    requests = queue.SimpleQueue()
    requests.put(p.WorkRequest(hello=p.WorkHello(**place, worker=f"python-{os.getpid()}", credits=8)))
    requests.put(p.WorkRequest(resume=p.WorkResume(held=[token(slot) for slot in held.values()])))
    for response in calls.Work(iter(requests.get, None)):
        slots, told = list(response.granted.slots), response.fenced if response.HasField("fenced") else response.answered
        if response.answered.HasField("renewed"):
            slots = [held[told.held.partition, told.held.slot]]
        else:
            held.pop((told.held.partition, told.held.slot), None)
        for slot in slots:
            held[slot.partition, slot.slot] = slot
            requests.put(commit(calls, place, slot))

place, held = {"namespace": sys.argv[2], "projection": sys.argv[3]}, {}
while True:
    try:
        with grpc.insecure_channel(sys.argv[1]) as channel:
            work(services.ProjectionsStub(channel), place, held)
    except grpc.RpcError as error:
        print(f"broken off: {error.code().name}", file=sys.stderr, flush=True) or time.sleep(0.1)
