# Explicit ids and singletons.

story: An explicit id moves the sequence if it is ahead of it.
shop
----
defined

write ws=1
 create raw=1 order
 create id=200010 order self=->200010
 create raw=2 order parent=200010
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200011
  record 2 is 200012

write ws=1
 create id=200005 order
 create raw=1 order
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000
  record 1 is 200013

workspace 1
----
1 of kind default at 2, records to 200013

records 1
----
200005 order created 2 changed 2
200010 order created 1 changed 1 self=->200010
200011 order created 1 changed 1
200012 order created 1 changed 1 below 200010
200013 order created 2 changed 2

checkpoint
----
checkpoint at 3

restart
----
opened: checkpoint at 3, folded 0

write ws=1
 create raw=1 order
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 1000
  record 1 is 200014

survives
----
the same after a crash and after rebuilding

story: Explicit ids have a range, and each exists once.
shop
----
defined

write ws=1
 create id=200000 order
----
refused: InvalidRecord in operation 0
  id 200000 is below 200001

write ws=1
 create id=200001 order
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

write ws=1
 create id=200001 order
----
refused: InvalidRecord in operation 0
  record 200001 exists already

write ws=2
 create id=200001 order
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000

write ws=1
 create id=300000 order
 create id=300000 order
----
refused: InvalidRecord in operation 1
  record 300000 exists already

write ws=1
 create id=0 order
----
refused: InvalidRecord in operation 0
  id 0 is below 200001

write ws=1
 create id=65535 order
----
refused: InvalidRecord in operation 0
  id 65535 is below 200001

write ws=1
 create id=65536 order
----
refused: InvalidRecord in operation 0
  id 65536 is below 200001

write ws=1
 create id=9007199254740993 order
----
refused: InvalidRecord in operation 0
  id 9007199254740993 is above 9007199254740992

write ws=1
 create id=max order
----
refused: InvalidRecord in operation 0
  id 18446744073709551615 is above 9007199254740992

write ws=1
 create raw=1 order
 create id=9007199254740992 order
----
refused: InvalidRecord in operation 0
  the workspace has no record ids left behind 9007199254740992

write ws=1
 create id=9007199254740991 order
 create raw=1 order
 create raw=2 order
----
refused: InvalidRecord in operation 2
  the workspace has no record ids left behind 9007199254740991

write ws=1
 create id=9007199254740991 order
 create raw=1 order
----
committed 14: workspace offset 2, client sequence 2, log index 23, time 1000
  record 1 is 9007199254740992

write ws=1
 create raw=1 order
----
refused: InvalidRecord in operation 0
  the workspace has no record ids left behind 9007199254740992

write ws=1
 create id=200002 order
 create raw=1 settings
----
committed 16: workspace offset 3, client sequence 3, log index 25, time 1000
  record 1 is 65537

workspace 1
----
1 of kind default at 3, records to 9007199254740992

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
 create raw=1 order
----
refused: InvalidRecord in operation 0
  the workspace has no record ids left behind 9007199254740992

records 1
----
65537 settings created 3 changed 3
200001 order created 1 changed 1
200002 order created 3 changed 3
9007199254740991 order created 2 changed 2
9007199254740992 order created 2 changed 2

story: An import that is refused does not move the sequence.
shop
----
defined

write ws=1
 create id=200005 order
 set x if=present
----
refused: KeyNotFound in operation 1, key x
  the entity does not exist

write ws=1
 create raw=1 order
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  record 1 is 200001

workspace 1
----
1 of kind default at 1, records to 200001

story: A singleton has its fixed id, once in each workspace.
shop
----
defined

write ws=1
 create raw=1 settings theme=dark
 create raw=2 order settings=->1
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 65537
  record 2 is 200001

write ws=1
 create raw=1 settings
----
refused: InvalidRecord in operation 0
  singleton settings exists already as 65537

write ws=1
 create raw=1 profile
 create raw=2 profile
----
refused: InvalidRecord in operation 1
  singleton profile exists already as 65536

write ws=2
 create raw=7 settings
 create raw=8 profile
 update 7 a=1
 update 65536 b=2
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000
  record 7 is 65537
  record 8 is 65536

write ws=1
 update 65537 theme=light
 deactivate 65537
----
committed 6: workspace offset 2, client sequence 2, log index 15, time 1000

write ws=1
 create raw=1 settings
----
refused: InvalidRecord in operation 0
  singleton settings exists already as 65537

write ws=1
 create id=65537 settings
----
refused: InvalidRecord in operation 0
  settings is a singleton and has its own id, not 65537

write ws=2
 create id=200005 settings
----
refused: InvalidRecord in operation 0
  settings is a singleton and has its own id, not 200005

records 1
----
65537 settings created 1 changed 2 inactive theme=light
200001 order created 1 changed 1 settings=->65537

records 2
----
65536 profile created 1 changed 1 b=2
65537 settings created 1 changed 1 a=1

workspaces
----
1 of kind default at 2, records to 200001
2 of kind default at 1

survives
----
the same after a crash and after rebuilding

story: Singletons count by name within a definition, and later ones come behind.
define shop
singleton b
singleton a
plain c
----
defined

define shop
singleton b
singleton a
singleton aa
----
defined

define shop
singleton b
singleton aa
singleton a
plain c
----
defined

write ws=1
 create raw=1 a
 create raw=2 aa
 create raw=3 b
 create raw=4 c
----
committed 4: workspace offset 1, client sequence 1, log index 13, time 1000
  record 1 is 65536
  record 2 is 65538
  record 3 is 65537
  record 4 is 200001

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1
singleton a is 65536
singleton aa is 65538
singleton b is 65537

restart
----
opened: checkpoint at nothing, folded 0

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1
singleton a is 65536
singleton aa is 65538
singleton b is 65537
