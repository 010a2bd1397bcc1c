//! Bank accounts that must not be overdrawn: a single account, and many accounts with two balances each.

use super::sorts;
use crate::definition::{Builder, Definition};
use crate::expression::{Element, every};

sorts!(Account);

pub(super) fn account() -> Definition {
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

/// The accounts of SmallBank (OLTP-Bench), without the penalty for an overdraft: a check that is not covered
/// is refused. The leader reads the amount that an amalgamation moves, and sends it with the call. If each
/// replica read the amount itself, every deposit would conflict with an amalgamation.
pub(super) fn smallbank() -> Definition {
    let mut data = Builder::new("smallbank", "accounts with a savings and a checking balance");
    let savings = data.array::<Account>("savings");
    let checking = data.array::<Account>("checking");
    let total = |account: &Element<Account>| savings.at(account) + checking.at(account);
    data.invariant("no savings are negative", every("a", |account| savings.at(&account).at_least(0)));
    data.invariant("no account is overdrawn", every("a", |account| total(&account).at_least(0)));
    data.method("depositChecking", |call| {
        let account = call.element("account");
        let amount = call.amount("amount");
        call.add_at(checking, &account, amount.clone());
        call.summary(|bulk| {
            let account = bulk.key("account", &account);
            let total = bulk.sum("total", amount);
            bulk.add_at(checking, &account, total);
        });
    });
    data.method("transactSavings", |call| {
        let account = call.element("account");
        let amount = call.integer("amount");
        let after = savings.at(&account) + amount.clone();
        call.require("the savings cover the amount", after.at_least(0));
        let after = total(&account) + amount.clone();
        call.require("the account covers the amount", after.at_least(0));
        call.add_at(savings, &account, amount);
    });
    data.method("sendPayment", |call| {
        let from = call.element("from");
        let to = call.element("to");
        let amount = call.amount("amount");
        call.require("the accounts differ", !from.is(&to));
        call.require("the checking balance covers it", checking.at(&from).at_least(amount.clone()));
        call.subtract_at(checking, &from, amount.clone());
        call.add_at(checking, &to, amount);
    });
    data.method("writeCheck", |call| {
        let account = call.element("account");
        let amount = call.amount("amount");
        call.require("the account covers the check", total(&account).at_least(amount.clone()));
        call.subtract_at(checking, &account, amount);
    });
    data.method("amalgamate", |call| {
        let from = call.element("from");
        let to = call.element("to");
        let saved = call.observed("savings", savings.at(&from));
        let checked = call.observed("checking", checking.at(&from));
        let moved = saved.clone() + checked.clone();
        call.require("the accounts differ", !from.is(&to));
        call.require("what moves is not negative", saved.clone().at_least(0) & moved.clone().at_least(0));
        call.require("the savings cover it", savings.at(&from).at_least(saved.clone()));
        call.require("the account covers it", total(&from).at_least(moved.clone()));
        call.subtract_at(savings, &from, saved);
        call.subtract_at(checking, &from, checked);
        call.add_at(checking, &to, moved);
    });
    data.query_number("balance", |parameters| total(&parameters.element("account")));
    data.finish()
}
