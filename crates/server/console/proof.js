// RFC 6962 in the browser: whether an event is in the tree whose root the server names, computed here.

const SHA = "SHA-256";

const decode = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
export const hex = (raw) => Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function hash(...parts) {
  if (!crypto.subtle) throw new Error("A browser computes hashes on localhost or over TLS only.");
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest(SHA, joined));
}

/** The root that follows from a leaf, its place, and the hashes beside its path. */
export async function rootOf(leaf, index, size, hashes) {
  let root = await hash(Uint8Array.of(0), leaf);
  let [place, last] = [BigInt(index), BigInt(size) - 1n];
  for (const beside of hashes) {
    if (last === 0n) throw new Error("the proof is longer than the tree is high");
    if (place % 2n === 1n || place === last) {
      root = await hash(Uint8Array.of(1), beside, root);
      // Whoever is last on his level without a brother moves up as he is.
      while (place % 2n === 0n && place !== 0n) [place, last] = [place / 2n, last / 2n];
    } else {
      root = await hash(Uint8Array.of(1), root, beside);
    }
    [place, last] = [place / 2n, last / 2n];
  }
  if (last !== 0n) throw new Error("the proof is shorter than the tree is high");
  return root;
}

/** Checks an answer of the server: what was computed here, and whether it is the root that the server names. */
export async function verify({ leaf, proof }) {
  const root = await rootOf(decode(leaf), proof.leaf_index, proof.tree_size, proof.hashes.map(decode));
  return { root: hex(root), holds: hex(root) === hex(decode(proof.root)), size: proof.tree_size, steps: proof.hashes.length };
}
