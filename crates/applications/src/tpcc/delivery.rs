//! Delivery (clause 2.7): delivers the oldest order of one district.

use weft_txn::{Accesses, Context, Mode, Procedure, Request, Step};

use super::rows::{customer, order, order_line, pointer};
use super::{DELIVERY, Keys, LINES_MAX, MISSING};
use crate::input::{Reader, Writer};

/// Input of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) warehouse: u16,
    pub(super) district: u8,
    /// Number of the carrier, 1 to 10.
    pub(super) carrier: u8,
    /// Delivery date, not 0.
    pub(super) date: u64,
}

impl Delivered {
    pub(super) fn request(&self, keys: &Keys) -> Request {
        let mut accesses = Accesses::default();
        let oldest = keys.oldest_new_order(self.warehouse, self.district);
        accesses.add(oldest, Mode::Update).expect("one key");
        let mut input = Writer::default();
        input.u16(self.warehouse).u8(self.district).u8(self.carrier).u64(self.date);
        Request { procedure: DELIVERY, input: input.0, accesses }
    }

    fn read(input: &[u8]) -> Option<Self> {
        let mut input = Reader(input);
        let (warehouse, district) = (input.u16()?, input.u8()?);
        Some(Self { warehouse, district, carrier: input.u8()?, date: input.u64()? })
    }
}

/// The procedure. It returns the number of the delivered order, or 0 if no order is undelivered (2.7.4.2).
pub(super) struct Delivery(pub(super) Keys);

impl Delivery {
    fn deliver(&self, context: &mut Context<'_>) -> Result<Step, u8> {
        let keys = &self.0;
        let Delivered { warehouse, district, carrier, date } =
            Delivered::read(context.input()).ok_or(MISSING)?;
        let number = pointer::ORDER.get(context.value(0).ok_or(MISSING)?) as u32;
        let of_new = context.add(keys.new_order(warehouse, district, number), Mode::Update);
        let of_order = context.add(keys.order(warehouse, district, number), Mode::Update);
        if context.round() == 0 {
            return Ok(Step::More);
        }
        if context.value(of_new).is_none() {
            context.answer(&0u32.to_le_bytes());
            return Ok(Step::Commit);
        }
        let row = context.value(of_order).ok_or(MISSING)?;
        let by = order::CUSTOMER.get(row) as u32;
        let mut lines = [0; LINES_MAX];
        let lines = lines.get_mut(..order::LINES.get(row) as usize).ok_or(MISSING)?;
        let who = context.add(keys.customer(warehouse, district, by), Mode::Update);
        for (place, index) in (1..).zip(lines.iter_mut()) {
            *index = context.add(keys.order_line(warehouse, district, number, place), Mode::Update);
        }
        if context.round() == 1 {
            return Ok(Step::More);
        }
        let mut sum = 0;
        let mut found = context.edit(of_order, |row| order::CARRIER.set(row, carrier.into()));
        for index in lines {
            found &= context.edit(*index, |row| {
                order_line::DELIVERY_DATE.set(row, date);
                sum += order_line::AMOUNT.get(row);
            });
        }
        found &= context.edit(who, |row| {
            customer::BALANCE.add(row, sum);
            customer::DELIVERIES.add(row, 1);
        });
        // Orders have consecutive numbers and are delivered in this order, so the next number is now the
        // oldest.
        found &= context.edit(0, |row| pointer::ORDER.set(row, u64::from(number) + 1));
        if !found {
            return Err(MISSING);
        }
        context.delete(of_new);
        context.answer(&number.to_le_bytes());
        Ok(Step::Commit)
    }
}

impl Procedure for Delivery {
    fn name(&self) -> &'static str {
        "delivery"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        self.deliver(context).unwrap_or_else(Step::Abort)
    }

    fn ship(&self) -> bool {
        false
    }
}
