//! Sets (Shapiro et al. 2011, specifications 11, 12 and 14).

use super::sorts;
use crate::definition::{Builder, Call, Definition};
use crate::expression::{Array, Element, Set};

sorts!(Item);

/// Declares `name(element)`: the element is added to the set, and calls combine by union.
pub(super) fn inserting<S: crate::expression::Sort>(call: &mut Call, set: Set<S>, element: &Element<S>) {
    call.insert(set, element);
    call.summary(|bulk| {
        let all = bulk.union("elements", element);
        bulk.insert_all(set, all);
    });
}

pub(super) fn g_set() -> Definition {
    let mut data = Builder::new("g-set", "a set that only grows");
    let items = data.set::<Item>("items");
    data.method("insert", |call| {
        let item = call.element("item");
        inserting(call, items, &item);
    });
    data.query_whether("contains", |parameters| items.contains(&parameters.element("item")));
    data.finish()
}

pub(super) fn pn_set() -> Definition {
    fn counting(call: &mut Call, count: Array<Item>, up: bool) {
        let item = call.element("item");
        if up {
            call.add_at(count, &item, 1.into());
        } else {
            call.subtract_at(count, &item, 1.into());
        }
        call.summary(|bulk| {
            let item = bulk.key("item", &item);
            let times = bulk.sum("times", 1);
            if up {
                bulk.add_at(count, &item, times);
            } else {
                bulk.subtract_at(count, &item, times);
            }
        });
    }
    let mut data = Builder::new("pn-set", "a set that counts insertions and removals of each element");
    let count = data.array::<Item>("count");
    data.method("insert", |call| counting(call, count, true));
    data.method("remove", |call| counting(call, count, false));
    data.query_whether("contains", |parameters| count.at(&parameters.element("item")).exceeds(0));
    data.finish()
}

/// An element may be removed once it was inserted, even if it was removed before. A guard that refused the
/// second removal would make removals conflict with each other.
pub(super) fn two_phase_set() -> Definition {
    let mut data = Builder::new("2p-set", "a set from which an element is removed for ever");
    let added = data.set::<Item>("added");
    let removed = data.set::<Item>("removed");
    data.invariant(
        "what was removed was added",
        crate::expression::every("i", |item| removed.contains(&item).implies(added.contains(&item))),
    );
    data.method("insert", |call| {
        let item = call.element("item");
        inserting(call, added, &item);
    });
    data.method("remove", |call| {
        let item = call.element("item");
        call.require("the item was added", added.contains(&item));
        inserting(call, removed, &item);
    });
    data.query_whether("contains", |parameters| {
        let item = parameters.element("item");
        added.contains(&item) & !removed.contains(&item)
    });
    data.finish()
}
