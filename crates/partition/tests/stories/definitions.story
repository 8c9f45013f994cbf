# Definitions of a namespace.

story: A definition stands from its record on.
define shop trust=1 window=1000 keys=5 cap=forget
kind till receipt=100
kind default
plain order
----
defined

schema
----
shop with 1 partitions, CheckEvents, keys for 1000 ms, at most 5, then ForgetOldest
kind default is 1
kind till is 2, receipt 3 from 100

define shop trust=2
kind till receipt=100
plain order
----
defined

schema
----
shop with 1 partitions, TrustAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1
kind till is 2, receipt 3 from 100

restart
----
opened: checkpoint at nothing, folded 0

schema
----
shop with 1 partitions, TrustAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1
kind till is 2, receipt 3 from 100

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Definition, workspace 0, no key, log index 11, time 1000

story: What cannot change is refused with every reason, and nothing changes.
shop
----
defined

define shop2 partitions=2
kind default invoice=2
kind bank iban=0
plain settings
----
definition refused
  the namespace is called shop, not shop2
  partitions cannot change from 1 to 2
  sequence credit of kind default cannot be removed
  sequence invoice of kind default starts at 1; that cannot change to 2
  kind till cannot be removed
  record type profile is a singleton; that cannot change
  record type settings is a singleton; that cannot change

define shop
kind default invoice=1
kind till receipt=100
singleton profile
----
definition refused
  sequence credit of kind default cannot be removed
  record type settings is a singleton; that cannot change

define shop
kind default invoice=1 credit=5000
kind till receipt=101
singleton profile
singleton settings
----
definition refused
  sequence receipt of kind till starts at 100; that cannot change to 101

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1, credit 3 from 5000, invoice 4 from 1
kind till is 2, receipt 3 from 100
singleton profile is 65536
singleton settings is 65537

apply 2
----
definition refused
  the namespace is called shop, not shop2
  partitions cannot change from 1 to 2
  sequence credit of kind default cannot be removed
  sequence invoice of kind default starts at 1; that cannot change to 2
  kind till cannot be removed
  record type profile is a singleton; that cannot change
  record type settings is a singleton; that cannot change

survives
----
the same after a crash and after rebuilding

story: What is wrong with a definition is told.
define shop window=0
----
definition refused
  idempotency needs a window and at least one key

define shop keys=0
----
definition refused
  idempotency needs a window and at least one key

define shop
kind default a=0 b=0
kind till c=0
----
definition refused
  sequence a of kind default starts at 0; the lowest number is 1
  sequence b of kind default starts at 0; the lowest number is 1
  sequence c of kind till starts at 0; the lowest number is 1

schema
----
nothing

write ws=1
----
refused: WrongKind
  the namespace is not defined

story: A record type that nobody declared can become a singleton; records of it that are there stay as they are.
define shop
----
defined

write ws=1
create raw=1 order
create raw=2 order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  record 2 is 200002

define shop
singleton order
----
defined

records 1
----
200001 order created 1 changed 1
200002 order created 1 changed 1

write ws=1
create raw=1 order
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  record 1 is 65536

write ws=1
create raw=1 order
----
refused: InvalidRecord in operation 0
  singleton order exists already as 65536

write ws=1
create id=300000 order
----
refused: InvalidRecord in operation 0
  order is a singleton and has its own id, not 300000

write ws=1
update 200001 a=1
create raw=1 line
----
committed 7: workspace offset 3, client sequence 3, log index 16, time 1000
  record 1 is 200003

records 1
----
65536 order created 2 changed 2
200001 order created 1 changed 3 a=1
200002 order created 1 changed 1
200003 line created 3 changed 3

survives
----
the same after a crash and after rebuilding

story: A record type that was declared as none cannot become a singleton.
define shop
plain order
----
defined

define shop
singleton order
----
definition refused
  record type order is not a singleton; that cannot change

define shop
----
defined

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind default is 1

story: Ids of kinds and sequences stay whatever comes later.
define shop
kind b x=1
----
defined

define shop
kind a w=1 z=1
kind b a=1 x=1
----
defined

define shop
kind b a=1 x=1 b=1
kind c
kind a w=1 z=1
kind default q=1
----
defined

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind a is 3, w 3 from 1, z 4 from 1
kind b is 2, a 4 from 1, b 5 from 1, x 3 from 1
kind c is 4
kind default is 1, q 3 from 1

restart
----
opened: checkpoint at nothing, folded 0

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind a is 3, w 3 from 1, z 4 from 1
kind b is 2, a 4 from 1, b 5 from 1, x 3 from 1
kind c is 4
kind default is 1, q 3 from 1

write ws=1 kind=b
 number a
 number b
 number x
----
committed 4: workspace offset 1, client sequence 1, log index 13, time 1000
  a 1
  b 1
  x 1

story: A kind that a definition leaves out stays, so that its workspaces do.
define shop
kind bank
----
defined

write ws=1 kind=bank
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

define shop
----
defined

write ws=1 kind=bank
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000

define shop
kind bank iban=5
----
defined

write ws=1 kind=bank
 number iban
----
committed 6: workspace offset 3, client sequence 3, log index 15, time 1000
  iban 5

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind bank is 2, iban 3 from 5
kind default is 1

survives
----
the same after a crash and after rebuilding

story: Kinds are counted with the default one and with those of earlier definitions.
define shop
kinds k 1000
----
definition refused
  1001 kinds with the default one and earlier ones; the most are 1000

define shop
kinds k 1001
----
definition refused
  1001 kinds; the most are 1000

define shop
kinds k 999
----
defined

define shop
kinds j 1
----
definition refused
  1001 kinds with the default one and earlier ones; the most are 1000

define shop
kinds k 999
kind default a=1
----
defined

write ws=1 kind=k00998
----
committed 6: workspace offset 1, client sequence 1, log index 15, time 1000

story: Sequences of a kind are limited.
define shop
sequences default 65534
----
definition refused
  kind default has 65534 sequences; the most are 65533

define shop
sequences default 65533
----
defined

write ws=1
 number s65532
 number s00000
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  s65532 1
  s00000 1

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
 number s65532
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  s65532 2

story: Singletons are limited.
define shop
singletons 513
----
definition refused
  513 singletons; the most are 512

define shop
singletons 512
----
defined

write ws=1
 create raw=1 single00511
 create raw=2 single00000
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  record 1 is 66047
  record 2 is 65536

define shop
singletons 512
singleton another
----
definition refused
  513 singletons; the most are 512

write ws=1
 create raw=1 another
----
committed 5: workspace offset 2, client sequence 2, log index 14, time 1000
  record 1 is 200001

story: A hundred reasons are enough.
define shop
sequences default 150
----
defined

define shop
kind default
----
definition refused for 100 reasons

story: A schema that no row could hold is refused.
define shop
sequences a 65000
sequences b 65000
sequences c 65000
sequences d 65000
----
definition refused
  with the ids of all names it has 8840135 bytes; the most are 8388608

define shop
sequences a 65000
sequences b 65000
----
defined

write ws=1 kind=b
 number s64999
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  s64999 1
