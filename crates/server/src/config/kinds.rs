//! What values look like, in a file and in the environment, where everything is text.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

/// Units of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

fn text(value: &Value, wanted: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("`{other}` is not {wanted}")),
    }
}

fn parsed<T: FromStr>(value: &Value, wanted: &str) -> Result<T, String> {
    let text = text(value, wanted)?;
    text.trim().parse().map_err(|_| format!("`{text}` is not {wanted}"))
}

fn narrowed<T: TryFrom<u64>>(number: u64) -> Result<T, String> {
    T::try_from(number).map_err(|_| format!("{number} is too large"))
}

/// How many.
pub(super) mod count {
    use super::*;

    pub(in super::super) fn read<T: TryFrom<u64>>(value: &Value) -> Result<T, String> {
        let number = match value {
            Value::Integer(number) => {
                u64::try_from(*number).map_err(|_| format!("`{number}` is not a number from 0 on"))?
            }
            other => parsed(other, "a number from 0 on")?,
        };
        narrowed(number)
    }

    pub(in super::super) fn show<T: Copy + TryInto<u64>>(count: &T) -> Value {
        let count: u64 = (*count).try_into().unwrap_or(u64::MAX);
        // A file has no larger ones.
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// Bytes, with a unit.
pub(super) mod size {
    use super::*;

    pub(in super::super) fn read<T: TryFrom<u64>>(value: &Value) -> Result<T, String> {
        const WANTED: &str = "a size with a unit, such as `64 MiB`";
        let text = text(value, WANTED)?;
        let wrong = || format!("`{text}` is not {WANTED}");
        let (digits, unit) =
            text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        narrowed(number.checked_mul(*bytes).ok_or_else(|| format!("`{text}` is too large"))?)
    }

    pub(in super::super) fn show<T: Copy + TryInto<u64>>(size: &T) -> Value {
        let size: u64 = (*size).try_into().unwrap_or(u64::MAX);
        let (name, bytes) =
            UNITS.iter().find(|(_, bytes)| size % bytes == 0).expect("every size is in bytes");
        Value::String(format!("{} {name}", size / bytes))
    }
}

/// How long, with a unit.
pub(super) mod duration {
    use super::*;

    pub(in super::super) fn read(value: &Value) -> Result<Duration, String> {
        let text = text(value, "a duration with a unit, such as `10s`")?;
        humantime::parse_duration(&text)
            .map_err(|error| format!("`{text}` is not a duration such as `10s`: {error}"))
    }

    pub(in super::super) fn show(duration: &Duration) -> Value {
        Value::String(humantime::format_duration(*duration).to_string())
    }
}

/// Where to listen.
pub(super) mod address {
    use super::*;

    pub(in super::super) fn read(value: &Value) -> Result<SocketAddr, String> {
        parsed(value, "an address such as `127.0.0.1:7400`")
    }

    pub(in super::super) fn show(address: &SocketAddr) -> Value {
        shown(address)
    }
}

/// Yes or no.
pub(super) mod flag {
    use super::*;

    pub(in super::super) fn read(value: &Value) -> Result<bool, String> {
        match value {
            Value::Boolean(flag) => Ok(*flag),
            other => parsed(other, "`true` or `false`"),
        }
    }

    pub(in super::super) fn show(flag: &bool) -> Value {
        Value::Boolean(*flag)
    }
}

/// A place on disk.
pub(super) mod path {
    use super::*;

    pub(in super::super) fn read(value: &Value) -> Result<PathBuf, String> {
        text(value, "a path").map(PathBuf::from)
    }

    pub(in super::super) fn show(path: &PathBuf) -> Value {
        shown(&path.display())
    }
}

fn shown(value: &impl Display) -> Value {
    Value::String(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let read = |text: &str| size::read::<u64>(&Value::String(text.to_owned()));
        assert_eq!(read("64 MiB"), Ok(64 << 20));
        assert_eq!(read("64MiB"), Ok(64 << 20));
        assert_eq!(read("0 B"), Ok(0));
        for wrong in ["64", "MiB", "", "64 MB", "-1 B", "6.5 GiB", "99999999999999 GiB"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(size::read::<u32>(&Value::String("8 GiB".to_owned())).is_err());
        for bytes in [0_u64, 1, 1023, 1024, 3 << 20, 1 << 30, (1 << 30) + 1] {
            assert_eq!(size::read(&size::show(&bytes)), Ok(bytes));
        }
    }

    #[test]
    fn what_comes_as_text_counts_like_what_it_says() {
        let text = |text: &str| Value::String(text.to_owned());
        assert_eq!(count::read::<u64>(&text("12")), Ok(12));
        assert_eq!(flag::read(&text("true")), Ok(true));
        assert!(flag::read(&text("yes")).is_err());
        assert!(count::read::<u8>(&text("300")).is_err());
        assert_eq!(duration::read(&text("1m 30s")), Ok(Duration::from_secs(90)));
        assert!(duration::read(&Value::Integer(5)).is_err());
    }
}
