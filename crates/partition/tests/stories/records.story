# Records: raw ids, parents, references, updates.

story: Raw ids become storage ids, and so does every reference to them.
shop
----
defined

write ws=1
 create raw=1 order
 create raw=9 line parent=1 next=->3 order=->1
 create raw=3 line parent=9 none=->0 order=->1
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  record 9 is 200002
  record 3 is 200003

write ws=1
 create raw=1 line parent=200001 old=->200002 other=->999999
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000
  record 1 is 200004

write ws=2
 create raw=65535 order
----
committed 4: workspace offset 1, client sequence 1, log index 13, time 1000
  record 65535 is 200001

records 1
----
200001 order created 1 changed 1
200002 line created 1 changed 1 below 200001 next=->200003 order=->200001
200003 line created 1 changed 1 below 200002 none=->0 order=->200001
200004 line created 2 changed 2 below 200001 old=->200002 other=->999999

records 1 after=200001 limit=2
----
200002 line created 1 changed 1 below 200001 next=->200003 order=->200001
200003 line created 1 changed 1 below 200002 none=->0 order=->200001

record 1 200004
----
200004 line created 2 changed 2 below 200001 old=->200002 other=->999999

record 2 200004
----
nothing

workspaces
----
1 of kind default at 2, records to 200004
2 of kind default at 1, records to 200001

survives
----
the same after a crash and after rebuilding

story: Fields ascend by name, each once.
shop
----
defined

write ws=1
 create raw=1 order b=1 a=1
----
refused: Malformed
  malformed fields at byte 92

write ws=1
 create raw=1 order a=1 a=1
----
refused: Malformed
  malformed fields at byte 92

story: A raw id is used once in a write.
shop
----
defined

write ws=1
 create raw=1 order
 create raw=2 order
 create raw=1 line
----
refused: InvalidRecord in operation 2
  raw id 1 is used twice

write ws=1
 create raw=1 order
----
committed 3: workspace offset 1, client sequence 1, log index 12, time 1000
  record 1 is 200001

write ws=1
 create raw=1 order
----
committed 4: workspace offset 2, client sequence 2, log index 13, time 1000
  record 1 is 200002

records 1
----
200001 order created 1 changed 1
200002 order created 2 changed 2

story: A raw id that no record of the write has is refused wherever it is named.
shop
----
defined

write ws=1
 create raw=1 order
 create raw=2 order next=->3
----
refused: InvalidRecord in operation 1
  field next names raw id 3, which is not known

write ws=1
 create raw=1 order
 create raw=2 order parent=3
----
refused: InvalidRecord in operation 1
  parent 3 is not known

write ws=1
 create raw=1 order parent=2
 create raw=2 order
----
refused: InvalidRecord in operation 0
  parent 2 is not known

write ws=1
 create raw=1 order parent=1
----
refused: InvalidRecord in operation 0
  parent 1 is not known

write ws=1
 create raw=1 order parent=0
----
refused: InvalidRecord in operation 0
  parent 0 is not known

write ws=1
 update 2 a=1
 create raw=2 order
----
refused: InvalidRecord in operation 0
  record 2 is not known

write ws=1
 update 0 a=1
----
refused: InvalidRecord in operation 0
  record 0 is not known

write ws=1
 create raw=1 order
 update 1 next=->65535
----
refused: InvalidRecord in operation 1
  field next names raw id 65535, which is not known

records 1
----
nothing

outcomes
----
1 Definition, workspace 0, no key, log index 10, time 1000
2 Refusal, workspace 1 of kind 1, till, log index 11, time 1000
3 Refusal, workspace 1 of kind 1, till, log index 12, time 1000
4 Refusal, workspace 1 of kind 1, till, log index 13, time 1000
5 Refusal, workspace 1 of kind 1, till, log index 14, time 1000
6 Refusal, workspace 1 of kind 1, till, log index 15, time 1000
7 Refusal, workspace 1 of kind 1, till, log index 16, time 1000
8 Refusal, workspace 1 of kind 1, till, log index 17, time 1000
9 Refusal, workspace 1 of kind 1, till, log index 18, time 1000

story: A parent is a record of the same workspace.
shop
----
defined

write ws=1
 create raw=1 order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001

write ws=2
 create raw=1 line parent=200001
----
refused: InvalidRecord in operation 0
  parent 200001 is not known

write ws=1
 create raw=1 line parent=200002
----
refused: InvalidRecord in operation 0
  parent 200002 is not known

write ws=1
 create id=200100 order
 create raw=1 line parent=200100
 create raw=2 settings parent=1
 create raw=3 line parent=65537
----
committed 5: workspace offset 2, client sequence 2, log index 14, time 1000
  record 1 is 200101
  record 2 is 65537
  record 3 is 200102

records 1
----
65537 settings created 2 changed 2 below 200101
200001 order created 1 changed 1
200100 order created 2 changed 2
200101 line created 2 changed 2 below 200100
200102 line created 2 changed 2 below 65537

story: Updates merge fields and keep the rest.
shop
----
defined

write ws=1
 create raw=1 order a=1 b=text c=true d=null e=blob:%00 f=-5
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001

write ws=1
 update 200001 b=null c=false g=new
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000

write ws=1
 update 200001
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 1000

record 1 200001
----
200001 order created 1 changed 3 a=1 b=null c=false d=null e=blob:\x00 f=-5 g=new

write ws=1
 create raw=1 order a=1
 update 1 a=2 b=->1
 update 200001 next=->1
 update 200001 a=3
----
committed 5: workspace offset 4, client sequence 4, log index 14, time 1000
  record 1 is 200002

records 1
----
200001 order created 1 changed 4 a=3 b=null c=false d=null e=blob:\x00 f=-5 g=new next=->200002
200002 order created 4 changed 4 a=2 b=->200002

survives
----
the same after a crash and after rebuilding

story: A record that is deactivated stays and can be activated.
shop
----
defined

write ws=1
 create raw=1 order a=1
 create raw=2 order
 deactivate 2
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001
  record 2 is 200002

write ws=1
 deactivate 200001 why=late
----
committed 3: workspace offset 2, client sequence 2, log index 12, time 1000

records 1
----
200001 order created 1 changed 2 inactive a=1 why=late
200002 order created 1 changed 1 inactive

write ws=1
 update 200001 a=2
 create raw=1 line parent=200001
----
committed 4: workspace offset 3, client sequence 3, log index 13, time 1000
  record 1 is 200003

record 1 200001
----
200001 order created 1 changed 3 inactive a=2 why=late

write ws=1
 activate 200001
 activate 200002
----
committed 5: workspace offset 4, client sequence 4, log index 14, time 1000

records 1
----
200001 order created 1 changed 4 a=2 why=late
200002 order created 1 changed 4
200003 line created 3 changed 3 below 200001

survives
----
the same after a crash and after rebuilding

story: A record that is not known cannot be updated.
shop
----
defined

write ws=1
 create raw=1 order
----
committed 2: workspace offset 1, client sequence 1, log index 11, time 1000
  record 1 is 200001

write ws=1
 update 200001 a=1
 update 200002 a=1
----
refused: InvalidRecord in operation 1
  record 200002 is not known

write ws=2
 deactivate 200001
----
refused: InvalidRecord in operation 0
  record 200001 is not known

write ws=1
 update 65536 a=1
----
refused: InvalidRecord in operation 0
  record 65536 is not known

write ws=1
 create raw=1 order
 update 200002 a=1
----
refused: InvalidRecord in operation 1
  record 200002 is not known

records 1
----
200001 order created 1 changed 1
