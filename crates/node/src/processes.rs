//! Sizes and intervals of engines in processes of an operating system, over sockets.
//!
//! On a crowded machine, a process may have to wait some ten milliseconds until it runs. The intervals are longer,
//! so that a process that only waits for a core is not taken for dead.

use std::sync::Arc;

use weft_rdt::Type;
use weft_rdt::replica::ReplicaParameters;
use weft_smr::log::LogParameters;
use weft_smr::slot::OVERHEAD;
use weft_smr::{Parameters, PulseParameters};
use weft_time::Duration;
use weft_verbs::PathMtu;

use crate::wiring::ConnectionParameters;

/// Heartbeat interval of a log or an object. A node whose heartbeat stops for about fifteen intervals is taken for
/// dead.
const HEARTBEAT: Duration = Duration::from_ms(10);
/// Time until a request to a peer is repeated.
const RETRY: Duration = Duration::from_ms(50);
/// Time for which a leader that decides nothing keeps trying.
const PATIENCE: Duration = Duration::from_ms(400);

/// The longest message of a state transfer of the key-value store, so short that the kernel can buffer many of
/// them.
const CHUNK_BYTES_MAX: usize = 8 << 10;

/// Bytes of a log's slot. An entry may be as long, less [`OVERHEAD`].
const LOG_SLOT_BYTES: usize = 1_024;
/// Bytes before the entry in the message that delivers it: its index.
const ENTRY_HEADER: usize = 8;
/// Slots have a multiple of this many bytes.
const SLOT_STEP: usize = 64;
/// Slots of a log, and so the number of entries that can be read back.
const LOG_SLOTS: u64 = 4_096;
/// Number of clients that a node keeps sessions for, in engines that refuse new clients when it is reached. The
/// session of a client that was silent for a minute may be dropped, so a shell loop that starts a client every
/// four milliseconds is always admitted.
pub(crate) const SESSIONS: usize = 16_384;
/// The most clients for which a log keeps sessions. A new client replaces the one whose last entry is the oldest.
const LOG_SESSIONS: usize = 1_024;

/// Number of proposals that a node queues until they are sent.
const ROUNDS_QUEUE: usize = 64;
/// Bytes before a proposal in the message of a round: its header, and the records of eight instances in flight.
const ROUND_HEADER: usize = 128;
/// The shortest time of a datagram between two processes on the same machine.
const ROUNDS_ONE_WAY: Duration = Duration::from_us(4);
/// Time without messages after which a member is removed, and the least number of rounds for it.
const ROUNDS_SILENCE: Duration = Duration::from_secs(3);
const ROUNDS_SILENCE_MIN: u64 = 16;

/// Parameters of queue pairs over sockets: a time-out of 67 ms for an acknowledgement, and seven retries.
pub const fn connection_parameters(path_mtu: PathMtu) -> ConnectionParameters {
    ConnectionParameters { path_mtu, timeout: 14, retry_cnt: 7, max_rd_atomic: 4 }
}

fn pulse(nodes: usize) -> PulseParameters {
    PulseParameters { nodes, period: HEARTBEAT, retry: RETRY, ..PulseParameters::default() }
}

/// Parameters of a key-value store for `keys` keys of `key_bytes` bytes and values of up to `value_bytes`, where a
/// datagram holds messages of `message_bytes`.
pub fn key_value(
    key_bytes: usize,
    value_bytes: usize,
    keys: u64,
    message_bytes: usize,
) -> weft_kv::Parameters {
    weft_kv::Parameters {
        key_bytes,
        value_bytes_max: value_bytes,
        // A chunk must hold a slot of the longest value, even if it exceeds the preferred length.
        chunk_bytes: message_bytes.min(CHUNK_BYTES_MAX.max(2 * value_bytes)) & !7,
        sessions: SESSIONS,
        ..weft_kv::Parameters::for_keys(keys)
    }
}

/// Parameters of a log of `nodes` replicas, where a datagram holds messages of `message_bytes`. An entry that can
/// be appended can also be read.
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

/// Parameters of an object of `nodes` replicas.
pub fn object(kind: Arc<Type>, nodes: usize) -> ReplicaParameters {
    let parameters = ReplicaParameters::new(kind, nodes);
    let log = Parameters { retry: RETRY, patience: PATIENCE, ..parameters.log.clone() };
    ReplicaParameters { pulse: pulse(nodes), log, retry: RETRY, ask_again: RETRY, ..parameters }
}

/// Parameters of locks of which `locks` can be held at a time.
pub fn lock(locks: usize) -> weft_lock::Parameters {
    weft_lock::Parameters { locks, retransmit: RETRY, ..weft_lock::Parameters::default() }
}

/// Parameters of rounds of this length, where a datagram holds messages of `message_bytes`. A proposal is sent in
/// the message of a round, so it must fit, or its member would be removed.
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

    /// A configuration may name a network with packets of only 576 bytes.
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
