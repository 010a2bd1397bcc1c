//! A counter that goes up and down (Shapiro et al. 2011, specification 7).

use crate::definition::{Builder, Definition};

pub(super) fn define() -> Definition {
    let mut data = Builder::new("pn-counter", "a counter that goes up and down");
    let count = data.scalar("count");
    data.method("increment", |call| {
        let amount = call.amount("amount");
        call.add(count, amount.clone());
        call.summary(|bulk| {
            let total = bulk.sum("total", amount);
            bulk.add(count, total);
        });
    });
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
