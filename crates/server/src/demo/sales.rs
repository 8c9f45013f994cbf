//! What the demonstration writes: the business of a few small shops. A shop is a workspace, a till is a client.
//!
//! Must not know: which numbers the writes will get.

use gapless_partition::{Condition, NewId, Operation, Value, Write};
use gapless_types::{RecordId, WorkspaceId};

use super::ledger::INVOICE;

/// The shop of the story.
pub(super) const SHOP: WorkspaceId = WorkspaceId::new(1);
/// Shops that the writing process writes to, from [`SHOP`] on.
const SHOPS: u64 = 3;
/// Tills, with the one of the story first.
const TILLS: [&str; 2] = ["till-1", "till-2"];
/// Under this key every shop counts its apples.
pub(super) const STOCK: &[u8] = b"stock/apples";

/// An order with two lines. Inside the write they go by 1, 2 and 3.
pub(super) fn order() -> Write<'static> {
    Write {
        payload: br#"{"customer":"Ada","apples":5,"pears":2}"#,
        operations: order_with_lines(),
        ..Write::new(SHOP, TILLS[0], "OrderPlaced")
    }
}

fn order_with_lines() -> Vec<Operation<'static>> {
    let line = |raw, article, quantity| Operation::CreateRecord {
        id: NewId::Raw(raw),
        record_type: "line",
        fields: vec![
            ("article", Value::Text(article)),
            ("order", Value::Record(1)),
            ("quantity", Value::Integer(quantity)),
        ],
        parent: Some(1),
    };
    let order = Operation::CreateRecord {
        id: NewId::Raw(1),
        record_type: "order",
        fields: vec![("customer", Value::Text("Ada")), ("invoiced", Value::Boolean(false))],
        parent: None,
    };
    vec![order, line(2, "apple", 5), line(3, "pear", 2)]
}

/// Apples counted, under a condition.
pub(super) fn stock<'a>(count: &'a [u8], condition: Condition<'a>) -> Write<'a> {
    let set = Operation::SetEntity { key: STOCK, value: count, condition, expires_at: None };
    Write {
        payload: br#"{"by":"Grace"}"#,
        operations: vec![set],
        ..Write::new(SHOP, TILLS[0], "StockCounted")
    }
}

/// The invoice of an order: its number, the event and the change of the order are one transaction.
pub(super) fn invoice(order: RecordId) -> Write<'static> {
    let update = Operation::UpdateRecord {
        record: order.get(),
        fields: vec![("invoiced", Value::Boolean(true))],
        active: None,
    };
    Write {
        payload: br#"{"due":"30 days"}"#,
        operations: vec![Operation::NextNumber { sequence: INVOICE }, update],
        ..Write::new(SHOP, TILLS[0], "InvoiceIssued")
    }
}

/// A sale over the counter: order, lines and invoice at once. The shops and their tills take turns.
pub(super) fn sale(count: u64) -> Write<'static> {
    let shop = WorkspaceId::new(SHOP.get() + count % SHOPS);
    let till = if (count / SHOPS).is_multiple_of(2) { TILLS[0] } else { TILLS[1] };
    let mut operations = order_with_lines();
    operations.push(Operation::NextNumber { sequence: INVOICE });
    Write { payload: br#"{"paid":"cash"}"#, operations, ..Write::new(shop, till, "SaleMade") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shops_and_their_tills_take_turns() {
        let places: Vec<_> = (0..7).map(sale).map(|sale| (sale.workspace.get(), sale.client)).collect();
        let expected = [
            (1, "till-1"),
            (2, "till-1"),
            (3, "till-1"),
            (1, "till-2"),
            (2, "till-2"),
            (3, "till-2"),
            (1, "till-1"),
        ];
        assert_eq!(places, expected);
    }
}
