# Entities: conditions, versions, expiry, reading by key and prefix.

story: An entity has a value and the offset of its last change as version.
shop
----
defined

write ws=1
 set cart value=a
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=1
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000

write ws=1
 set cart value=b
 set empty value=~
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 1000

entity 1 cart
----
cart = b version 3

entity 1 empty
----
empty = ~ version 3

entity 2 cart
----
nothing

write ws=1
 delete cart
 delete nothing
----
committed 5: workspace offset 4, client sequence 4, log index 14, time 1000

entity 1 cart
----
nothing

survives
----
the same after a crash and after rebuilding

story: The four conditions of a set.
shop
----
defined

write ws=1
 set cart value=a if=present
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 set cart value=a if=version:1
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 set cart value=a if=value:a
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 set cart value=a if=absent
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000

write ws=1
 set cart value=b if=absent
----
refused: KeyExists in operation 0, key cart, now at 1, now a
  the entity exists

write ws=1
 set cart value=b if=version:2
----
refused: VersionMismatch in operation 0, key cart, now at 1, now a
  the entity has another version

write ws=1
 set cart value=b if=value:b
----
refused: ValueMismatch in operation 0, key cart, now at 1, now a
  the entity has another value

write ws=1
 set cart value=b if=value:~
----
refused: ValueMismatch in operation 0, key cart, now at 1, now a
  the entity has another value

write ws=1
 set cart value=b if=present
----
committed 10: workspace offset 2, client sequence 2, log index 19, time 1000

write ws=1
 set cart value=c if=version:2
----
committed 11: workspace offset 3, client sequence 3, log index 20, time 1000

write ws=1
 set cart value=d if=value:c
----
committed 12: workspace offset 4, client sequence 4, log index 21, time 1000

entity 1 cart
----
cart = d version 4

restart
----
opened: checkpoint at nothing, folded 0

write ws=1
 set cart value=b if=absent
----
refused: KeyExists in operation 0, key cart, now at 4, now d
  the entity exists

story: The four conditions of a delete.
shop
----
defined

write ws=1
 delete cart if=present
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 delete cart if=version:1
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 delete cart if=value:a
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 delete cart if=absent
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000

write ws=1
 set cart value=a
----
committed 6: workspace offset 2, client sequence 2, log index 15, time 1000

write ws=1
 delete cart if=absent
----
refused: KeyExists in operation 0, key cart, now at 2, now a
  the entity exists

write ws=1
 delete cart if=version:1
----
refused: VersionMismatch in operation 0, key cart, now at 2, now a
  the entity has another version

write ws=1
 delete cart if=value:b
----
refused: ValueMismatch in operation 0, key cart, now at 2, now a
  the entity has another value

write ws=1
 delete cart if=present
----
committed 10: workspace offset 3, client sequence 3, log index 19, time 1000

write ws=1
 set cart value=a
----
committed 11: workspace offset 4, client sequence 4, log index 20, time 1000

write ws=1
 delete cart if=version:4
----
committed 12: workspace offset 5, client sequence 5, log index 21, time 1000

write ws=1
 set cart value=a
----
committed 13: workspace offset 6, client sequence 6, log index 22, time 1000

write ws=1
 delete cart if=value:a
----
committed 14: workspace offset 7, client sequence 7, log index 23, time 1000

entities 1
----
nothing

story: Conditions see earlier operations of the same write.
shop
----
defined

write ws=1
 set cart value=a
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=1
 set cart value=b
 set cart value=c if=version:1
----
refused: VersionMismatch in operation 1, key cart, now at 2, now b
  the entity has another version

write ws=1
 set cart value=b
 set cart value=c if=value:a
----
refused: ValueMismatch in operation 1, key cart, now at 2, now b
  the entity has another value

write ws=1
 delete cart
 set cart value=c if=present
----
refused: KeyNotFound in operation 1, key cart
  the entity does not exist

write ws=1
 set bag value=b
 set bag value=c if=absent
----
refused: KeyExists in operation 1, key bag, now at 2, now b
  the entity exists

write ws=1
 set cart value=b if=version:1
 set cart value=c if=version:2
 delete cart if=value:c
 set cart value=d if=absent
 set bag value=e
 delete bag if=present
----
committed 7: workspace offset 2, client sequence 2, log index 16, time 1000

entities 1
----
cart = d version 2

story: A set without a condition is seen by conditions behind it, expiry included.
shop
----
defined

at 1000
----
ok

write ws=1
 set cart value=a expires=1000
 set cart value=b if=absent expires=1001
 set cart value=c if=present
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

entity 1 cart
----
cart = c version 1

story: A refusal in the last operation leaves no trace.
shop
----
defined

write ws=1
 set cart value=a
 create raw=1 order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001

write ws=1
 set cart value=b
 set bag value=b
 create raw=1 order
 update 200001 paid=true
 number invoice
 delete cart if=value:a
----
refused: ValueMismatch in operation 5, key cart, now at 2, now b
  the entity has another value

entities 1
----
cart = a version 1

records 1
----
200001 order created 1 changed 1

sequences 1
----
credit from 5000: nothing
invoice from 1: nothing

workspace 1
----
1 of kind default at 1, records to 200001

client 1 till
----
1

survives
----
the same after a crash and after rebuilding

story: An expired entity exists neither for reads nor for conditions, by log time.
shop
----
defined

write ws=1
 set cart value=a expires=2000
 set bag value=b
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

at 1999
----
ok

write ws=1
 set cart value=a if=present expires=2000
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1999

entities 1
----
bag = b version 1
cart = a version 2 until 2000

at 2000
----
ok

write ws=1
 set cart value=b if=present
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

entities 1
----
bag = b version 1

entity 1 cart
----
nothing

write ws=1
 delete cart if=version:2
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

at 1000
----
ok

write ws=1
 set cart value=b if=value:a
----
refused: KeyNotFound in operation 0, key cart
  the entity does not exist

write ws=1
 set cart value=b if=absent
----
committed 7: workspace offset 3, client sequence 3, log index 16, time 2000

entities 1
----
bag = b version 1
cart = b version 3

survives
----
the same after a crash and after rebuilding

story: Entities are read by prefix, behind a key, up to a limit that counts what exists.
shop
----
defined

write ws=1
 set a value=1
 set a+ value=0
 set a/1 value=2 expires=1
 set a/2 value=3
 set a/3 value=4
 set b value=5
 set %ff value=6
 set %ff%ff value=7
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=2
 set a/4 value=8
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

entities 1
----
a = 1 version 1
a+ = 0 version 1
a/2 = 3 version 1
a/3 = 4 version 1
b = 5 version 1
\xff = 6 version 1
\xff\xff = 7 version 1

entities 1 prefix=a/
----
a/2 = 3 version 1
a/3 = 4 version 1

entities 1 prefix=a/ limit=1
----
a/2 = 3 version 1

entities 1 prefix=a/ after=a/2
----
a/3 = 4 version 1

entities 1 prefix=a/ after=a
----
a/2 = 3 version 1
a/3 = 4 version 1

entities 1 prefix=a/ after=b
----
nothing

entities 1 after=a limit=2
----
a+ = 0 version 1
a/2 = 3 version 1

entities 1 prefix=%ff
----
\xff = 6 version 1
\xff\xff = 7 version 1

entities 1 prefix=%ff after=%ff%ff
----
nothing

entities 1 limit=0
----
nothing

entities 2 prefix=a
----
a/4 = 8 version 1

entities 3
----
nothing
