//! The definition of a namespace as people write it: TOML. Everything that is wrong with one is told at once.

mod projections;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use gapless_engine::partition::{AtCap, Definition, IdempotencyRule, RecordRule, TrustLevel};
use gapless_engine::types::Name;
use toml::{Table, Value};

pub use self::projections::projection_toml;
use crate::check::Check;
use crate::problem::Problem;
use crate::settings::Section;

/// Partitions of a namespace that does not say how many.
const DEFAULT_PARTITIONS: NonZeroU16 = NonZeroU16::new(8).expect("8 is not 0");

/// Reads a definition.
///
/// # Errors
/// Everything that is wrong with it.
pub fn from_toml(text: &str) -> Result<Definition, Problem> {
    let mut check = Check::default();
    let definition = Section::parse(text, &mut check).and_then(|section| read(section, &mut check));
    check.end()?;
    definition.ok_or_else(|| Problem::violation("name", "is missing"))
}

fn read(mut section: Section, check: &mut Check) -> Option<Definition> {
    let name = section.text("name", check);
    let name = match name {
        None => {
            check.add("name", "is missing");
            None
        }
        Some(text) => name_of("name", &text, check),
    };
    let definition = Definition {
        name: name.clone().unwrap_or_else(placeholder),
        partitions: section.number("partitions", check).map_or(DEFAULT_PARTITIONS, |count| {
            let partitions = u16::try_from(count).ok().and_then(NonZeroU16::new);
            partitions.unwrap_or_else(|| {
                check.add("partitions", format_args!("{count}; there are 1 to 65535"));
                DEFAULT_PARTITIONS
            })
        }),
        trust_level: match section.number("trust_level", check) {
            None | Some(0) => TrustLevel::CheckAll,
            Some(1) => TrustLevel::CheckEvents,
            Some(2) => TrustLevel::TrustAll,
            Some(other) => {
                check.add("trust_level", format_args!("{other}; there are 0, 1 and 2"));
                TrustLevel::CheckAll
            }
        },
        idempotency: idempotency(section.section("idempotency", check), check),
        kinds: kinds(section.section("kinds", check), check),
        records: records(section.section("records", check), check),
        projections: projections::read(section.section("projections", check), check),
    };
    section.end(check);
    name.map(|_| definition)
}

fn idempotency(mut section: Section, check: &mut Check) -> IdempotencyRule {
    let default = IdempotencyRule::default();
    let window = section.duration("window", check);
    let rule = IdempotencyRule {
        window_ms: window
            .map_or(default.window_ms, |window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX)),
        max_keys: section.number("max_keys", check).unwrap_or(default.max_keys),
        at_cap: match section.text("at_cap", check).as_deref() {
            None | Some("refuse") => AtCap::Refuse,
            Some("forget_oldest") => AtCap::ForgetOldest,
            Some(other) => {
                check.add(
                    "idempotency.at_cap",
                    format_args!("`{other:.40}`; there are refuse and forget_oldest"),
                );
                AtCap::Refuse
            }
        },
    };
    section.end(check);
    rule
}

fn kinds(section: Section, check: &mut Check) -> BTreeMap<Name, BTreeMap<Name, u64>> {
    let mut kinds = BTreeMap::new();
    for (kind, mut section) in section.sections(check) {
        let mut sequences = section.section("sequences", check);
        section.end(check);
        let mut numbers = BTreeMap::new();
        for sequence in sequences.keys() {
            let path = sequences.path(&sequence);
            if let (Some(name), Some(first)) =
                (name_of(&path, &sequence, check), sequences.number(&sequence, check))
            {
                numbers.insert(name, first);
            }
        }
        if let Some(kind) = name_of(&format!("kinds.{kind}"), &kind, check) {
            kinds.insert(kind, numbers);
        }
    }
    kinds
}

fn records(section: Section, check: &mut Check) -> BTreeMap<Name, RecordRule> {
    let mut records = BTreeMap::new();
    for (record_type, mut section) in section.sections(check) {
        let singleton = section.switch("singleton", check).unwrap_or(false);
        section.end(check);
        if let Some(name) = name_of(&format!("records.{record_type}"), &record_type, check) {
            records.insert(name, RecordRule { singleton });
        }
    }
    records
}

fn name_of(path: &str, text: &str, check: &mut Check) -> Option<Name> {
    Name::new(text).map_err(|error| check.add(path, error)).ok()
}

fn placeholder() -> Name {
    Name::new("unnamed").expect("it is a name")
}

/// Writes a definition down, with everything that it leaves to defaults.
pub fn to_toml(definition: &Definition) -> String {
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let rule = definition.idempotency;
    let idempotency = Table::from_iter([
        (
            "window".to_owned(),
            humantime::format_duration(Duration::from_millis(rule.window_ms)).to_string().into(),
        ),
        ("max_keys".to_owned(), number(rule.max_keys)),
        (
            "at_cap".to_owned(),
            match rule.at_cap {
                AtCap::Refuse => "refuse",
                AtCap::ForgetOldest => "forget_oldest",
            }
            .into(),
        ),
    ]);
    let kinds = definition.kinds.iter().map(|(kind, sequences)| {
        let sequences: Table =
            sequences.iter().map(|(name, first)| (name.to_string(), number(*first))).collect();
        (
            kind.to_string(),
            Value::Table(Table::from_iter([("sequences".to_owned(), Value::Table(sequences))])),
        )
    });
    let records = definition.records.iter().map(|(record_type, rule)| {
        let rule = Table::from_iter([("singleton".to_owned(), Value::Boolean(rule.singleton))]);
        (record_type.to_string(), Value::Table(rule))
    });
    let trust_level = match definition.trust_level {
        TrustLevel::CheckAll => 0,
        TrustLevel::CheckEvents => 1,
        TrustLevel::TrustAll => 2,
    };
    let mut table = Table::from_iter([
        ("name".to_owned(), definition.name.as_str().into()),
        ("partitions".to_owned(), number(u64::from(definition.partitions.get()))),
        ("trust_level".to_owned(), number(trust_level)),
        ("idempotency".to_owned(), Value::Table(idempotency)),
        ("kinds".to_owned(), Value::Table(kinds.collect())),
        ("records".to_owned(), Value::Table(records.collect())),
    ]);
    if !definition.projections.is_empty() {
        let projections = projections::tables(&definition.projections);
        table.insert("projections".to_owned(), Value::Table(projections));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"
        name = "shop"
        partitions = 4
        trust_level = 1
        idempotency = { window = "12h", max_keys = 1_000_000, at_cap = "forget_oldest" }
        [kinds.default.sequences]
        invoice = 1
        receipt = 1000
        [records.settings]
        singleton = true
    "#;

    #[test]
    fn a_definition_is_read_and_written_back() {
        let shop = from_toml(SHOP).unwrap();
        assert_eq!(shop.partitions.get(), 4);
        assert_eq!(shop.idempotency.window_ms, 12 * 60 * 60 * 1000);
        assert_eq!(shop.kinds["default"]["receipt"], 1000);
        assert!(shop.records["settings"].singleton);
        assert_eq!(from_toml(&to_toml(&shop)).unwrap(), shop);
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let least = from_toml("name = 'shop'").unwrap();
        assert_eq!(least, Definition::new(Name::new("shop").unwrap(), DEFAULT_PARTITIONS));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let problem = from_toml(
            r#"
            name = "Shop"
            partitions = 0
            trust_level = 7
            colour = "red"
            idempotency = { window = "soon", most = 1 }
            [kinds.default.sequences]
            invoice = -1
            [records.settings]
            singleton = "yes"
            "#,
        )
        .unwrap_err();
        let fields: Vec<&str> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        let expected = [
            "name",
            "partitions",
            "trust_level",
            "idempotency.window",
            "idempotency.most",
            "kinds.default.sequences.invoice",
            "records.settings.singleton",
            "colour",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn text_that_is_no_toml_is_told_with_its_line() {
        let problem = from_toml("name = 'shop'\npartitions = = 3").unwrap_err();
        assert_eq!(problem.violations[0].field, "line 2");
    }
}
