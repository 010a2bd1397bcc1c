//! The initial database (clause 4.3.3), one shard at a time.

use weft_txn::Key;
use weft_workload::Random;

use super::random::{between, loaded_name, text};
use super::rows::{
    customer, district, history, item, new_order, order, order_line, pointer, stock, warehouse,
};
use super::{DISTRICTS, Keys, LINES_MAX, Scale, Table};

/// Seed of the database, which does not depend on the seed of the run.
const SEED: u64 = 0x7bc_c511;

/// Date of everything in the initial database. The dates of clients are later.
pub(super) const DATE: u64 = 1;

/// Passes all objects of a shard to `put`.
pub(super) fn load(scale: &Scale, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
    let keys = Keys(*scale);
    let first = shard as u16 * scale.warehouses;
    // Every shard has the same items.
    items(&keys, first, &mut Random::new(SEED, 0), put);
    for number in first..first + scale.warehouses {
        let mut random = Random::new(SEED + 1 + u64::from(number), 0);
        load_warehouse(&keys, number, &mut random, put);
    }
}

/// Whether a row's data contains "ORIGINAL", as one in ten does (4.3.3.1).
fn original(random: &mut Random) -> u64 {
    u64::from(random.below(10) == 0)
}

fn items(keys: &Keys, first_warehouse: u16, random: &mut Random, put: &mut dyn FnMut(Key, &[u8])) {
    let mut row = [0; item::BYTES];
    for number in 1..=keys.0.items {
        item::PRICE.set(&mut row, between(random, 100, 10_000));
        item::ORIGINAL.set(&mut row, original(random));
        text(random, &mut row[item::TEXT..]);
        put(keys.item(first_warehouse, number), &row);
    }
}

fn load_warehouse(keys: &Keys, number: u16, random: &mut Random, put: &mut dyn FnMut(Key, &[u8])) {
    let mut row = [0; warehouse::BYTES];
    warehouse::YTD.set(&mut row, 1_000 * i64::from(keys.0.customers) * i64::from(DISTRICTS));
    warehouse::TAX.set(&mut row, between(random, 0, 2_000));
    text(random, &mut row[warehouse::TEXT..]);
    put(keys.warehouse(number), &row);

    let mut row = [0; stock::BYTES];
    for item in 1..=keys.0.items {
        stock::QUANTITY.set(&mut row, between(random, 10, 100));
        stock::ORIGINAL.set(&mut row, original(random));
        text(random, &mut row[stock::TEXT..]);
        put(keys.stock(number, item), &row);
    }
    for number_of_district in 1..=DISTRICTS {
        let mut row = [0; district::BYTES];
        district::YTD.set(&mut row, 1_000 * i64::from(keys.0.customers));
        district::TAX.set(&mut row, between(random, 0, 2_000));
        district::NEXT_ORDER.set(&mut row, u64::from(keys.0.customers) + 1);
        text(random, &mut row[district::TEXT..]);
        put(keys.district(number, number_of_district), &row);
        customers(keys, (number, number_of_district), random, put);
        orders(keys, (number, number_of_district), random, put);
    }
}

fn customers(keys: &Keys, (at, of): (u16, u8), random: &mut Random, put: &mut dyn FnMut(Key, &[u8])) {
    // For each last name: the first names and the numbers of its customers.
    let mut by_name: Vec<Vec<([u8; 16], u16)>> = vec![Vec::new(); keys.0.names().into()];
    let mut row = [0; customer::BYTES];
    for number in 1..=keys.0.customers {
        let name = match number - 1 {
            name if name < u32::from(keys.0.names()) => name as u16,
            _ => loaded_name(random, keys.0.names()),
        };
        customer::BALANCE.set(&mut row, -1_000);
        customer::YTD_PAYMENT.set(&mut row, 1_000);
        customer::PAYMENTS.set(&mut row, 1);
        customer::DISCOUNT.set(&mut row, between(random, 0, 5_000));
        customer::BAD_CREDIT.set(&mut row, u64::from(random.below(10) == 0));
        customer::LAST_NAME.set(&mut row, name.into());
        text(random, &mut row[customer::TEXT..]);
        put(keys.customer(at, of, number), &row);
        let first_name = row[customer::TEXT..][..16].try_into().expect("sixteen bytes");
        by_name[usize::from(name)].push((first_name, number as u16));

        let mut row = [0; history::BYTES];
        history::AMOUNT.set(&mut row, 1_000);
        history::CUSTOMER.set(&mut row, number.into());
        history::CUSTOMER_DISTRICT.set(&mut row, of.into());
        history::CUSTOMER_WAREHOUSE.set(&mut row, at.into());
        history::DISTRICT.set(&mut row, of.into());
        history::DATE.set(&mut row, DATE);
        text(random, &mut row[history::TEXT..]);
        // Initial histories have a district in their keys; those of later payments have none.
        put(keys.at(Table::History, at, of, number), &row);
    }
    for (name, mut customers) in (0..).zip(by_name) {
        customers.sort_unstable();
        let row: Vec<u8> = customers.iter().flat_map(|(_, number)| number.to_le_bytes()).collect();
        put(keys.customers_by_name(at, of, name), &row);
    }
}

fn orders(keys: &Keys, (at, of): (u16, u8), random: &mut Random, put: &mut dyn FnMut(Key, &[u8])) {
    // A random permutation of the customers (4.3.3.1), by Fisher and Yates.
    let mut customers: Vec<u32> = (1..=keys.0.customers).collect();
    for last in (1..customers.len()).rev() {
        customers.swap(last, random.below(last as u64 + 1) as usize);
    }
    for (number, &by) in (1..).zip(&customers) {
        let delivered = number < keys.0.first_undelivered();
        let lines = between(random, 5, LINES_MAX as u64);
        let mut row = [0; order::BYTES];
        order::CUSTOMER.set(&mut row, by.into());
        order::DATE.set(&mut row, DATE);
        order::CARRIER.set(&mut row, if delivered { between(random, 1, 10) } else { 0 });
        order::LINES.set(&mut row, lines);
        order::ALL_LOCAL.set(&mut row, 1);
        put(keys.order(at, of, number), &row);
        let mut pointer = [0; pointer::BYTES];
        pointer::ORDER.set(&mut pointer, number.into());
        put(keys.last_order(at, of, by), &pointer);
        if !delivered {
            let mut row = [0; new_order::BYTES];
            new_order::ORDER.set(&mut row, number.into());
            put(keys.new_order(at, of, number), &row);
        }
        for place in 1..=lines as usize {
            let mut row = [0; order_line::BYTES];
            order_line::AMOUNT.set(&mut row, if delivered { 0 } else { between(random, 1, 999_999) as i64 });
            order_line::ITEM.set(&mut row, between(random, 1, keys.0.items.into()));
            order_line::SUPPLY_WAREHOUSE.set(&mut row, at.into());
            order_line::QUANTITY.set(&mut row, 5);
            order_line::DELIVERY_DATE.set(&mut row, if delivered { DATE } else { 0 });
            text(random, &mut row[order_line::DISTRICT_INFORMATION..]);
            put(keys.order_line(at, of, number, place), &row);
        }
    }
    let mut row = [0; pointer::BYTES];
    pointer::ORDER.set(&mut row, keys.0.first_undelivered().into());
    put(keys.oldest_new_order(at, of), &row);
}
