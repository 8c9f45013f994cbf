//! Conditions of entities, what they refuse, and entities that go away.

use bytes::Bytes;
use gapless_api::v1;
use v1::WriteErrorCode as Code;
use v1::condition::Kind;
use v1::operation::Op;

use crate::support::{Ledger, Node, refusal, sale, set, with, written};

fn set_if(key: &str, value: &str, kind: Kind) -> Op {
    let condition = Some(v1::Condition { kind: Some(kind) });
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Op::SetEntity(v1::SetEntity { key, value, condition, expires_at_ms: None })
}

fn delete_if(key: &str, kind: Option<Kind>) -> Op {
    let condition = kind.map(|kind| v1::Condition { kind: Some(kind) });
    Op::DeleteEntity(v1::DeleteEntity { key: Bytes::copy_from_slice(key.as_bytes()), condition })
}

async fn refused(ledger: &mut Ledger, number: u64, operation: Op) -> v1::WriteError {
    refusal(ledger.write(with(sale(1, number), vec![operation])).await.unwrap().into_inner())
}

async fn entity(ledger: &mut Ledger, key: &str) -> Option<v1::Entity> {
    let request = v1::GetEntityRequest {
        namespace: "shop".to_owned(),
        workspace: 1,
        key: Bytes::copy_from_slice(key.as_bytes()),
        options: None,
    };
    ledger.get_entity(request).await.unwrap().into_inner().entity
}

#[tokio::test]
async fn a_condition_holds_or_the_write_is_refused_with_what_is_there() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let absent = refused(&mut ledger, 1, set_if("stock", "1", Kind::MustExist(true))).await;
    assert_eq!((absent.code(), absent.key.as_str()), (Code::KeyNotFound, "stock"));
    assert_eq!((absent.current_version, absent.current_value), (None, None));
    written(&mut ledger, with(sale(1, 2), vec![set("stock", "12")])).await;

    let version = refused(&mut ledger, 3, set_if("stock", "1", Kind::VersionEquals(7))).await;
    assert_eq!((version.code(), version.current_version), (Code::VersionMismatch, Some(1)));
    let value = refused(&mut ledger, 4, set_if("stock", "1", Kind::ValueEquals("13".into()))).await;
    assert_eq!((value.code(), value.current_value), (Code::ValueMismatch, Some("12".into())));
    assert_eq!(entity(&mut ledger, "stock").await.unwrap().value, "12", "refused is not done");

    written(&mut ledger, with(sale(1, 5), vec![set_if("stock", "11", Kind::VersionEquals(1))])).await;
    written(&mut ledger, with(sale(1, 6), vec![set_if("stock", "10", Kind::ValueEquals("11".into()))])).await;
    let found = entity(&mut ledger, "stock").await.unwrap();
    assert_eq!((found.value, found.version), ("10".into(), 3));
    node.stop().await;
}

#[tokio::test]
async fn an_entity_is_deleted_under_a_condition_and_can_come_back() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let absent = refused(&mut ledger, 1, delete_if("stock", Some(Kind::MustExist(true)))).await;
    assert_eq!(absent.code(), Code::KeyNotFound);
    written(&mut ledger, with(sale(1, 2), vec![set("stock", "12")])).await;
    let version = refused(&mut ledger, 3, delete_if("stock", Some(Kind::VersionEquals(9)))).await;
    assert_eq!((version.code(), version.current_version), (Code::VersionMismatch, Some(1)));
    written(&mut ledger, with(sale(1, 4), vec![delete_if("stock", Some(Kind::VersionEquals(1)))])).await;
    assert_eq!(entity(&mut ledger, "stock").await, None);
    // What is not there needs no deleting, and nobody is refused.
    written(&mut ledger, with(sale(1, 5), vec![delete_if("stock", None)])).await;
    written(&mut ledger, with(sale(1, 6), vec![set_if("stock", "1", Kind::MustNotExist(true))])).await;
    assert_eq!(entity(&mut ledger, "stock").await.unwrap().value, "1");
    node.stop().await;
}

#[tokio::test]
async fn an_entity_that_has_expired_is_not_there() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let expiring = |key: &str, time| {
        let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), "1".into());
        Op::SetEntity(v1::SetEntity { key, value, condition: None, expires_at_ms: Some(time) })
    };
    // In 1970, and in 2096.
    let both = vec![expiring("gone", 1), expiring("kept", 4_000_000_000_000)];
    written(&mut ledger, with(sale(1, 1), both)).await;
    assert_eq!(entity(&mut ledger, "gone").await, None);
    let kept = entity(&mut ledger, "kept").await.unwrap();
    assert_eq!(kept.expires_at_ms, Some(4_000_000_000_000));
    let request =
        v1::ListEntitiesRequest { namespace: "shop".to_owned(), workspace: 1, ..Default::default() };
    let listed = ledger.list_entities(request).await.unwrap().into_inner().entities;
    assert_eq!(listed.into_iter().map(|entity| entity.key).collect::<Vec<_>>(), ["kept"]);
    let exists = refused(&mut ledger, 2, set_if("kept", "2", Kind::MustNotExist(true))).await;
    assert_eq!(exists.code(), Code::KeyExists);
    written(&mut ledger, with(sale(1, 3), vec![set_if("gone", "2", Kind::MustNotExist(true))])).await;
    node.stop().await;
}

#[tokio::test]
async fn a_record_that_is_not_there_cannot_be_changed() {
    let node = Node::start().await;
    let mut ledger = node.ledger().await;
    let update = v1::UpdateRecord { record: 200_001, active: Some(false), ..Default::default() };
    let invalid = refused(&mut ledger, 1, Op::UpdateRecord(update)).await;
    assert_eq!(invalid.code(), Code::InvalidRecord);
    let first = written(&mut ledger, sale(1, 2)).await;
    assert_eq!(first.workspace_offset, 1, "a refusal takes no number");
    node.stop().await;
}
