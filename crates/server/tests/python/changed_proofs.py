"""The checks of examples/python/proofs.py against trees computed from their definition: what is a proof holds, and nothing else does."""

import proofs


def split(size):
    """The largest power of two below size."""
    return 1 << ((size - 1).bit_length() - 1)


def root(leaves):
    if len(leaves) == 1:
        return leaves[0]
    middle = split(len(leaves))
    return proofs.node_hash(root(leaves[:middle]), root(leaves[middle:]))


def inclusion(index, leaves):
    if len(leaves) == 1:
        return []
    middle = split(len(leaves))
    if index < middle:
        return inclusion(index, leaves[:middle]) + [root(leaves[middle:])]
    return inclusion(index - middle, leaves[middle:]) + [root(leaves[:middle])]


def consistency(old, leaves, whole=True):
    if old == len(leaves):
        return [] if whole else [root(leaves)]
    middle = split(len(leaves))
    if old <= middle:
        return consistency(old, leaves[:middle], whole) + [root(leaves[middle:])]
    return consistency(old - middle, leaves[middle:], False) + [root(leaves[:middle])]


def holds(check, *claim):
    try:
        check(*claim)
        return True
    except proofs.Wrong:
        return False


def changed(hashes):
    """Every way to have one hash too many, one too few, or a wrong one."""
    yield hashes + [bytes(32)]
    for at in range(len(hashes)):
        yield hashes[:at] + hashes[at + 1 :]
        yield hashes[:at] + [bytes([hashes[at][0] ^ 1]) + hashes[at][1:]] + hashes[at + 1 :]


def main():
    leaves = [proofs.leaf_hash(bytes([number])) for number in range(40)]
    checked = 0
    for size in range(1, len(leaves) + 1):
        new = root(leaves[:size])
        for place in range(size):
            hashes = inclusion(place, leaves[:size])
            assert holds(proofs.check_inclusion, leaves[place], place, size, new, hashes), (place, size)
            for other in changed(hashes):
                assert not holds(proofs.check_inclusion, leaves[place], place, size, new, other), (place, size)
            assert not holds(proofs.check_inclusion, bytes(32), place, size, new, hashes)
            older = place + 1
            old, hashes = root(leaves[:older]), consistency(older, leaves[:size])
            assert holds(proofs.check_consistency, older, old, size, new, hashes), (older, size)
            for other in changed(hashes):
                assert not holds(proofs.check_consistency, older, old, size, new, other), (older, size)
            assert not holds(proofs.check_consistency, older, bytes(32), size, new, hashes)
            checked += 2
    print(f"all of {checked} proofs hold, and none that was changed")


main()
