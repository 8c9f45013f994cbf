//! Time and chance come from outside: where the sources of the simulated crates read a clock of the machine, draw a random number or
//! keep something in an order of chance is listed here, with the reason why no simulation notices.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What must not be there unless it is listed.
const WORDS: [&str; 9] = [
    "Instant::now",
    "SystemTime::now",
    "thread_rng",
    "getrandom",
    "fastrand::u",
    "fastrand::shuffle",
    "RandomState::new",
    "HashMap<",
    "KeyedMap<",
];

/// File and word; how often; why.
const LISTED: &[(&str, &str, usize, &str)] = &[
    ("consensus/src/hearing.rs", "Instant::now", 2, "the runtime's time, which a simulation decides about"),
    (
        "consensus/src/network/quiet.rs",
        "Instant::now",
        2,
        "the runtime's time, which a simulation decides about",
    ),
    ("consensus/src/settings.rs", "fastrand::u", 1, "the default of a seed that a simulation sets"),
    (
        "engine/src/acks.rs",
        "KeyedMap<",
        1,
        "looked up by partition; whoever is told of many is told in their order",
    ),
    ("engine/src/admission/clients.rs", "KeyedMap<", 1, "looked up by client and partition"),
    ("engine/src/admission/gate.rs", "KeyedMap<", 2, "looked up by partition; a minimum over all"),
    ("engine/src/barriers.rs", "HashMap<", 1, "looked up by client"),
    ("engine/src/entry/decode.rs", "KeyedMap<", 1, "looked up by partition"),
    ("engine/src/entry/encode.rs", "KeyedMap<", 1, "looked up by partition"),
    ("engine/src/keyed.rs", "HashMap<", 1, "the map that is listed by its own name"),
    ("engine/src/keyed.rs", "KeyedMap<", 1, "its definition"),
    ("engine/src/log_time.rs", "Instant::now", 1, "the machine's clock, which a simulation replaces"),
    ("engine/src/log_time.rs", "SystemTime::now", 1, "the machine's clock, which a simulation replaces"),
    ("engine/src/offsets/dispatch.rs", "KeyedMap<", 1, "looked up by partition"),
    ("engine/src/offsets/proposer.rs", "KeyedMap<", 3, "looked up by partition; each is counted for itself"),
    ("engine/src/pipeline.rs", "Instant::now", 1, "the runtime's time, which a simulation decides about"),
    (
        "engine/src/projections/reading.rs",
        "Instant::now",
        1,
        "the runtime's time, which a simulation decides about",
    ),
    (
        "engine/src/recall.rs",
        "KeyedMap<",
        1,
        "looked up by key; all of them are told in the order in which they came",
    ),
    ("engine/src/recall/cache.rs", "KeyedMap<", 1, "looked up by key; its order is a queue"),
    ("engine/src/reinstalling.rs", "Instant::now", 2, "the runtime's time, which a simulation decides about"),
    ("engine/src/workers/pool.rs", "Instant::now", 1, "threads, which a simulation has none of"),
    ("log/src/open.rs", "getrandom", 1, "the id of a log, which a simulation sets"),
    ("log/src/options.rs", "Instant::now", 1, "the machine's clock, which a simulation replaces"),
    ("sequencer/src/memory.rs", "HashMap<", 6, "a stand-in for tests"),
    ("sequencer/src/time.rs", "Instant::now", 1, "the machine's clock, which a partition replaces by turns"),
];

#[test]
fn clocks_chance_and_orders_of_chance_are_where_they_are_listed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
    let mut found: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for name in ["types", "log", "store", "sequencer", "partition", "consensus", "engine"] {
        for file in sources(&crates.join(name).join("src")) {
            let shown = file.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                for word in WORDS.into_iter().filter(|word| line.contains(word)) {
                    *found.entry((shown.clone(), word)).or_default() += 1;
                }
            }
        }
    }
    let listed: BTreeMap<(String, &str), usize> =
        LISTED.iter().map(|(file, word, count, _)| (((*file).to_owned(), *word), *count)).collect();
    assert_eq!(found, listed, "if it disturbs no simulation, list it with the reason");
}

/// All sources below a directory but those of tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            found.extend((name != "tests").then(|| sources(&path)).into_iter().flatten());
        } else if name.ends_with(".rs")
            && !["tests.rs", "suite.rs", "failing.rs", "golden.rs"].contains(&name)
        {
            found.push(path);
        }
    }
    found.sort();
    found
}
