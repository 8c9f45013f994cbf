//! Wrong usage, and directories that are not what they should be.

use std::fs;

use crate::support::{TestLog, gapless, log_command};

const COMMANDS: [&str; 4] = ["inspect", "verify", "dump", "accept-loss"];

#[test]
fn wrong_usage_exits_with_2() {
    let wrong: [&[&str]; 9] = [
        &[],
        &["log"],
        &["log", "inspect"],
        &["log", "inspect", "x", "-o", "xml"],
        &["log", "verify", "x", "--frames"],
        &["log", "dump", "x", "--from", "-1"],
        &["log", "dump", "x", "--frames", "-o", "raw"],
        &["demo", "--writes", "0"],
        &["sing"],
    ];
    for arguments in wrong {
        let run = gapless(arguments).exits_with(2);
        assert_eq!(run.stdout, "", "{arguments:?}");
        assert_ne!(run.stderr, "", "{arguments:?}");
    }
}

#[test]
fn help_and_version_are_on_stdout_and_the_writer_is_hidden() {
    let help = gapless(["help"]).exits_with(0);
    help.says("Examples:");
    help.says("Exit codes:");
    assert!(!help.stdout.contains("demo-writer"));
    let version = gapless(["--version"]).exits_with(0);
    assert_eq!(version.stdout, format!("gapless {}\n", env!("CARGO_PKG_VERSION")));
    for command in COMMANDS {
        gapless(["log", command, "--help"]).exits_with(0).says("Examples:");
    }
}

#[test]
fn a_missing_directory_is_refused_and_not_created() {
    let made = TestLog::nowhere();
    for command in COMMANDS {
        let run = log_command(command, &made.dir, &[]).exits_with(1);
        run.warns("does not exist");
        run.warns("next:");
        assert!(!made.dir.exists());
    }
    log_command("accept-loss", &made.dir, &["--yes"]).exits_with(1);
    assert!(!made.dir.exists());
}

#[test]
fn an_empty_directory_is_no_log_and_stays_empty() {
    let made = TestLog::nowhere();
    fs::create_dir(&made.dir).unwrap();
    for command in COMMANDS {
        log_command(command, &made.dir, &[]).exits_with(1).warns("there is no log in");
    }
    log_command("accept-loss", &made.dir, &["--yes"]).exits_with(1);
    assert_eq!(made.files(), []);
}

#[test]
fn a_log_one_level_below_is_pointed_out() {
    let made = TestLog::with_records(1);
    let run = log_command("inspect", made.dir.parent().unwrap(), &[]).exits_with(1);
    run.warns(&format!("there is one in {}", made.dir.display()));
}

#[test]
fn a_file_is_no_directory() {
    let made = TestLog::with_records(1);
    log_command("verify", &made.segment(1), &[]).exits_with(1).warns("is not a directory");
}

#[test]
fn a_foreign_file_is_named() {
    let made = TestLog::with_records(1);
    fs::write(made.dir.join("notes.txt"), "mine").unwrap();
    for command in COMMANDS {
        log_command(command, &made.dir, &[]).exits_with(1).warns("notes.txt is not a file of this log");
    }
}

#[test]
fn an_unknown_version_is_left_to_the_program_that_wrote_it() {
    let made = TestLog::with_records(1);
    let mut bytes = fs::read(made.segment(1)).unwrap();
    for at in [0, 2048] {
        let copy = &mut bytes[at..at + 128];
        copy[8..12].copy_from_slice(&9u32.to_le_bytes());
        let checksum = crc32c(copy[..12].iter().chain(&copy[16..]));
        copy[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(made.segment(1), &bytes).unwrap();
    for command in COMMANDS {
        let run = log_command(command, &made.dir, &[]).exits_with(1);
        run.warns("has format version 9");
        run.warns("or a newer one");
    }
}

/// CRC32C, bit by bit.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    !bytes.fold(!0, |checksum, &byte| {
        (0..8).fold(checksum ^ u32::from(byte), |rest, _| (rest >> 1) ^ (0x82f6_3b78 * (rest & 1)))
    })
}

#[test]
fn two_logs_in_one_directory_are_told_apart() {
    let (made, other) = (TestLog::with_records(40), TestLog::with_records(40));
    fs::copy(other.segment(2), made.segment(2)).unwrap();
    log_command("verify", &made.dir, &[]).exits_with(1).warns("belongs to log");
}
