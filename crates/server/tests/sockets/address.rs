//! Addresses for servers that have to be at one that is known before they listen, or that come back to the one they had.
//!
//! The system gives ports to whoever asks for any, also one that somebody has just given back and wants again. These are below those that
//! it gives away, and each is one test's alone until its process ends.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Mutex;

/// Below those that the system gives away by itself, and above those that services are known by.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// What marks the ports of this process as taken. The system forgets the marks of a process that has ended.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// An address of this machine where nobody listens, and that no other test is given.
pub(crate) fn own() -> SocketAddr {
    let marks = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports");
    std::fs::create_dir_all(&marks).unwrap();
    for port in PORTS {
        let mark = File::create(marks.join(port.to_string())).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // Somebody who knows nothing of marks may be there all the same.
        if mark.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
            TAKEN.lock().unwrap().push(mark);
            return address;
        }
    }
    panic!("all of {PORTS:?} are taken");
}
