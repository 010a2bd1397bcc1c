//! TPC-C, revision 5.11: the orders of a wholesale supplier, in a store of keys and values.
//!
//! All nine tables are objects of the store, with the sizes of clause 4.2.2 (`rows`). The secondary indexes are objects
//! too: a district's customers by last name, a customer's last order, and a district's oldest undelivered order. Each
//! warehouse is on one shard, with all its rows. The items, which never change, are on every shard.
//!
//! # Transactions that are divided
//!
//! Xenic (5.3) divides long local transactions into several, as its predecessors do. Here these are:
//!
//! - *delivery*: one transaction for each district, as clause 2.7.2 permits, so ten for each request;
//! - *stock-level*: one transaction reads the number of the next order; further ones read the lines of the last twenty
//!   orders, three orders at a time, and the stocks of their items, sixty at a time. Clause 2.8.2.3 permits this, since
//!   stock-level requires read committed only.
//!
//! *New-order*, *payment* and *order-status* are one transaction each. New-order and payment may run on a card, the
//! others run on the host (Xenic 5.3).
//!
//! # What differs from the specification
//!
//! Clients have no keying and think times (clause 5.2.5). They pick a warehouse of their server for each transaction,
//! where the specification gives each client one warehouse (2.5.1.1). Dates are numbers. Deliveries are not queued
//! (2.7). [`Tpcc::new_order_only`] is the workload of Xenic's section 5.2: only new-order transactions, whose items
//! come from warehouses chosen uniformly in the whole cluster.

mod audit;
mod client;
mod delivery;
mod load;
mod new_order;
mod order_status;
mod payment;
mod random;
mod rows;
mod stock_level;
#[cfg(test)]
mod tests;

use weft_txn::{Key, Outcome, Procedure, ProcedureId, Procedures};

use super::{Audit, Client, Repeating, Workload, random_of_client};

/// Warehouses of each server in Xenic's evaluation (5.2).
pub const WAREHOUSES: u16 = 72;
/// Districts of a warehouse.
const DISTRICTS: u8 = 10;
/// The most lines of an order.
const LINES_MAX: usize = 15;

/// Reason of an abort: an item does not exist, as in one of a hundred new orders (clause 2.4.1.4).
pub const UNUSED_ITEM: u8 = 1;
/// Reason of an abort: another object does not exist. This never happens.
pub const MISSING: u8 = 2;

const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// Numbers of the procedures.
const NEW_ORDER: ProcedureId = ProcedureId(0);
const PAYMENT: ProcedureId = ProcedureId(1);
const ORDER_STATUS: ProcedureId = ProcedureId(2);
const DELIVERY: ProcedureId = ProcedureId(3);
const NEXT_ORDER: ProcedureId = ProcedureId(4);
const RECENT_ITEMS: ProcedureId = ProcedureId(5);
const LOW_STOCK: ProcedureId = ProcedureId(6);

/// Size of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of servers, each with one shard.
    pub shards: usize,
    /// Warehouses of each server, 1 to 4,095 ([`WAREHOUSES`] in the paper).
    pub warehouses: u16,
    /// Number of items, and of stocks of each warehouse: 100,000 in the specification.
    pub items: u32,
    /// Customers of each district, and the district's initial orders: a multiple of 10; 3,000 in the specification.
    pub customers: u32,
}

impl Scale {
    /// The specification's size, with this number of warehouses on each server. The values of a warehouse take about 70
    /// MB at each replica, and those of the items another 8 MB.
    pub fn full(shards: usize, warehouses: u16) -> Self {
        Self { shards, warehouses, items: 100_000, customers: 3_000 }
    }

    /// Number of warehouses of the cluster. Server *s* has those from *s* times [`Scale::warehouses`] on.
    fn all_warehouses(&self) -> u16 {
        self.shards as u16 * self.warehouses
    }

    /// Number of last names: 1,000, or fewer if there are fewer customers.
    fn names(&self) -> u16 {
        self.customers.min(1_000) as u16
    }

    /// The first undelivered order of each district in the initial database: 2,101 of 3,000.
    fn first_undelivered(&self) -> u32 {
        self.customers / 10 * 7 + 1
    }
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    scale: Scale,
    new_order_only: bool,
}

impl Tpcc {
    /// A workload of all five transactions in the specification's mix.
    ///
    /// # Panics
    /// If the scale is not possible.
    pub fn new(scale: Scale) -> Self {
        let Scale { shards, warehouses, items, customers } = scale;
        assert!((1..=weft_txn::SHARDS_MAX).contains(&shards), "{shards} shards");
        assert!((1..1 << 12).contains(&warehouses), "{warehouses} warehouses on a server");
        assert!((20..1 << 30).contains(&items), "{items} items");
        assert!(
            (10..=3_000).contains(&customers) && customers % 10 == 0,
            "{customers} customers in a district"
        );
        Self { scale, new_order_only: false }
    }

    /// A workload of new-order transactions only, with items from warehouses chosen uniformly in the whole
    /// cluster (Xenic 5.2).
    ///
    /// # Panics
    /// If the scale is not possible.
    pub fn new_order_only(scale: Scale) -> Self {
        Self { new_order_only: true, ..Self::new(scale) }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        if self.new_order_only { "tpcc-new-order" } else { "tpcc" }
    }

    fn kinds(&self) -> &'static [&'static str] {
        if self.new_order_only { &KINDS[..1] } else { &KINDS }
    }

    fn procedures(&self) -> Procedures {
        let keys = Keys(self.scale);
        let all: [(ProcedureId, Box<dyn Procedure>); 7] = [
            (NEW_ORDER, Box::new(new_order::NewOrder(keys))),
            (PAYMENT, Box::new(payment::Payment(keys))),
            (ORDER_STATUS, Box::new(order_status::OrderStatus(keys))),
            (DELIVERY, Box::new(delivery::Delivery(keys))),
            (NEXT_ORDER, Box::new(stock_level::NextOrder)),
            (RECENT_ITEMS, Box::new(stock_level::RecentItems(keys))),
            (LOW_STOCK, Box::new(stock_level::LowStock)),
        ];
        let in_order = all.into_iter().enumerate().map(|(index, (id, procedure))| {
            assert_eq!(id.0 as usize, index, "procedures stand in the order of their numbers");
            procedure
        });
        Procedures::new(in_order.collect())
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        load::load(&self.scale, shard, put);
    }

    fn client(&self, node: usize, lane: u32, seed: u64) -> Box<dyn Client> {
        let random = random_of_client(node, lane, seed);
        let mut terminal = client::Terminal::new(self.scale, node, lane, self.new_order_only, random);
        Box::new(Repeating::new(move |last: Option<&Outcome>| terminal.next(last)))
    }

    fn audit(&self) -> Box<dyn Audit> {
        Box::new(audit::Conditions::new(self.scale))
    }
}

/// Tables and indexes. The number is the top byte of the application's part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Table {
    Warehouse = 1,
    District,
    Customer,
    History,
    NewOrder,
    Order,
    OrderLine,
    Item,
    Stock,
    /// Index: a district's customers with one last name, by first name.
    CustomersByName,
    /// Index: a customer's last order.
    LastOrder,
    /// Index: a district's oldest undelivered order.
    OldestNewOrder,
}

impl Table {
    const ALL: [Self; 12] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::NewOrder,
        Self::Order,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
        Self::CustomersByName,
        Self::LastOrder,
        Self::OldestNewOrder,
    ];
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParsedKey {
    table: Table,
    /// Number of the warehouse in the cluster; for an item, the first warehouse of the shard.
    warehouse: u16,
    /// Number of the district, from 1; 0 for rows of a whole warehouse.
    district: u8,
    /// The remaining part of the primary key.
    id: u32,
}

/// Layout of keys. Below the shard, a key has 8 bits for the table, 12 for the warehouse within the shard, 4 for the
/// district and 32 for the remaining part.
#[derive(Clone, Copy, Debug)]
struct Keys(Scale);

impl Keys {
    fn at(&self, table: Table, warehouse: u16, district: u8, id: u32) -> Key {
        let Scale { warehouses, .. } = self.0;
        let (shard, warehouse) = (warehouse / warehouses, u64::from(warehouse % warehouses));
        let district = u64::from(district);
        Key::new(shard as usize, (table as u64) << 48 | warehouse << 36 | district << 32 | u64::from(id))
    }

    /// The parts of this key, or `None` if it is not a key of this workload.
    fn place(&self, key: Key) -> Option<ParsedKey> {
        let local = key.local();
        let table = Table::ALL.into_iter().find(|table| *table as u64 == local >> 48)?;
        let in_shard = (local >> 36 & 0xfff) as u16;
        let known = in_shard < self.0.warehouses && key.shard() < self.0.shards;
        known.then(|| ParsedKey {
            table,
            warehouse: key.shard() as u16 * self.0.warehouses + in_shard,
            district: (local >> 32 & 0xf) as u8,
            id: local as u32,
        })
    }

    fn warehouse(&self, warehouse: u16) -> Key {
        self.at(Table::Warehouse, warehouse, 0, 0)
    }

    fn district(&self, warehouse: u16, district: u8) -> Key {
        self.at(Table::District, warehouse, district, 0)
    }

    fn customer(&self, warehouse: u16, district: u8, customer: u32) -> Key {
        self.at(Table::Customer, warehouse, district, customer)
    }

    /// A history entry. `number` is unique in the warehouse.
    fn history(&self, warehouse: u16, number: u32) -> Key {
        self.at(Table::History, warehouse, 0, number)
    }

    fn new_order(&self, warehouse: u16, district: u8, order: u32) -> Key {
        self.at(Table::NewOrder, warehouse, district, order)
    }

    fn order(&self, warehouse: u16, district: u8, order: u32) -> Key {
        self.at(Table::Order, warehouse, district, order)
    }

    /// A line of an order. `line` counts from 1.
    fn order_line(&self, warehouse: u16, district: u8, order: u32, line: usize) -> Key {
        self.at(Table::OrderLine, warehouse, district, order << 4 | line as u32)
    }

    /// An item, at the shard of this warehouse.
    fn item(&self, warehouse: u16, item: u32) -> Key {
        self.at(Table::Item, warehouse - warehouse % self.0.warehouses, 0, item)
    }

    fn stock(&self, warehouse: u16, item: u32) -> Key {
        self.at(Table::Stock, warehouse, 0, item)
    }

    fn customers_by_name(&self, warehouse: u16, district: u8, name: u16) -> Key {
        self.at(Table::CustomersByName, warehouse, district, u32::from(name))
    }

    fn last_order(&self, warehouse: u16, district: u8, customer: u32) -> Key {
        self.at(Table::LastOrder, warehouse, district, customer)
    }

    fn oldest_new_order(&self, warehouse: u16, district: u8) -> Key {
        self.at(Table::OldestNewOrder, warehouse, district, 0)
    }
}

/// How a request names a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Customer {
    Number(u32),
    /// The middle one of the customers with this last name, ordered by first name (clause 2.5.2.2).
    LastName(u16),
}

impl Customer {
    fn put(self, input: &mut super::input::Writer) {
        match self {
            Self::Number(number) => input.u8(0).u32(number),
            Self::LastName(name) => input.u8(1).u32(u32::from(name)),
        };
    }

    fn get(input: &mut super::input::Reader<'_>) -> Option<Self> {
        match (input.u8()?, input.u32()?) {
            (0, number) => Some(Self::Number(number)),
            (_, name) => Some(Self::LastName(name as u16)),
        }
    }

    /// The middle customer of a row of the index: the n-th of 2n or 2n - 1.
    fn middle(row: &[u8]) -> Option<u32> {
        let count = rows::by_name::count(row);
        (count > 0).then(|| rows::by_name::customer(row, (count - 1) / 2))
    }
}
