#!/usr/bin/env python3
"""Checks Merkle proofs of Gapless, without a line of Gapless.

    python3 tests/verify_proof.py FILE

FILE is a JSON array. Numbers are integers, hashes are 64 hexadecimal digits:

    {"kind": "inclusion", "leaf_hash": H, "index": N, "size": N, "root": H, "proof": [H, ...]}
    {"kind": "consistency", "old_size": N, "old_root": H, "new_size": N, "new_root": H, "proof": [H, ...]}
    {"kind": "block", "event": X, "header": X, "size": N, "root": H, "proof": [H, ...], "consistency": [H, ...]}

A block is all that a client can know of an event: its record of the partition log and the header that was kept of it, both in
hexadecimal, held against a later head (size and root) by a proof of inclusion and one of consistency.
Instead of "leaf_hash" an inclusion may have "leaf": the bytes of the leaf in hexadecimal, which are then hashed here.

Prints one line for each and exits with 0 if all of them hold, with 1 if one does not, and with 2 if FILE cannot be read.

Written from the recursive definitions of RFC 6962, section 2.1 (the same as in RFC 9162): a tree of n leaves, n > 1, is split at the
largest power of two below n. Needs nothing but the standard library.
"""

import hashlib
import json
import string
import sys


class Wrong(Exception):
    """Why a proof does not hold."""


def sha256(data):
    return hashlib.sha256(data).digest()


def leaf_hash(data):
    return sha256(b"\x00" + data)


def node_hash(left, right):
    return sha256(b"\x01" + left + right)


def split(size):
    """The largest power of two below size."""
    return 1 << ((size - 1).bit_length() - 1)


def root_with(leaf, index, size, proof):
    """Root of the tree of this size with this leaf at this index, all else being as the proof says."""
    if size == 1:
        if proof:
            raise Wrong("the proof has too many hashes")
        return leaf
    if not proof:
        raise Wrong("the proof has too few hashes")
    *below, beside = proof
    middle = split(size)
    if index < middle:
        return node_hash(root_with(leaf, index, middle, below), beside)
    return node_hash(beside, root_with(leaf, index - middle, size - middle, below))


def both_roots(old_root, old_size, new_size, proof, whole):
    """Roots of the old and of the new tree inside one subtree; whole says that it begins with the first leaf."""
    if old_size == new_size:
        if whole:
            if proof:
                raise Wrong("the proof has too many hashes")
            return old_root, old_root
        if len(proof) != 1:
            raise Wrong("the proof has too many or too few hashes")
        return proof[0], proof[0]
    if not proof:
        raise Wrong("the proof has too few hashes")
    *below, beside = proof
    middle = split(new_size)
    if old_size <= middle:
        old, new = both_roots(old_root, old_size, middle, below, whole)
        return old, node_hash(new, beside)
    old, new = both_roots(old_root, old_size - middle, new_size - middle, below, False)
    return node_hash(beside, old), node_hash(beside, new)


def check_inclusion(leaf, index, size, root, proof):
    if index >= size:
        raise Wrong("there is no such leaf in a tree of that size")
    if root_with(leaf, index, size, proof) != root:
        raise Wrong("the proof leads to another root")


def check_consistency(old_size, old_root, new_size, new_root, proof):
    if old_size > new_size:
        raise Wrong("the older tree is the larger one")
    if old_size == 0:
        # Every tree begins with the empty one, so there is nothing to show, but the empty tree has one root only.
        if proof:
            raise Wrong("the proof has too many hashes")
        if old_root != sha256(b"") or (new_size == 0 and new_root != old_root):
            raise Wrong("that is not the root of the empty tree")
        return
    old, new = both_roots(old_root, old_size, new_size, proof, True)
    if old != old_root:
        raise Wrong("the proof leads to another root of the older tree")
    if new != new_root:
        raise Wrong("the proof leads to another root")


def number_at(data, place):
    return int.from_bytes(data[place : place + 8], "little")


def check_block(event, header, size, root, proof, consistency):
    """The layouts are those of docs/format.md: the record of an event, and the block header."""
    if len(header) != 89 or header[0] != 1:
        raise Wrong("that is no block header of version 1")
    if len(event) < 112 or event[0] != 1 or event[1] != 1:
        raise Wrong("that is no event of version 1")
    leaf, height = header[9:41], number_at(header, 1)
    if leaf_hash(event) != leaf:
        raise Wrong("the event is not the one of the header")
    for name, in_header, in_event in (("offset", 1, 48), ("time", 73, 32), ("log index", 81, 24)):
        if number_at(header, in_header) != number_at(event, in_event):
            raise Wrong(f"the header has another {name} than the event")
    if height == 0:
        raise Wrong("the first block has height 1")
    check_inclusion(leaf, height - 1, size, root, proof)
    check_consistency(height, header[41:73], size, root, consistency)


def number_in(claim, name):
    value = claim.get(name)
    # A bool is an int in Python, and is no number here.
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise Wrong(f"{name} is not an integer of 64 bits")
    return value


def bytes_of(value, name):
    if not isinstance(value, str) or len(value) % 2 or not set(value) <= set(string.hexdigits):
        raise Wrong(f"{name} is not hexadecimal")
    return bytes.fromhex(value)


def hash_of(value, name):
    data = bytes_of(value, name)
    if len(data) != 32:
        raise Wrong(f"{name} does not have 32 bytes")
    return data


def proof_in(claim, name="proof"):
    proof = claim.get(name)
    if not isinstance(proof, list):
        raise Wrong(f"{name} is not an array")
    # No tree has more leaves than 2^64, so no proof has more hashes; this keeps the recursion short.
    if len(proof) > 65:
        raise Wrong("the proof has too many hashes")
    return [hash_of(value, f"hash {at} of the proof") for at, value in enumerate(proof)]


def check(claim):
    """Checks one claim; says in words what it is about."""
    if claim["kind"] == "inclusion":
        if "leaf" in claim:
            leaf = leaf_hash(bytes_of(claim["leaf"], "leaf"))
        else:
            leaf = hash_of(claim.get("leaf_hash"), "leaf_hash")
        index, size = number_in(claim, "index"), number_in(claim, "size")
        check_inclusion(leaf, index, size, hash_of(claim.get("root"), "root"), proof_in(claim))
    elif claim["kind"] == "block":
        event, header = bytes_of(claim.get("event"), "event"), bytes_of(claim.get("header"), "header")
        size, root = number_in(claim, "size"), hash_of(claim.get("root"), "root")
        check_block(event, header, size, root, proof_in(claim), proof_in(claim, "consistency"))
    else:
        old, new = number_in(claim, "old_size"), number_in(claim, "new_size")
        old_root, new_root = hash_of(claim.get("old_root"), "old_root"), hash_of(claim.get("new_root"), "new_root")
        check_consistency(old, old_root, new, new_root, proof_in(claim))


def title(claim):
    if not isinstance(claim, dict) or claim.get("kind") not in ("inclusion", "consistency", "block"):
        return None
    if claim["kind"] == "inclusion":
        return f"inclusion of leaf {claim.get('index')} in {claim.get('size')}"
    if claim["kind"] == "block":
        return f"block in {claim.get('size')}"
    return f"consistency of {claim.get('old_size')} with {claim.get('new_size')}"


def main(arguments):
    if len(arguments) != 1:
        print("usage: verify_proof.py FILE", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            claims = json.load(file)
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    if not isinstance(claims, list):
        print(f"{arguments[0]}: not a JSON array", file=sys.stderr)
        return 2
    all_hold = True
    for place, claim in enumerate(claims, 1):
        about = title(claim)
        try:
            if about is None:
                raise Wrong("neither an inclusion nor a consistency nor a block")
            check(claim)
            print(f"{place} {about}: ok")
        except Wrong as reason:
            all_hold = False
            print(f"{place} {about or 'claim'}: WRONG: {reason}")
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
