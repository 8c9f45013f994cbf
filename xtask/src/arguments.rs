//! The words after `cargo xtask`, taken one by one.
//!
//! Small enough to need no library: a handful of flags, all of them with a value or without one.

use std::collections::VecDeque;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// What has not been taken yet.
#[derive(Debug)]
pub(crate) struct Arguments(VecDeque<String>);

impl Arguments {
    pub(crate) fn of_this_process() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes the next word; none if a flag or nothing comes next.
    pub(crate) fn word(&mut self) -> Option<String> {
        let is_help = |word: &str| matches!(word, "--help" | "-h");
        self.0.pop_front_if(|word| !word.starts_with('-') || is_help(word))
    }

    /// Takes `flag` and the value behind it, wherever they stand.
    pub(crate) fn value<T>(&mut self, flag: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(at) = self.0.iter().position(|word| word == flag) else { return Ok(None) };
        self.0.remove(at);
        let value = self.0.remove(at).with_context(|| format!("{flag} needs a value"))?;
        let parsed = value.parse().with_context(|| format!("{flag} {value}"))?;
        Ok(Some(parsed))
    }

    /// Everything left, for a program that takes flags of its own.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0.into()
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.front() {
            Some(word) => bail!("unexpected argument `{word}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments(line.split_whitespace().map(String::from).collect())
    }

    #[test]
    fn words_come_before_flags_and_flags_in_any_order() {
        let mut given = arguments("soak log --from 7 --seeds 5");
        assert_eq!(given.word().as_deref(), Some("soak"));
        assert_eq!(given.word().as_deref(), Some("log"));
        assert_eq!(given.word(), None);
        assert_eq!(given.value::<u64>("--seeds").unwrap(), Some(5));
        assert_eq!(given.value::<u64>("--from").unwrap(), Some(7));
        given.finish().unwrap();
    }

    #[test]
    fn a_flag_without_its_value_is_refused() {
        assert_eq!(
            arguments("--seeds").value::<u64>("--seeds").unwrap_err().to_string(),
            "--seeds needs a value"
        );
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_with_its_flag() {
        assert_eq!(arguments("--seeds x").value::<u64>("--seeds").unwrap_err().to_string(), "--seeds x");
    }

    #[test]
    fn what_nobody_took_is_refused() {
        assert!(arguments("--quikc").finish().unwrap_err().to_string().contains("--quikc"));
    }
}
