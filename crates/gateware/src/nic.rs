//! The gateware as a NIC, with its driver.

mod permission_port;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use weft_nic::{HostCommand, HostEvent, Nic, RdmaDriver, Work};
use weft_rdma::{KeyNumbers, QueuePairNumbers, RegionMemory};
use weft_service::preprocess::{Image, ImageError, Pipeline};
use weft_service::psp::PspConfig;
use weft_service::{Direction, Flow, Setting};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, ApiError, Completion, CompletionOpcode, CompletionStatus, Modify, PathMtu,
    QueuePairAttributes, QueuePairInformation, QueuePairNumber, QueuePairState, ReceiveRequest, Region,
    RegionKeys, Target, WorkRequest,
};
use weft_waist::Capabilities;
use weft_wire::ethernet::MacAddress;

use crate::axi::{HbmTiming, MemoryTiming};
use crate::axi::{Latency, Pressure};
use crate::board::{Board, BoardConfig};
use crate::permissions::Change;
use crate::queue_pair::{QueuePair, REPLY_TAG};
use crate::registers::{EngineConfig, Registers};
use crate::services::entries_of;
use crate::{CYCLE, engine_package, package};

pub use permission_port::PermissionPort;

/// The longest payload in bytes of a call of the host.
const CALL_BYTES_MAX: usize = 2048;

/// Bytes of the buffers for answers over queue pairs.
const REPLY_BYTES: usize =
    (package::QUEUE_PAIRS * engine_package::REPLIES * engine_package::REPLY_BYTES) as usize;

/// Offset of the buffers from a multiple of 64, so that the word that names an answer's kind is at the end of
/// a beat.
const WORD_OFFSET: usize = 64 - engine_package::RPC_WORD_BYTES as usize;

/// Address bits of the gateware's memories.
const ADDRESS_BITS: u32 = 48;

/// Maximum number of READs and atomics that a peer may have outstanding.
const RESOURCES: u64 = package::RESPONDER_RESOURCES;

/// Parameters of a gateware NIC.
#[derive(Clone, Debug)]
pub struct RtlNicConfig {
    /// Hardware address of the port.
    pub hardware: MacAddress,
    /// IPv4 address of the port.
    pub address: Ipv4Addr,
    /// The limits of the transport that the driver controls: queue pairs, regions, depths of queues, whether
    /// rates are controlled, and the seed of the keys. The gateware itself determines the window, the
    /// acknowledgement interval and the queue of calls.
    pub transport: weft_rdma::Config,
    /// Bytes of host memory, and of HBM.
    pub region_bytes: usize,
    /// Rate of the link, in bits per second.
    pub bits_per_s: u64,
    /// Latency of HBM, and of the retransmission buffer, which is in HBM.
    pub hbm: Latency,
    /// Latency of the host's memory from the card's point of view, over PCIe.
    pub host: Latency,
    /// Random back-pressure on the ports.
    pub pressure: Option<Pressure>,
    /// Initial content of storage that reset does not clear: zeros for 0, otherwise bits generated from this
    /// seed.
    pub power_on_seed: u32,
    /// The engine. Without one, Weft datagrams go to the host.
    pub engine: Option<EngineConfig>,
    /// PSP between MAC and card, as in `weft_nic_psp`. Without it, frames are sent in plaintext.
    pub psp: Option<PspConfig>,
    /// Whether the card has services for payload that arrives, as in `roce_top` with `Services`.
    pub services: bool,
}

/// The capabilities of the gateware's engine slot. It has neither queue pairs for engines nor access to the
/// host's memory.
pub const SLOT_OFFERS: Capabilities = Capabilities::CORE;

/// The Verilated gateware behind [`Nic`], and its driver behind [`RdmaDriver`].
///
/// Differences from the soft NIC:
/// - The driver resolves a peer's MAC address when a queue pair is connected, so the neighbour must have been
///   added before ([`RtlNic::add_neighbour`]).
/// - An unsignaled request keeps its slot in the driver's send queue until a later request completes.
/// - Its engine, if [`RtlNicConfig::engine`] is set, is in slot 0.
/// - A queue pair has buffers for 16 answers at a time, and calls over all queue pairs share 128 buffers of 2
///   KiB.
#[derive(Debug)]
pub struct RtlNic {
    // In a cell, because `Nic::counters` takes `&self` although reading a counter advances the clock.
    card: RefCell<Card>,
    driver: Driver,
    events: VecDeque<HostEvent>,
    watched: Option<Watched>,
}

/// The state transitions of queue pairs that were observed, as numbers of `responder_state_e` and
/// `requester_state_e`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arcs {
    /// Of the responder.
    pub responder: BTreeSet<(u8, u8)>,
    /// Of the requester.
    pub requester: BTreeSet<(u8, u8)>,
}

/// The last observed states of the queue pairs, and their transitions.
#[derive(Debug)]
struct Watched {
    last: Vec<(u8, u8)>,
    arcs: Arcs,
}

/// The board and its clock.
#[derive(Debug)]
struct Card {
    board: Board,
    /// The next cycle to simulate; while the card is idle, the earliest that may come next.
    cycle: u64,
}

impl Card {
    /// Access to the registers for a call of the driver. The time stays at the last simulated cycle.
    fn registers(&mut self) -> Registers<'_> {
        Registers::new(&mut self.board, self.cycle.saturating_sub(1))
    }
}

/// State of the driver in the host's memory.
#[derive(Debug)]
struct Driver {
    config: weft_rdma::Config,
    numbers: QueuePairNumbers,
    /// The queue pairs, by the index in their numbers.
    queue_pairs: Vec<Option<QueuePair>>,
    /// For each index: the first generation of request tags of its next queue pair.
    generations: Vec<u32>,
    keys: KeyNumbers,
    regions: Vec<Option<(RegionKeys, Region)>>,
    neighbours: BTreeMap<Ipv4Addr, MacAddress>,
    /// Number of completion queue entries reserved for outstanding requests.
    reserved: usize,
    messages_without_engine: u64,
    modifications_refused: u64,
    associations_refused: u64,
    /// The tables of the preprocessing, if the card has services.
    image: Option<Image>,
    /// Indices of queue pairs with services.
    served: BTreeSet<u16>,
    has_engine: bool,
    /// Calls that wait for the engine: token, kind, payload.
    calls: VecDeque<(u32, u8, Vec<u8>)>,
}

impl RtlNic {
    /// A NIC that was just reset, with its driver loaded.
    ///
    /// # Panics
    /// If `config` exceeds the gateware's limits: queue pairs, regions, READs and atomics, or the needs of
    /// its engine.
    pub fn new(config: &RtlNicConfig) -> Self {
        if let Some(engine) = &config.engine {
            let offered = engine.needs.check(SLOT_OFFERS, "the gateware's slot");
            offered.unwrap_or_else(|unmet| panic!("{unmet}"));
        }
        let transport = config.transport.clone();
        assert!(
            transport.max_queue_pairs as u64 <= package::QUEUE_PAIRS,
            "{} queue pairs",
            package::QUEUE_PAIRS
        );
        assert!(transport.max_regions as u64 <= package::REGIONS, "{} regions", package::REGIONS);
        assert!(u64::from(transport.max_rd_atomic) <= RESOURCES, "{RESOURCES} READs and atomics");
        let board = Board::new(&BoardConfig {
            bits_per_s: config.bits_per_s,
            region_bytes: config.region_bytes,
            reply_bytes: if config.engine.is_some() { REPLY_BYTES + WORD_OFFSET } else { 0 },
            hbm: config.hbm,
            host: config.host,
            engine: config
                .engine
                .as_ref()
                .map_or(MemoryTiming::Hbm(HbmTiming::WIDE_PORT), |engine| engine.memory),
            pressure: config.pressure,
            power_on_seed: config.power_on_seed,
            psp: config.psp,
            services: config.services,
        });
        let mut card = Card { board, cycle: 0 };
        // The tables clear themselves, one entry a cycle.
        for _ in 0..package::QUEUE_PAIRS.max(package::REGIONS) + 16 {
            card.board.tick(0);
        }
        card.registers().check_identity();
        card.registers().set_port(config.hardware, config.address);
        card.registers().set_rate_control(transport.rate_control);
        card.registers().set_recovery(transport.read_parts, transport.reorder_packets);
        let image = card.registers().has_services().then(Image::default);
        let index_bits = |places: u64| places.ilog2();
        let mut keys = KeyNumbers::with_index_bits(
            transport.max_regions,
            index_bits(package::REGIONS),
            transport.key_seed,
        );
        // The card itself owns the first region, as in the soft card.
        let reply_keys = keys.allocate().expect("a card has room for a region");
        if let Some(engine) = &config.engine {
            let base = config.region_bytes.next_multiple_of(64) + WORD_OFFSET;
            let replies = package::Region {
                valid: true,
                lkey: reply_keys.lkey,
                rkey: reply_keys.rkey,
                base: base as u64,
                length: REPLY_BYTES as u64,
                target: Target::Hbm as u8,
                ..package::Region::default()
            };
            card.registers().write_region(keys.index(reply_keys.rkey) as u16, &replies);
            card.registers().set_engine(engine, base as u64, reply_keys.lkey);
        }
        let places = transport.max_queue_pairs;
        Self {
            card: RefCell::new(card),
            driver: Driver {
                numbers: QueuePairNumbers::with_index_bits(places, index_bits(package::QUEUE_PAIRS)),
                queue_pairs: (0..places).map(|_| None).collect(),
                generations: vec![0; places],
                regions: (0..keys.places()).map(|_| None).collect(),
                keys,
                neighbours: BTreeMap::new(),
                reserved: 0,
                messages_without_engine: 0,
                modifications_refused: 0,
                associations_refused: 0,
                image,
                served: BTreeSet::new(),
                has_engine: config.engine.is_some(),
                calls: VecDeque::new(),
                config: transport,
            },
            events: VecDeque::new(),
            watched: None,
        }
    }

    /// Adds a static neighbour, so that the first packet does not wait for ARP.
    pub fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        self.driver.neighbours.insert(address, hardware);
        self.card.get_mut().registers().write_neighbour(address, hardware);
    }

    /// Loads a preprocessing pipeline. The returned number is the value of settings that use it.
    ///
    /// # Errors
    /// If the gates cannot run the pipeline.
    ///
    /// # Panics
    /// If the card has no services ([`RtlNicConfig::services`]).
    pub fn load_pipeline(&mut self, pipeline: &Pipeline) -> Result<u64, ImageError> {
        let mut image = self.driver.image.clone().expect("the card has services");
        let number = image.load(pipeline)?;
        for entry in entries_of(&image) {
            self.card.get_mut().registers().write_preprocess(&entry);
        }
        self.driver.image = Some(image);
        Ok(number)
    }

    /// Sets the services that process the payload of SENDs and WRITEs to a queue pair before it is stored, until
    /// the queue pair is destroyed. The queue pair must have no packet in flight.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    ///
    /// # Panics
    /// If the card has no services ([`RtlNicConfig::services`]).
    pub fn serve(&mut self, number: QueuePairNumber, setting: Setting) -> Result<(), ApiError> {
        assert!(self.driver.image.is_some(), "the card has no services");
        let index = self.index(number)?;
        self.driver.served.insert(index);
        self.card.get_mut().registers().configure_service(requests_of(index), setting);
        Ok(())
    }

    /// The reading of a queue pair's tap.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    pub fn tap_reading(&mut self, number: QueuePairNumber) -> Result<u64, ApiError> {
        let index = self.index(number)?;
        Ok(self.card.get_mut().registers().service_state(requests_of(index)))
    }

    /// Number of cycles simulated so far. Idle cycles are not simulated.
    pub fn cycles_run(&self) -> u64 {
        self.card.borrow().board.ticks()
    }

    /// The board, for callers that clock the card without a MAC.
    pub(crate) fn board(&mut self) -> &mut Board {
        &mut self.card.get_mut().board
    }

    /// Makes the sniffer capture all frames received and sent from now on. Must be called while no frame
    /// passes.
    pub fn sniff(&mut self) {
        self.card.get_mut().registers().write_sniffer();
    }

    /// The next frame that the sniffer has captured: an Enhanced Packet Block of pcapng, with interface 0 for
    /// a received frame and 1 for a sent one.
    pub fn poll_sniffed(&mut self) -> Option<Vec<u8>> {
        self.card.get_mut().board.sniffed.pop_front()
    }

    /// The port at which an engine changes access rights.
    pub fn permissions(&mut self, now: Instant) -> PermissionPort<'_> {
        self.wake(now);
        PermissionPort(self)
    }

    pub(crate) fn change_permission(&mut self, change: Change) {
        let board = &mut self.card.get_mut().board;
        board.permissions.changes.push_back(change);
        board.wake();
    }

    pub(crate) fn index(&self, number: QueuePairNumber) -> Result<u16, ApiError> {
        Ok(self.driver.find(number)? as u16)
    }

    pub(crate) fn region_index(&self, keys: RegionKeys) -> Result<u16, ApiError> {
        Ok(self.driver.find_region(keys)? as u16)
    }

    /// The count of all events with this name, summed over the blocks that count it.
    /// [`weft_nic::Nic::counters`] reads all counters.
    pub fn counter(&self, name: &str) -> u64 {
        let mut card = self.card.borrow_mut();
        let indices = (0..).zip(package::COUNTERS).filter(|(_, known)| **known == name);
        indices.map(|(index, _)| card.registers().counter(index)).sum()
    }

    /// The counts of all events, indexed by counter number ([`package::COUNTERS`],
    /// [`package::COUNTER_BLOCKS`]).
    pub fn events(&self) -> Vec<u64> {
        self.card.borrow_mut().registers().counters()
    }

    /// Starts recording state transitions of queue pairs, as observed by [`RtlNic::look`] and the driver's
    /// own calls.
    pub fn watch(&mut self) {
        let last = vec![(0, 0); self.driver.queue_pairs.len()];
        self.watched = Some(Watched { last, arcs: Arcs::default() });
    }

    /// Observes the states of all queue pairs. Returns all transitions so far, if they are recorded.
    pub fn look(&mut self) -> Option<&Arcs> {
        let existing: Vec<usize> = (0..self.driver.queue_pairs.len())
            .filter(|index| self.driver.queue_pairs[*index].is_some())
            .collect();
        for index in existing {
            self.look_at(index as u16);
        }
        self.watched.as_ref().map(|watched| &watched.arcs)
    }

    fn look_at(&mut self, index: u16) {
        let Some(watched) = &mut self.watched else { return };
        let (responder, requester) = self.card.get_mut().registers().query(index);
        let now = (responder.state, requester.state);
        let before = std::mem::replace(&mut watched.last[usize::from(index)], now);
        if before.0 != now.0 {
            watched.arcs.responder.insert((before.0, now.0));
        }
        if before.1 != now.1 {
            watched.arcs.requester.insert((before.1, now.1));
        }
    }

    /// Begins to write a waveform of all signals to an FST file.
    ///
    /// # Errors
    /// The file cannot be opened, or the crate was built without the feature `fst`.
    pub fn begin_waveform(&mut self, path: &Path) -> io::Result<()> {
        self.card.get_mut().board.model().begin_trace(path)
    }

    /// Ends the waveform file, if one is open.
    pub fn end_waveform(&mut self) {
        self.card.get_mut().board.model().end_trace();
    }

    /// Sets the next cycle to `now` if the clock was stopped before that.
    fn wake(&mut self, now: Instant) {
        let card = self.card.get_mut();
        if !card.board.is_busy() {
            card.cycle = card.cycle.max(now.as_ps().div_ceil(CYCLE.as_ps()));
        }
    }

    /// [`RtlNic::collect`], for callers that clock the card.
    pub(crate) fn gather(&mut self) {
        self.collect();
    }

    /// Passes on the outputs of the last cycles.
    fn collect(&mut self) {
        let Card { board, .. } = self.card.get_mut();
        while let Some(completion) = board.completions.pop_front() {
            let index = usize::from(completion.qp);
            let Some(queue_pair) = self.driver.queue_pairs.get_mut(index).and_then(Option::as_mut) else {
                continue;
            };
            let Some(ended) = queue_pair.complete(&completion) else { continue };
            self.driver.reserved -= ended.requests;
            self.events.extend(ended.completion.map(HostEvent::Completion));
            refill(queue_pair, board);
        }
        self.events.extend(board.host_frames.drain(..).map(HostEvent::Frame));
        if self.driver.has_engine {
            let status = board.take_status();
            self.events.extend(status.map(|status| HostEvent::Status { engine: 0, status }));
            if board.has_answer() {
                let (token, kind, payload) = self.card.get_mut().registers().take_answer();
                self.events.push_back(HostEvent::Reply { engine: 0, token, kind, payload });
            }
            self.call_next();
        }
    }

    /// Gives the engine the next call of the host, unless another call is in progress.
    fn call_next(&mut self) {
        let card = self.card.get_mut();
        if !card.board.is_calling()
            && let Some((token, kind, payload)) = self.driver.calls.pop_front()
        {
            card.registers().call_engine(token, kind, &payload);
        }
    }

    /// Runs the clock, while the cycle counter stands still, until the gateware has accepted all posts.
    fn flush_posts(&mut self) {
        let Card { board, cycle } = self.card.get_mut();
        // A queue pair never has more posts than it has room for, so the wait is bounded.
        for _ in 0..1_000_000 {
            if board.posts_are_taken() {
                return;
            }
            board.tick(cycle.saturating_sub(1));
        }
        panic!("gateware: a post is not taken");
    }

    /// Executes a control operation after all earlier posts.
    fn control(&mut self, number: QueuePairNumber, operation: u64, argument: u32) {
        self.flush_posts();
        let index = self.driver.numbers.index(number) as u16;
        let control = package::Control { operation: operation as u8, qp: index, argument };
        self.look_at(index);
        self.card.get_mut().registers().control(&control);
        self.look_at(index);
        self.collect();
    }

    /// Waits until all data allowed before the last change of a region is in memory. A change of access
    /// rights, here to the same rights, completes only then, because packets are placed in the order of the
    /// decisions about them.
    fn fence(&mut self) {
        let existing = self.driver.queue_pairs.iter().flatten().next();
        if let Some((number, access)) = existing.map(|queue_pair| (queue_pair.number, queue_pair.access)) {
            self.control(number, package::CONTROL_ACCESS, access.bits().into());
        }
    }

    /// Writes the attributes of a queue pair that are known.
    fn write_attributes(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        let index = self.driver.find(number)?;
        let queue_pair = self.driver.queue_pairs[index].as_ref().expect("found above");
        let mut entry = package::QueuePair {
            number: number.0,
            domain: queue_pair.attributes.domain.0 as u16,
            path_mtu: PathMtu::Bytes1024 as u8,
            ..package::QueuePair::default()
        };
        if let Some(path) = &queue_pair.receive {
            let destination = match path.destination {
                IpAddr::V4(address) => address,
                IpAddr::V6(address) => return Err(ApiError::NoIpv4(address)),
            };
            let neighbour = self.driver.neighbours.get(&destination);
            let MacAddress(station) = neighbour.ok_or(ApiError::UnknownNeighbour(destination))?;
            entry.destination_qp = path.destination_qp_num.0;
            entry.destination = destination.to_bits();
            entry.destination_mac = station.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            entry.source_port = weft_rdma::source_port(number, path.destination_qp_num);
            entry.path_mtu = path.path_mtu as u8;
            entry.max_dest_rd_atomic = path.max_dest_rd_atomic;
            entry.min_rnr_timer = path.min_rnr_timer;
        }
        if let Some(limits) = &queue_pair.send {
            entry.max_rd_atomic = limits.max_rd_atomic;
            entry.timeout = limits.timeout;
            entry.retry_count = limits.retry_cnt;
            entry.rnr_retry = limits.rnr_retry;
        }
        self.card.get_mut().registers().write_queue_pair(&entry);
        Ok(())
    }

    fn write_region(&mut self, index: usize) {
        let entry = match &self.driver.regions[index] {
            None => package::Region::default(),
            Some((keys, region)) => package::Region {
                valid: true,
                lkey: keys.lkey,
                rkey: keys.rkey,
                domain: region.domain.0 as u16,
                base: region.address,
                length: region.length,
                access: access(region.access),
                target: region.target as u8,
                write_through: region.write_through,
                rpc: region.rpc.is_some(),
                slot: region.rpc.unwrap_or_default(),
            },
        };
        self.card.get_mut().registers().write_region(index as u16, &entry);
    }

    /// Updates the driver's copy of a queue pair's state, because the gateware may have put it into ERROR.
    fn refresh_state(&mut self, index: usize) -> (package::ResponderQuery, package::RequesterQuery) {
        let (responder, requester) = self.card.get_mut().registers().query(index as u16);
        self.collect();
        let failed = u64::from(responder.state) == package::RESPONDER_ERROR
            || u64::from(requester.state) == package::REQUESTER_ERROR;
        if let Some(queue_pair) = self.driver.queue_pairs[index].as_mut().filter(|_| failed) {
            queue_pair.state = QueuePairState::Error;
        }
        (responder, requester)
    }

    fn post_send(&mut self, number: QueuePairNumber, request: WorkRequest) -> Result<(), ApiError> {
        let index = self.driver.find(number)?;
        let Driver { queue_pairs, config, reserved, .. } = &mut self.driver;
        let queue_pair = queue_pairs[index].as_mut().expect("found above");
        queue_pair.post_send(request, || reserve(reserved, config))?;
        refill(queue_pair, &mut self.card.get_mut().board);
        Ok(())
    }

    fn queue_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        let index = self.driver.find(number)?;
        let Driver { queue_pairs, config, reserved, .. } = &mut self.driver;
        let queue_pair = queue_pairs[index].as_mut().expect("found above");
        queue_pair.post_receive(request, || reserve(reserved, config))?;
        refill(queue_pair, &mut self.card.get_mut().board);
        Ok(())
    }

    fn refuse(&mut self, queue_pair: QueuePairNumber, id: u64, opcode: CompletionOpcode, error: &ApiError) {
        let status = match error {
            ApiError::MessageTooLong(_) | ApiError::AtomicLength(_) => CompletionStatus::LocalLengthError,
            _ => CompletionStatus::LocalQueuePairOperationError,
        };
        let completion =
            Completion { id, status, opcode, bytes: 0, immediate: None, queue_pair, vendor_error: 0 };
        self.events.push_back(HostEvent::Completion(completion));
    }
}

impl Driver {
    fn find(&self, number: QueuePairNumber) -> Result<usize, ApiError> {
        let index = self.numbers.index(number);
        let found = self.queue_pairs.get(index).and_then(Option::as_ref);
        found.filter(|known| known.number == number).map(|_| index).ok_or(ApiError::UnknownQueuePair(number))
    }

    fn find_region(&self, keys: RegionKeys) -> Result<usize, ApiError> {
        let index = self.keys.index(keys.rkey);
        let found = self.regions.get(index).and_then(Option::as_ref);
        found.filter(|(known, _)| *known == keys).map(|_| index).ok_or(ApiError::UnknownRegion)
    }
}

/// The flow of requests that arrive on the queue pair with an index.
fn requests_of(index: u16) -> Flow {
    Flow { queue_pair: index, direction: Direction::Receive }
}

/// Reserves an entry of the completion queue, in the driver's account.
fn reserve(reserved: &mut usize, config: &weft_rdma::Config) -> Result<(), ApiError> {
    if *reserved >= config.completion_queue_depth {
        return Err(ApiError::CompletionQueueFull);
    }
    *reserved += 1;
    Ok(())
}

/// Posts as many waiting requests as the gateware has room for.
fn refill(queue_pair: &mut QueuePair, board: &mut Board) {
    while let Some(request) = queue_pair.next_send() {
        board.post(request);
    }
    while let Some(request) = queue_pair.next_receive() {
        board.post_receive(request);
    }
}

/// `ibv_access_flags` has the same bits as the struct.
pub(crate) fn access(flags: AccessFlags) -> package::Access {
    package::Access::from_bits(flags.bits().into())
}

fn at_most(attribute: &'static str, value: u64, limit: u64) -> Result<(), ApiError> {
    if value > limit { Err(ApiError::AttributeOutOfRange { attribute, value, limit }) } else { Ok(()) }
}

impl Nic for RtlNic {
    fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
        self.wake(now);
        self.card.get_mut().board.receive(frame);
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        self.wake(now);
        match command {
            HostCommand::Reset { .. } | HostCommand::Configure { .. } if !self.driver.has_engine => {}
            HostCommand::Reset { .. } => self.card.get_mut().registers().reset_engine(),
            HostCommand::Configure { configuration, .. } => {
                // The last cycle that ends before the lease.
                let lease_until = configuration.lease_until.as_ps() / CYCLE.as_ps();
                self.card.get_mut().registers().configure_engine(&configuration, lease_until);
            }
            HostCommand::Call { engine: 0, token, kind, payload }
                if self.driver.has_engine && payload.len() <= CALL_BYTES_MAX =>
            {
                self.driver.calls.push_back((token, kind, payload.to_vec()));
                self.call_next();
            }
            HostCommand::Call { .. } | HostCommand::Respond { .. } => {
                self.driver.messages_without_engine += 1
            }
            HostCommand::Transmit(frame) => self.card.get_mut().board.transmit(frame),
            HostCommand::Associate(change) => {
                let card = self.card.get_mut();
                let done = card.board.associate(card.cycle.saturating_sub(1), &change);
                self.driver.associations_refused += u64::from(!done);
            }
            HostCommand::Modify(queue_pair, change) => {
                let refused = self.modify_queue_pair(queue_pair, change).is_err();
                self.driver.modifications_refused += u64::from(refused);
            }
            HostCommand::PostSend(queue_pair, request) => {
                let opcode = request.operation.completion_opcode();
                let id = request.id;
                let posted = if id & REPLY_TAG == 0 {
                    self.post_send(queue_pair, request)
                } else {
                    Err(ApiError::UnknownQueuePair(queue_pair))
                };
                if let Err(error) = posted {
                    self.refuse(queue_pair, id, opcode, &error);
                }
            }
            HostCommand::PostReceive(queue_pair, request) => {
                let id = request.id;
                if let Err(error) = self.queue_receive(queue_pair, request) {
                    self.refuse(queue_pair, id, CompletionOpcode::Receive, &error);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let card = self.card.borrow();
        let cycle = if card.board.is_busy() { card.cycle } else { card.board.timer()?.max(card.cycle) };
        Some(Instant::ZERO + CYCLE * cycle)
    }

    fn handle_deadline(&mut self, now: Instant) {
        while let Some(at) = self.next_deadline().filter(|at| *at <= now) {
            let card = self.card.get_mut();
            card.cycle = at.as_ps() / CYCLE.as_ps();
            card.board.tick(card.cycle);
            card.cycle += 1;
            self.collect();
        }
    }

    fn poll_frame(&mut self, _now: Instant, frame: &mut Vec<u8>) -> bool {
        let Some(bytes) = self.card.get_mut().board.poll_frame() else { return false };
        frame.extend_from_slice(&bytes);
        true
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    fn take_work(&mut self) -> Work {
        Work::default()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut card = self.card.borrow_mut();
        let mut counters: Vec<(&'static str, u64)> = Vec::new();
        let mut add =
            |name: &'static str, value: u64| match counters.iter_mut().find(|(known, _)| *known == name) {
                // A name occurs several times: two blocks have the same drop cause, or an event can occur
                // twice in a cycle.
                Some((_, sum)) => *sum += value,
                None => counters.push((name, value)),
            };
        add("messages_without_engine", self.driver.messages_without_engine);
        add("modifications_refused", self.driver.modifications_refused);
        add("associations_refused", self.driver.associations_refused);
        add("mac_receive_overflow", card.board.receive_overflows);
        for (name, value) in package::COUNTERS.iter().zip(card.registers().counters()) {
            add(name, value);
        }
        for (name, count) in card.board.psp.iter().flat_map(|psp| psp.counters().list()) {
            add(name, count);
        }
        counters
    }
}

impl RdmaDriver for RtlNic {
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError> {
        let Driver { config, numbers, queue_pairs, generations, .. } = &mut self.driver;
        let depth = u64::from(config.max_queue_depth);
        at_most("max_send_wr", attributes.max_send_wr.into(), depth)?;
        at_most("max_recv_wr", attributes.max_recv_wr.into(), depth)?;
        at_most("domain", attributes.domain.0.into(), u16::MAX.into())?;
        let number = numbers.allocate().ok_or(ApiError::TooManyQueuePairs(numbers.places()))?;
        let index = numbers.index(number);
        queue_pairs[index] = Some(QueuePair::new(number, attributes, generations[index]));
        self.write_attributes(number)?;
        self.control(number, package::CONTROL_RESET, 0);
        Ok(number)
    }

    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, Reset};
        let index = self.driver.find(number)?;
        let psn_max = u64::from(weft_wire::roce::MASK_24);
        let resources = self.driver.config.max_rd_atomic.into();
        match change {
            Modify::ReadyToReceive(path) => {
                at_most("rq_psn", path.rq_psn.into(), psn_max)?;
                at_most("dest_qp_num", path.destination_qp_num.0.into(), psn_max)?;
                at_most("min_rnr_timer", path.min_rnr_timer.into(), 31)?;
                at_most("max_dest_rd_atomic", path.max_dest_rd_atomic.into(), resources)?;
            }
            Modify::ReadyToSend(limits) => {
                at_most("sq_psn", limits.sq_psn.into(), psn_max)?;
                at_most("timeout", limits.timeout.into(), 31)?;
                at_most("retry_cnt", limits.retry_cnt.into(), 7)?;
                at_most("rnr_retry", limits.rnr_retry.into(), 7)?;
                at_most("max_rd_atomic", limits.max_rd_atomic.into(), resources)?;
            }
            Modify::Reset | Modify::Init { .. } | Modify::Access(_) | Modify::Error => {}
        }
        // The gateware may have put the queue pair into ERROR without a completion.
        let known = self.driver.queue_pairs[index].as_ref().expect("found above").state;
        if matches!(known, ReadyToReceive | ReadyToSend) {
            self.refresh_state(index);
        }
        let queue_pair = self.driver.queue_pairs[index].as_mut().expect("found above");
        match (change, queue_pair.state) {
            (Modify::Reset, _) => {
                self.driver.reserved -= queue_pair.clear();
                queue_pair.state = Reset;
                self.control(number, package::CONTROL_RESET, 0);
            }
            (Modify::Error, _) => {
                queue_pair.state = Error;
                self.control(number, package::CONTROL_ERROR, 0);
                self.fence();
            }
            (Modify::Init { access }, Reset | Init) => {
                (queue_pair.state, queue_pair.access) = (Init, access);
                (queue_pair.receive, queue_pair.send) = (None, None);
                self.control(number, package::CONTROL_INIT, access.bits().into());
            }
            (Modify::Access(access), Init | ReadyToReceive | ReadyToSend) => {
                queue_pair.access = access;
                self.control(number, package::CONTROL_ACCESS, access.bits().into());
            }
            (Modify::ReadyToReceive(path), Init) => {
                queue_pair.receive = Some(path);
                if let Err(error) = self.write_attributes(number) {
                    self.driver.queue_pairs[index].as_mut().expect("found above").receive = None;
                    return Err(error);
                }
                self.driver.queue_pairs[index].as_mut().expect("found above").state = ReadyToReceive;
                self.control(number, package::CONTROL_RECEIVE, path.rq_psn);
            }
            (Modify::ReadyToSend(limits), ReadyToReceive) => {
                queue_pair.send = Some(limits);
                queue_pair.state = ReadyToSend;
                self.write_attributes(number)?;
                self.control(number, package::CONTROL_SEND, limits.sq_psn);
            }
            _ => return Err(queue_pair.wrong_state()),
        }
        Ok(())
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        let index = self.driver.find(number)?;
        // The queues are cleared first, so that no waiting request is posted to a queue pair that has been
        // reset.
        let queue_pair = self.driver.queue_pairs[index].as_mut().expect("found above");
        self.driver.reserved -= queue_pair.clear();
        self.control(number, package::CONTROL_RESET, 0);
        let queue_pair = self.driver.queue_pairs[index].take().expect("found above");
        self.driver.generations[index] = queue_pair.next_generation();
        // A number of generation 0, which no queue pair ever has.
        let nobody = package::QueuePair { number: index as u32, ..package::QueuePair::default() };
        self.card.get_mut().registers().write_queue_pair(&nobody);
        if self.driver.served.remove(&(index as u16)) {
            let flow = requests_of(index as u16);
            self.card.get_mut().registers().configure_service(flow, Setting::default());
        }
        self.driver.numbers.release(number);
        Ok(())
    }

    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError> {
        let index = self.driver.find(number)?;
        let (responder, requester) = self.refresh_state(index);
        let queue_pair = self.driver.queue_pairs[index].as_ref().expect("found above");
        let path = queue_pair.receive;
        Ok(QueuePairInformation {
            state: queue_pair.state,
            attributes: queue_pair.attributes,
            access: queue_pair.access,
            destination: path.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |path| path.destination),
            destination_qp_num: path.map_or(QueuePairNumber(0), |path| path.destination_qp_num),
            path_mtu_bytes: path.map_or(PathMtu::Bytes1024, |path| path.path_mtu).bytes(),
            sq_psn: requester.next_psn,
            rq_psn: responder.expected,
            send_queued: queue_pair.send_queued(),
            receive_queued: queue_pair.receive_queued(),
            window: requester.window.into(),
        })
    }

    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        self.queue_receive(number, request)?;
        self.flush_posts();
        Ok(())
    }

    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        let wraps = ApiError::RegionWraps { address: region.address, length: region.length };
        let end = region.address.checked_add(region.length).ok_or(wraps)?;
        at_most("region end", end, 1 << ADDRESS_BITS)?;
        at_most("domain", region.domain.0.into(), u16::MAX.into())?;
        at_most("slot", region.rpc.unwrap_or_default().into(), 15)?;
        let keys = self.driver.keys.allocate().ok_or(ApiError::TooManyRegions(self.driver.keys.places()))?;
        let index = self.driver.keys.index(keys.rkey);
        self.driver.regions[index] = Some((keys, region));
        self.write_region(index);
        Ok(keys)
    }

    fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        let index = self.driver.find_region(keys)?;
        if let Some((_, region)) = &mut self.driver.regions[index] {
            region.access = access;
        }
        self.write_region(index);
        self.fence();
        Ok(())
    }

    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        let index = self.driver.find_region(keys)?;
        let (_, region) = self.driver.regions[index].take().expect("found above");
        self.write_region(index);
        self.fence();
        self.driver.keys.release(keys);
        Ok(region)
    }

    fn memory(&mut self) -> &mut dyn RegionMemory {
        &mut self.card.get_mut().board
    }
}
