//! New-order (clause 2.4): places an order of five to fifteen lines.

use weft_txn::{Accesses, Context, Key, Mode, Procedure, Request, Step, VALUE_MAX};

use super::rows::{customer, district, item, new_order, order, order_line, pointer, stock, warehouse};
use super::{Keys, LINES_MAX, MISSING, NEW_ORDER, UNUSED_ITEM};
use crate::input::{Reader, Writer};

/// A line of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) item: u32,
    pub(super) supply_warehouse: u16,
    pub(super) quantity: u8,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) warehouse: u16,
    pub(super) district: u8,
    pub(super) customer: u32,
    pub(super) date: u64,
    pub(super) lines: Vec<Line>,
}

impl Order {
    pub(super) fn request(&self, keys: &Keys) -> Request {
        let mut accesses = Accesses::default();
        let mut add = |key, mode| accesses.add(key, mode).expect("33 keys at most");
        add(keys.warehouse(self.warehouse), Mode::Read);
        add(keys.district(self.warehouse, self.district), Mode::Update);
        add(keys.customer(self.warehouse, self.district, self.customer), Mode::Read);
        for line in &self.lines {
            add(keys.item(self.warehouse, line.item), Mode::Read);
            add(keys.stock(line.supply_warehouse, line.item), Mode::Update);
        }
        let mut input = Writer::default();
        input.u16(self.warehouse).u8(self.district).u32(self.customer).u64(self.date);
        for line in &self.lines {
            input.u32(line.item).u16(line.supply_warehouse).u8(line.quantity);
        }
        Request { procedure: NEW_ORDER, input: input.0, accesses }
    }
}

/// Data that is collected about a line while the order is processed.
#[derive(Clone, Copy, Default)]
struct Taken {
    line: Line,
    price: u64,
    stock: usize,
    district_information: [u8; stock::DISTRICT_INFORMATION_BYTES],
}

/// The procedure. It returns the order's number and its total in cents.
pub(super) struct NewOrder(pub(super) Keys);

impl NewOrder {
    fn take(&self, context: &mut Context<'_>) -> Result<Step, u8> {
        let keys = &self.0;
        let mut taken = [Taken::default(); LINES_MAX];
        let (home, in_district, by, date, count) = {
            let mut input = Reader(context.input());
            let head = (input.u16(), input.u8(), input.u32(), input.u64());
            let (Some(home), Some(in_district), Some(by), Some(date)) = head else { return Err(MISSING) };
            let mut count = 0;
            while let (Some(item), Some(supply_warehouse), Some(quantity)) =
                (input.u32(), input.u16(), input.u8())
            {
                taken.get_mut(count).ok_or(MISSING)?.line = Line { item, supply_warehouse, quantity };
                count += 1;
            }
            (home, in_district, by, date, count)
        };
        let taken = &mut taken[..count];
        let mut next = FIRST_ITEM;
        for taken in taken.iter_mut() {
            let index = find(context, keys.item(home, taken.line.item), &mut next)?;
            // An unused item is detected here, after all keys were read. The transaction aborts, so the whole order is
            // rolled back (2.4.2.3).
            taken.price = item::PRICE.get(context.value(index).ok_or(UNUSED_ITEM)?);
            taken.stock = find(context, keys.stock(taken.line.supply_warehouse, taken.line.item), &mut next)?;
        }

        let tax = warehouse::TAX.get(context.value(0).ok_or(MISSING)?);
        let discount = customer::DISCOUNT.get(context.value(2).ok_or(MISSING)?);
        let row = context.value(1).ok_or(MISSING)?;
        let tax = tax + district::TAX.get(row);
        let number = district::NEXT_ORDER.get(row) as u32;
        context.edit(1, |row| district::NEXT_ORDER.set(row, u64::from(number) + 1));

        // If several lines take from one stock, the stock is written once, with the sum of what they take.
        for first in 0..count {
            let index = taken[first].stock;
            if taken[..first].iter().any(|earlier| earlier.stock == index) {
                continue;
            }
            let found = context.edit(index, |row| {
                for taken in taken[first..].iter_mut().filter(|taken| taken.stock == index) {
                    take_from_stock(row, &taken.line, home);
                    taken.district_information.copy_from_slice(stock::district_information(row, in_district));
                }
            });
            if !found {
                return Err(MISSING);
            }
        }

        let mut row = [0; VALUE_MAX];
        let insert = |context: &mut Context<'_>, key, row: &mut [u8]| {
            let index = context.add(key, Mode::Write);
            context.write(index, row);
            row.fill(0);
        };
        let mut sum = 0;
        for (place, taken) in (1..).zip(taken.iter()) {
            let amount = u64::from(taken.line.quantity) * taken.price;
            sum += amount;
            let row = &mut row[..order_line::BYTES];
            order_line::AMOUNT.set(row, amount as i64);
            order_line::ITEM.set(row, taken.line.item.into());
            order_line::SUPPLY_WAREHOUSE.set(row, taken.line.supply_warehouse.into());
            order_line::QUANTITY.set(row, taken.line.quantity.into());
            row[order_line::DISTRICT_INFORMATION..].copy_from_slice(&taken.district_information);
            insert(context, keys.order_line(home, in_district, number, place), row);
        }
        let all_local = taken.iter().all(|taken| taken.line.supply_warehouse == home);
        order::CUSTOMER.set(&mut row, by.into());
        order::DATE.set(&mut row, date);
        order::LINES.set(&mut row, count as u64);
        order::ALL_LOCAL.set(&mut row, all_local.into());
        insert(context, keys.order(home, in_district, number), &mut row[..order::BYTES]);
        new_order::ORDER.set(&mut row, number.into());
        insert(context, keys.new_order(home, in_district, number), &mut row[..new_order::BYTES]);
        pointer::ORDER.set(&mut row, number.into());
        insert(context, keys.last_order(home, in_district, by), &mut row[..pointer::BYTES]);

        // The factors are in units of 1/10,000 each, hence the divisor. The total is rounded down.
        let total = u128::from(sum) * u128::from(10_000 - discount) * u128::from(10_000 + tax) / 100_000_000;
        context.answer(&Writer::default().u32(number).u64(total as u64).0);
        Ok(Step::Commit)
    }
}

/// Index of the first item's key; the keys of warehouse, district and customer precede it.
const FIRST_ITEM: usize = 3;

/// Index of a key: `next`, unless an earlier line uses the same key.
fn find(context: &Context<'_>, key: Key, next: &mut usize) -> Result<usize, u8> {
    if context.keys().get(*next).is_some_and(|access| access.key == key) {
        *next += 1;
        return Ok(*next - 1);
    }
    context.find(key).ok_or(MISSING)
}

/// Takes a line's quantity from the stock. If less than ten would remain, 91 are added first (2.4.2.2).
fn take_from_stock(row: &mut [u8], line: &Line, home: u16) {
    let (held, taken) = (stock::QUANTITY.get(row), u64::from(line.quantity));
    let left = if held >= taken + 10 { held - taken } else { held + 91 - taken };
    stock::QUANTITY.set(row, left);
    stock::YTD.add(row, taken);
    stock::ORDERS.add(row, 1);
    stock::REMOTE_ORDERS.add(row, u64::from(line.supply_warehouse != home));
}

impl Procedure for NewOrder {
    fn name(&self) -> &'static str {
        "new-order"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        self.take(context).unwrap_or_else(Step::Abort)
    }
}
