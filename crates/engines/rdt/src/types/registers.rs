//! Registers in which the last writer wins (Shapiro et al. 2011, specification 9).
//!
//! A stamp is a time and the number of the replica that made it, so no two calls have the same stamp; see
//! [`crate::Stamp`].

use super::sorts;
use crate::definition::{Builder, Definition};
use crate::expression::every;

sorts!(Key);

pub(super) fn register() -> Definition {
    let mut data = Builder::new("lww-register", "a register in which the last writer wins");
    let value = data.scalar("value");
    let written = data.scalar("written");
    data.invariant("the stamp is not negative", written.get().at_least(0));
    data.method("assign", |call| {
        let new = call.integer("value");
        let stamp = call.stamp("stamp", written.get());
        let later = stamp.clone().exceeds(written.get());
        call.set(value, later.choose(new.clone(), value.get()));
        call.set(written, stamp.clone().max(written.get()));
        call.summary(|bulk| {
            let stamp = bulk.latest("stamp", stamp);
            let new = bulk.carried("value", new);
            let later = stamp.clone().exceeds(written.get());
            bulk.set(value, later.choose(new, value.get()));
            bulk.set(written, stamp.max(written.get()));
        });
    });
    data.query_number("value", |_| value.get());
    data.finish()
}

/// The record store for the YCSB workloads.
pub(super) fn ycsb() -> Definition {
    let mut data = Builder::new("ycsb", "records by key, in each of which the last writer wins");
    let value = data.array::<Key>("value");
    let written = data.array::<Key>("written");
    data.invariant("no stamp is negative", every("k", |key| written.at(&key).at_least(0)));
    data.method("put", |call| {
        let key = call.element("key");
        let new = call.integer("value");
        let stamp = call.stamp("stamp", written.at(&key));
        let later = stamp.clone().exceeds(written.at(&key));
        call.set_at(value, &key, later.choose(new.clone(), value.at(&key)));
        call.set_at(written, &key, stamp.clone().max(written.at(&key)));
        call.summary(|bulk| {
            let key = bulk.key("key", &key);
            let stamp = bulk.latest("stamp", stamp);
            let new = bulk.carried("value", new);
            let later = stamp.clone().exceeds(written.at(&key));
            bulk.set_at(value, &key, later.choose(new, value.at(&key)));
            bulk.set_at(written, &key, stamp.max(written.at(&key)));
        });
    });
    data.query_number("get", |parameters| value.at(&parameters.element("key")));
    data.finish()
}
