# What an operator looks at.
$ gapless namespace apply shop.toml -o json
...

$ gapless namespace list
  namespace  id  partitions  frozen
  shop       16           2       0

$ gapless namespace show shop
name = "shop"
partitions = 2
trust_level = 0

[idempotency]
at_cap = "refuse"
max_keys = 100000000
window = "1day"

[kinds.default.sequences]
invoice = 1

[records.settings]
singleton = true

$ gapless partitions shop
  partition  state    highest  durable  applied  synced  checkpoint  snapshot  backlog  age ms
  shop/0     serving  [..]
  shop/1     serving  [..]

$ gapless partitions shop -o raw
shop/0 serving
shop/1 serving

$ gapless cluster status
asked       node 1, version [..]
leader      node 1, term 1
writes      taken here
member      node 1 at embedded, votes
log         0 to [..]
durable     [..]
committed   [..]
dispatched  [..]
snapshot    -

$ gapless top --once --interval 50ms
node 1, leads, term 1, takes writes
outcomes    0/s, 0 writes in flight
log         durable [..], committed [..], dispatched [..]
memory      rows [..], cached [..], admitted 0 B
members     1, connections [..], version [..]

  partition  state    outcomes/s  backlog  bytes  age ms  applied  synced  checkpoint
  shop/[..]  serving           0        0    0 B       0        1  [..]
  shop/[..]  serving           0        0    0 B       0        1  [..]

$ gapless namespace drop shop --yes
dropped shop

$ gapless partitions
  partition  state  highest  durable  applied  synced  checkpoint  snapshot  backlog  age ms
