//! What values look like, in a file and in the environment, where everything is text; and how small and large they may be.
//!
//! Must not know: which settings there are.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gapless_server::telemetry::{self, LogFormat, TelemetryError};
use toml::Value;

/// Units of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// How small and large a value may be, in what its kind counts.
pub(super) type Bounds = RangeInclusive<u64>;

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

/// A number within its bounds, as its place wants it.
fn fitted<T: TryFrom<u64>>(number: u64, bounds: &Bounds, shown: impl Fn(u64) -> String) -> Result<T, String> {
    let (least, most) = (bounds.start(), bounds.end());
    let out = || {
        format!("`{}` is out of bounds: at least {}, at most {}", shown(number), shown(*least), shown(*most))
    };
    if !bounds.contains(&number) {
        return Err(out());
    }
    T::try_from(number).map_err(|_| out())
}

fn between(bounds: &Bounds, shown: impl Fn(u64) -> String) -> String {
    format!("{} to {}", shown(*bounds.start()), shown(*bounds.end()))
}

/// How many.
pub(super) mod count {
    use super::*;

    pub(in super::super) fn read<T: TryFrom<u64>>(value: &Value, bounds: &Bounds) -> Result<T, String> {
        let number = match value {
            Value::Integer(number) => {
                u64::try_from(*number).map_err(|_| format!("`{number}` is not a number from 0 on"))?
            }
            other => parsed(other, "a number from 0 on")?,
        };
        fitted(number, bounds, |number| number.to_string())
    }

    pub(in super::super) fn show<T: Copy + TryInto<u64>>(count: &T) -> Value {
        let count: u64 = (*count).try_into().unwrap_or(u64::MAX);
        // A file has no larger ones.
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(in super::super) fn about(bounds: &Bounds) -> String {
        format!("a number, {}", between(bounds, |number| number.to_string()))
    }
}

/// Bytes, with a unit.
pub(super) mod size {
    use super::*;

    pub(in super::super) fn read<T: TryFrom<u64>>(value: &Value, bounds: &Bounds) -> Result<T, String> {
        const WANTED: &str = "a size with a unit, such as `64MiB`";
        let text = text(value, WANTED)?;
        let wrong = || format!("`{text}` is not {WANTED}");
        let trimmed = text.trim();
        let (digits, unit) = trimmed.split_at(trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let number = number.checked_mul(*bytes).ok_or_else(|| format!("`{text}` is too large"))?;
        fitted(number, bounds, shown)
    }

    pub(in super::super) fn show<T: Copy + TryInto<u64>>(size: &T) -> Value {
        Value::String(shown((*size).try_into().unwrap_or(u64::MAX)))
    }

    pub(in super::super) fn about(bounds: &Bounds) -> String {
        format!("a size, {}", between(bounds, shown))
    }

    fn shown(size: u64) -> String {
        let whole = |bytes: u64| size.is_multiple_of(bytes) && (size > 0 || bytes == 1);
        let (name, bytes) = UNITS.iter().find(|(_, bytes)| whole(*bytes)).expect("every size is in bytes");
        format!("{}{name}", size / bytes)
    }
}

/// How long, with a unit. Bounds are in milliseconds.
pub(super) mod duration {
    use super::*;

    pub(in super::super) fn read(value: &Value, bounds: &Bounds) -> Result<Duration, String> {
        let text = text(value, "a duration with a unit, such as `10s`")?;
        let duration = humantime::parse_duration(&text)
            .map_err(|error| format!("`{text}` is not a duration such as `10s`: {error}"))?;
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        fitted::<u64>(millis, bounds, shown)?;
        Ok(duration)
    }

    pub(in super::super) fn show(duration: &Duration) -> Value {
        Value::String(humantime::format_duration(*duration).to_string())
    }

    pub(in super::super) fn about(bounds: &Bounds) -> String {
        format!("a duration, {}", between(bounds, shown))
    }

    fn shown(millis: u64) -> String {
        humantime::format_duration(Duration::from_millis(millis)).to_string()
    }
}

/// A kind whose values have no bounds: they are right or wrong.
macro_rules! unbounded {
    ($(#[$about:meta])* $name:ident: $type:ty, $words:literal, |$value:ident| $read:expr, |$held:ident| $show:expr) => {
        $(#[$about])*
        pub(super) mod $name {
            use super::*;

            pub(in super::super) fn read($value: &Value, _: &Bounds) -> Result<$type, String> {
                $read
            }

            pub(in super::super) fn show($held: &$type) -> Value {
                $show
            }

            pub(in super::super) fn about(_: &Bounds) -> String {
                $words.to_owned()
            }
        }
    };
}

unbounded!(
    /// Which lines are written.
    levels: String,
    "a level, or levels by target: `info,gapless_engine=debug`",
    |value| checked(value, |text| telemetry::levels(text).map(|_| text.to_owned())),
    |text| shown(text)
);

unbounded!(
    /// What lines look like.
    format: LogFormat,
    "`human` or `json`",
    |value| checked(value, str::parse),
    |format| shown(&format.name())
);

unbounded!(
    /// A collector of spans.
    endpoint: String,
    "an address such as `http://127.0.0.1:4317`, or nothing",
    |value| checked(value, |text| telemetry::endpoint(text).map(|_| text.to_owned())),
    |text| shown(text)
);

/// A text that somebody else understands, or says why not.
fn checked<T>(value: &Value, check: impl FnOnce(&str) -> Result<T, TelemetryError>) -> Result<T, String> {
    let text = text(value, "a text")?;
    check(&text).map_err(|error| format!("`{text}`: {error}"))
}

unbounded!(
    /// Where to listen.
    address: SocketAddr,
    "an address such as `127.0.0.1:7400`",
    |value| parsed(value, "an address such as `127.0.0.1:7400`"),
    |address| shown(address)
);

unbounded!(
    /// Yes or no.
    flag: bool,
    "`true` or `false`",
    |value| match value {
        Value::Boolean(flag) => Ok(*flag),
        other => parsed(other, "`true` or `false`"),
    },
    |flag| Value::Boolean(*flag)
);

unbounded!(
    /// A name that means something elsewhere.
    word: String,
    "a text without spaces",
    |value| match text(value, "a text")? {
        text if text.contains(|c: char| c.is_whitespace() || c.is_control()) => Err(format!("`{text}` has spaces")),
        text => Ok(text),
    },
    |text| shown(text)
);

/// A place on disk.
pub(super) mod path {
    use super::*;

    pub(in super::super) fn read(value: &Value, _: &Bounds) -> Result<PathBuf, String> {
        text(value, "a path").map(PathBuf::from)
    }

    pub(in super::super) fn show(path: &Path) -> Value {
        shown(&path.display())
    }

    pub(in super::super) fn about(_: &Bounds) -> String {
        "a path".to_owned()
    }
}

fn shown(value: &impl Display) -> Value {
    Value::String(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Bounds = 0..=u64::MAX;

    #[test]
    fn sizes_have_units() {
        let read = |text: &str| size::read::<u64>(&Value::String(text.to_owned()), &ANY);
        assert_eq!(read("64 MiB"), Ok(64 << 20));
        assert_eq!(read("64MiB"), Ok(64 << 20));
        assert_eq!(read("0 B"), Ok(0));
        for wrong in ["64", "MiB", "", "64 MB", "-1 B", "6.5 GiB", "99999999999999 GiB"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(size::read::<u32>(&Value::String("8GiB".to_owned()), &ANY).is_err());
        for bytes in [0_u64, 1, 1023, 1024, 3 << 20, 1 << 30, (1 << 30) + 1] {
            assert_eq!(size::read(&size::show(&bytes), &ANY), Ok(bytes));
        }
    }

    #[test]
    fn what_comes_as_text_counts_like_what_it_says() {
        let text = |text: &str| Value::String(text.to_owned());
        assert_eq!(count::read::<u64>(&text("12"), &ANY), Ok(12));
        assert_eq!(flag::read(&text("true"), &ANY), Ok(true));
        assert!(flag::read(&text("yes"), &ANY).is_err());
        assert!(count::read::<u8>(&text("300"), &ANY).is_err());
        assert_eq!(duration::read(&text("1m 30s"), &ANY), Ok(Duration::from_secs(90)));
        assert!(duration::read(&Value::Integer(5), &ANY).is_err());
    }

    #[test]
    fn a_value_at_its_bound_is_taken_and_one_beyond_is_not() {
        let text = |text: &str| Value::String(text.to_owned());
        assert_eq!(count::read::<u64>(&Value::Integer(1), &(1..=9)), Ok(1));
        assert_eq!(count::read::<u64>(&Value::Integer(9), &(1..=9)), Ok(9));
        let out = count::read::<u64>(&Value::Integer(10), &(1..=9)).unwrap_err();
        assert_eq!(out, "`10` is out of bounds: at least 1, at most 9");
        assert!(count::read::<u64>(&Value::Integer(0), &(1..=9)).is_err());
        assert_eq!(size::read::<u64>(&text("1KiB"), &(1024..=2048)), Ok(1024));
        assert!(size::read::<u64>(&text("1023B"), &(1024..=2048)).unwrap_err().contains("at least 1KiB"));
        assert!(duration::read(&text("0s"), &(1..=1000)).unwrap_err().contains("at most 1s"));
        assert!(duration::read(&text("1001ms"), &(1..=1000)).is_err());
    }
}
