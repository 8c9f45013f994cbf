# Events, workspaces, kinds, clients, expected offsets, time.

story: Nothing can be written before the namespace is defined.
write ws=1
----
refused: WrongKind
  the namespace is not defined

outcomes
----
1 Refusal, workspace 1, till, log index 10, time 1000

shop
----
defined

write ws=1
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

workspaces
----
1 of kind default at 1

story: A write that names no workspace goes to the namespace's own.
shop
----
defined

write payload=hello meta.by=ann meta.shift=2
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

events 0
----
2 Event, workspace 0 of kind 1 at 1, till at 1, log index 11, time 1000
  Sold application/json hello by=ann shift=2

workspaces
----
0 of kind default at 1

story: Every workspace counts its events, every client its own, the partition all outcomes.
shop
----
defined

write ws=1 client=ann
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=2 client=ann
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

write ws=1 client=bob expect=9
----
refused: OffsetMismatch, now at 1
  the workspace log ends at 1, not at 9

write ws=1 client=bob
----
committed 5: workspace offset 2, client sequence 1, log index 14, time 1000

write ws=1 client=ann
----
committed 6: workspace offset 3, client sequence 2, log index 15, time 1000

client 1 ann
----
2

client 1 bob
----
1

client 2 bob
----
nothing

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Event, workspace 1 of kind 1 at 1, ann at 1, log index 11, time 1000
3 Event, workspace 2 of kind 1 at 1, ann at 1, log index 12, time 1000
4 Refusal, workspace 1 of kind 1, bob, log index 13, time 1000
5 Event, workspace 1 of kind 1 at 2, bob at 1, log index 14, time 1000
6 Event, workspace 1 of kind 1 at 3, ann at 2, log index 15, time 1000

outcomes from=4 limit=2 down
----
4 Refusal, workspace 1 of kind 1, bob, log index 13, time 1000
3 Event, workspace 2 of kind 1 at 1, ann at 1, log index 12, time 1000

outcomes limit=1 down
----
6 Event, workspace 1 of kind 1 at 3, ann at 2, log index 15, time 1000

outcomes limit=2
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Event, workspace 1 of kind 1 at 1, ann at 1, log index 11, time 1000

outcomes from=6 limit=9
----
6 Event, workspace 1 of kind 1 at 3, ann at 2, log index 15, time 1000

outcomes from=7
----
nothing

events 1 from=2
----
5 Event, workspace 1 of kind 1 at 2, bob at 1, log index 14, time 1000
  Sold application/json {}
6 Event, workspace 1 of kind 1 at 3, ann at 2, log index 15, time 1000
  Sold application/json {}

events 1 limit=1 down
----
6 Event, workspace 1 of kind 1 at 3, ann at 2, log index 15, time 1000
  Sold application/json {}

events 1 from=2 down
----
5 Event, workspace 1 of kind 1 at 2, bob at 1, log index 14, time 1000
  Sold application/json {}
2 Event, workspace 1 of kind 1 at 1, ann at 1, log index 11, time 1000
  Sold application/json {}

events 3
----
nothing

workspaces after=1
----
2 of kind default at 1

workspaces limit=1
----
1 of kind default at 3

workspace 2
----
2 of kind default at 1

workspace 3
----
nothing

survives
----
the same after a crash and after rebuilding

story: The kind of a workspace is fixed by its first event, not by a refusal.
shop
----
defined

write ws=1 kind=till expect=4
----
refused: OffsetMismatch, now at 0
  the workspace log ends at 0, not at 4

workspace 1
----
nothing

write ws=1 kind=till
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

write ws=1
----
refused: WrongKind
  workspace 1 is of kind till, not default

write ws=1 kind=till
----
committed 5: workspace offset 2, client sequence 2, log index 14, time 1000

workspaces
----
1 of kind till at 2

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
----
refused: WrongKind
  workspace 1 is of kind till, not default

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Refusal, workspace 1 of kind 2, till, log index 11, time 1000
3 Event, workspace 1 of kind 2 at 1, till at 1, log index 12, time 1000
4 Refusal, workspace 1, till, log index 13, time 1000
5 Event, workspace 1 of kind 2 at 2, till at 2, log index 14, time 1000
6 Refusal, workspace 1, till, log index 15, time 1000

story: A kind that the namespace does not have is refused.
shop
----
defined

write ws=1 kind=bank
----
refused: WrongKind
  the namespace has no kind bank

workspaces
----
nothing

story: Every namespace has the default kind.
define shop
kind a one=1
----
defined

write ws=1
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=2 kind=a
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind a is 2, one 3 from 1
kind default is 1

story: A write may say where the workspace log must end.
shop
----
defined

write ws=1 expect=1
----
refused: OffsetMismatch, now at 0
  the workspace log ends at 0, not at 1

write ws=1 expect=0
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

write ws=1 expect=0
----
refused: OffsetMismatch, now at 1
  the workspace log ends at 1, not at 0

write ws=1 expect=1
----
committed 5: workspace offset 2, client sequence 2, log index 14, time 1000

write ws=1 expect=3
----
refused: OffsetMismatch, now at 2
  the workspace log ends at 2, not at 3

write ws=1 expect=max
----
refused: OffsetMismatch, now at 2
  the workspace log ends at 2, not at 18446744073709551615

write ws=2 expect=0
----
committed 8: workspace offset 1, client sequence 1, log index 17, time 1000

restart
----
opened: checkpoint at nothing, folded 0

write ws=1 expect=1
----
refused: OffsetMismatch, now at 2
  the workspace log ends at 2, not at 1

write ws=1 expect=2
----
committed 10: workspace offset 3, client sequence 3, log index 19, time 1000

story: A workspace of another partition is refused.
define shop partitions=3
----
defined

write ws=3
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=4
----
refused: Malformed
  workspace 4 belongs to partition 1

write ws=5
----
refused: Malformed
  workspace 5 belongs to partition 2

workspaces
----
3 of kind default at 1

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Event, workspace 3 of kind 1 at 1, till at 1, log index 11, time 1000
3 Refusal, workspace 4, till, log index 12, time 1000
4 Refusal, workspace 5, till, log index 13, time 1000

story: Log time never goes back, and survives a restart.
shop
----
defined

at 500
----
ok

write ws=1
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

at 2000
----
ok

write ws=1
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 2000

at 1500
----
ok

write ws=1
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 2000

time
----
2000 at outcome 4

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
----
committed 5: workspace offset 4, client sequence 4, log index 14, time 2000

checkpoint
----
checkpoint at 5

restart
----
opened: checkpoint at 5, folded 0

time
----
2000 at outcome 5

write ws=1
----
committed 6: workspace offset 5, client sequence 5, log index 15, time 2000

story: A record that has an outcome gets it again, another one in its place is noticed.
shop
----
defined

write ws=1
 create raw=1 order
 number invoice
 number credit
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  invoice 1
  credit 5000

write ws=1 expect=0
----
refused: OffsetMismatch, now at 1
  the workspace log ends at 1, not at 0

define other
----
definition refused
  the namespace is called shop, not other
  kind default cannot be removed
  kind till cannot be removed
  record type profile is a singleton; that cannot change
  record type settings is a singleton; that cannot change

command %ff
----
refused: Malformed
  malformed version at byte 0

apply 1
----
defined

apply 2
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  invoice 1
  credit 5000

apply 3
----
refused: OffsetMismatch, now at 1
  the workspace log ends at 1, not at 0

apply 4
----
definition refused
  the namespace is called shop, not other
  kind default cannot be removed
  kind till cannot be removed
  record type profile is a singleton; that cannot change
  record type settings is a singleton; that cannot change

apply 5
----
refused: Malformed
  malformed version at byte 0

apply 2 of=3
----
error: offset 2 holds the outcome of another record

apply 3 key=99
----
error: offset 3 holds the outcome of another record

apply 2 index=12
----
error: offset 2 holds the outcome of another record

apply 7 of=2
----
error: the next record has offset 6, not 7

apply 6 of=2
----
duplicate of 2, which was
  committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
    record 1 is 200001
    invoice 1
    credit 5000

write ws=1
----
committed 7: workspace offset 2, client sequence 2, log index 16, time 1000
