# Commands that should never have become part of the log still get an outcome.

story: Bytes that are no command are refused.
shop
----
defined

command ~
----
refused: Malformed
  malformed version at byte 0

command %00
----
refused: Malformed
  malformed version at byte 0

command %01
----
refused: Malformed
  malformed command at byte 1

command %01%03
----
refused: Malformed
  malformed command at byte 1

command %02%01
----
refused: Malformed
  malformed version at byte 0

command %01%01%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00
----
refused: Malformed
  malformed idempotency key at byte 2

command %01%01%01%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00
----
refused: Malformed
  malformed version at byte 0

command %01%01%01%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%01%00
----
refused: Malformed
  malformed count of operations at byte 2

command %01%02
----
definition refused
  malformed definition at byte 0

command %01%02%01%00
----
definition refused
  malformed definition at byte 0

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Refusal, workspace 0, no key, log index 11, time 1000
3 Refusal, workspace 0, no key, log index 12, time 1000
4 Refusal, workspace 0, no key, log index 13, time 1000
5 Refusal, workspace 0, no key, log index 14, time 1000
6 Refusal, workspace 0, no key, log index 15, time 1000
7 Refusal, workspace 0, no key, log index 16, time 1000
8 Refusal, workspace 0, log index 17, time 1000
9 Refusal, workspace 0, log index 18, time 1000
10 DefinitionRefusal, workspace 0, no key, log index 19, time 1000
11 DefinitionRefusal, workspace 0, no key, log index 20, time 1000

apply 2
----
refused: Malformed
  malformed version at byte 0

apply 9
----
refused: Malformed
  malformed count of operations at byte 2

apply 10
----
definition refused
  malformed definition at byte 0

write ws=1
----
committed 12: workspace offset 1, client sequence 1, log index 21, time 1000

survives
----
the same after a crash and after rebuilding

story: Malformed before the namespace is defined.
command %01
----
refused: Malformed
  malformed command at byte 1

shop
----
defined

write ws=1
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

survives
----
the same after a crash and after rebuilding

story: Texts of a write are neither empty nor too long.
shop
----
defined

write ws=1 client=~
----
refused: Malformed
  client_id: 0 bytes; 1 to 64 are needed

write ws=1 client=*64
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000

write ws=1 client=*65
----
refused: Malformed
  client_id: 65 bytes; 1 to 64 are needed

write ws=1 type=~
----
refused: Malformed
  event_type: 0 bytes; 1 to 255 are needed

write ws=1 type=*255 content=*255
----
committed 6: workspace offset 2, client sequence 1, log index 15, time 1000

write ws=1 type=*256
----
refused: Malformed
  event_type: 256 bytes; 1 to 255 are needed

write ws=1 content=~
----
refused: Malformed
  content_type: 0 bytes; 1 to 255 are needed

write ws=1 content=*256
----
refused: Malformed
  content_type: 256 bytes; 1 to 255 are needed

write ws=1 kind=Default
----
refused: Malformed
  kind: `Default` is not a name of lower-case letters, digits, _ and -

write ws=1 kind=*64
----
refused: Malformed
  kind: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not a name of lower-case letters, digits, _ and -

write ws=1 kind=~
----
refused: Malformed
  kind: `` is not a name of lower-case letters, digits, _ and -

write ws=1
 number Invoice
----
refused: Malformed
  operations[0].sequence: not a name of lower-case letters, digits, _ and -

write ws=1
 number *64
----
refused: Malformed
  operations[0].sequence: not a name of lower-case letters, digits, _ and -

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Refusal, workspace 1, log index 11, time 1000
3 Event, workspace 1 of kind 1 at 1, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx at 1, log index 12, time 1000
4 Refusal, workspace 1, log index 13, time 1000
5 Refusal, workspace 1, till, log index 14, time 1000
6 Event, workspace 1 of kind 1 at 2, till at 1, log index 15, time 1000
7 Refusal, workspace 1, till, log index 16, time 1000
8 Refusal, workspace 1, till, log index 17, time 1000
9 Refusal, workspace 1, till, log index 18, time 1000
10 Refusal, workspace 1, till, log index 19, time 1000
11 Refusal, workspace 1, till, log index 20, time 1000
12 Refusal, workspace 1, till, log index 21, time 1000
13 Refusal, workspace 1, till, log index 22, time 1000
14 Refusal, workspace 1, till, log index 23, time 1000

story: Payload and metadata are limited.
shop
----
defined

write ws=1 payload=~
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=1 payload=*1048576
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000

write ws=1 payload=*1048577
----
refused: Malformed
  payload: 1048577 bytes; the most are 1048576

write ws=1 pairs=32
----
committed 5: workspace offset 3, client sequence 3, log index 14, time 1000

write ws=1 pairs=33
----
refused: Malformed
  metadata: 33 pairs; the most are 32

write ws=1 meta.a=*1023
----
committed 7: workspace offset 4, client sequence 4, log index 16, time 1000

write ws=1 meta.a=*1024
----
refused: Malformed
  metadata[a]: a pair has a key and at most 1024 bytes

write ws=1 meta.~=a
----
refused: Malformed
  metadata[]: a pair has a key and at most 1024 bytes

write ws=1 meta.a=~
----
committed 10: workspace offset 5, client sequence 5, log index 19, time 1000

events 1
----
2 Event, workspace 1 of kind 1 at 1, till at 1, log index 11, time 1000
  Sold application/json ~
3 Event, workspace 1 of kind 1 at 2, till at 2, log index 12, time 1000
  Sold application/json (1048576 bytes)
5 Event, workspace 1 of kind 1 at 3, till at 3, log index 14, time 1000
  Sold application/json {} m000=v m001=v m002=v m003=v m004=v m005=v m006=v m007=v m008=v m009=v m010=v m011=v m012=v m013=v m014=v m015=v m016=v m017=v m018=v m019=v m020=v m021=v m022=v m023=v m024=v m025=v m026=v m027=v m028=v m029=v m030=v m031=v
7 Event, workspace 1 of kind 1 at 4, till at 4, log index 16, time 1000
  Sold application/json {} a=(1023 bytes)
10 Event, workspace 1 of kind 1 at 5, till at 5, log index 19, time 1000
  Sold application/json {} a=~

story: Operations are limited.
shop
----
defined

write ws=1
 times 1000 create raw={n} order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  records 1 to 1000 are 200001 to 201000

write ws=1
 times 1001 number invoice
----
refused: Malformed
  operations: 1001 operations; the most are 1000

workspace 1
----
1 of kind default at 1, records to 201000

story: A write is limited as a whole.
shop
----
defined

write ws=1 payload=*1048576
 set a value=*1048576
 set b value=*1048576
 set c value=*1048300
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=1 payload=*1048576
 set a value=*1048576
 set b value=*1048576
 set c value=*1048576
----
refused: Malformed
  write: 4194498 bytes; the most are 4194304

write ws=1 payload=*1048576 type=*255
 set a value=*1048576
 set b value=*1048576
 set c value=*1048300
----
refused: Malformed
  write: 4194473 bytes; the most are 4194304

entities 1
----
a = (1048576 bytes) version 1
b = (1048576 bytes) version 1
c = (1048300 bytes) version 1

story: Keys and values of entities are limited, also in conditions.
shop
----
defined

write ws=1
 set *1024 value=*1048576
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000

write ws=1
 set *1025
----
refused: Malformed
  operations[0].key: 1025 bytes; 1 to 1024 are needed

write ws=1
 set ~
----
refused: Malformed
  operations[0].key: 0 bytes; 1 to 1024 are needed

write ws=1
 delete ~
----
refused: Malformed
  operations[0].key: 0 bytes; 1 to 1024 are needed

write ws=1
 delete *1025
----
refused: Malformed
  operations[0].key: 1025 bytes; 1 to 1024 are needed

write ws=1
 set a value=*1048577
----
refused: Malformed
  operations[0].value: 1048577 bytes; the most are 1048576

write ws=1
 set a if=value:*1048577
----
refused: Malformed
  operations[0].condition: 1048577 bytes; the most are 1048576

write ws=1
 delete a if=value:*1048577
----
refused: Malformed
  operations[0].condition: 1048577 bytes; the most are 1048576

write ws=1
 set *1024 value=b if=absent
----
refused: KeyExists in operation 0, key (1024 bytes), now at 1, now (1048576 bytes)
  the entity exists

write ws=1
 delete *1024 if=value:*1048576
----
committed 11: workspace offset 2, client sequence 2, log index 20, time 1000

entities 1
----
nothing

story: Records are limited: types, names, fields, bytes.
shop
----
defined

write ws=1
 create raw=0 order
----
refused: Malformed
  operations[0].raw_id: a raw id is 1 to 65535

write ws=1
 create raw=1 ~
----
refused: Malformed
  operations[0].record_type: 0 bytes; 1 to 255 are needed

write ws=1
 create raw=1 *256
----
refused: Malformed
  operations[0].record_type: 256 bytes; 1 to 255 are needed

write ws=1
 create raw=1 *255
----
committed 5: workspace offset 1, client sequence 1, log index 14, time 1000
  record 1 is 200001

write ws=1
 create raw=1 order fields=1000
----
committed 6: workspace offset 2, client sequence 2, log index 15, time 1000
  record 1 is 200002

write ws=1
 create raw=1 order fields=1001
----
refused: Malformed
  operations[0].fields: 1001 fields; the most are 1000

write ws=1
 update 200002 fields=1000
----
committed 8: workspace offset 3, client sequence 3, log index 17, time 1000

write ws=1
 update 200002 more=1
----
refused: InvalidRecord in operation 0
  the record would have 1001 fields; the most are 1000

write ws=1
 create raw=1 order fields=600
 update 1 more=400
----
committed 10: workspace offset 4, client sequence 4, log index 19, time 1000
  record 1 is 200003

write ws=1
 create raw=1 order fields=600
 update 1 more=401
----
refused: InvalidRecord in operation 1
  the record would have 1001 fields; the most are 1000

write ws=1
 create raw=1 order a=*1048535
----
committed 12: workspace offset 5, client sequence 5, log index 21, time 1000
  record 1 is 200004

write ws=1
 create raw=1 order a=*1048536
----
refused: InvalidRecord in operation 0
  the record would have 1048577 bytes; the most are 1048576

write ws=1
 update 200004 b=null
----
refused: InvalidRecord in operation 0
  the record would have 1048580 bytes; the most are 1048576

write ws=1
 update 200004 a=1 b=null
----
committed 15: workspace offset 6, client sequence 6, log index 24, time 1000

write ws=1
 update 200004 a=*1048531
----
committed 16: workspace offset 7, client sequence 7, log index 25, time 1000

write ws=1
 update 200004 c=null
----
refused: InvalidRecord in operation 0
  the record would have 1048580 bytes; the most are 1048576

records 1
----
200001 (255 bytes) created 1 changed 1
200002 order created 2 changed 3 (1000 fields)
200003 order created 4 changed 4 (1000 fields)
200004 order created 5 changed 7 a=(1048531 bytes) b=null

story: A singleton is limited under its raw id and its fixed id together.
shop
----
defined

write ws=1
 create raw=1 settings fields=600
 update 65537 more=401
----
refused: InvalidRecord in operation 1
  the record would have 1001 fields; the most are 1000

write ws=1
 create raw=1 settings fields=600
 update 65537 more=400
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  record 1 is 65537

write ws=1
 update 65537 x=1
----
refused: InvalidRecord in operation 0
  the record would have 1001 fields; the most are 1000

record 1 65537
----
65537 settings created 1 changed 1 (1000 fields)

story: The records that one write changes are limited together.
shop
----
defined

write ws=1
 times 4 create raw={n} order a=*1000000
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  record 2 is 200002
  record 3 is 200003
  record 4 is 200004

write ws=1
 times 4 create raw={n} order a=*1000000
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000
  record 1 is 200005
  record 2 is 200006
  record 3 is 200007
  record 4 is 200008

write ws=1
 times 4 create raw={n} order a=*1000000
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 1000
  record 1 is 200009
  record 2 is 200010
  record 3 is 200011
  record 4 is 200012

write ws=1
 times 4 create raw={n} order a=*1000000
----
committed 5: workspace offset 4, client sequence 4, log index 14, time 1000
  record 1 is 200013
  record 2 is 200014
  record 3 is 200015
  record 4 is 200016

write ws=1
 times 1 create raw={n} order a=*1000000
----
committed 6: workspace offset 5, client sequence 5, log index 15, time 1000
  record 1 is 200017

write ws=1
 update 200001
 update 200002
 update 200003
 update 200004
 update 200005
 update 200006
 update 200007
 update 200008
 update 200009
 update 200010
 update 200011
 update 200012
 update 200013
 update 200014
 update 200015
 update 200016
 update 200001
----
committed 7: workspace offset 6, client sequence 6, log index 16, time 1000

write ws=1
 update 200001
 update 200002
 update 200003
 update 200004
 update 200005
 update 200006
 update 200007
 update 200008
 update 200009
 update 200010
 update 200011
 update 200012
 update 200013
 update 200014
 update 200015
 update 200016
 update 200017
----
refused: InvalidRecord in operation 16
  the records it changes have more than 16777216 bytes
