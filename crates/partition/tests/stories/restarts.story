# Checkpoints, crashes, lost stores.

story: A crash loses nothing that the replicated log has.
shop
----
defined

write ws=1
 create raw=1 order
 number invoice
 set cart value=a
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  invoice 1

restart
----
opened: checkpoint at nothing, folded 0

write ws=1 expect=1
 create raw=1 order
 number invoice
 set cart value=b if=version:1
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000
  record 1 is 200002
  invoice 2

workspaces
----
1 of kind default at 2, records to 200002

story: A checkpoint shortens what is folded.
shop
----
defined

write ws=1
 create raw=1 order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001

checkpoint
----
checkpoint at 2

write ws=2
 create raw=1 order
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  record 1 is 200001

restart
----
opened: checkpoint at 2, folded 0

workspaces
----
1 of kind default at 1, records to 200001
2 of kind default at 1, records to 200001

checkpoint
----
checkpoint at 3

close
----
opened: checkpoint at 3, folded 0

write ws=1
 create raw=1 order
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  record 1 is 200002

write ws=2
 create raw=1 order
----
committed 5: workspace offset 2, client sequence 2, log index 14, time 1000
  record 1 is 200002

close
----
opened: checkpoint at 3, folded 2

survives
----
the same after a crash and after rebuilding

story: A store that is gone is rebuilt from the partition log.
shop
----
defined

write ws=1
 create id=200009 order a=1
 number credit
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  credit 5000

write ws=1
 update 200009 b=2
 delete x if=present
----
refused: KeyNotFound in operation 1, key x
  the entity does not exist

write ws=1
 update 200009 b=2
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000

checkpoint
----
checkpoint at 4

discard
----
opened: checkpoint at nothing, folded 4

records 1
----
200009 order created 1 changed 2 a=1 b=2

write ws=1 expect=2
 create raw=1 order
 number credit
----
committed 5: workspace offset 3, client sequence 3, log index 14, time 1000
  record 1 is 200010
  credit 5001

survives
----
the same after a crash and after rebuilding

story: An empty partition restarts empty.
restart
----
opened: checkpoint at nothing, folded 0

checkpoint
----
checkpoint at nothing

close
----
opened: checkpoint at nothing, folded 0

outcomes
----
nothing

workspaces
----
nothing

schema
----
nothing

time
----
0 at outcome nothing

shop
----
defined

story: A definition in the tail is known after a crash.
shop
----
defined

checkpoint
----
checkpoint at 1

define shop
kind default invoice=1 credit=5000 zebra=3
kind till receipt=100
singleton profile
singleton settings
----
defined

write ws=1
 number zebra
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  zebra 3

close
----
opened: checkpoint at 1, folded 2

write ws=1
 number zebra
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  zebra 4

survives
----
the same after a crash and after rebuilding
