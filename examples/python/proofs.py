"""Merkle proofs, checked with nothing but SHA-256: the loops of RFC 9162, sections 2.1.3.2 and 2.1.4.2.

Invariant: whatever is not exactly a proof is refused, one hash too many or too few included.
"""

import hashlib


class Wrong(Exception):
    """Why a proof does not hold."""


def leaf_hash(leaf):
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def check_inclusion(leaf, index, size, root, hashes):
    """The leaf with this hash stands at this index, counted from 0, in the tree of this size and root."""
    if not 0 <= index < size:
        raise Wrong("there is no such leaf in a tree of that size")
    node, last, found = index, size - 1, leaf
    for beside in hashes:
        if last == 0:
            raise Wrong("the proof has too many hashes")
        if node & 1 or node == last:
            found = node_hash(beside, found)
            # A node at the right edge has nobody beside it on some levels.
            while node & 1 == 0 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, beside)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise Wrong("the proof has too few hashes")
    if found != root:
        raise Wrong("the proof leads to another root")


def check_consistency(old_size, old_root, new_size, new_root, hashes):
    """The tree of the new size and root begins with the tree of the old size and root."""
    if not 0 < old_size <= new_size:
        raise Wrong("the sizes are out of order")
    if old_size == new_size:
        if hashes or old_root != new_root:
            raise Wrong("trees of one size have one root, and nothing to prove")
        return
    # A tree whose size is a power of two is a node of the new one, and its root is not sent.
    path = ([old_root] if old_size & (old_size - 1) == 0 else []) + list(hashes)
    if not path:
        raise Wrong("the proof has too few hashes")
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for beside in path[1:]:
        if last == 0:
            raise Wrong("the proof has too many hashes")
        if node & 1 or node == last:
            old, new = node_hash(beside, old), node_hash(beside, new)
            while node & 1 == 0 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, beside)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise Wrong("the proof has too few hashes")
    if old != old_root:
        raise Wrong("the proof leads to another root of the older tree")
    if new != new_root:
        raise Wrong("the proof leads to another root")
