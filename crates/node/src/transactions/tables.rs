//! Sizes of a node's tables.

use weft_time::Duration;
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::store::{IndexParameters, Precision, Shape};
use weft_txn::{Parameters, Placement, Transactions};
use weft_waist::{Memory, NodeId};

use super::{Application, TransactionHalf, transaction_store};
use crate::log::EngineLog;

/// Objects per hundred slots, and the displacement limit D_m, both from Xenic's table 2.
const OCCUPANCY_PERCENT: u64 = 90;
const DISPLACEMENT: u32 = 16;
/// Home slots of a segment, and records of an overflow page.
const SEGMENT: u32 = 4;
const PAGE: u32 = 2;
/// Possible sizes of a slot, each with the longest value that it can hold, by [`Shape`].
const SLOTS: [(usize, usize); 6] = [(32, 8), (64, 40), (128, 102), (192, 164), (256, 226), (320, 256)];
/// The longest message of a state transfer, so short that the kernel can buffer many of them.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Time after which a request is repeated: longer than a process on a loaded machine waits for a core.
const REPEAT: Duration = Duration::from_ms(20);
/// Interval at which an engine checks for requests to repeat.
const TICK: Duration = Duration::from_ms(2);

/// Sizes of one node's part of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionSizes {
    /// Number of nodes of the cluster, and of shards.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replicas: usize,
    /// The longest message that a datagram can hold, in bytes.
    pub message_bytes: usize,
    /// Whether all reads and writes are recorded, for a checker.
    pub record: bool,
}

impl TransactionSizes {
    fn parameters(&self) -> Parameters {
        Parameters {
            message_bytes: self.message_bytes.min(MESSAGE_BYTES_MAX),
            repeat: REPEAT,
            tick: TICK,
            record: self.record,
            ..Parameters::new(self.nodes, self.replicas)
        }
    }

    /// The sizes of the log on disk of a node that runs this application.
    pub(crate) fn log(&self, application: &dyn Application) -> weft_store::Parameters {
        let parameters = self.parameters();
        transaction_store(&parameters, &tables(application, &parameters).1)
    }

    /// An attempt takes some hundred microseconds in a process, so earlier retries would be useless.
    fn half(&self) -> HalfParameters {
        HalfParameters {
            calls: 1024,
            attempts: 1000,
            back_off: Duration::from_us(100),
            local: Local::Unshipped,
            record: self.record,
        }
    }
}

/// The engine of a node in a process, with its memory, its host half, and the memory of the host: all with the
/// initial objects of a founder. A node that joins later empties them before it serves. With a `log`, the node keeps
/// its data on disk. `first_session`: see [`TransactionHalf::new`].
pub fn found(
    node: NodeId,
    first_session: u64,
    (application, sizes): (&dyn Application, &TransactionSizes),
    log: Option<EngineLog>,
) -> (Transactions, Memory, TransactionHalf, Vec<u8>) {
    let parameters = Parameters { has_disk: log.is_some(), ..sizes.parameters() };
    let (placement, tables) = tables(application, &parameters);
    let procedures = application.procedures();
    let mut engine = Transactions::new(parameters, procedures.clone(), placement);
    let half_parameters = sizes.half();
    let mut half = Half::new(procedures.clone(), half_parameters, Some(tables));
    let mut host_memory = vec![0; tables.table_address as usize + tables.table_bytes()];
    for step in 0..sizes.replicas {
        let shard = (node.index() + sizes.nodes - step) % sizes.nodes;
        application.load(shard, &mut |key, value| half.load(&mut host_memory, key, value));
    }
    half.reports(&host_memory).for_each(|report| engine.learn(&report));
    half.room().into_iter().for_each(|room| engine.learn_room(room));
    let memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
    let empty = Box::new(move || Half::new(procedures.clone(), half_parameters, Some(tables)));
    let half = TransactionHalf::new(first_session, Some(half), empty);
    let half = match log {
        Some(log) => half.with_log(log, node, &parameters, tables),
        None => half,
    };
    (engine, memory, half, host_memory)
}

/// The table of a node, for all shards that it replicates, and the index on the card in front of it.
fn tables(application: &dyn Application, parameters: &Parameters) -> (Placement, HalfTables) {
    let (objects, value_bytes) = (application.objects(), application.value_bytes().max(8));
    let all = objects * parameters.replicas as u64;
    let slots = (all * 100 / OCCUPANCY_PERCENT + 64).next_multiple_of(SEGMENT.into());
    let slots = u32::try_from(slots).expect("a table has fewer than 2^32 slots");
    // Values that are too long for any slot are stored in blocks, and the smallest slots are used.
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
        // Room for all objects of which the node can be the primary while another node is down.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ledger;

    /// The index of a node has room for the objects of two shards, because another node may be down.
    #[test]
    fn tables_have_room_for_what_a_node_holds() {
        for (accounts, entries) in [(10, 8_192), (10_000, 20_000)] {
            for replicas in [1, 3] {
                let (placement, halves) = tables(&Ledger::new(accounts), &Parameters::new(3, replicas));
                let Placement::Card { shape, index, table_address } = placement else {
                    panic!("the table of a node is behind its card")
                };
                assert_eq!(index.entries, entries);
                assert_eq!((halves.shape, halves.table_address), (shape, table_address));
                assert!(u64::from(shape.slots) * OCCUPANCY_PERCENT >= accounts * replicas as u64 * 100);
                assert_eq!(
                    (shape.slot_bytes, shape.blocks),
                    (32, 16),
                    "a balance fits into the smallest slot"
                );
            }
        }
    }
}
