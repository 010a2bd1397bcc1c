//! The conformance suite: runs the same scenarios on the soft NIC and on the gateware, and compares the
//! results.
//!
//! The soft transport is the specification of the gateware. Every scenario runs between two soft NICs,
//! between two gateware NICs, and between one of each. The results must be equal: packets byte by byte and in
//! order, completions, memory, counters. [`rules`] lists each intended difference of the gateware with its
//! reason. `docs/conformance.md` lists the rules with the scenarios that test them, and the differences.
//!
//! - [`script`]: conversations as text, with faults on selected packets.
//! - [`malformed`]: malformed packets, each answered or dropped as its rule says.
//! - [`random`]: random requests over a wire that loses, duplicates, reorders and corrupts.
//! - [`capture`]: real traffic of Linux' soft RoCE.
//! - [`literal`]: peers that interpret and give acknowledgements literally, as Linux' soft RoCE does.
//! - [`permission`]: access rights that the driver revokes while packets arrive; [`engine`]: the same at the
//!   gateware's port for engines; [`overload`]: memories that are too slow.
//! - [`rpc`]: calls of the key-value engine by WRITEs, with ordinary networking at the same time.
//! - [`kv`] and [`rounds`]: an engine and its gateware twin, event by event; [`rdt`]: data types and their evaluator.
//! - [`coverage`]: which events and states of the gateware the whole suite reaches.
//! - [`stage`] and [`twin`]: the common basis of these modules.

pub mod capture;
pub mod counters;
pub mod coverage;
pub mod engine;
pub mod kv;
pub mod literal;
pub mod malformed;
pub mod overload;
pub mod permission;
pub mod random;
pub mod rdt;
pub mod rounds;
pub mod rpc;
pub mod rules;
mod said;
pub mod script;
pub mod stage;
pub mod twin;

#[allow(missing_docs, reason = "shared with the tests of the transport, where nothing is public")]
#[path = "../../rdma/tests/common/language.rs"]
mod language;
