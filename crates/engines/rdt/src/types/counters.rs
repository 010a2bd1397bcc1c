//! Counters (Shapiro et al. 2011, specifications 6 and 7).

use crate::definition::{Builder, Definition};
use crate::expression::Scalar;

pub(super) fn g_counter() -> Definition {
    let mut data = Builder::new("g-counter", "a counter that only goes up");
    let count = data.scalar("count");
    increment(&mut data, count);
    data.query_number("value", |_| count.get());
    data.finish()
}

pub(super) fn pn_counter() -> Definition {
    let mut data = Builder::new("pn-counter", "a counter that goes up and down");
    let count = data.scalar("count");
    increment(&mut data, count);
    data.method("decrement", |call| {
        let amount = call.amount("amount");
        call.subtract(count, amount.clone());
        call.summary(|bulk| {
            let total = bulk.sum("total", amount);
            bulk.subtract(count, total);
        });
    });
    data.query_number("value", |_| count.get());
    data.finish()
}

fn increment(data: &mut Builder, count: Scalar) {
    data.method("increment", |call| {
        let amount = call.amount("amount");
        call.add(count, amount.clone());
        call.summary(|bulk| {
            let total = bulk.sum("total", amount);
            bulk.add(count, total);
        });
    });
}
