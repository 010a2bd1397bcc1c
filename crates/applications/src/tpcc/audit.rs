//! Checks the consistency conditions of clause 3.3.2, and that indexes and stocks agree with the orders.

use std::collections::BTreeMap;

use weft_txn::{Key, Request};

use super::rows::{customer, district, history, new_order, order, order_line, pointer, stock, warehouse};
use super::{DISTRICTS, Keys, NEW_ORDER, PAYMENT, ParsedKey, Scale, Table};
use crate::Audit;

/// The most findings that are listed.
const LISTED_MAX: usize = 32;

/// A district: its warehouse and its number. A customer or an order: the same and its own number.
type DistrictId = (u16, u8);
type Id = (u16, u8, u32);

#[derive(Default)]
struct OfWarehouse {
    ytd: Option<i64>,
    districts_ytd: i64,
    paid: i64,
}

#[derive(Default)]
struct OfDistrict {
    ytd: Option<i64>,
    next_order: u32,
    paid: i64,
    customers: u32,
    oldest: Option<u32>,
}

#[derive(Default)]
struct OfCustomer {
    balance: Option<i64>,
    ytd_payment: i64,
    payments: u64,
    deliveries: u64,
    paid: i64,
    histories: u64,
    last_order: u32,
    newest_order: u32,
}

#[derive(Default)]
struct OfOrder {
    customer: Option<u32>,
    carrier: u64,
    lines: u64,
    is_new: bool,
    lines_found: u64,
    lines_delivered: u64,
    delivered: i64,
}

/// Totals of a stock, which is an item at a warehouse. Both pairs are pieces and order lines: those that the
/// stock's row says, and those of the orders since the load.
#[derive(Default)]
struct OfStock {
    says: Option<(u64, u64)>,
    ordered: (u64, u64),
}

/// Collects all objects, then compares them.
pub(super) struct Conditions {
    keys: Keys,
    warehouses: BTreeMap<u16, OfWarehouse>,
    districts: BTreeMap<DistrictId, OfDistrict>,
    customers: BTreeMap<Id, OfCustomer>,
    orders: BTreeMap<Id, OfOrder>,
    stocks: BTreeMap<(u16, u32), OfStock>,
    /// New orders and payments that committed; below, those that may have committed.
    committed: [u64; 2],
    unknown: [u64; 2],
    histories: u64,
    found: u64,
    findings: Vec<String>,
}

impl Conditions {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            keys: Keys(scale),
            warehouses: BTreeMap::new(),
            districts: BTreeMap::new(),
            customers: BTreeMap::new(),
            orders: BTreeMap::new(),
            stocks: BTreeMap::new(),
            committed: [0; 2],
            unknown: [0; 2],
            histories: 0,
            found: 0,
            findings: Vec::new(),
        }
    }

    fn find(&mut self, finding: impl FnOnce() -> String) {
        self.found += 1;
        if self.findings.len() < LISTED_MAX {
            self.findings.push(finding());
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: impl FnOnce() -> String, left: T, right: T) {
        if left != right {
            self.find(|| format!("{}: {left:?} and {right:?}", what()));
        }
    }

    /// Checks that a count is between the number that committed and that number plus those that may have
    /// committed.
    fn count(&mut self, what: &str, index: usize, found: u64) {
        let (least, more) = (self.committed[index], self.unknown[index]);
        if !(least..=least + more).contains(&found) {
            self.find(|| format!("{found} {what} in place of {least} to {}", least + more));
        }
    }

    fn take(&mut self, place: ParsedKey, row: &[u8]) {
        let ParsedKey { table, warehouse: at, district: of, id } = place;
        match table {
            Table::Warehouse => self.warehouses.entry(at).or_default().ytd = Some(warehouse::YTD.get(row)),
            Table::District => {
                self.warehouses.entry(at).or_default().districts_ytd += district::YTD.get(row);
                let entry = self.districts.entry((at, of)).or_default();
                entry.ytd = Some(district::YTD.get(row));
                entry.next_order = district::NEXT_ORDER.get(row) as u32;
            }
            Table::Customer => {
                self.districts.entry((at, of)).or_default().customers += 1;
                let entry = self.customers.entry((at, of, id)).or_default();
                entry.balance = Some(customer::BALANCE.get(row));
                entry.ytd_payment = customer::YTD_PAYMENT.get(row);
                entry.payments = customer::PAYMENTS.get(row);
                entry.deliveries = customer::DELIVERIES.get(row);
            }
            Table::History => {
                let amount = history::AMOUNT.get(row);
                self.histories += 1;
                self.warehouses.entry(at).or_default().paid += amount;
                self.districts.entry((at, history::DISTRICT.get(row) as u8)).or_default().paid += amount;
                let by = (
                    history::CUSTOMER_WAREHOUSE.get(row) as u16,
                    history::CUSTOMER_DISTRICT.get(row) as u8,
                    history::CUSTOMER.get(row) as u32,
                );
                let entry = self.customers.entry(by).or_default();
                entry.paid += amount;
                entry.histories += 1;
            }
            Table::NewOrder => {
                self.equal(
                    || format!("the number of a new order of {at}/{of}"),
                    new_order::ORDER.get(row),
                    id.into(),
                );
                self.orders.entry((at, of, id)).or_default().is_new = true;
            }
            Table::Order => {
                let entry = self.orders.entry((at, of, id)).or_default();
                entry.customer = Some(order::CUSTOMER.get(row) as u32);
                entry.carrier = order::CARRIER.get(row);
                entry.lines = order::LINES.get(row);
            }
            Table::OrderLine => {
                let entry = self.orders.entry((at, of, id >> 4)).or_default();
                entry.lines_found += 1;
                if order_line::DELIVERY_DATE.get(row) != 0 {
                    entry.lines_delivered += 1;
                    entry.delivered += order_line::AMOUNT.get(row);
                }
                // The stocks count only orders since the load; the loaded orders have the lowest numbers.
                if id >> 4 > self.keys.0.customers {
                    let supply =
                        (order_line::SUPPLY_WAREHOUSE.get(row) as u16, order_line::ITEM.get(row) as u32);
                    let (pieces, lines) = &mut self.stocks.entry(supply).or_default().ordered;
                    *pieces += order_line::QUANTITY.get(row);
                    *lines += 1;
                }
            }
            Table::Stock => {
                let says = (stock::YTD.get(row), stock::ORDERS.get(row));
                self.stocks.entry((at, id)).or_default().says = Some(says);
                let quantity = stock::QUANTITY.get(row);
                if !(10..=100).contains(&quantity) {
                    self.find(|| format!("{quantity} of item {id} at warehouse {at}"));
                }
            }
            Table::LastOrder => {
                self.customers.entry((at, of, id)).or_default().last_order = pointer::ORDER.get(row) as u32;
            }
            Table::OldestNewOrder => {
                self.districts.entry((at, of)).or_default().oldest = Some(pointer::ORDER.get(row) as u32);
            }
            Table::Item | Table::CustomersByName => {}
        }
    }

    fn check_warehouses(&mut self) {
        let all = u64::from(self.keys.0.all_warehouses());
        self.equal(|| "warehouses".into(), self.warehouses.len() as u64, all);
        for (at, entry) in std::mem::take(&mut self.warehouses) {
            self.equal(|| format!("condition 1 at warehouse {at}"), entry.ytd, Some(entry.districts_ytd));
            self.equal(|| format!("condition 8 at warehouse {at}"), entry.ytd, Some(entry.paid));
        }
    }

    fn check_districts(&mut self) {
        let all = u64::from(self.keys.0.all_warehouses()) * u64::from(DISTRICTS);
        self.equal(|| "districts".into(), self.districts.len() as u64, all);
        let mut new_orders_since = 0;
        for ((at, of), entry) in std::mem::take(&mut self.districts) {
            let where_from = |condition: &str| format!("{condition} in district {at}/{of}");
            let (mut newest, mut new, mut lines, mut lines_found) = (0, Vec::new(), 0, 0);
            for (&(_, _, number), order) in self.orders.range((at, of, 0)..=(at, of, u32::MAX)) {
                if order.customer.is_some() {
                    newest = number;
                }
                if order.is_new {
                    new.push(number);
                }
                lines += order.lines;
                lines_found += order.lines_found;
            }
            let last = entry.next_order.saturating_sub(1);
            new_orders_since += u64::from(last.saturating_sub(self.keys.0.customers));
            self.equal(|| where_from("customers"), entry.customers, self.keys.0.customers);
            self.equal(|| where_from("condition 2, orders"), newest, last);
            if let (Some(&oldest), Some(&newest)) = (new.first(), new.last()) {
                self.equal(|| where_from("condition 2, new orders"), newest, last);
                self.equal(|| where_from("condition 3"), newest - oldest + 1, new.len() as u32);
            }
            self.equal(|| where_from("condition 4"), lines, lines_found);
            self.equal(|| where_from("condition 9"), entry.ytd, Some(entry.paid));
            let oldest = new.first().copied().unwrap_or(entry.next_order);
            self.equal(|| where_from("the oldest new order"), entry.oldest, Some(oldest));
        }
        self.count("new orders", 0, new_orders_since);
    }

    fn check_orders(&mut self) {
        for ((at, of, number), entry) in std::mem::take(&mut self.orders) {
            let where_from = |condition: &str| format!("{condition} of order {at}/{of}/{number}");
            self.equal(|| where_from("condition 5"), entry.carrier == 0, entry.is_new);
            self.equal(|| where_from("condition 6"), entry.lines, entry.lines_found);
            let delivered = if entry.carrier == 0 { 0 } else { entry.lines_found };
            self.equal(|| where_from("condition 7"), entry.lines_delivered, delivered);
            let Some(by) = entry.customer else { continue };
            let customer = self.customers.entry((at, of, by)).or_default();
            // Conditions 10 and 12 involve the amounts of delivered orders, so these are subtracted from the
            // customer here.
            customer.paid -= entry.delivered;
            customer.ytd_payment -= entry.delivered;
            // The orders are visited in ascending order, so the last one is the newest.
            customer.newest_order = number;
            let loaded = number < self.keys.0.first_undelivered();
            if entry.carrier != 0 && !loaded {
                customer.deliveries = customer.deliveries.wrapping_sub(1);
            }
        }
    }

    fn check_customers(&mut self) {
        for ((at, of, number), entry) in std::mem::take(&mut self.customers) {
            let where_from = |condition: &str| format!("{condition} of customer {at}/{of}/{number}");
            self.equal(|| where_from("condition 10"), entry.balance, Some(-entry.paid));
            self.equal(|| where_from("condition 12"), entry.balance, Some(-entry.ytd_payment));
            self.equal(|| where_from("payments"), entry.payments, entry.histories);
            self.equal(|| where_from("deliveries"), entry.deliveries, 0);
            self.equal(|| where_from("the last order"), entry.last_order, entry.newest_order);
        }
    }
}

impl Audit for Conditions {
    fn committed(&mut self, request: &Request, _: &[u8]) {
        self.committed[0] += u64::from(request.procedure == NEW_ORDER);
        self.committed[1] += u64::from(request.procedure == PAYMENT);
    }

    fn unknown(&mut self, request: &Request) {
        self.unknown[0] += u64::from(request.procedure == NEW_ORDER);
        self.unknown[1] += u64::from(request.procedure == PAYMENT);
    }

    fn object(&mut self, key: Key, value: &[u8]) {
        match self.keys.place(key) {
            Some(place) if place.table.holds(value.len()) => self.take(place, value),
            _ => self.find(|| format!("{key} is not ours, or has a wrong length: {} bytes", value.len())),
        }
    }

    fn findings(&mut self) -> Vec<String> {
        self.check_warehouses();
        self.check_districts();
        self.check_orders();
        self.check_customers();
        for ((at, item), entry) in std::mem::take(&mut self.stocks) {
            self.equal(|| format!("stock of item {item} at warehouse {at}"), entry.says, Some(entry.ordered));
        }
        let scale = self.keys.0;
        let loaded = u64::from(scale.all_warehouses()) * u64::from(DISTRICTS) * u64::from(scale.customers);
        match self.histories.checked_sub(loaded) {
            Some(since) => self.count("payments", 1, since),
            None => self.find(|| "histories of the beginning are missing".into()),
        }
        if self.found > self.findings.len() as u64 {
            self.findings.push(format!("{} findings in all", self.found));
        }
        std::mem::take(&mut self.findings)
    }
}

impl Table {
    /// Whether a row of this table may have this length.
    fn holds(self, bytes: usize) -> bool {
        match self {
            Self::Warehouse => bytes == warehouse::BYTES,
            Self::District => bytes == district::BYTES,
            Self::Customer => bytes == customer::BYTES,
            Self::History => bytes == history::BYTES,
            Self::NewOrder => bytes == new_order::BYTES,
            Self::Order => bytes == order::BYTES,
            Self::OrderLine => bytes == order_line::BYTES,
            Self::Item => bytes == super::rows::item::BYTES,
            Self::Stock => bytes == stock::BYTES,
            Self::CustomersByName => bytes.is_multiple_of(2),
            Self::LastOrder | Self::OldestNewOrder => bytes == pointer::BYTES,
        }
    }
}
