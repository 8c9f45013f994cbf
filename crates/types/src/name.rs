//! Names that people give to namespaces, workspace kinds, sequences, record types and projections.
//!
//! Must not know: what is named, whether the name is taken.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits::MAX_NAME_BYTES;

/// 1 to 63 of `a` to `z`, `0` to `9`, `_` and `-`. Cheap to clone.
///
/// No dot, slash or upper case: a name may become part of a path, a host name or a metric unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no characters.
    #[error("a name has at least 1 character")]
    Empty,
    /// It has too many bytes.
    #[error("a name has at most {MAX_NAME_BYTES} characters, not {bytes}")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// It has a character that names do not have.
    #[error("a name has only a-z, 0-9, _ and -, not {character:?} (at byte {at})")]
    Character {
        /// The first such character.
        character: char,
        /// Where it starts, in bytes from 0.
        at: usize,
    },
}

impl Name {
    /// The name with this text.
    pub fn new(text: &str) -> Result<Self, NameError> {
        Self::check(text).map(|()| Self(text.into()))
    }

    /// Whether a text is a name, without keeping it.
    pub fn check(text: &str) -> Result<(), NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong { bytes: text.len() });
        }
        match text.char_indices().find(|&(_, character)| !is_name_character(character)) {
            Some((at, character)) => Err(NameError::Character { character, at }),
            None => Ok(()),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name_character(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '_' | '-')
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Maps with names as keys can be asked for a text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_1_to_63_characters() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new("a").unwrap().as_str(), "a");
        assert_eq!(Name::new(&"a".repeat(63)).unwrap().as_str().len(), 63);
        assert_eq!(Name::new(&"a".repeat(64)), Err(NameError::TooLong { bytes: 64 }));
    }

    #[test]
    fn characters_outside_the_set_are_named_with_their_place() {
        for (text, character, at) in [
            ("Shop", 'S', 0),
            ("my shop", ' ', 2),
            ("../etc", '.', 0),
            ("a/b", '/', 1),
            ("caf\u{e9}", '\u{e9}', 3),
        ] {
            assert_eq!(Name::new(text), Err(NameError::Character { character, at }));
        }
        assert_eq!(
            Name::new("a\0").unwrap_err().to_string(),
            r"a name has only a-z, 0-9, _ and -, not '\0' (at byte 1)"
        );
    }

    proptest! {
        #[test]
        fn every_text_of_the_set_is_a_name(text in "[a-z0-9_-]{1,63}") {
            prop_assert_eq!(text.parse::<Name>()?.to_string(), text);
        }

        #[test]
        fn no_other_text_is_a_name(text in ".*[^a-z0-9_-].*") {
            prop_assert!(Name::new(&text).is_err());
        }
    }
}
