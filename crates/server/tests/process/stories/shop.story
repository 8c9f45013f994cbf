# A namespace, an event with an invoice number, a retry, and everything that can be read afterwards.
$ gapless namespace apply shop.toml
  namespace  id  partitions  frozen
  shop       16           2       0

$ gapless write shop/42 ItemSold '{"amount":3}' --number invoice --key order-1 --set stock/apples=12
workspace offset  1
client sequence   1
numbers           invoice=1
partition         0, offset 2
log index         [..]
transaction       [..]
key               6fcb0bdbfdb8de2958b340f39ca66f18

# A retry gets the first answer.
$ gapless write shop/42 ItemSold '{"amount":3}' --number invoice --key order-1 --set stock/apples=12
workspace offset  1 (it had been written before; nothing was done)
client sequence   1
numbers           invoice=1
...

$ gapless write shop/42 Note hello --content-type text/plain -o raw
2

$ echo '{"amount":5}' | gapless write shop/42 ItemSold - --number invoice --proof -o json
...
  "numbers": {
    "invoice": 2
  },
...

$ gapless read shop/42
  offset  event             client      numbers         payload
       1  ItemSold          cli         invoice=1       {"amount":3}
       2  Note              cli         -               hello
       3  ItemSold          cli         invoice=2       {"amount":5}

# As it is, with the line break that echo gave it.
$ gapless read shop/42 --backward --limit 2 -o raw
{"amount":5}

hello

$ gapless read shop/42 --limit 1 -o json
{[..]"numbers":{"invoice":1}[..]"payload":{"amount":3}[..]"workspace_offset":1}

$ gapless entity get shop/42 stock/apples
  key           version  value
  stock/apples        1  12

$ gapless entity list shop/42 --prefix stock/ -o json
{[..]"key":"c3RvY2svYXBwbGVz"[..]}

$ gapless record list shop/42
  record  type  state  created  changed  fields

$ gapless sequences shop/42
  sequence  first number  last number
  invoice              1            2

$ gapless sequences shop/42 -o json
{"first_number":1,"last_number":2,"sequence":"invoice"}

$ gapless proof shop/42 1
verified  event 1 is one of the first 3
leaf      [..], of [..] bytes
beside    [..]
beside    [..]
root      [..], as the server says
