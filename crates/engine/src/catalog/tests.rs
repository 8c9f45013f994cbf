//! The catalog as a fold, and its file.

use std::num::NonZeroU16;

use gapless_consensus::ClusterId;
use gapless_log::io::Io;
use gapless_log::io::memory::MemoryIo;
use gapless_types::PartitionOffset;

use super::*;
use crate::log_time::LogTime;

fn definition(name: &str, partitions: u16) -> Definition {
    Definition::new(Name::new(name).unwrap(), NonZeroU16::new(partitions).unwrap())
}

fn define(catalog: &mut Catalog, definition: &Definition) -> Change {
    let mut command = Vec::new();
    Command::encode_definition(definition, &mut command);
    let id = catalog.check(definition).unwrap();
    catalog.define(id, &command.into(), LogIndex::new(1))
}

#[test]
fn a_namespace_that_comes_back_is_another_one() {
    let mut catalog = Catalog::default();
    let Change::Created(first) = define(&mut catalog, &definition("shop", 2)) else { panic!() };
    let id = first[0].namespace;
    assert_eq!(first.len(), 2);
    assert_eq!(define(&mut catalog, &definition("shop", 2)), Change::Altered);
    assert!(catalog.check(&definition("shop", 3)).is_err(), "partitions cannot change");
    assert_eq!(catalog.command(CatalogCommand::Drop(id)), Change::Dropped(first));
    assert_eq!(catalog.command(CatalogCommand::Drop(id)), Change::Nothing);
    let Change::Created(second) = define(&mut catalog, &definition("shop", 3)) else { panic!() };
    assert!(second[0].namespace > id);
    assert_eq!(catalog.garbage().len(), 1);
}

#[test]
fn a_projection_that_comes_back_is_another_version() {
    let mut catalog = Catalog::default();
    let plan = |json: &str| Plan::from_text(json).unwrap().to_text();
    let (plain, sales) = (definition("shop", 2), Name::new("sales").unwrap());
    let with = |json: &str| plain.clone().with_projection(sales.clone(), plan(json));
    let versions = |catalog: &Catalog| {
        let namespace = catalog.by_name("shop").unwrap();
        namespace.projections.get(&sales).map(|projection| projection.version)
    };
    define(&mut catalog, &with("{}"));
    assert_eq!(versions(&catalog), Some(1));
    assert!(catalog.check(&with(r#"{"window":5}"#)).is_err(), "a plan cannot change");
    define(&mut catalog, &plain);
    assert_eq!(versions(&catalog), None);
    define(&mut catalog, &with(r#"{"window":5}"#));
    assert_eq!(versions(&catalog), Some(2));
    let wrong = plain.clone().with_projection(sales.clone(), r#"{"window":0}"#);
    assert!(catalog.check(&wrong).unwrap_err()[0].contains("window"));
    let other_form = plain.clone().with_projection(sales.clone(), "{}");
    assert!(catalog.check(&other_form).unwrap_err()[0].contains("one form"));
}

#[test]
fn a_definition_for_another_id_than_the_next_changes_nothing() {
    let mut catalog = Catalog::default();
    let mut command = Vec::new();
    Command::encode_definition(&definition("shop", 2), &mut command);
    assert_eq!(catalog.define(NamespaceId::new(99), &command.into(), LogIndex::new(1)), Change::Nothing);
    assert_eq!(
        catalog.define(NamespaceId::new(16), &Bytes::from_static(b"nonsense"), LogIndex::new(1)),
        Change::Nothing
    );
    assert_eq!(catalog, Catalog::default());
}

#[test]
fn partitions_freeze_and_thaw_once() {
    let mut catalog = Catalog::default();
    let Change::Created(partitions) = define(&mut catalog, &definition("shop", 2)) else { panic!() };
    let partition = partitions[1];
    assert_eq!(catalog.command(CatalogCommand::Freeze(partition)), Change::Altered);
    assert_eq!(catalog.command(CatalogCommand::Freeze(partition)), Change::Nothing);
    assert_eq!(catalog.by_name("shop").unwrap().frozen.len(), 1);
    assert_eq!(catalog.command(CatalogCommand::Thaw(partition)), Change::Altered);
    let stranger = PartitionId { index: PartitionIndex::new(2), ..partition };
    assert_eq!(catalog.command(CatalogCommand::Freeze(stranger)), Change::Nothing);
}

#[test]
fn commands_have_one_encoding() {
    let partition = PartitionId { namespace: NamespaceId::new(0x0403_0201), index: PartitionIndex::new(5) };
    for (command, bytes) in [
        (CatalogCommand::Drop(partition.namespace), [1, 1, 1, 2, 3, 4, 0, 0]),
        (CatalogCommand::Freeze(partition), [1, 2, 1, 2, 3, 4, 5, 0]),
        (CatalogCommand::Thaw(partition), [1, 3, 1, 2, 3, 4, 5, 0]),
    ] {
        assert_eq!(command.encode(), &bytes[..]);
        assert_eq!(CatalogCommand::decode(&bytes), Some(command));
    }
    assert_eq!(CatalogCommand::decode(&[1, 1, 1, 2, 3, 4, 1, 0]), None);
    assert_eq!(CatalogCommand::decode(&[2, 1, 1, 2, 3, 4, 0, 0]), None);
    assert_eq!(CatalogCommand::decode(&[]), None);
}

#[test]
fn the_file_holds_what_was_written_and_every_flipped_bit_is_found() {
    let io = Arc::new(MemoryIo::new());
    let file = CatalogFile::new(io.clone(), "node");
    io.create_dir("node".as_ref()).unwrap();
    assert_eq!(file.read().unwrap(), StoredCatalog::default());
    let mut catalog = Catalog::default();
    let sales = Name::new("sales").unwrap();
    let plan = Plan::from_text("{}").unwrap().to_text();
    let shop = definition("shop", 2).with_projection(Name::new("gone").unwrap(), plan.clone());
    let Change::Created(partitions) = define(&mut catalog, &shop) else { panic!() };
    define(&mut catalog, &definition("shop", 2).with_projection(sales.clone(), plan));
    define(&mut catalog, &definition("other", 1));
    catalog.command(CatalogCommand::Freeze(partitions[1]));
    catalog.command(CatalogCommand::Drop(NamespaceId::new(17)));
    catalog.set_at(LogIndex::new(7));
    let time = LogTime::from_millis(11).unwrap();
    let cluster = Some(ClusterId::from_bytes(*b"the cluster's id"));
    let domain = Domain { projection: sales, version: 1, partition: partitions[0] };
    let domains = BTreeMap::from([(domain.clone(), LogIndex::new(6))]);
    let covered = Some(LogIndex::new(5));
    let ends = BTreeMap::from([(partitions[1], PartitionOffset::new(41).unwrap())]);
    let places = Places {
        installs: 3,
        partitions: BTreeMap::from([(partitions[0], 2)]),
        domains: BTreeMap::from([(domain, 3)]),
    };
    let stored = StoredCatalog { catalog, covered, time, cluster, domains, ends, places };
    file.write(&stored).unwrap();
    assert_eq!(file.read().unwrap(), stored);
    let bytes = encode_catalog(&stored);
    assert_eq!(&bytes[..8], b"GAPLCAT5");
    assert_eq!(bytes[12..36], [3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[36..52], b"the cluster's id");
    assert_eq!(bytes[52..64], [18, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let places = [
        &[1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0][..],
        &[1, 0, 0, 0, 5, 0, 0, 0, b's', b'a', b'l', b'e', b's', 1, 0, 0, 0, 16, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert!(bytes.ends_with(&places.concat()));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_catalog(&damaged).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(decode_catalog(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn the_machine_version_rises_and_every_entry_keeps_its_own() {
    let mut catalog = Catalog::default();
    assert_eq!(catalog.machine_version(), MachineVersion::FIRST);
    let (index, version) = (LogIndex::new, MachineVersion);
    assert_eq!(catalog.raise(version(1), index(3)), Change::Nothing);
    assert_eq!(catalog.raise(version(2), index(5)), Change::Altered);
    assert_eq!(catalog.raise(version(2), index(6)), Change::Nothing);
    assert_eq!(catalog.raise(version(4), index(9)), Change::Altered);
    assert_eq!(catalog.raise(version(3), index(10)), Change::Nothing, "it never falls");
    assert_eq!(catalog.machine_version(), version(4));
    let at = [0, 4, 5, 8, 9, 99].map(|at| catalog.machine_version_at(index(at)).0);
    assert_eq!(at, [1, 1, 2, 2, 4, 4]);
}

#[test]
fn the_file_says_what_was_raised_and_where() {
    let mut stored = StoredCatalog::default();
    let unraised = encode_catalog(&stored);
    assert!(unraised.starts_with(b"GAPLCAT5"), "the form before, as long as nothing was raised");
    stored.catalog.raise(MachineVersion(2), LogIndex::new(5));
    stored.catalog.raise(MachineVersion(7), LogIndex::new(9));
    let bytes = encode_catalog(&stored);
    assert_eq!(decode_catalog(&bytes), Ok(stored));
    assert!(bytes.starts_with(b"GAPLCAT6"));
    let raises = [
        [2, 0, 0, 0].to_vec(),
        [5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0].to_vec(),
        vec![9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0],
    ];
    assert_eq!(bytes[12..], [&unraised[12..], &raises.concat()].concat());
    let sealed = |mut bytes: Vec<u8>| {
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        decode_catalog(&bytes)
    };
    let end = bytes.len();
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        sealed(bytes)
    };
    for (at, byte, what) in
        [(end - 12, 5, "the same entry"), (end - 4, 2, "the same version"), (end - 16, 1, "the first")]
    {
        assert_eq!(with(at, byte), Err("machine versions do not ascend"), "{what}");
    }
    let mut none = [b"GAPLCAT6", &unraised[8..]].concat();
    none.extend_from_slice(&[0; 4]);
    assert_eq!(sealed(none), Err("machine versions do not ascend"), "none: there is another form for that");
}
