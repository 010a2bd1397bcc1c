//! A model of the card around the gateware: clock, MAC, memories, and the host's side of every stream.

use std::collections::VecDeque;

use weft_rdma::{FlatMemory, MemoryFault, RegionMemory};
use weft_service::psp::{self, PspConfig};
use weft_time::Instant;
use weft_verbs::Target;
use weft_waist::EngineStatus;

use crate::CYCLE;
use crate::axi::{AxiPort, Gate, Latency, Pressure, axi_ports};
use crate::mac::{Beat, FrameSink, FrameSource, TransmitMac};
use crate::model::{
    self,
    weft_nic::{Inputs, Outputs},
};
use crate::permissions::{Change, Changed, Permissions};
use crate::psp::PspPort;
use crate::service_port::ServicePort;

type Model = model::Model<model::weft_nic::Top>;
use crate::axi::MemoryTiming;
use crate::engine_package;
use crate::package::{self, AxiRead, Completion, ReceiveRequest, WorkRequest};

/// Consecutive idle cycles after which the clock may stop. More than one, in case a block raises `idle_o` a
/// cycle early.
const IDLE_CYCLES: u32 = 2;

/// Parameters of the card.
#[derive(Clone, Debug)]
pub(crate) struct BoardConfig {
    pub(crate) bits_per_s: u64,
    pub(crate) region_bytes: usize,
    /// Bytes of HBM behind the regions, for the buffers of answers over queue pairs.
    pub(crate) reply_bytes: usize,
    pub(crate) hbm: Latency,
    pub(crate) host: Latency,
    /// Response times of the engine's memory.
    pub(crate) engine: MemoryTiming,
    pub(crate) pressure: Option<Pressure>,
    /// Initial content of storage that reset does not clear: zeros for 0, otherwise random bits.
    pub(crate) power_on_seed: u32,
    /// PSP between MAC and card, if the card has it.
    pub(crate) psp: Option<PspConfig>,
    /// Whether the card has services.
    pub(crate) services: bool,
}

/// Transfers on the port of the engine's memory in one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryActivity {
    pub(crate) read_command: bool,
    pub(crate) read_end: bool,
    pub(crate) write_command: bool,
    pub(crate) write_end: bool,
}

/// An access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write { address: u32, value: u32 },
    Read { address: u32 },
}

/// Result of a register access: the data of a read, and AXI4's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accessed {
    pub(crate) value: u32,
    pub(crate) response: u8,
}

/// An AXI4-Lite access in progress.
#[derive(Clone, Copy, Debug)]
struct Lite {
    access: Access,
    address_taken: bool,
    data_taken: bool,
    done: Option<Accessed>,
}

/// One card. Time is in cycles of the gateware's clock; `ticks` counts the cycles that were simulated.
#[derive(Debug)]
pub(crate) struct Board {
    model: Model,
    inputs: Inputs,
    outputs: Outputs,
    ticks: u64,
    idle_cycles: u32,
    lite: Option<Lite>,

    receive: FrameSource,
    pub(crate) receive_overflows: u64,
    transmit: TransmitMac,
    pub(crate) psp: Option<Box<PspPort>>,
    services: Option<Box<ServicePort>>,

    /// Host memory and HBM; the register file and the on-chip memory are inside the model.
    pub(crate) memory: FlatMemory,
    retransmission_memory: Vec<u8>,
    hbm: AxiPort,
    host: AxiPort,
    retransmission: AxiPort,
    engine_memory: Vec<u8>,
    engine_port: AxiPort,
    /// The engine's last status, and whether it has not been reported to the host.
    status: EngineStatus,
    status_is_news: bool,

    posts: VecDeque<WorkRequest>,
    receive_posts: VecDeque<ReceiveRequest>,
    from_host: FrameSource,
    to_host: FrameSink,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) host_frames: VecDeque<Vec<u8>>,
    sniffer: FrameSink,
    pub(crate) sniffed: VecDeque<Vec<u8>>,
    pub(crate) permissions: Permissions,
    gate: Gate,
}

/// Bytes of the retransmission buffer: a slot for every packet that can be on the wire. The operating system
/// allocates only the pages that are used.
const RETRANSMISSION_BYTES: u64 =
    package::QUEUE_PAIRS * package::WINDOW_PACKETS * package::RETRANSMISSION_SLOT_BYTES;

/// Bytes of the engine's memory: the slots of its largest table, and its journals. Allocated page by page,
/// too.
const ENGINE_MEMORY_BYTES: u64 = (engine_package::BUCKETS_MAX * engine_package::WAYS
    + engine_package::STREAMS * engine_package::WINDOW_ENTRIES)
    * engine_package::SLOT_BYTES;

impl Board {
    pub(crate) fn new(config: &BoardConfig) -> Self {
        let bytes_behind = |target| match target {
            Target::Hbm => config.region_bytes + config.reply_bytes,
            Target::Host => config.region_bytes,
            Target::Register | Target::OnChip => 0,
        };
        let port = |latency, number| AxiPort::new(latency, Gate::new(config.pressure, number));
        Self {
            model: Model::new(config.power_on_seed),
            inputs: Inputs::default(),
            outputs: Outputs::default(),
            ticks: 0,
            idle_cycles: 0,
            lite: None,
            receive: FrameSource::default(),
            receive_overflows: 0,
            transmit: TransmitMac::new(config.bits_per_s),
            psp: config.psp.as_ref().map(|psp| Box::new(PspPort::new(psp, config.power_on_seed))),
            services: config.services.then(|| Box::new(ServicePort::new(config.power_on_seed))),
            memory: FlatMemory::with_sizes(bytes_behind),
            retransmission_memory: vec![0; RETRANSMISSION_BYTES as usize],
            hbm: port(config.hbm, 1),
            host: port(config.host, 2),
            // The retransmission buffer is in HBM.
            retransmission: port(config.hbm, 3),
            engine_memory: vec![0; ENGINE_MEMORY_BYTES as usize],
            engine_port: AxiPort::with_timing(config.engine.start(), Gate::new(config.pressure, 5)),
            status: EngineStatus::STARTING,
            status_is_news: false,
            posts: VecDeque::new(),
            receive_posts: VecDeque::new(),
            from_host: FrameSource::default(),
            to_host: FrameSink::default(),
            completions: VecDeque::new(),
            host_frames: VecDeque::new(),
            sniffer: FrameSink::default(),
            sniffed: VecDeque::new(),
            permissions: Permissions::default(),
            gate: Gate::new(config.pressure, 4),
        }
    }

    /// Number of cycles that were simulated.
    pub(crate) const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// The model, for writing waveforms.
    pub(crate) fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Gives the MAC a received frame, whose last bit has arrived.
    pub(crate) fn receive(&mut self, frame: &[u8]) {
        if frame.is_empty() || !self.receive.has_room(frame.len()) {
            self.receive_overflows += 1;
            return;
        }
        self.receive.push(frame);
        self.idle_cycles = 0;
    }

    /// The next frame to send on the wire.
    pub(crate) fn poll_frame(&mut self) -> Option<Vec<u8>> {
        self.transmit.poll()
    }

    /// Gives a work request to the gateware. The caller must know that the queue pair has room.
    pub(crate) fn post(&mut self, request: WorkRequest) {
        self.posts.push_back(request);
        self.idle_cycles = 0;
    }

    /// Gives a receive request to the gateware. The caller must know that the queue pair has room.
    pub(crate) fn post_receive(&mut self, request: ReceiveRequest) {
        self.receive_posts.push_back(request);
        self.idle_cycles = 0;
    }

    /// Marks the card as not idle, so that the clock runs.
    pub(crate) const fn wake(&mut self) {
        self.idle_cycles = 0;
    }

    /// The engine's status, if it has changed since the last call.
    pub(crate) fn take_status(&mut self) -> Option<EngineStatus> {
        std::mem::take(&mut self.status_is_news).then_some(self.status)
    }

    /// Whether the engine has answered a call of the host.
    pub(crate) const fn has_answer(&self) -> bool {
        self.outputs.engine_answered_o != 0
    }

    /// Whether the engine has not accepted the host's last call yet.
    pub(crate) const fn is_calling(&self) -> bool {
        self.outputs.engine_call_busy_o != 0
    }

    /// Whether the gateware has accepted all posts.
    pub(crate) fn posts_are_taken(&self) -> bool {
        self.posts.is_empty() && self.receive_posts.is_empty()
    }

    /// Sends a frame of the host.
    pub(crate) fn transmit(&mut self, frame: &[u8]) {
        if !frame.is_empty() {
            self.from_host.push(frame);
            self.idle_cycles = 0;
        }
    }

    /// Whether the next cycle must be simulated even without input.
    pub(crate) fn is_busy(&self) -> bool {
        self.idle_cycles < IDLE_CYCLES
    }

    /// The cycle of the next timer, if no input comes before.
    pub(crate) fn timer(&self) -> Option<u64> {
        (self.outputs.armed_o != 0).then_some(self.outputs.earliest_o)
    }

    /// Writes a register and returns AXI4's response. The cycle counter stays at `cycle` meanwhile.
    pub(crate) fn write_register(&mut self, cycle: u64, address: u32, value: u32) -> u8 {
        self.access(cycle, Access::Write { address, value }).response
    }

    /// Reads a register. The cycle counter stays at `cycle` meanwhile.
    pub(crate) fn read_register(&mut self, cycle: u64, address: u32) -> Accessed {
        self.access(cycle, Access::Read { address })
    }

    /// Changes associations of PSP, if the card has PSP. The cycle counter stays at `cycle` meanwhile.
    pub(crate) fn associate(&mut self, cycle: u64, change: &psp::Change) -> bool {
        let Some(psp) = &mut self.psp else { return false };
        // `change` counts refusals itself.
        let _ = psp.change(change);
        while self.psp.as_ref().is_some_and(|psp| psp.is_writing()) {
            self.tick(cycle);
        }
        true
    }

    fn access(&mut self, cycle: u64, access: Access) -> Accessed {
        self.lite = Some(Lite { access, address_taken: false, data_taken: false, done: None });
        // Far more than any access takes. Without a limit, a bug in the gateware would hang the program here.
        for _ in 0..100_000 {
            self.tick(cycle);
            if let Some(Lite { done: Some(accessed), .. }) = self.lite {
                self.lite = None;
                return accessed;
            }
        }
        panic!("gateware: no answer to {access:?}");
    }

    /// Simulates one clock cycle.
    pub(crate) fn tick(&mut self, cycle: u64) {
        let now = Instant::ZERO + CYCLE * cycle;
        let received = self.receive.beat();
        let transmit_ready = self.transmit.is_ready(now) && self.gate.is_open();
        let transmitted = if self.psp.is_some() {
            self.compute_with_psp(cycle, received.as_ref(), transmit_ready)
        } else {
            self.compute(cycle, received.as_ref(), transmit_ready);
            self.transmitted()
        };
        if received.is_some() {
            self.receive.advance();
        }
        if let Some(beat) = transmitted.filter(|_| transmit_ready) {
            self.transmit.push(now, &beat);
        }
    }

    /// Simulates one clock cycle of the card with PSP. Returns the beat that is offered to the MAC.
    fn compute_with_psp(
        &mut self,
        cycle: u64,
        received: Option<&Beat>,
        transmit_ready: bool,
    ) -> Option<Beat> {
        let time_ps = (Instant::ZERO + CYCLE * cycle).as_ps();
        let psp = self.psp.as_mut().expect("the card has it");
        let (opened, card_ready) = (psp.take(), psp.is_ready());
        let offered = psp.step(time_ps, received, transmit_ready);
        self.inputs.rx_error_i = opened.is_some_and(|(_, error)| error).into();
        self.compute(cycle, opened.as_ref().map(|(beat, _)| beat), card_ready);
        let sent = self.transmitted().filter(|_| card_ready);
        let psp = self.psp.as_mut().expect("the card has it");
        if let Some(beat) = sent {
            psp.push(beat);
        }
        if !psp.is_idle() {
            self.idle_cycles = 0;
        }
        offered
    }

    /// Simulates one clock cycle without a MAC. Takes the beat that the other card sent in the previous
    /// cycle, and returns the beat that this card sends.
    pub(crate) fn tick_joined(&mut self, cycle: u64, received: Option<&Beat>) -> Option<Beat> {
        if self.psp.is_some() {
            return self.compute_with_psp(cycle, received, true);
        }
        self.compute(cycle, received, true);
        self.transmitted()
    }

    /// The beat that the gateware offers to the MAC.
    fn transmitted(&self) -> Option<Beat> {
        let Outputs { tx_valid_o, tx_keep_o, tx_last_o, tx_data_o, .. } = self.outputs;
        let bytes = tx_keep_o.count_ones() as usize;
        (tx_valid_o != 0).then_some(Beat { data: tx_data_o, bytes, last: tx_last_o != 0 })
    }

    /// Whether, in the last cycle, the oldest write in flight became visible in memory.
    pub(crate) fn has_placed(&self) -> bool {
        self.outputs.placed_o != 0
    }

    /// Transfers on the port of the engine's memory in the last cycle.
    pub(crate) fn engine_memory_activity(&self) -> MemoryActivity {
        let (inputs, outputs) = (&self.inputs, &self.outputs);
        let both = |valid, ready| valid != 0 && ready != 0;
        MemoryActivity {
            read_command: both(outputs.engine_ar_valid_o, inputs.engine_ar_ready_i),
            read_end: both(inputs.engine_r_valid_i, outputs.engine_r_ready_o)
                && AxiRead::unpack(&inputs.engine_r_i).last,
            write_command: both(outputs.engine_aw_valid_o, inputs.engine_aw_ready_i),
            write_end: inputs.engine_b_valid_i != 0,
        }
    }

    fn compute(&mut self, cycle: u64, received: Option<&Beat>, transmit_ready: bool) {
        let now = Instant::ZERO + CYCLE * cycle;
        let tick = self.ticks;
        let mut quiet = true;
        let inputs = &mut self.inputs;
        inputs.now_i = cycle;

        inputs.rx_valid_i = received.is_some().into();
        if let Some(beat) = received {
            inputs.rx_data_i = beat.data;
            inputs.rx_keep_i = beat.keep();
            inputs.rx_last_i = beat.last.into();
            quiet = false;
        }
        inputs.tx_ready_i = transmit_ready.into();

        inputs.post_valid_i = (!self.posts.is_empty()).into();
        if let Some(request) = self.posts.front() {
            inputs.post_i = request.pack();
            quiet = false;
        }
        inputs.receive_post_valid_i = (!self.receive_posts.is_empty()).into();
        if let Some(request) = self.receive_posts.front() {
            inputs.receive_post_i = request.pack();
            quiet = false;
        }
        let completion_ready = self.gate.is_open();
        inputs.completion_ready_i = completion_ready.into();
        let sent = self.from_host.beat();
        inputs.host_tx_valid_i = sent.is_some().into();
        if let Some(beat) = &sent {
            inputs.host_tx_i = beat.pack();
            quiet = false;
        }
        let host_ready = self.gate.is_open();
        inputs.host_rx_ready_i = host_ready.into();
        quiet &= !drive_permissions(inputs, &mut self.permissions, cycle);
        inputs.datagram_received_ready_i = 1;
        inputs.payload_received_ready_i = 1;
        inputs.sniffer_ready_i = 1;
        if let Some(lite) = &self.lite {
            drive_lite(inputs, lite);
            quiet = false;
        }

        let answer = self.hbm.answer(tick, self.memory.image_mut(Target::Hbm));
        drive_hbm(inputs, &answer);
        let answer = self.host.answer(tick, self.memory.image_mut(Target::Host));
        drive_host(inputs, &answer);
        let answer = self.retransmission.answer(tick, &mut self.retransmission_memory[..]);
        drive_retransmission(inputs, &answer);
        let answer = self.engine_port.answer(tick, &mut self.engine_memory[..]);
        drive_engine_memory(inputs, &answer);

        if let Some(services) = &self.services {
            services.drive(inputs);
        }
        self.model.step(inputs, &mut self.outputs, now.as_ps());
        if let Some(services) = &mut self.services {
            quiet &= services.step(now.as_ps(), inputs, &self.outputs);
        }
        self.ticks += 1;

        let outputs = &self.outputs;
        if outputs.post_ready_o != 0 {
            self.posts.pop_front();
        }
        if outputs.receive_post_ready_o != 0 {
            self.receive_posts.pop_front();
        }
        if outputs.completion_valid_o != 0 && completion_ready {
            self.completions.push_back(Completion::unpack(&outputs.completion_o));
        }
        if outputs.host_tx_ready_o != 0 && sent.is_some() {
            self.from_host.advance();
        }
        if outputs.host_rx_valid_o != 0 && host_ready {
            self.host_frames.extend(self.to_host.push(&Beat::unpack(&outputs.host_rx_o)));
        }
        sample_permissions(outputs, &mut self.permissions, cycle);
        if outputs.sniffer_valid_o != 0 {
            self.sniffed.extend(self.sniffer.push(&Beat::unpack(&outputs.sniffer_o)));
        }
        if let Some(lite) = &mut self.lite {
            sample_lite(outputs, lite);
        }
        self.hbm.take(tick, &hbm_request(outputs));
        self.host.take(tick, &host_request(outputs));
        self.retransmission.take(tick, &retransmission_request(outputs));
        self.engine_port.take(tick, &engine_memory_request(outputs));
        let bits = outputs.engine_status_o;
        let status = engine_package::status(&[bits as u32, (bits >> 32) as u32]);
        self.status_is_news |= status != self.status;
        self.status = status;

        quiet &= outputs.idle_o != 0
            // A timer is armed, and the earliest deadline is not known yet.
            && (outputs.armed_o == 0 || outputs.earliest_valid_o != 0)
            && !self.hbm.is_busy()
            && !self.host.is_busy()
            && !self.retransmission.is_busy()
            && !self.engine_port.is_busy();
        self.idle_cycles = if quiet { self.idle_cycles + 1 } else { 0 };
    }
}

/// Registers and on-chip memory are read and written directly in the model's arrays; the gateware does not
/// notice.
impl RegionMemory for Board {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        match target {
            Target::Hbm | Target::Host => self.memory.read(target, address, length),
            Target::Register | Target::OnChip => {
                let array = self.model.memory(target == Target::OnChip);
                array.get(range(address, length)?).ok_or(MemoryFault)
            }
        }
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        match target {
            Target::Hbm | Target::Host => self.memory.write(target, address, bytes),
            Target::Register | Target::OnChip => {
                let array = self.model.memory_mut(target == Target::OnChip);
                array.get_mut(range(address, bytes.len())?).ok_or(MemoryFault)?.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn range(address: u64, length: usize) -> Result<std::ops::Range<usize>, MemoryFault> {
    let start = usize::try_from(address).map_err(|_| MemoryFault)?;
    Ok(start..start.checked_add(length).ok_or(MemoryFault)?)
}

fn drive_lite(inputs: &mut Inputs, lite: &Lite) {
    let Lite { access, address_taken, data_taken, done } = *lite;
    match access {
        Access::Write { address, value } => {
            inputs.axil_awvalid_i = (!address_taken && done.is_none()).into();
            inputs.axil_awaddr_i = address as _;
            inputs.axil_wvalid_i = (!data_taken && done.is_none()).into();
            inputs.axil_wdata_i = value;
            inputs.axil_wstrb_i = 0xf;
            inputs.axil_arvalid_i = 0;
        }
        Access::Read { address } => {
            inputs.axil_awvalid_i = 0;
            inputs.axil_wvalid_i = 0;
            inputs.axil_arvalid_i = (!address_taken && done.is_none()).into();
            inputs.axil_araddr_i = address as _;
        }
    }
    inputs.axil_bready_i = 1;
    inputs.axil_rready_i = 1;
}

fn sample_lite(outputs: &Outputs, lite: &mut Lite) {
    match lite.access {
        Access::Write { .. } => {
            if outputs.axil_bvalid_o != 0 && lite.address_taken && lite.data_taken {
                lite.done = Some(Accessed { value: 0, response: outputs.axil_bresp_o });
            }
            lite.address_taken |= outputs.axil_awready_o != 0;
            lite.data_taken |= outputs.axil_wready_o != 0;
        }
        Access::Read { .. } => {
            if outputs.axil_rvalid_o != 0 && lite.address_taken {
                lite.done = Some(Accessed { value: outputs.axil_rdata_o, response: outputs.axil_rresp_o });
            }
            lite.address_taken |= outputs.axil_arready_o != 0;
        }
    }
}

/// Drives the next change of access rights. Returns whether there is one.
fn drive_permissions(inputs: &mut Inputs, permissions: &mut Permissions, cycle: u64) -> bool {
    (inputs.permission_valid_i, inputs.region_permission_valid_i) = (0, 0);
    match permissions.changes.front() {
        Some(Change::QueuePair { index, access }) => {
            inputs.permission_valid_i = 1;
            inputs.permission_qp_i = *index as _;
            inputs.permission_access_i = access.to_bits() as _;
        }
        Some(Change::Region { index, access }) => {
            inputs.region_permission_valid_i = 1;
            inputs.region_permission_index_i = *index as _;
            inputs.region_permission_access_i = access.to_bits() as _;
        }
        None => return false,
    }
    permissions.since.get_or_insert(cycle);
    true
}

/// Samples the gateware's response to changes of access rights.
fn sample_permissions(outputs: &Outputs, permissions: &mut Permissions, cycle: u64) {
    match permissions.changes.front() {
        Some(Change::QueuePair { index, .. }) if outputs.permission_ready_o != 0 => {
            permissions.fences.push_back((*index, permissions.since.take().unwrap_or(cycle)));
            permissions.changes.pop_front();
        }
        // A change for a region is in force for the next packet. Its completion is reported with that of the
        // next fence.
        Some(Change::Region { .. }) => {
            permissions.changes.pop_front();
            if permissions.changes.is_empty() {
                permissions.since = None;
            }
        }
        _ => {}
    }
    if outputs.marker_o != 0 {
        let index = outputs.marker_qp_o;
        // Changes by the driver have markers, too, so a marker need not belong to one of these changes.
        if let Some(at) = permissions.fences.iter().position(|(waiting, _)| *waiting == index) {
            let (_, requested) = permissions.fences.remove(at).expect("found above");
            permissions.done.push_back(Changed { index, requested, done: cycle });
        }
    }
}

axi_ports!(Inputs, Outputs, drive_hbm, hbm_request: hbm_aw_ready_i hbm_w_ready_i hbm_b_valid_i hbm_b_response_i hbm_ar_ready_i
    hbm_r_valid_i hbm_r_i; hbm_aw_valid_o hbm_aw_o hbm_w_valid_o hbm_w_o hbm_ar_valid_o hbm_ar_o hbm_r_ready_o);
axi_ports!(Inputs, Outputs, drive_host, host_request: host_aw_ready_i host_w_ready_i host_b_valid_i host_b_response_i host_ar_ready_i
    host_r_valid_i host_r_i; host_aw_valid_o host_aw_o host_w_valid_o host_w_o host_ar_valid_o host_ar_o host_r_ready_o);
axi_ports!(Inputs, Outputs, drive_retransmission, retransmission_request: retransmission_aw_ready_i retransmission_w_ready_i
    retransmission_b_valid_i retransmission_b_response_i retransmission_ar_ready_i retransmission_r_valid_i
    retransmission_r_i; retransmission_aw_valid_o retransmission_aw_o retransmission_w_valid_o retransmission_w_o
    retransmission_ar_valid_o retransmission_ar_o retransmission_r_ready_o);
axi_ports!(Inputs, Outputs, drive_engine_memory, engine_memory_request: engine_aw_ready_i engine_w_ready_i
    engine_b_valid_i engine_b_response_i engine_ar_ready_i engine_r_valid_i engine_r_i; engine_aw_valid_o engine_aw_o
    engine_w_valid_o engine_w_o engine_ar_valid_o engine_ar_o engine_r_ready_o);
