# Numbers of declared sequences.

story: Numbers are taken in the order of the operations, several of one sequence if asked for.
shop
----
defined

write ws=1
 number invoice
 number credit
 number invoice
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  invoice 1
  credit 5000
  invoice 2

write ws=2
 number invoice
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  invoice 1

sequences 1
----
credit from 5000: 5000
invoice from 1: 2

sequences 2
----
credit from 5000: nothing
invoice from 1: 1

sequences 3
----
nothing

survives
----
the same after a crash and after rebuilding

story: A refused write takes no number.
shop
----
defined

write ws=1
 number invoice
 create raw=1 order
 set cart if=present
----
refused: KeyNotFound in operation 2, key cart
  the entity does not exist

write ws=1 expect=1
 number invoice
----
refused: OffsetMismatch, now at 0
  the workspace log ends at 0, not at 1

write ws=1
 number invoice
 create raw=1 order
----
committed 4: workspace offset 1, client sequence 1, log index 13, time 1000
  record 1 is 200001
  invoice 1

sequences 1
----
credit from 5000: nothing
invoice from 1: 1

story: A sequence that the kind does not have is refused.
shop
----
defined

write ws=1
 number invoice
 number receipt
----
refused: UnknownSequence in operation 1
  workspaces of kind default have no sequence receipt

write ws=2 kind=till
 number receipt
 number receipt
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  receipt 100
  receipt 101

write ws=2 kind=till
 number invoice
----
refused: UnknownSequence in operation 0
  workspaces of kind till have no sequence invoice

sequences 2
----
receipt from 100: 101

story: A sequence ends with the last number there is.
define shop
kind default last=max
----
defined

write ws=1
 number last
 number last
----
refused: UnknownSequence in operation 1
  sequence last has no numbers left behind 18446744073709551614

write ws=1
 number last
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  last 18446744073709551615

write ws=1
 number last
----
refused: UnknownSequence in operation 0
  sequence last has no numbers left behind 18446744073709551615

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
 number last
----
refused: UnknownSequence in operation 0
  sequence last has no numbers left behind 18446744073709551615

write ws=1
----
committed 6: workspace offset 2, client sequence 2, log index 15, time 1000

story: Sequences may be added to a kind whose workspaces exist.
shop
----
defined

write ws=1
 number invoice
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  invoice 1

define shop
kind default invoice=1 credit=5000 a=7
kind till receipt=100
kind bank iban=1
singleton profile
singleton settings
singleton about
----
defined

write ws=1
 number a
 number invoice
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  a 7
  invoice 2

write ws=3 kind=bank
 number iban
 create raw=1 about
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000
  record 1 is 65538
  iban 1

schema
----
shop with 1 partitions, CheckAll, keys for 86400000 ms, at most 100000000, then Refuse
kind bank is 3, iban 3 from 1
kind default is 1, a 5 from 7, credit 3 from 5000, invoice 4 from 1
kind till is 2, receipt 3 from 100
singleton about is 65538
singleton profile is 65536
singleton settings is 65537

sequences 1
----
a from 7: 7
credit from 5000: nothing
invoice from 1: 2

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
 number a
 number invoice
----
committed 6: workspace offset 3, client sequence 3, log index 15, time 1000
  a 8
  invoice 3

discard
----
opened: checkpoint at nothing, folded 0

write ws=1
 number a
 number invoice
----
committed 7: workspace offset 4, client sequence 4, log index 16, time 1000
  a 9
  invoice 4

survives
----
the same after a crash and after rebuilding

story: A thousand numbers in one write.
shop
----
defined

write ws=1
 times 1000 number credit
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  1000 numbers: credit 5000 to credit 5999

sequences 1
----
credit from 5000: 5999
invoice from 1: nothing
