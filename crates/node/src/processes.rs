//! Sizes and intervals of engines in processes of an operating system, over sockets.
//!
//! A process on a crowded machine may have to wait some ten milliseconds for its turn. Intervals are longer than
//! that, so that nobody is taken for dead who only waits for a core.

use std::sync::Arc;

use weft_rdt::Type;
use weft_rdt::replica::ReplicaParameters;
use weft_smr::log::LogParameters;
use weft_smr::slot::OVERHEAD;
use weft_smr::{Parameters, PulseParameters};
use weft_time::Duration;
use weft_verbs::PathMtu;

use crate::wiring::Terms;

/// Heartbeat interval of a log or an object. A node whose heartbeat stalls for about fifteen intervals is taken for
/// dead.
const HEARTBEAT: Duration = Duration::from_ms(10);
/// Time until a request to a peer is repeated.
const RETRY: Duration = Duration::from_ms(50);
/// Time for which a leader that decides nothing keeps trying.
const PATIENCE: Duration = Duration::from_ms(400);

/// The longest message of a state transfer of the key-value store: one that the kernel can buffer many of.
const CHUNK_BYTES_MAX: usize = 8 << 10;

/// Bytes of a slot of a log: an entry has as many, less [`OVERHEAD`].
const LOG_SLOT_BYTES: usize = 1_024;
/// Header of the message that delivers an entry: its index.
const ENTRY_HEADER: usize = 8;
/// Slots have a multiple of so many bytes.
const SLOT_STEP: usize = 64;
/// Slots of a log: entries that can be read back.
const LOG_SLOTS: u64 = 4_096;
/// Clients that a node remembers for an engine that refuses a new one while it knows so many. One that is silent for a
/// minute is forgotten for another, so a shell loop that starts a client each four milliseconds is admitted for ever.
pub(crate) const SESSIONS: usize = 16_384;
/// Most clients that a log remembers. A new client replaces the one whose last entry is the oldest.
const LOG_SESSIONS: usize = 1_024;

/// Proposals that a node keeps until they travel.
const ROUNDS_QUEUE: usize = 64;
/// Bytes before a proposal in the message of a round: its header, and the records of eight instances in flight.
const ROUND_HEADER: usize = 128;
/// Least time of a datagram from one process to another on the same machine.
const ROUNDS_ONE_WAY: Duration = Duration::from_us(4);
/// For how long nothing may be received from a member before it is left out, and how many rounds that is at least.
const ROUNDS_SILENCE: Duration = Duration::from_secs(3);
const ROUNDS_SILENCE_MIN: u64 = 16;

/// Queue pairs over sockets: 67 ms for an acknowledgement, eight times.
pub const fn terms(path_mtu: PathMtu) -> Terms {
    Terms { path_mtu, timeout: 14, retry_cnt: 7, max_rd_atomic: 4 }
}

fn pulse(nodes: usize) -> PulseParameters {
    PulseParameters { nodes, period: HEARTBEAT, retry: RETRY, ..PulseParameters::default() }
}

/// The key-value store: so many bytes of a key, of a value at most, and so many keys, where a datagram holds messages
/// of `message_bytes`.
pub fn key_value(
    key_bytes: usize,
    value_bytes: usize,
    keys: u64,
    message_bytes: usize,
) -> weft_kv::Parameters {
    weft_kv::Parameters {
        key_bytes,
        value_bytes_max: value_bytes,
        // A slot of the longest value has to fit, whatever else is preferable.
        chunk_bytes: message_bytes.min(CHUNK_BYTES_MAX.max(2 * value_bytes)) & !7,
        sessions: SESSIONS,
        ..weft_kv::Parameters::for_keys(keys)
    }
}

/// A log of so many replicas, where a datagram holds messages of `message_bytes`: an entry that was appended can be
/// read.
pub fn log(nodes: usize, message_bytes: usize) -> LogParameters {
    let entry_bytes = message_bytes.saturating_sub(ENTRY_HEADER);
    LogParameters {
        group: Parameters {
            nodes,
            slots: LOG_SLOTS,
            slot_bytes: LOG_SLOT_BYTES.min((entry_bytes + OVERHEAD) / SLOT_STEP * SLOT_STEP),
            retry: RETRY,
            patience: PATIENCE,
            ..Parameters::default()
        },
        pulse: pulse(nodes),
        sessions: LOG_SESSIONS,
        ..LogParameters::default()
    }
}

/// An object of so many replicas.
pub fn object(kind: Arc<Type>, nodes: usize) -> ReplicaParameters {
    let parameters = ReplicaParameters::new(kind, nodes);
    let log = Parameters { retry: RETRY, patience: PATIENCE, ..parameters.log.clone() };
    ReplicaParameters { pulse: pulse(nodes), log, retry: RETRY, ask_again: RETRY, ..parameters }
}

/// Locks, of which so many can be held at a time.
pub fn lock(locks: usize) -> weft_lock::Parameters {
    weft_lock::Parameters { locks, retransmit: RETRY, ..weft_lock::Parameters::default() }
}

/// Rounds of this length, where a datagram holds messages of `message_bytes`: a proposal travels with the message of a
/// round, and a member that cannot send that falls out.
pub fn rounds(period: Duration, message_bytes: usize) -> weft_rounds::Parameters {
    let standard = weft_rounds::Parameters::default();
    weft_rounds::Parameters {
        value_bytes: standard.value_bytes.min(message_bytes.saturating_sub(ROUND_HEADER)) & !7,
        queue: ROUNDS_QUEUE,
        period,
        one_way: ROUNDS_ONE_WAY,
        silence: (ROUNDS_SILENCE.as_ps() / period.as_ps().max(1)).max(ROUNDS_SILENCE_MIN),
        ..standard
    }
}

#[cfg(test)]
mod tests {
    use weft_rdt::{Bounds, types};
    use weft_rounds::message::Round;
    use weft_rounds::{Algorithm, Ckc};

    use super::*;

    #[test]
    fn the_sizes_are_in_range() {
        for nodes in 1..=weft_smr::NODES_MAX {
            log(nodes, 1_400).group.check().unwrap();
            for name in types::NAMES {
                let kind = Type::shipped(name, &Bounds::uniform(64)).unwrap();
                object(kind, nodes).check().unwrap();
            }
        }
        key_value(8, 1_024, 65_536, 1_400).check().unwrap();
        rounds(Duration::from_ms(1), 1_400).check().unwrap();
    }

    /// The smallest network that a configuration may name takes packets of 576 bytes.
    #[test]
    fn what_clients_may_send_fits_into_the_datagrams_that_follow_from_it() {
        for message_bytes in [500, 524, 640, 1_000, 1_048, 1_400] {
            let rounds = rounds(Duration::from_ms(1), message_bytes);
            rounds.check().unwrap();
            let longest = Round::proposal_at(Ckc::new(&rounds).area_bytes()) + rounds.value_bytes;
            assert!(longest <= message_bytes, "a round of {longest} bytes in {message_bytes}");
            let log = log(3, message_bytes);
            log.group.check().unwrap();
            assert!(ENTRY_HEADER + log.group.entry_bytes() <= message_bytes);
        }
        assert_eq!(rounds(Duration::from_ms(1), 1_400).value_bytes, 512);
        assert_eq!(log(3, 1_400).group.slot_bytes, LOG_SLOT_BYTES);
    }
}
