//! The driver's access to the registers of `rtl/nic/registers.rdl`.
//!
//! Each function fills a mailbox, writes `go` and waits until the gateware has executed the command.
//! Meanwhile the clock runs while the cycle counter stands still.

use std::net::Ipv4Addr;

use weft_service::{Flow, Setting};
use weft_time::Duration;
use weft_waist::{Capabilities, Configuration, NODES_MAX};
use weft_wire::ethernet::MacAddress;

use crate::CYCLE;
use crate::axi::MemoryTiming;
use crate::board::Board;
use crate::package::{
    self, COUNTERS, Control, PreprocessWrite, QueuePair, Region, RequesterQuery, ResponderQuery,
};

/// The largest number that the register for kept requests holds.
const REORDER_PACKETS_MAX: usize = 127;

/// The engine in the card.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Capabilities that its software twin needs; at most [`SLOT_OFFERS`](crate::SLOT_OFFERS).
    pub needs: Capabilities,
    /// Addresses of the cluster's nodes, by number. Datagrams from these addresses are messages of peers.
    pub peers: [Option<Ipv4Addr>; NODES_MAX],
    /// Buckets of the table: a power of two from 256 to the gateware's maximum.
    pub buckets: u32,
    /// Time without progress after which a node repeats its messages.
    pub retransmit: Duration,
    /// Upper limit of that time, which doubles while there is no progress.
    pub retransmit_max: Duration,
    /// Whether an accepted write is acknowledged only when it is in memory, too.
    pub acknowledge_after_memory: bool,
    /// The planted bug to enable, 0 for none: `planted_bug_e` of the gateware.
    pub planted_bug: u8,
    /// Response times of the engine's memory.
    pub memory: MemoryTiming,
}

include!(concat!(env!("OUT_DIR"), "/register_map.rs"));

/// `WEFT` in ASCII.
const MAGIC: u32 = 0x5745_4654;

/// The major version of the register map that this driver supports.
const VERSION_MAJOR: u32 = 1;

/// Bit of a command register that starts the command.
const GO: u32 = 1 << 31;

/// First word of the requester's state in the answer to a query.
const REQUESTER_WORD: u32 = 8;

/// The card scans no more counters than this between two reads.
const SCANNED_BETWEEN_READS: usize = 20;

/// A board whose time stands still.
#[derive(Debug)]
pub(crate) struct Registers<'a> {
    board: &'a mut Board,
    cycle: u64,
}

impl<'a> Registers<'a> {
    pub(crate) const fn new(board: &'a mut Board, cycle: u64) -> Self {
        Self { board, cycle }
    }

    /// # Panics
    /// If the gateware reports an error: then either the driver or the gateware has a bug, since the
    /// addresses are constants.
    fn write(&mut self, offset: u32, value: u32) {
        let response = self.board.write_register(self.cycle, offset, value);
        assert_eq!(response, 0, "gateware: the register at {offset:#x} cannot be written");
    }

    /// # Panics
    /// Like [`Registers::write`].
    fn read(&mut self, offset: u32) -> u32 {
        let accessed = self.board.read_register(self.cycle, offset);
        assert_eq!(accessed.response, 0, "gateware: the register at {offset:#x} cannot be read");
        accessed.value
    }

    /// Writes a command and waits until its mailbox is no longer busy.
    fn command(&mut self, offset: u32, value: u32, busy: u32) {
        self.command_until(offset, value, offset::STATUS, busy);
    }

    /// Writes a command and waits until the bit `busy` of the register `status` is clear.
    fn command_until(&mut self, offset: u32, value: u32, status: u32, busy: u32) {
        self.write(offset, value | GO);
        // Far more polls than any command takes.
        for _ in 0..10_000 {
            if self.read(status) >> busy & 1 == 0 {
                return;
            }
        }
        panic!("gateware: the command at {offset:#x} does not end");
    }

    /// Checks that this is the card for which the driver was written.
    ///
    /// # Panics
    /// If it is another card.
    pub(crate) fn check_identity(&mut self) {
        assert_eq!(self.read(offset::IDENTIFICATION), MAGIC, "gateware: this is another card");
        let major = self.read(offset::VERSION) >> shift::VERSION_MAJOR;
        assert_eq!(major, VERSION_MAJOR, "gateware: the registers have another version");
    }

    /// Sets the port's MAC and IP addresses.
    pub(crate) fn set_port(&mut self, hardware: MacAddress, address: Ipv4Addr) {
        let station = station(hardware);
        self.write(offset::HARDWARE_LOW, station as u32);
        self.write(offset::HARDWARE_HIGH, (station >> 32) as u32);
        self.write(offset::IPV4, address.to_bits());
    }

    /// Sets whether queue pairs limit their rate on congestion notifications.
    pub(crate) fn set_rate_control(&mut self, enabled: bool) {
        self.write(offset::CONGESTION, u32::from(enabled) << shift::CONGESTION_RATE_CONTROL);
    }

    /// Sets how queue pairs recover what the network has lost: whether responses say that a missing part of a READ
    /// may be requested alone, and how many requests behind gaps are kept, if the card has as many places.
    pub(crate) fn set_recovery(&mut self, read_parts: bool, reorder_packets: usize) {
        let read_parts = u32::from(read_parts) << shift::RECOVERY_READ_PARTS;
        let reorder_packets =
            (reorder_packets.min(REORDER_PACKETS_MAX) as u32) << shift::RECOVERY_REORDER_PACKETS;
        self.write(offset::RECOVERY, read_parts | reorder_packets);
    }

    /// Makes the sniffer capture all frames that are received and sent, as a whole.
    pub(crate) fn write_sniffer(&mut self) {
        self.write(offset::SNIFFER_SNAP, 0);
        let both = 1 << shift::SNIFFER_FILTER_RECEIVE | 1 << shift::SNIFFER_FILTER_TRANSMIT;
        self.write(offset::SNIFFER_FILTER, both);
    }

    /// Adds a static neighbour.
    pub(crate) fn write_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        let station = station(hardware);
        self.write(offset::NEIGHBOUR_ADDRESS, address.to_bits());
        self.write(offset::NEIGHBOUR_MAC_LOW, station as u32);
        self.command(offset::NEIGHBOUR_MAC_HIGH, (station >> 32) as u32, shift::STATUS_NEIGHBOUR_BUSY);
    }

    /// Writes an entry of the card's table of queue pairs. The low bits of the queue pair's number are its index.
    pub(crate) fn write_queue_pair(&mut self, entry: &QueuePair) {
        self.write(offset::QUEUE_PAIR_OWN_QP, entry.number);
        self.write(offset::QUEUE_PAIR_DESTINATION_QP, entry.destination_qp);
        self.write(offset::QUEUE_PAIR_DESTINATION, entry.destination);
        self.write(offset::QUEUE_PAIR_DESTINATION_MAC_LOW, entry.destination_mac as u32);
        self.write(offset::QUEUE_PAIR_DESTINATION_MAC_HIGH, (entry.destination_mac >> 32) as u32);
        let port = u32::from(entry.source_port) << shift::QUEUE_PAIR_PORT_SOURCE_PORT
            | u32::from(entry.domain) << shift::QUEUE_PAIR_PORT_DOMAIN;
        self.write(offset::QUEUE_PAIR_PORT, port);
        let attributes = u32::from(entry.path_mtu) << shift::QUEUE_PAIR_ATTRIBUTES_PATH_MTU
            | u32::from(entry.max_dest_rd_atomic) << shift::QUEUE_PAIR_ATTRIBUTES_MAX_DEST_RD_ATOMIC
            | u32::from(entry.max_rd_atomic) << shift::QUEUE_PAIR_ATTRIBUTES_MAX_RD_ATOMIC
            | u32::from(entry.min_rnr_timer) << shift::QUEUE_PAIR_ATTRIBUTES_MIN_RNR_TIMER
            | u32::from(entry.timeout) << shift::QUEUE_PAIR_ATTRIBUTES_TIMEOUT
            | u32::from(entry.retry_count) << shift::QUEUE_PAIR_ATTRIBUTES_RETRY_COUNT
            | u32::from(entry.rnr_retry) << shift::QUEUE_PAIR_ATTRIBUTES_RNR_RETRY
            | u32::from(entry.engine) << shift::QUEUE_PAIR_ATTRIBUTES_ENGINE;
        self.write(offset::QUEUE_PAIR_ATTRIBUTES, attributes);
        self.command(offset::QUEUE_PAIR_COMMAND, 0, shift::STATUS_QUEUE_PAIR_BUSY);
    }

    /// Writes a region; an entry that is not valid removes the region.
    pub(crate) fn write_region(&mut self, index: u16, entry: &Region) {
        self.write(offset::REGION_INDEX, index.into());
        self.write(offset::REGION_LKEY, entry.lkey);
        self.write(offset::REGION_RKEY, entry.rkey);
        self.write(offset::REGION_BASE_LOW, entry.base as u32);
        self.write(offset::REGION_BASE_HIGH, (entry.base >> 32) as u32);
        self.write(offset::REGION_LENGTH_LOW, entry.length as u32);
        self.write(offset::REGION_LENGTH_HIGH, (entry.length >> 32) as u32);
        let attributes = u32::from(entry.domain) << shift::REGION_ATTRIBUTES_DOMAIN
            | u32::from(entry.valid) << shift::REGION_ATTRIBUTES_VALID
            | (entry.access.to_bits() as u32) << shift::REGION_ATTRIBUTES_ACCESS
            | u32::from(entry.target) << shift::REGION_ATTRIBUTES_TARGET
            | u32::from(entry.write_through) << shift::REGION_ATTRIBUTES_WRITE_THROUGH
            | u32::from(entry.rpc) << shift::REGION_ATTRIBUTES_RPC
            | u32::from(entry.slot) << shift::REGION_ATTRIBUTES_SLOT;
        self.write(offset::REGION_ATTRIBUTES, attributes);
        self.command(offset::REGION_COMMAND, 0, shift::STATUS_REGION_BUSY);
    }

    /// Whether the card has services.
    pub(crate) fn has_services(&mut self) -> bool {
        self.read(offset::SERVICES_STATUS) >> shift::SERVICES_STATUS_PRESENT & 1 != 0
    }

    /// Writes a register of `service_port`.
    fn write_service(&mut self, register: u64, value: u32) {
        self.write(offset::SERVICES_DATA, value);
        let index = (register as u32) << shift::SERVICES_COMMAND_INDEX;
        let busy = shift::SERVICES_STATUS_BUSY;
        self.command_until(offset::SERVICES_COMMAND, index, offset::SERVICES_STATUS, busy);
    }

    /// Sets the services of a flow and clears its state.
    pub(crate) fn configure_service(&mut self, flow: Flow, setting: Setting) {
        self.write_service(package::SERVICE_FLOW, flow.index() as u32);
        let (action, threshold) = setting.action.numbers();
        let kinds = setting.map as u32 | (setting.tap as u32) << 4 | u32::from(action) << 8;
        self.write_service(package::SERVICE_KINDS, kinds);
        self.write_service(package::SERVICE_THRESHOLD, threshold);
        self.write_service(package::SERVICE_VALUE_LOW, setting.value as u32);
        self.write_service(package::SERVICE_VALUE_HIGH, (setting.value >> 32) as u32);
        self.write_service(package::SERVICE_CONFIGURE, 0);
    }

    /// The state of a flow's tap.
    pub(crate) fn service_state(&mut self, flow: Flow) -> u64 {
        self.write_service(package::SERVICE_FLOW, flow.index() as u32);
        self.write_service(package::SERVICE_READ, 0);
        let low = self.read(offset::SERVICES_STATE_LOW);
        u64::from(self.read(offset::SERVICES_STATE_HIGH)) << 32 | u64::from(low)
    }

    /// Writes an entry of a table of the preprocessing.
    pub(crate) fn write_preprocess(&mut self, entry: &PreprocessWrite) {
        for (word, value) in (package::SERVICE_ENTRY0..).zip(entry.data) {
            self.write_service(word, value);
        }
        self.write_service(package::SERVICE_ENTRY, u32::from(entry.entries) << 10 | u32::from(entry.address));
    }

    /// Changes the state of a queue pair.
    pub(crate) fn control(&mut self, control: &Control) {
        self.write(offset::CONTROL_ARGUMENT, control.argument);
        let command = u32::from(control.qp) << shift::CONTROL_COMMAND_QP
            | u32::from(control.operation) << shift::CONTROL_COMMAND_OPERATION;
        self.command(offset::CONTROL_COMMAND, command, shift::STATUS_CONTROL_BUSY);
    }

    /// The gateware's state of a queue pair: responder and requester.
    pub(crate) fn query(&mut self, index: u16) -> (ResponderQuery, RequesterQuery) {
        self.command(
            offset::QUERY_COMMAND,
            u32::from(index) << shift::QUERY_COMMAND_QP,
            shift::STATUS_QUERY_BUSY,
        );
        let mut words = |first: u32| [0, 1].map(|word| self.read(offset::QUERY_STATE + 4 * (first + word)));
        let (responder, requester) = (words(0), words(REQUESTER_WORD));
        (ResponderQuery::unpack(&responder), RequesterQuery::unpack(&requester))
    }

    /// Directs Weft datagrams to the engine, and sets its parameters before it gets a view. Buffers for
    /// answers over queue pairs are at `reply_base` in HBM, in the region with this key.
    pub(crate) fn set_engine(&mut self, engine: &EngineConfig, reply_base: u64, reply_lkey: u32) {
        self.write(offset::ENGINE_REPLY_LKEY, reply_lkey);
        self.write(offset::ENGINE_REPLY_BASE_LOW, reply_base as u32);
        self.write(offset::ENGINE_REPLY_BASE_HIGH, (reply_base >> 32) as u32);
        let control = 1 << shift::ENGINE_CONTROL_ENABLE
            | u32::from(engine.acknowledge_after_memory) << shift::ENGINE_CONTROL_ACKNOWLEDGE_AFTER_MEMORY
            | u32::from(engine.planted_bug) << shift::ENGINE_CONTROL_PLANTED_BUG
            | (engine.buckets - 1) << shift::ENGINE_CONTROL_BUCKET_MASK;
        self.write(offset::ENGINE_CONTROL, control);
        let cycles = |time: Duration| (time.as_ps() / CYCLE.as_ps()) as u32;
        self.write(offset::ENGINE_RETRANSMIT, cycles(engine.retransmit));
        self.write(offset::ENGINE_RETRANSMIT_MAX, cycles(engine.retransmit_max));
        for (node, peer) in (0..).zip(&engine.peers) {
            self.write(offset::ENGINE_PEER_ADDRESS, peer.map_or(0, |address| address.to_bits()));
            let valid = u32::from(peer.is_some()) << shift::ENGINE_PEER_VALID;
            self.write(offset::ENGINE_PEER, GO | valid | node << shift::ENGINE_PEER_NODE);
        }
    }

    /// Gives the engine a configuration.
    pub(crate) fn configure_engine(&mut self, configuration: &Configuration, lease_until: u64) {
        let view = configuration.view;
        self.write(offset::ENGINE_NODE, configuration.node.index() as u32);
        self.write(offset::ENGINE_EPOCH, view.epoch.0);
        let members = u32::from(view.full.bits()) << shift::ENGINE_MEMBERS_FULL
            | u32::from(view.joining.bits()) << shift::ENGINE_MEMBERS_JOINING;
        self.write(offset::ENGINE_MEMBERS, members);
        self.write(offset::ENGINE_LEASE_LOW, lease_until as u32);
        self.write(offset::ENGINE_LEASE_HIGH, (lease_until >> 32) as u32 & 0xffff);
        self.write(offset::ENGINE_COMMAND, 1 << shift::ENGINE_COMMAND_CONFIGURE);
    }

    /// Resets the engine to its state at power-on.
    pub(crate) fn reset_engine(&mut self) {
        self.write(offset::ENGINE_COMMAND, 1 << shift::ENGINE_COMMAND_RESET);
    }

    /// Starts a call of the engine. No other call may be in progress.
    pub(crate) fn call_engine(&mut self, token: u32, kind: u8, payload: &[u8]) {
        for word in payload.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..word.len()].copy_from_slice(word);
            self.write(offset::CALL_DATA, u32::from_le_bytes(bytes));
        }
        self.write(offset::CALL_TOKEN, token);
        let length = (payload.len() as u32) << shift::CALL_COMMAND_BYTES;
        self.write(offset::CALL_COMMAND, GO | length | u32::from(kind) << shift::CALL_COMMAND_KIND);
    }

    /// Reads the engine's answer, which must be present: token, kind, payload.
    pub(crate) fn take_answer(&mut self) -> (u32, u8, Vec<u8>) {
        let token = self.read(offset::ANSWER_TOKEN);
        let message = self.read(offset::ANSWER_MESSAGE);
        let bytes = (message >> shift::ANSWER_MESSAGE_BYTES & 0xffff) as usize;
        let mut payload: Vec<u8> =
            (0..bytes.div_ceil(4)).flat_map(|_| self.read(offset::ANSWER_DATA).to_le_bytes()).collect();
        payload.truncate(bytes);
        self.write(offset::ANSWER_COMMAND, 1 << shift::ANSWER_COMMAND_DONE);
        (token, (message >> shift::ANSWER_MESSAGE_KIND) as u8, payload)
    }

    /// The value of the counter with this number.
    pub(crate) fn counter(&mut self, index: u32) -> u64 {
        self.command(
            offset::COUNTER_COMMAND,
            index << shift::COUNTER_COMMAND_INDEX,
            shift::STATUS_COUNTER_BUSY,
        );
        u64::from(self.read(offset::COUNTER_HIGH)) << 32 | u64::from(self.read(offset::COUNTER_LOW))
    }

    /// The values of all counters, by number.
    pub(crate) fn counters(&mut self) -> Vec<u64> {
        let mut values = vec![0; COUNTERS.len()];
        // The card scans its counters in turn, and a read waits until the scan comes to its counter.
        for first in 0..SCANNED_BETWEEN_READS {
            for index in (first..values.len()).step_by(SCANNED_BETWEEN_READS) {
                values[index] = self.counter(index as u32);
            }
        }
        values
    }
}

fn station(hardware: MacAddress) -> u64 {
    hardware.0.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
