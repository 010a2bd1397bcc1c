//! How large the tables of a node are.

use weft_cluster::NodeConfig;
use weft_time::Duration;
use weft_txn::host::HalfTables;
use weft_txn::store::{IndexParameters, Precision, Shape};
use weft_txn::{Parameters, Placement};

use super::Application;
use crate::node::message_bytes;

/// Objects for each hundred slots, and the displacement limit D_m, of Xenic's table 2.
const OCCUPANCY_PERCENT: u64 = 90;
const DISPLACEMENT: u32 = 16;
/// Homes of a segment, and records of an overflow page.
const SEGMENT: u32 = 4;
const PAGE: u32 = 2;
/// Slots, and the values that they hold: what [`Shape`] says.
const SLOTS: [(usize, usize); 6] = [(32, 8), (64, 40), (128, 102), (192, 164), (256, 226), (320, 256)];
/// Messages of a copy are not longer than what the kernel can buffer many of.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// How long a request waits before it is repeated: longer than a process on a loaded machine may have to wait for its turn.
const REPEAT: Duration = Duration::from_ms(20);
/// How often an engine looks for what is to be repeated.
const TICK: Duration = Duration::from_ms(2);

/// The engine's parameters.
pub(super) fn parameters(config: &NodeConfig, replicas: usize, record: bool) -> Parameters {
    Parameters {
        message_bytes: message_bytes(config).min(MESSAGE_BYTES_MAX),
        repeat: REPEAT,
        tick: TICK,
        record,
        ..Parameters::new(config.peers.len(), replicas)
    }
}

/// The table of a node, for all shards that it replicates, and the index in front of it.
pub(super) fn tables(application: &dyn Application, parameters: &Parameters) -> (Placement, HalfTables) {
    let (objects, value_bytes) = (application.objects(), application.value_bytes().max(8));
    let all = objects * parameters.replicas as u64;
    let slots = (all * 100 / OCCUPANCY_PERCENT + 64).next_multiple_of(SEGMENT.into());
    let slots = u32::try_from(slots).expect("a table has fewer than 2^32 slots");
    // What no slot holds stands in blocks, and the slots are the smallest.
    let slot_bytes = SLOTS.iter().find(|(_, holds)| value_bytes <= *holds).map(|(bytes, _)| *bytes);
    let blocks = if slot_bytes.is_some() { 16 } else { all + all / 16 + 16 };
    let shape = Shape {
        slots,
        segment_slots: SEGMENT,
        displacement: Some(DISPLACEMENT),
        slot_bytes: slot_bytes.unwrap_or(SLOTS[0].0),
        pages: slots / 16 + 16,
        page_slots: PAGE,
        blocks: u32::try_from(blocks).expect("a table has fewer than 2^32 blocks"),
        value_bytes_max: value_bytes,
    };
    let table_address = (parameters.log_address + parameters.log_bytes as u64).next_multiple_of(64);
    let precision = Precision::Runs;
    let index = IndexParameters {
        precision,
        ahead: 0,
        // All that the node may be the primary of while another is away.
        entries: u32::try_from((2 * objects).max(1 << 13)).expect("an index has fewer than 2^32 entries"),
        value_bytes_max: value_bytes,
    };
    let tables = HalfTables {
        shape,
        table_address,
        precision,
        log_address: parameters.log_address,
        log_bytes: parameters.log_bytes,
    };
    (Placement::Card { shape, index, table_address }, tables)
}
