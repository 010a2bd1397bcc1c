//! One bank account that must not be overdrawn.

use crate::definition::{Builder, Definition};

pub(super) fn define() -> Definition {
    let mut data = Builder::new("account", "a bank account that must not be overdrawn");
    let balance = data.scalar("balance");
    data.invariant("the balance is not negative", balance.get().at_least(0));
    data.method("deposit", |call| {
        let amount = call.amount("amount");
        call.add(balance, amount.clone());
        call.summary(|bulk| {
            let total = bulk.sum("total", amount);
            bulk.add(balance, total);
        });
    });
    data.method("withdraw", |call| {
        let amount = call.amount("amount");
        call.require("the balance covers the amount", balance.get().at_least(amount.clone()));
        call.subtract(balance, amount);
    });
    data.query_number("balance", |_| balance.get());
    data.finish()
}
