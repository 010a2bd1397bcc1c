//! Payment (clause 2.5): a customer, who may belong to another warehouse, pays at a district.

use weft_txn::{Accesses, Context, Mode, Procedure, Request, Step};

use super::rows::{customer, district, history, warehouse};
use super::{Customer, Keys, MISSING, PAYMENT};
use crate::input::{Reader, Writer};

/// Bytes that a payment of a customer with bad credit puts in front of C_DATA (2.5.2.2). The specification uses 34
/// digits.
const NOTE_BYTES: usize = 34;

/// Input of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paid {
    pub(super) warehouse: u16,
    pub(super) district: u8,
    pub(super) customer_warehouse: u16,
    pub(super) customer_district: u8,
    pub(super) customer: Customer,
    /// Amount in cents.
    pub(super) amount: u32,
    pub(super) date: u64,
    /// Number of the payment, unique in the warehouse.
    pub(super) number: u32,
}

impl Paid {
    pub(super) fn request(&self, keys: &Keys) -> Request {
        let mut accesses = Accesses::default();
        let mut add = |key, mode| accesses.add(key, mode).expect("four keys at most");
        add(keys.warehouse(self.warehouse), Mode::Update);
        add(keys.district(self.warehouse, self.district), Mode::Update);
        let (warehouse, district) = (self.customer_warehouse, self.customer_district);
        match self.customer {
            Customer::Number(number) => add(keys.customer(warehouse, district, number), Mode::Update),
            Customer::LastName(name) => add(keys.customers_by_name(warehouse, district, name), Mode::Read),
        };
        let mut input = Writer::default();
        input.u16(self.warehouse).u8(self.district).u16(warehouse).u8(district);
        self.customer.put(&mut input);
        input.u32(self.amount).u64(self.date).u32(self.number);
        Request { procedure: PAYMENT, input: input.0, accesses }
    }

    fn read(input: &[u8]) -> Option<Self> {
        let mut input = Reader(input);
        Some(Self {
            warehouse: input.u16()?,
            district: input.u8()?,
            customer_warehouse: input.u16()?,
            customer_district: input.u8()?,
            customer: Customer::get(&mut input)?,
            amount: input.u32()?,
            date: input.u64()?,
            number: input.u32()?,
        })
    }
}

/// The procedure. It returns the customer's number and the new balance.
pub(super) struct Payment(pub(super) Keys);

impl Payment {
    fn pay(&self, context: &mut Context<'_>) -> Result<Step, u8> {
        let keys = &self.0;
        let paid = Paid::read(context.input()).ok_or(MISSING)?;
        let (index, by) = match paid.customer {
            Customer::Number(number) => (2, number),
            Customer::LastName(_) => {
                let number = context.value(2).and_then(Customer::middle).ok_or(MISSING)?;
                let key = keys.customer(paid.customer_warehouse, paid.customer_district, number);
                let index = context.add(key, Mode::Update);
                if context.round() == 0 {
                    return Ok(Step::More);
                }
                (index, number)
            }
        };
        let amount = i64::from(paid.amount);
        let mut balance = 0;
        let found = context.edit(0, |row| warehouse::YTD.add(row, amount))
            && context.edit(1, |row| district::YTD.add(row, amount))
            && context.edit(index, |row| {
                customer::BALANCE.add(row, -amount);
                customer::YTD_PAYMENT.add(row, amount);
                customer::PAYMENTS.add(row, 1);
                balance = customer::BALANCE.get(row);
                if customer::BAD_CREDIT.get(row) == 1 {
                    note(&mut row[customer::DATA..], by, &paid);
                }
            });
        if !found {
            return Err(MISSING);
        }
        let mut row = [0; history::BYTES];
        history::AMOUNT.set(&mut row, amount);
        history::CUSTOMER.set(&mut row, by.into());
        history::CUSTOMER_DISTRICT.set(&mut row, paid.customer_district.into());
        history::CUSTOMER_WAREHOUSE.set(&mut row, paid.customer_warehouse.into());
        history::DISTRICT.set(&mut row, paid.district.into());
        history::DATE.set(&mut row, paid.date);
        for (index, byte) in row[history::TEXT..].iter_mut().enumerate() {
            // H_DATA consists of the names of the warehouse and the district.
            *byte = b'a' + ((usize::from(paid.warehouse) + usize::from(paid.district) * index) & 15) as u8;
        }
        let index = context.add(keys.history(paid.warehouse, paid.number), Mode::Write);
        context.write(index, &row);
        context.answer(&Writer::default().u32(by).i64(balance).0);
        Ok(Step::Commit)
    }
}

/// Shifts C_DATA to the right and puts a record of the payment in front.
fn note(data: &mut [u8], by: u32, paid: &Paid) {
    data.copy_within(..data.len() - NOTE_BYTES, NOTE_BYTES);
    let mut note = Writer::default();
    note.u32(by)
        .u8(paid.customer_district)
        .u16(paid.customer_warehouse)
        .u8(paid.district)
        .u16(paid.warehouse);
    note.u32(paid.amount).u64(paid.date);
    data[..NOTE_BYTES].fill(b' ');
    data[..note.0.len()].copy_from_slice(&note.0);
}

impl Procedure for Payment {
    fn name(&self) -> &'static str {
        "payment"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        self.pay(context).unwrap_or_else(Step::Abort)
    }
}
