//! The three shapes a number can have here, as macros, so that all types of a shape offer the same methods.
//!
//! - `dense_number!`: counted from 1, without gaps; 0 does not exist.
//! - `position_number!`: counted from a first value that may be 0.
//! - `identity_number!`: tells things apart; has no successor.
//!
//! Must not know: which types are made of them.

/// A value that a number type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value} is not in {first}..={last}")]
pub struct OutOfRange {
    /// Which number it was meant to be, such as `partition offset`.
    pub what: &'static str,
    /// The value that was refused.
    pub value: u64,
    /// The smallest value there is.
    pub first: u64,
    /// The largest value there is.
    pub last: u64,
}

/// Defines a number that starts at 1 and has no gaps.
macro_rules! dense_number {
    ($(#[$attribute:meta])* $name:ident($integer:ty, $non_zero:ty), $what:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($non_zero);

        impl $name {
            /// The first one: 1.
            pub const FIRST: Self = Self(<$non_zero>::MIN);
            /// The last one that can be expressed.
            pub const MAX: Self = Self(<$non_zero>::MAX);

            /// The number with this value; none for 0.
            #[must_use]
            pub const fn new(value: $integer) -> Option<Self> {
                match <$non_zero>::new(value) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// The value, at least 1.
            #[must_use]
            pub const fn get(self) -> $integer {
                self.0.get()
            }

            /// The number after this one; none after [`Self::MAX`].
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// The number before this one; none before [`Self::FIRST`].
            #[must_use]
            pub const fn previous(self) -> Option<Self> {
                Self::new(self.get() - 1)
            }
        }

        impl TryFrom<$integer> for $name {
            type Error = $crate::OutOfRange;

            fn try_from(value: $integer) -> Result<Self, Self::Error> {
                Self::new(value).ok_or($crate::OutOfRange {
                    what: $what,
                    value: u64::from(value),
                    first: u64::from(Self::FIRST.get()),
                    last: u64::from(Self::MAX.get()),
                })
            }
        }

        $crate::number::shown_as_its_value!($name, $integer);
    };
}

/// Defines a number with a successor whose first value is given and may be 0.
macro_rules! position_number {
    ($(#[$attribute:meta])* $name:ident($integer:ty), first = $first:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($integer);

        impl $name {
            #[doc = concat!("The first one: ", stringify!($first), ".")]
            pub const FIRST: Self = Self($first);
            /// The last one that can be expressed.
            pub const MAX: Self = Self(<$integer>::MAX);

            /// The number with this value.
            #[must_use]
            pub const fn new(value: $integer) -> Self {
                Self(value)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> $integer {
                self.0
            }

            /// The number after this one; none after [`Self::MAX`].
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            /// The number before this one; none before 0.
            #[must_use]
            pub const fn previous(self) -> Option<Self> {
                match self.0.checked_sub(1) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// The number `count` further on; none beyond [`Self::MAX`].
            #[must_use]
            pub const fn checked_add(self, count: $integer) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }
        }

        $crate::number::shown_as_its_value!($name, $integer);
    };
}

/// Defines a number that only tells things apart: every value exists, and none follows another.
macro_rules! identity_number {
    ($(#[$attribute:meta])* $name:ident($integer:ty)) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($integer);

        impl $name {
            /// The id with this value.
            #[must_use]
            pub const fn new(value: $integer) -> Self {
                Self(value)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> $integer {
                self.0
            }
        }

        $crate::number::shown_as_its_value!($name, $integer);
    };
}

/// A number is shown, and given away, as its bare value.
macro_rules! shown_as_its_value {
    ($name:ident, $integer:ty) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.get(), formatter)
            }
        }

        impl From<$name> for $integer {
            fn from(number: $name) -> Self {
                number.get()
            }
        }
    };
}

pub(crate) use {dense_number, identity_number, position_number, shown_as_its_value};
