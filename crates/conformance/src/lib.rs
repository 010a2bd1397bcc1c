//! The conformance suite: the same scenarios on the soft NIC and on the gateware, compared.
//!
//! The soft transport is the specification of the gateware. Every scenario runs between two soft NICs, between two of
//! the gateware, and between one of each, and what comes out must be the same: packets byte by byte and in order,
//! completions, memory, counters. Where the gateware differs for a reason, [`rules`] lists the difference and the
//! reason; `docs/conformance.md` has both, and the rules with the scenarios that hold them.
//!
//! - [`script`]: conversations as text, with faults on chosen packets.
//! - [`malformed`]: bad packets, each answered or dropped as its rule says.
//! - [`random`]: random requests over a wire that loses, duplicates, reorders and corrupts.
//! - [`capture`]: real traffic of Linux' soft RoCE.
//! - [`literal`]: peers that take answers literally, and give them, as Linux' soft RoCE does.
//! - [`permission`]: permissions that are taken while packets stream in; [`engine`]: the same at the gateware's port
//!   for engines; [`overload`]: memories that are too slow.
//! - [`rpc`]: calls of the key-value engine by WRITEs, with ordinary networking beside them.
//! - [`kv`] and [`rounds`]: an engine and its gates, event by event.
//! - [`coverage`]: which events and states of the gateware all of this reaches.
//! - [`stage`] and [`twin`]: what all of them stand on.

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
