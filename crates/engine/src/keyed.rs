//! Maps for what every write looks up several times.
//!
//! The standard library's hash holds against anybody and costs a multiple. This one is seeded at random as well, and what is looked
//! up by it is bounded: whoever could find keys that collide, without seeing a single hash, would slow himself down a little.
//!
//! Must not know: what is kept. Nothing may depend on the order in which a map is walked (NUM-3).

use std::collections::HashMap;

/// The hash, seeded at random.
pub(crate) type KeyedHash = foldhash::quality::RandomState;

/// A map that is looked up and never walked in an order that anybody could see.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, KeyedHash>;
