//! Layout of rows. The numbers that a transaction uses have fixed offsets; the remaining bytes are text that makes the
//! row as long as clause 4.2.2 says. Numbers are little-endian; money is in cents, rates in units of 1/10,000.

/// An unsigned number in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<const BYTES: usize>(usize);

impl<const BYTES: usize> Field<BYTES> {
    pub(super) fn get(self, row: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&row[self.0..self.0 + BYTES]);
        u64::from_le_bytes(bytes)
    }

    /// # Panics
    /// If the value does not fit.
    pub(super) fn set(self, row: &mut [u8], value: u64) {
        let bytes = value.to_le_bytes();
        assert!(bytes[BYTES..].iter().all(|byte| *byte == 0), "{value} in {BYTES} bytes");
        row[self.0..self.0 + BYTES].copy_from_slice(&bytes[..BYTES]);
    }

    pub(super) fn add(self, row: &mut [u8], more: u64) {
        self.set(row, self.get(row) + more);
    }
}

/// An amount of money in a row, in cents; it may be negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Money(usize);

impl Money {
    pub(super) fn get(self, row: &[u8]) -> i64 {
        Field::<8>(self.0).get(row) as i64
    }

    pub(super) fn set(self, row: &mut [u8], cents: i64) {
        Field::<8>(self.0).set(row, cents as u64);
    }

    pub(super) fn add(self, row: &mut [u8], cents: i64) {
        self.set(row, self.get(row) + cents);
    }
}

pub(super) mod warehouse {
    use super::{Field, Money};
    pub(in super::super) const BYTES: usize = 89;
    pub(in super::super) const YTD: Money = Money(0);
    pub(in super::super) const TAX: Field<2> = Field(8);
    pub(in super::super) const TEXT: usize = 10;
}

pub(super) mod district {
    use super::{Field, Money};
    pub(in super::super) const BYTES: usize = 95;
    pub(in super::super) const YTD: Money = Money(0);
    pub(in super::super) const TAX: Field<2> = Field(8);
    pub(in super::super) const NEXT_ORDER: Field<4> = Field(10);
    pub(in super::super) const TEXT: usize = 14;
}

pub(super) mod customer {
    use super::{Field, Money};
    pub(in super::super) const BYTES: usize = 655;
    pub(in super::super) const BALANCE: Money = Money(0);
    pub(in super::super) const YTD_PAYMENT: Money = Money(8);
    pub(in super::super) const PAYMENTS: Field<4> = Field(16);
    pub(in super::super) const DELIVERIES: Field<4> = Field(20);
    pub(in super::super) const DISCOUNT: Field<2> = Field(24);
    /// 1 for C_CREDIT "BC", 0 for "GC".
    pub(in super::super) const BAD_CREDIT: Field<1> = Field(26);
    /// The number from which C_LAST is composed (clause 4.3.2.3).
    pub(in super::super) const LAST_NAME: Field<2> = Field(27);
    pub(in super::super) const TEXT: usize = 29;
    /// C_DATA, 500 bytes at the end.
    pub(in super::super) const DATA: usize = 155;
}

pub(super) mod history {
    use super::{Field, Money};
    pub(in super::super) const BYTES: usize = 46;
    pub(in super::super) const AMOUNT: Money = Money(0);
    pub(in super::super) const CUSTOMER: Field<4> = Field(8);
    pub(in super::super) const CUSTOMER_DISTRICT: Field<1> = Field(12);
    pub(in super::super) const CUSTOMER_WAREHOUSE: Field<2> = Field(13);
    pub(in super::super) const DISTRICT: Field<1> = Field(15);
    pub(in super::super) const DATE: Field<6> = Field(16);
    /// H_DATA: 24 bytes with the names of warehouse and district.
    pub(in super::super) const TEXT: usize = 22;
}

pub(super) mod new_order {
    use super::Field;
    pub(in super::super) const BYTES: usize = 8;
    pub(in super::super) const ORDER: Field<4> = Field(0);
}

pub(super) mod order {
    use super::Field;
    pub(in super::super) const BYTES: usize = 24;
    pub(in super::super) const CUSTOMER: Field<4> = Field(0);
    pub(in super::super) const DATE: Field<6> = Field(4);
    /// Number of the carrier; 0 if the order is undelivered.
    pub(in super::super) const CARRIER: Field<1> = Field(10);
    pub(in super::super) const LINES: Field<1> = Field(11);
    pub(in super::super) const ALL_LOCAL: Field<1> = Field(12);
}

pub(super) mod order_line {
    use super::{Field, Money};
    pub(in super::super) const BYTES: usize = 54;
    pub(in super::super) const AMOUNT: Money = Money(0);
    pub(in super::super) const ITEM: Field<4> = Field(8);
    pub(in super::super) const SUPPLY_WAREHOUSE: Field<2> = Field(12);
    pub(in super::super) const QUANTITY: Field<1> = Field(14);
    /// Date of the delivery; 0 if the order is undelivered.
    pub(in super::super) const DELIVERY_DATE: Field<6> = Field(15);
    /// OL_DIST_INFO, 24 bytes.
    pub(in super::super) const DISTRICT_INFORMATION: usize = 30;
}

pub(super) mod item {
    use super::Field;
    pub(in super::super) const BYTES: usize = 82;
    pub(in super::super) const PRICE: Field<4> = Field(0);
    /// 1 if I_DATA contains "ORIGINAL".
    pub(in super::super) const ORIGINAL: Field<1> = Field(4);
    pub(in super::super) const TEXT: usize = 5;
}

pub(super) mod stock {
    use super::Field;
    pub(in super::super) const BYTES: usize = 306;
    pub(in super::super) const QUANTITY: Field<2> = Field(0);
    /// 1 if S_DATA contains "ORIGINAL".
    pub(in super::super) const ORIGINAL: Field<1> = Field(2);
    pub(in super::super) const YTD: Field<4> = Field(3);
    pub(in super::super) const ORDERS: Field<4> = Field(7);
    pub(in super::super) const REMOTE_ORDERS: Field<4> = Field(11);
    pub(in super::super) const TEXT: usize = 15;
    pub(in super::super) const DISTRICT_INFORMATION_BYTES: usize = 24;

    /// S_DIST_xx: the stock's information for a district, whose numbers begin with 1.
    pub(in super::super) fn district_information(row: &[u8], district: u8) -> &[u8] {
        let at = TEXT + (district as usize - 1) * DISTRICT_INFORMATION_BYTES;
        &row[at..at + DISTRICT_INFORMATION_BYTES]
    }
}

/// The value of two indexes, an order's number: a customer's last order, and a district's oldest undelivered
/// order.
pub(super) mod pointer {
    use super::Field;
    pub(in super::super) const BYTES: usize = 4;
    pub(in super::super) const ORDER: Field<4> = Field(0);
}

/// The value of the index of last names: the numbers of the customers with this last name, two bytes each,
/// ordered by first name.
pub(super) mod by_name {
    pub(in super::super) fn count(row: &[u8]) -> usize {
        row.len() / 2
    }

    pub(in super::super) fn customer(row: &[u8], index: usize) -> u32 {
        u32::from(u16::from_le_bytes([row[2 * index], row[2 * index + 1]]))
    }
}
