//! Order-status (clause 2.6): reads the last order of a customer.

use weft_txn::{Accesses, Context, Mode, Procedure, Request, Step};

use super::rows::{customer, order, order_line, pointer};
use super::{Customer, Keys, LINES_MAX, MISSING, ORDER_STATUS};
use crate::input::{Reader, Writer};

/// Input of an order-status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) warehouse: u16,
    pub(super) district: u8,
    pub(super) customer: Customer,
}

impl Asked {
    pub(super) fn request(&self, keys: &Keys) -> Request {
        let mut accesses = Accesses::default();
        let mut add = |key| accesses.add(key, Mode::Read).expect("two keys at most");
        let (warehouse, district) = (self.warehouse, self.district);
        match self.customer {
            Customer::Number(number) => {
                add(keys.customer(warehouse, district, number));
                add(keys.last_order(warehouse, district, number));
            }
            Customer::LastName(name) => {
                add(keys.customers_by_name(warehouse, district, name));
            }
        }
        let mut input = Writer::default();
        input.u16(warehouse).u8(district);
        self.customer.put(&mut input);
        Request { procedure: ORDER_STATUS, input: input.0, accesses }
    }

    fn read(input: &[u8]) -> Option<Self> {
        let mut input = Reader(input);
        Some(Self { warehouse: input.u16()?, district: input.u8()?, customer: Customer::get(&mut input)? })
    }
}

/// The procedure. It returns balance, order, date and carrier; and for each line: item, warehouse, quantity, amount and
/// delivery date.
pub(super) struct OrderStatus(pub(super) Keys);

impl OrderStatus {
    fn tell(&self, context: &mut Context<'_>) -> Result<Step, u8> {
        let keys = &self.0;
        let Asked { warehouse, district, customer: by } = Asked::read(context.input()).ok_or(MISSING)?;
        // Rounds of the transaction that find out the customer's number.
        let mut rounds = 0;
        let number = match by {
            Customer::Number(number) => number,
            Customer::LastName(_) => {
                rounds += 1;
                context.value(0).and_then(Customer::middle).ok_or(MISSING)?
            }
        };
        let who = context.add(keys.customer(warehouse, district, number), Mode::Read);
        let last = context.add(keys.last_order(warehouse, district, number), Mode::Read);
        if context.round() < rounds {
            return Ok(Step::More);
        }
        let balance = customer::BALANCE.get(context.value(who).ok_or(MISSING)?);
        let ordered = pointer::ORDER.get(context.value(last).ok_or(MISSING)?) as u32;
        let of_order = context.add(keys.order(warehouse, district, ordered), Mode::Read);
        if context.round() == rounds {
            return Ok(Step::More);
        }
        let row = context.value(of_order).ok_or(MISSING)?;
        let (date, carrier) = (order::DATE.get(row), order::CARRIER.get(row));
        let mut lines = [0; LINES_MAX];
        let lines = lines.get_mut(..order::LINES.get(row) as usize).ok_or(MISSING)?;
        for (place, index) in (1..).zip(lines.iter_mut()) {
            *index = context.add(keys.order_line(warehouse, district, ordered, place), Mode::Read);
        }
        if context.round() == rounds + 1 {
            return Ok(Step::More);
        }
        let mut answer = Writer(Vec::with_capacity(weft_txn::ANSWER_MAX));
        answer.i64(balance).u32(ordered).u64(date).u8(carrier as u8);
        for index in lines {
            let row = context.value(*index).ok_or(MISSING)?;
            answer.u32(order_line::ITEM.get(row) as u32).u16(order_line::SUPPLY_WAREHOUSE.get(row) as u16);
            answer.u8(order_line::QUANTITY.get(row) as u8).u32(order_line::AMOUNT.get(row) as u32);
            answer.u32(order_line::DELIVERY_DATE.get(row) as u32);
        }
        context.answer(&answer.0);
        Ok(Step::Commit)
    }
}

impl Procedure for OrderStatus {
    fn name(&self) -> &'static str {
        "order-status"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        self.tell(context).unwrap_or_else(Step::Abort)
    }

    fn ship(&self) -> bool {
        false
    }
}
