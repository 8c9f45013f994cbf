# Every refusal says why, what to do next, and ends with 1; wrong usage ends with 2.
$ gapless read shop/42
! error: there is no namespace `shop`
!  next: see which there are: gapless namespace list
? 1

$ gapless namespace apply shop.toml
...

$ gapless write shop/42 ItemSold '{"amount":3}' --key order-1 --set apples=1
...

$ gapless write shop/42 ItemSold '{"amount":4}' --key order-1
! error: refused: IDEMPOTENCY_KEY_REUSED: the idempotency key was used for another request
!  next: choose another --key: this one was used for another request
? 1

$ gapless write shop/42 ItemSold --number receipt
! error: refused: UNKNOWN_SEQUENCE: workspaces of kind default have no sequence receipt
!  next: see which sequences there are: gapless namespace show NAME
? 1

$ gapless write shop/42 ItemSold --expect-offset 7
! error: refused: OFFSET_MISMATCH: the workspace log ends at 1, not at 7
!  next: read again, and decide with 1 in mind; it needs another --key
? 1

$ gapless write shop/42 ItemSold --set apples=2 --if-absent
! error: refused: KEY_EXISTS: [..]
!  next: read the entity, and decide anew; it needs another --key
? 1

$ gapless write shop/42 ItemSold '{amount:3}'
! error: the payload is no JSON: [..]
!  next: quote it for your shell, or say what it is: --content-type text/plain
? 1

$ gapless entity get shop/42 nothing
! error: shop/42 has no entity `nothing`
!  next: see which there are: gapless entity list NAMESPACE/WORKSPACE
? 1

$ gapless record get shop/42 200001
! error: workspace 42 has no record 200001
!  next: see which there are: gapless record list NAMESPACE/WORKSPACE
? 1

$ gapless proof shop/42 9
! error: workspace 42 has no event 9
!  next: see which there are: gapless read NAMESPACE/WORKSPACE
? 1

$ gapless cluster transfer 1
! error: this server runs alone and reaches no other node; [..]
!  next: ask a server that is a member of a cluster: --server ADDR
? 1

$ gapless namespace drop shop
! error: namespace `shop` and its 2 partitions would be gone for good
!  next: if that is what you want: gapless namespace drop shop --yes
? 1

$ gapless read shop/42 --server 127.0.0.1:1 --timeout 300ms
! error: no answer from 127.0.0.1:1: [..]
!  next: see that a server runs at 127.0.0.1:1 (`gapless dev` starts one), or name another one: --server ADDR
? 1

$ gapless read shop/42 --server 'not an address'
! error: `not an address` is not an address such as 127.0.0.1:7400
!  next: give one with --server or GAPLESS_SERVER
? 1

$ gapless read shop
! error: invalid value 'shop' for '<PLACE>': a workspace is written as NAMESPACE/NUMBER, such as shop/42
! 
! For more information, try '--help'.
? 2
