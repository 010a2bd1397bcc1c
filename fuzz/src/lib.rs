//! Fuzz targets for everything that reads untrusted bytes.
//!
//! A target is a function that accepts any bytes and panics if a property is violated. Properties are: a
//! valid input is encoded again and parses to the same; memory outside registered regions is not changed; a
//! NIC sends nothing malformed; and no code under test panics. `fuzz/run.sh` runs libFuzzer, which searches
//! for violations guided by coverage. The tests of this package run every kept input, and random changes of
//! it, through its target.

mod card;
mod disk;
mod files;
mod frames;
mod input;
mod membership;
mod redis;
mod register;
mod replicas;
mod responder;
mod rounds;
mod seal;
mod sessions;
mod store;
mod transactions;

/// The name of a target, and the function that must not panic for any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target on the command line, and of its corpus, `fuzz/corpus/<name>`.
    pub name: &'static str,
    /// Panics if a property is violated.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 29] = [
    Target { name: "frame", run: frames::frame },
    Target { name: "packet", run: frames::packet },
    Target { name: "datagram", run: frames::datagram },
    Target { name: "responder", run: responder::responder },
    Target { name: "card", run: card::card },
    Target { name: "kv-message", run: card::kv_message },
    Target { name: "rounds-message", run: rounds::message },
    Target { name: "rounds", run: rounds::node },
    Target { name: "log-message", run: replicas::control },
    Target { name: "log", run: replicas::log },
    Target { name: "replica", run: replicas::replica },
    Target { name: "txn-message", run: transactions::message },
    Target { name: "txn", run: transactions::node },
    Target { name: "txn-client", run: transactions::client },
    Target { name: "txn-record", run: transactions::record },
    Target { name: "resp", run: redis::resp },
    Target { name: "session", run: sessions::session },
    Target { name: "store", run: store::store },
    Target { name: "disk", run: disk::disk },
    Target { name: "membership", run: membership::membership },
    Target { name: "status", run: membership::status },
    Target { name: "register", run: register::register },
    Target { name: "seal", run: seal::seal },
    Target { name: "history", run: files::history },
    Target { name: "history-lines", run: files::history_lines },
    Target { name: "fault-plan", run: files::fault_plan },
    Target { name: "configuration", run: files::configuration },
    Target { name: "durable", run: files::durable },
    Target { name: "backup", run: files::backup },
];

/// The target with that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
