//! Stock-level (clause 2.8), divided into pieces: counts the items of a district's last twenty orders whose
//! stock is low.

use weft_txn::{Accesses, Context, Mode, Procedure, Request, Step};

use super::rows::{district, order, order_line, stock};
use super::{Keys, LINES_MAX, LOW_STOCK, MISSING, NEXT_ORDER, RECENT_ITEMS};
use crate::input::{Reader, Writer};

/// Number of orders whose items are counted.
pub(super) const RECENT: u32 = 20;
/// Orders of one piece. With fifteen lines each they need 48 keys, and the answer has 45 items of four bytes.
pub(super) const ORDERS_AT_ONCE: u32 = 3;
/// Stocks of one piece.
pub(super) const STOCKS_AT_ONCE: usize = 60;

/// Requests the number of a district's next order.
pub(super) fn next_order(keys: &Keys, warehouse: u16, district: u8) -> Request {
    let mut accesses = Accesses::default();
    accesses.add(keys.district(warehouse, district), Mode::Read).expect("one key");
    Request { procedure: NEXT_ORDER, input: Vec::new(), accesses }
}

/// Requests the items of up to [`ORDERS_AT_ONCE`] orders, from `first` on.
pub(super) fn recent_items(keys: &Keys, warehouse: u16, district: u8, first: u32, count: u32) -> Request {
    let mut accesses = Accesses::default();
    let count = count.min(ORDERS_AT_ONCE);
    for order in first..first + count {
        accesses.add(keys.order(warehouse, district, order), Mode::Read).expect("three keys");
    }
    let mut input = Writer::default();
    input.u16(warehouse).u8(district).u32(first).u8(count as u8);
    Request { procedure: RECENT_ITEMS, input: input.0, accesses }
}

/// Requests how many of up to [`STOCKS_AT_ONCE`] items have stocks below the threshold.
pub(super) fn low_stock(keys: &Keys, warehouse: u16, items: &[u32], threshold: u8) -> Request {
    let mut accesses = Accesses::default();
    for &item in &items[..items.len().min(STOCKS_AT_ONCE)] {
        accesses.add(keys.stock(warehouse, item), Mode::Read).expect("sixty keys");
    }
    Request { procedure: LOW_STOCK, input: vec![threshold], accesses }
}

/// Returns the number of the next order.
pub(super) struct NextOrder;

impl Procedure for NextOrder {
    fn name(&self) -> &'static str {
        "stock-level-next-order"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let Some(row) = context.value(0) else { return Step::Abort(MISSING) };
        let next = district::NEXT_ORDER.get(row) as u32;
        context.answer(&next.to_le_bytes());
        Step::Commit
    }

    fn ship(&self) -> bool {
        false
    }
}

/// Returns the items of the orders, each once.
pub(super) struct RecentItems(pub(super) Keys);

impl RecentItems {
    fn collect(&self, context: &mut Context<'_>) -> Result<Step, u8> {
        let mut input = Reader(context.input());
        let read = (input.u16(), input.u8(), input.u32(), input.u8());
        let (Some(warehouse), Some(district), Some(first), Some(orders)) = read else { return Err(MISSING) };
        let orders = usize::from(orders).min(ORDERS_AT_ONCE as usize);
        let mut items = [0u32; ORDERS_AT_ONCE as usize * LINES_MAX];
        let mut count = 0;
        for (number, index) in (first..).zip(0..orders) {
            let lines = order::LINES.get(context.value(index).ok_or(MISSING)?) as usize;
            for place in 1..=lines.min(LINES_MAX) {
                let line = context.add(self.0.order_line(warehouse, district, number, place), Mode::Read);
                if context.round() == 0 {
                    continue;
                }
                let item = order_line::ITEM.get(context.value(line).ok_or(MISSING)?) as u32;
                if !items[..count].contains(&item) {
                    items[count] = item;
                    count += 1;
                }
            }
        }
        if context.round() == 0 {
            return Ok(Step::More);
        }
        let mut answer = Writer::default();
        items[..count].iter().for_each(|&item| {
            answer.u32(item);
        });
        context.answer(&answer.0);
        Ok(Step::Commit)
    }
}

impl Procedure for RecentItems {
    fn name(&self) -> &'static str {
        "stock-level-recent-items"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        self.collect(context).unwrap_or_else(Step::Abort)
    }

    fn ship(&self) -> bool {
        false
    }
}

/// Returns how many of the stocks are below the threshold.
pub(super) struct LowStock;

impl Procedure for LowStock {
    fn name(&self) -> &'static str {
        "stock-level-low-stock"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let Some(threshold) = Reader(context.input()).u8() else { return Step::Abort(MISSING) };
        let mut low = 0u32;
        for index in 0..context.keys().len() {
            let Some(row) = context.value(index) else { return Step::Abort(MISSING) };
            low += u32::from(stock::QUANTITY.get(row) < u64::from(threshold));
        }
        context.answer(&low.to_le_bytes());
        Step::Commit
    }

    fn ship(&self) -> bool {
        false
    }
}
