//! The workloads that measurements can choose, and their sizes.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::retwis::{self, Retwis};
use crate::smallbank::{self, Smallbank};
use crate::tpcc::{Scale, Tpcc};
use crate::{LANES_MAX, Workload};

/// Default number of TPC-C items: a tenth of the specification's, which would need 60 MB for each warehouse at each
/// replica.
const ITEMS: u32 = 10_000;
/// The specification's numbers of items and of customers of a district, which are the most here, and their
/// ratio.
const ITEMS_MAX: u32 = 100_000;
const CUSTOMERS_MAX: u32 = 3_000;
const ITEMS_FOR_EACH_CUSTOMER: u32 = 33;

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum WorkloadName {
    /// Short transactions on bank accounts.
    Smallbank,
    /// A small clone of Twitter.
    Retwis,
    /// TPC-C's new-order transaction alone; its items come from warehouses in the whole cluster.
    TpccNewOrder,
    /// The five transactions of TPC-C.
    Tpcc,
}

impl WorkloadName {
    /// All workloads.
    pub const ALL: [Self; 4] = [Self::Smallbank, Self::Retwis, Self::TpccNewOrder, Self::Tpcc];

    /// Name of the workload.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smallbank => "smallbank",
            Self::Retwis => "retwis",
            Self::TpccNewOrder => "tpcc-new-order",
            Self::Tpcc => "tpcc",
        }
    }

    /// Default size for each server: accounts, keys or warehouses.
    pub const fn default_size(self) -> u64 {
        match self {
            Self::Smallbank => 240_000,
            Self::Retwis => 100_000,
            Self::TpccNewOrder | Self::Tpcc => 4,
        }
    }

    /// The largest size for each server.
    const fn size_max(self) -> u64 {
        match self {
            Self::Smallbank => smallbank::ACCOUNTS,
            Self::Retwis => retwis::KEYS,
            Self::TpccNewOrder | Self::Tpcc => 72,
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WorkloadName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no workload `{text}`; choose {names}")
        })
    }
}

/// A workload and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadChoice {
    name: WorkloadName,
    size: u64,
    /// Items of TPC-C; the other workloads do not use them.
    items: u32,
    customers: u32,
}

/// Default number of customers of a district, a multiple of ten.
const fn customers(items: u32) -> u32 {
    let tens = items / ITEMS_FOR_EACH_CUSTOMER / 10 * 10;
    if tens == 0 { 10 } else { tens }
}

impl WorkloadChoice {
    /// A workload with `size` accounts, keys or warehouses for each server.
    ///
    /// # Errors
    /// The size is smaller than the workload can run with, or larger than in Xenic's evaluation.
    pub fn new(name: WorkloadName, size: u64) -> Result<Self, String> {
        let (least, most) = (if name == WorkloadName::Smallbank { 2 } else { 1 }, name.size_max());
        let least = if name == WorkloadName::Retwis { 10 } else { least };
        if (least..=most).contains(&size) {
            Ok(Self { name, size, items: ITEMS, customers: customers(ITEMS) })
        } else {
            Err(format!("{name} takes a size of {least} to {most} for each server"))
        }
    }

    /// The same workload with this number of items, and a proportional number of customers of a district.
    ///
    /// # Errors
    /// The workload has no items, or does not support this number of them.
    pub fn with_items(self, items: u32) -> Result<Self, String> {
        match self.name {
            WorkloadName::Smallbank | WorkloadName::Retwis => Err(format!(
                "{} has no items; choose {} or {}",
                self.name,
                WorkloadName::TpccNewOrder,
                WorkloadName::Tpcc
            )),
            WorkloadName::TpccNewOrder | WorkloadName::Tpcc if (100..=ITEMS_MAX).contains(&items) => {
                Ok(Self { items, customers: customers(items), ..self })
            }
            WorkloadName::TpccNewOrder | WorkloadName::Tpcc => {
                Err(format!("{} takes 100 to {ITEMS_MAX} items", self.name))
            }
        }
    }

    /// The same workload with this number of customers of a district, each of whom has an order from the
    /// start.
    ///
    /// # Errors
    /// The workload has no customers, or does not support this number of them.
    pub fn with_customers(self, customers: u32) -> Result<Self, String> {
        match self.name {
            WorkloadName::Smallbank | WorkloadName::Retwis => Err(format!("{} has no customers", self.name)),
            _ if (10..=CUSTOMERS_MAX).contains(&customers) && customers.is_multiple_of(10) => {
                Ok(Self { customers, ..self })
            }
            _ => Err(format!("{} takes 10 to {CUSTOMERS_MAX} customers of a district, in tens", self.name)),
        }
    }

    /// Name of the workload.
    pub const fn name(&self) -> &'static str {
        self.name.name()
    }

    /// The size of the workload as text for people.
    pub fn scale(&self) -> String {
        let size = self.size;
        match self.name {
            WorkloadName::Smallbank => format!("{size} accounts a server"),
            WorkloadName::Retwis => format!("{size} keys a server"),
            WorkloadName::TpccNewOrder | WorkloadName::Tpcc => {
                let Self { items, customers, .. } = self;
                format!("{size} warehouses a server, {items} items, {customers} customers a district")
            }
        }
    }

    /// The most objects that these transactions, which all clients together make, add to a server.
    pub fn inserts(&self, transactions: u64) -> u64 {
        match self.name {
            WorkloadName::Smallbank | WorkloadName::Retwis => 0,
            // A new order inserts the order, its new-order entry and up to 15 lines, at half of the servers
            // or fewer.
            WorkloadName::TpccNewOrder => transactions * 9,
            // 45 of 100 transactions insert a new order; 43 insert a history entry of a payment.
            WorkloadName::Tpcc => transactions * 5,
        }
    }

    /// The kind of transaction that the throughput counts, if it does not count all: TPC-C counts new orders.
    pub fn counted(&self) -> Option<&'static str> {
        (self.name == WorkloadName::Tpcc).then_some("new-order")
    }

    /// The unit of the throughput for each server.
    pub fn unit(&self) -> &'static str {
        match self.counted() {
            None => "tx/s",
            Some(_) => "new orders/s",
        }
    }

    /// Makes the workload for `nodes` servers.
    pub fn make(&self, nodes: usize) -> Box<dyn Workload> {
        let scale = Scale {
            shards: nodes,
            warehouses: u16::try_from(self.size).unwrap_or(u16::MAX),
            items: self.items,
            customers: self.customers,
        };
        match self.name {
            WorkloadName::Smallbank => Box::new(Smallbank::new(nodes, self.size)),
            WorkloadName::Retwis => Box::new(Retwis::new(nodes, self.size)),
            WorkloadName::TpccNewOrder => Box::new(Tpcc::new_order_only(scale)),
            WorkloadName::Tpcc => Box::new(Tpcc::new(scale)),
        }
    }
}

/// Checks the loads of a measurement: each is the number of transactions that a server's clients have
/// outstanding.
///
/// # Errors
/// The list is empty or not ascending, or a load is larger than the number of clients.
pub fn check_loads(loads: &[usize]) -> Result<(), String> {
    let ascending = loads.windows(2).all(|pair| pair[0] < pair[1]);
    let most = LANES_MAX as usize;
    if !loads.is_empty() && ascending && loads.iter().all(|load| (1..=most).contains(load)) {
        Ok(())
    } else {
        Err(format!("transactions under way at each server are ascending numbers from 1 to {most}"))
    }
}
