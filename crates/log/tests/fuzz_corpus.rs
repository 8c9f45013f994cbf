//! The fuzz targets of `fuzz/`, on stable and in bounded time.

#[path = "../../../fuzz/harness/log.rs"]
pub mod log;

use std::collections::BTreeMap;

#[test]
fn explore() {
    let start = std::time::Instant::now();
    let seed: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(1000);
    let modes: Vec<u8> =
        std::env::var("MODES").unwrap_or("0,1,3".into()).split(',').map(|s| s.parse().unwrap()).collect();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut failures: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
    let place = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let p2 = place.clone();
    std::panic::set_hook(Box::new(move |info| {
        *p2.lock().unwrap() = format!(
            "{} {}",
            info.location().unwrap(),
            info.payload_as_str().unwrap_or("").chars().take(160).collect::<String>()
        );
    }));
    for _ in 0..count {
        let length = rng.usize(1..60);
        let mut data: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        data[0] = modes[rng.usize(..modes.len())];
        let t0 = std::time::Instant::now();
        let r = std::panic::catch_unwind(|| log::directory(&data));
        if t0.elapsed().as_millis() > 200 {
            println!("slow {:?} {data:?}", t0.elapsed());
        }
        if r.is_err() {
            let key = place.lock().unwrap().clone();
            let key2: String =
                key.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).take(110).collect();
            let loc = key.split(' ').next().unwrap().to_string();
            let e = failures.entry(format!("{loc} {key2}")).or_insert((0, data.clone()));
            e.0 += 1;
            if data.len() < e.1.len() {
                e.1 = data;
            }
        }
    }
    let _ = std::panic::take_hook();
    for (k, (n, d)) in &failures {
        println!("{n} x {k}\n    {d:?}");
    }
    println!("{:?}", start.elapsed());
}

#[test]
fn one() {
    let Ok(data) = std::env::var("DATA") else { return };
    let data: Vec<u8> = data
        .split(|c: char| !c.is_ascii_digit())
        .filter(|s| !s.is_empty())
        .map(|s| s.parse().unwrap())
        .collect();
    log::explain(&data);
    log::directory(&data);
}
