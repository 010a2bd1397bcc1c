//! Clients of TPC-C ("terminals"): which transaction comes next, and the pieces into which a long transaction
//! is divided.

use std::collections::BTreeSet;

use weft_txn::{Outcome, Request};
use weft_workload::Random;

use super::delivery::Delivered;
use super::load::DATE;
use super::new_order::{Line, Order};
use super::order_status::Asked;
use super::payment::Paid;
use super::random::{between, customer, item, name};
use super::stock_level::{ORDERS_AT_ONCE, RECENT, STOCKS_AT_ONCE, low_stock, next_order, recent_items};
use super::{Customer, DISTRICTS, Keys, Scale};
use crate::Call;
use crate::input::Reader;

/// Shares of the transactions in per cent, in the order of the kinds (clause 5.2.3).
const MIX: [u64; 5] = [45, 43, 4, 4, 4];
/// A payment's number has this many bits, below those of the client's lane.
const PAYMENT_BITS: u32 = 22;

/// The remaining pieces of a transaction that is divided.
enum Rest {
    /// The deliveries from this district on.
    Delivery(Delivered),
    StockLevel(StockLevel),
}

/// A stock-level transaction whose pieces are being called.
struct StockLevel {
    warehouse: u16,
    district: u8,
    threshold: u8,
    /// The orders that remain to be read: from the first number up to, but without, the second. Unknown until
    /// the first piece is answered.
    orders: Option<(u32, u32)>,
    /// Items found in these orders whose stocks have not been read yet.
    items: BTreeSet<u32>,
    counted: bool,
}

/// A client of TPC-C.
pub(super) struct Terminal {
    keys: Keys,
    node: usize,
    new_order_only: bool,
    random: Random,
    date: u64,
    payments: u32,
    lane: u32,
    rest: Option<Rest>,
}

impl Terminal {
    pub(super) fn new(scale: Scale, node: usize, lane: u32, new_order_only: bool, random: Random) -> Self {
        assert!(node < scale.shards, "warehouses belong to the servers 0 to {}", scale.shards - 1);
        Self { keys: Keys(scale), node, new_order_only, random, date: DATE, payments: 0, lane, rest: None }
    }

    pub(super) fn next(&mut self, last: Option<&Outcome>) -> Call {
        // If the previous piece did not commit, the transaction ends, and a new one begins.
        if let (Some(rest), Some(Outcome::Committed { answer })) = (self.rest.take(), last) {
            let next = match rest {
                Rest::Delivery(delivered) => self.deliver_on(delivered),
                Rest::StockLevel(stock_level) => self.look_on(stock_level, answer),
            };
            if let Some((request, kind)) = next {
                return Call { request, kind, begins: false };
            }
        }
        let (request, kind) = self.begin();
        Call { request, kind, begins: true }
    }

    fn begin(&mut self) -> (Request, usize) {
        let Scale { warehouses, .. } = self.keys.0;
        let home = self.node as u16 * warehouses + self.random.below(warehouses.into()) as u16;
        let district = self.district();
        self.date += 1;
        let mut share = self.random.below(100);
        let drawn = MIX.iter().position(|&part| share.checked_sub(part).map(|rest| share = rest).is_none());
        let kind = if self.new_order_only { 0 } else { drawn.expect("the mix makes a hundred") };
        let request = match kind {
            0 => self.order(home, district).request(&self.keys),
            1 => self.pay(home, district).request(&self.keys),
            2 => Asked { warehouse: home, district, customer: self.customer() }.request(&self.keys),
            3 => {
                let carrier = between(&mut self.random, 1, 10) as u8;
                let first = Delivered { warehouse: home, district: 1, carrier, date: self.date };
                self.rest = Some(Rest::Delivery(first));
                first.request(&self.keys)
            }
            _ => {
                let threshold = between(&mut self.random, 10, 20) as u8;
                let (items, counted) = (BTreeSet::new(), false);
                self.rest = Some(Rest::StockLevel(StockLevel {
                    warehouse: home,
                    district,
                    threshold,
                    orders: None,
                    items,
                    counted,
                }));
                next_order(&self.keys, home, district)
            }
        };
        (request, kind)
    }

    fn district(&mut self) -> u8 {
        between(&mut self.random, 1, DISTRICTS.into()) as u8
    }

    /// A customer, who is chosen by last name with a probability of 60 % (2.5.1.2, 2.6.1.2).
    fn customer(&mut self) -> Customer {
        if self.random.below(100) < 60 {
            Customer::LastName(name(&mut self.random, self.keys.0.names()))
        } else {
            Customer::Number(customer(&mut self.random, self.keys.0.customers))
        }
    }

    /// Another warehouse, chosen uniformly; this one if there is no other.
    fn other_warehouse(&mut self, home: u16) -> u16 {
        let all = self.keys.0.all_warehouses();
        if all == 1 {
            return home;
        }
        let drawn = self.random.below(u64::from(all) - 1) as u16;
        if drawn < home { drawn } else { drawn + 1 }
    }

    fn order(&mut self, home: u16, district: u8) -> Order {
        let Scale { items, customers, .. } = self.keys.0;
        let customer = customer(&mut self.random, customers);
        let count = between(&mut self.random, 5, super::LINES_MAX as u64);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: item(&mut self.random, items),
                supply_warehouse: if self.new_order_only {
                    self.random.below(self.keys.0.all_warehouses().into()) as u16
                } else if self.random.below(100) == 0 {
                    self.other_warehouse(home)
                } else {
                    home
                },
                quantity: between(&mut self.random, 1, 10) as u8,
            })
            .collect();
        // In one of a hundred orders, the last line has an unused item (2.4.1.4, 2.4.1.5).
        if self.random.below(100) == 0 {
            lines[count as usize - 1].item = items + 1;
        }
        Order { warehouse: home, district, customer, date: self.date, lines }
    }

    fn pay(&mut self, home: u16, district: u8) -> Paid {
        // The customers of 15 of a hundred payments belong to another warehouse (2.5.1.2).
        let remote = self.random.below(100) < 15 && self.keys.0.all_warehouses() > 1;
        let (customer_warehouse, customer_district) =
            if remote { (self.other_warehouse(home), self.district()) } else { (home, district) };
        self.payments += 1;
        assert!(self.payments < 1 << PAYMENT_BITS, "a client makes four million payments at most");
        Paid {
            warehouse: home,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount: between(&mut self.random, 100, 500_000) as u32,
            date: self.date,
            number: self.lane << PAYMENT_BITS | self.payments,
        }
    }

    fn deliver_on(&mut self, before: Delivered) -> Option<(Request, usize)> {
        let next = Delivered { district: before.district + 1, ..before };
        if next.district > DISTRICTS {
            return None;
        }
        self.rest = Some(Rest::Delivery(next));
        Some((next.request(&self.keys), 3))
    }

    fn look_on(&mut self, mut stock_level: StockLevel, answer: &[u8]) -> Option<(Request, usize)> {
        let mut answer = Reader(answer);
        if stock_level.counted {
            // This answer is a part of the count of low stocks, which the client does not need.
        } else if stock_level.orders.is_some() {
            stock_level.items.extend(std::iter::from_fn(|| answer.u32()));
        } else {
            let next = answer.u32()?;
            stock_level.orders = Some((next.saturating_sub(RECENT).max(1), next));
        }
        let StockLevel { warehouse, district, threshold, .. } = stock_level;
        let (first, end) = stock_level.orders?;
        let request = if first < end {
            let count = (end - first).min(ORDERS_AT_ONCE);
            stock_level.orders = Some((first + count, end));
            recent_items(&self.keys, warehouse, district, first, count)
        } else {
            stock_level.counted = true;
            let left = std::iter::from_fn(|| stock_level.items.pop_first());
            let items: Vec<u32> = left.take(STOCKS_AT_ONCE).collect();
            if items.is_empty() {
                return None;
            }
            low_stock(&self.keys, warehouse, &items, threshold)
        };
        self.rest = Some(Rest::StockLevel(stock_level));
        Some((request, 4))
    }
}
