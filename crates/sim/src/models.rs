//! Models of memories, buses and processors: queues with a latency and a rate.

use weft_nic::{DmaDirection, Work};
use weft_time::{Duration, Instant};

use crate::cost::{self, BusCost, CostProfile, DmaCost, Execution, MemoryCost};

/// Card memory with a few channels.
#[derive(Clone, Debug)]
pub struct MemoryModel {
    cost: MemoryCost,
    /// When the channels have moved all bytes so far.
    free_at: Instant,
}

impl MemoryModel {
    /// An idle memory.
    pub const fn new(cost: MemoryCost) -> Self {
        Self { cost, free_at: Instant::ZERO }
    }

    /// Charges the accesses of `messages` messages that start at `at`. Returns when the last access is
    /// complete.
    pub fn access(&mut self, at: Instant, accesses: &weft_waist::Accesses, messages: u64) -> Instant {
        if *accesses == weft_waist::Accesses::default() {
            return at;
        }
        let start = at.max(self.free_at);
        let busy = u128::from(accesses.bytes) * u128::from(self.cost.byte.value);
        let busy = busy.div_ceil(u128::from(self.cost.channels.value.max(1)));
        self.free_at = start + Duration::from_ps(u64::try_from(busy).unwrap_or(u64::MAX));
        let reads = self.cost.reads(accesses, messages);
        let writes = if accesses.writes > 0 { self.cost.write.duration() } else { Duration::ZERO };
        (start + reads + writes).max(self.free_at)
    }
}

/// A PCIe bus, with a queue for each direction.
#[derive(Clone, Debug)]
pub struct BusModel {
    to_host_latency: Duration,
    to_card_latency: Duration,
    bits_per_s: u64,
    to_host_free_at: Instant,
    to_card_free_at: Instant,
}

impl BusModel {
    /// An idle bus.
    pub fn new(cost: &BusCost) -> Self {
        Self {
            to_host_latency: cost::total(cost.to_host),
            to_card_latency: cost::total(cost.to_card),
            bits_per_s: cost.rate.value,
            to_host_free_at: Instant::ZERO,
            to_card_free_at: Instant::ZERO,
        }
    }

    /// When `bytes` bytes that leave at `at` arrive at the host.
    pub fn to_host(&mut self, at: Instant, bytes: usize) -> Instant {
        self.pass_to_host(at, bytes) + self.to_host_latency
    }

    /// When `bytes` bytes that start to leave for the host at `at` have all left.
    fn pass_to_host(&mut self, at: Instant, bytes: usize) -> Instant {
        self.to_host_free_at = at.max(self.to_host_free_at) + self.time_of(bytes);
        self.to_host_free_at
    }

    /// When `bytes` bytes that leave at `at` arrive at the card.
    pub fn to_card(&mut self, at: Instant, bytes: usize) -> Instant {
        self.pass_to_card(at, bytes) + self.to_card_latency
    }

    /// When `bytes` bytes that start to leave for the card at `at` have all left.
    fn pass_to_card(&mut self, at: Instant, bytes: usize) -> Instant {
        self.to_card_free_at = at.max(self.to_card_free_at) + self.time_of(bytes);
        self.to_card_free_at
    }

    fn time_of(&self, bytes: usize) -> Duration {
        let ps = (bytes as u128 * 8_000_000_000_000).div_ceil(u128::from(self.bits_per_s));
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

/// The queues that copy between the host's memory and the card's.
#[derive(Clone, Debug)]
pub struct DmaModel {
    cost: DmaCost,
    /// When each queue has completed its copies.
    free_at: Vec<Instant>,
}

impl DmaModel {
    /// Idle queues.
    pub fn new(cost: &DmaCost) -> Self {
        let queues = usize::try_from(cost.queues.value).expect("a card has few queues");
        Self { cost: *cost, free_at: vec![Instant::ZERO; queues] }
    }

    /// The most copies in a vector.
    pub fn vector(&self) -> usize {
        usize::try_from(self.cost.vector.value).expect("a vector is short")
    }

    /// Submits a vector of `copies` copies in one direction, with `bytes` bytes in total, at `at` to the
    /// queue that is free first. The bytes cross `bus`. Returns when the copies are complete.
    pub fn submit(
        &mut self,
        at: Instant,
        direction: DmaDirection,
        copies: usize,
        bytes: usize,
        bus: Option<&mut BusModel>,
    ) -> Instant {
        assert!((1..=self.vector()).contains(&copies), "a vector holds 1 to {} copies", self.vector());
        let free_at = self.free_at.iter_mut().min().expect("there is a queue");
        let begun = at.max(*free_at);
        *free_at = begun + self.cost.operation.duration() * copies as u64;
        match direction {
            DmaDirection::Read => {
                bus.map_or(begun, |bus| bus.pass_to_card(begun, bytes)) + self.cost.read.duration()
            }
            DmaDirection::Write => {
                bus.map_or(begun, |bus| bus.pass_to_host(begun, bytes)) + self.cost.write.duration()
            }
        }
    }
}

/// Work of a NIC in one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The work that the NIC reports.
    pub work: Work,
    /// Bytes of received frames.
    pub bytes_received: u64,
    /// Bytes of sent frames.
    pub bytes_sent: u64,
    /// Bytes of the largest sent frame that its host has made.
    pub bytes_fetched: u64,
    /// Packets from the host, and packets to the host.
    pub host_packets: (u32, u32),
    /// Vectors of copies that were submitted to queues.
    pub dma_vectors: u32,
}

/// When the results of a batch are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When outputs are ready whose events have no additional cost.
    pub done: Instant,
    /// When outputs would be ready if one core did only the work of one operation. Outputs whose event has an
    /// additional cost are ready that much later than this, or at `done` if that is later.
    pub alone: Instant,
    /// When outputs are ready that wait for verbs' accesses to memory. These are the responses to peers on a
    /// card with engines, and all outputs on a card without engines.
    pub verbs_done: Instant,
    /// When the next batch may start.
    pub free: Instant,
}

/// The model of what executes a NIC's work, with its memory.
#[derive(Clone, Debug)]
pub struct ProcessorModel {
    execution: Execution,
    /// Time of a core to submit a vector of copies.
    dma_submission: Duration,
    memory: MemoryModel,
    /// The host's memory, across the bus.
    host_memory: Option<MemoryModel>,
}

impl ProcessorModel {
    /// The idle processor of a profile.
    pub fn new(profile: &CostProfile) -> Self {
        Self {
            execution: profile.execution,
            dma_submission: profile.dma.map_or(Duration::ZERO, |dma| dma.submission.duration()),
            memory: MemoryModel::new(profile.memory),
            host_memory: profile.host_memory.map(MemoryModel::new),
        }
    }

    /// Number of cores that share the work; 1 if the processor has no cores.
    pub const fn cores(&self) -> u64 {
        match self.execution {
            Execution::Cores { threads, .. } => threads.value,
            Execution::Pipeline { .. } | Execution::Verbs { .. } | Execution::Clocked { .. } => 1,
        }
    }

    /// Whether all outputs of a batch leave before those of the next, as from a pipeline. With cores, each
    /// output leaves when its core is done with it.
    pub const fn is_in_order(&self) -> bool {
        !matches!(self.execution, Execution::Cores { .. })
    }

    /// The time that a processor takes for an event's additional cost while it does other work as well. A core
    /// takes its own time for it. Other processors stall for it as for all work, which is charged elsewhere.
    fn cpu_time(&self, of_host: Duration) -> Duration {
        match self.execution {
            Execution::Cores { cpu_time_percent, .. } => of_host * cpu_time_percent.value / 100,
            Execution::Pipeline { .. } | Execution::Verbs { .. } | Execution::Clocked { .. } => {
                Duration::ZERO
            }
        }
    }

    /// When the outputs of an event with this additional cost are ready.
    pub fn ready(&self, charge: &Charge, cpu_time: Duration) -> Instant {
        match self.cpu_time(cpu_time) {
            Duration::ZERO => charge.done,
            cpu_time => charge.done.max(charge.alone + cpu_time),
        }
    }

    /// Charges the accesses of engines to the host's memory. Returns when the last is complete.
    fn access_host(&mut self, at: Instant, work: &Work) -> Instant {
        match &mut self.host_memory {
            Some(memory) => memory.access(at, &work.host_state, work.messages),
            None => {
                assert_eq!(work.host_state, weft_waist::Accesses::default(), "nobody knows what they cost");
                at
            }
        }
    }

    /// Charges a batch that starts at `at`.
    pub fn charge(&mut self, at: Instant, batch: &Batch) -> Charge {
        let work = &batch.work;
        match self.execution {
            Execution::Pipeline { cycle, beat_bytes, message_cycles } => {
                let beats = batch.bytes_received.max(batch.bytes_sent).div_ceil(beat_bytes.value);
                let cycles = beats.max(work.messages * message_cycles.value);
                // A pipeline has no core for additional costs: it stalls as long as a core of the host would
                // take.
                let through = at + cycle.duration() * cycles + work.cpu_time;
                let accessed = self.memory.access(at, &work.memory, work.messages);
                let stored = self.memory.access(at, &work.verbs, 1);
                // Memory requests are queued for about one latency; then the pipeline stalls.
                let backlog = self.memory.free_at.saturating_since(through);
                let stall = backlog.as_ps().saturating_sub(self.memory.cost.read.value);
                let done = through.max(accessed).max(self.access_host(at, work));
                Charge {
                    done,
                    alone: done,
                    verbs_done: done.max(stored),
                    free: through + Duration::from_ps(stall),
                }
            }
            Execution::Cores { threads, frame_receive, message, frame_send, .. } => {
                let one = frame_receive.duration()
                    + message.duration()
                    + frame_send.duration()
                    + if batch.dma_vectors > 0 { self.dma_submission } else { Duration::ZERO };
                // Packets from and to the host cost as much as frames (Xenic section 4.3.2).
                let (from_host, to_host) = batch.host_packets;
                let all = frame_receive.duration() * (work.frames_received + u64::from(from_host))
                    + message.duration() * work.messages
                    + frame_send.duration() * (work.frames_sent + u64::from(to_host))
                    + self.dma_submission * u64::from(batch.dma_vectors);
                // A core waits for the memory that it reads.
                let waiting = self.memory.cost.reads(&work.memory, 1);
                let shared = (all + waiting + self.cpu_time(work.cpu_time)) / threads.value;
                let one = (one + waiting / work.messages.max(1)).min(all + waiting);
                let accessed = self.memory.access(at, &work.memory, work.messages);
                let free = (at + shared).max(self.memory.free_at);
                // The threads share a batch evenly, but no operation is faster than on one thread. The
                // additional cost of one event delays other events only by its share of all threads.
                let done = (at + shared.max(one)).max(accessed);
                Charge { done, alone: at + one, verbs_done: done, free }
            }
            Execution::Verbs { operation, host_read, inline_bytes } => {
                let operations = operation.duration() * work.frames_sent;
                let fetched = u64::from(work.host_memory.request_bytes).max(batch.bytes_fetched);
                let reads = work.host_memory.responses > 0 || fetched > inline_bytes.value;
                let read = if reads { host_read.duration() } else { Duration::ZERO };
                Charge { done: at, alone: at, verbs_done: at + read, free: at + operations }
            }
            // The gateware's outputs leave at their own times.
            Execution::Clocked { .. } => Charge { done: at, alone: at, verbs_done: at, free: at },
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::Accesses;

    use super::*;

    /// The charge of work in which verbs access no memory.
    fn charge(done: Instant, free: Instant) -> Charge {
        Charge { done, alone: done, verbs_done: done, free }
    }

    fn at(ns: u64) -> Instant {
        Instant::from_ps(ns * 1_000)
    }

    #[test]
    fn reads_of_one_message_are_serial_and_of_many_overlap() {
        let mut memory = MemoryModel::new(CostProfile::FPGA.memory);
        let two = Accesses { reads: 2, ..Accesses::default() };
        assert_eq!(memory.access(at(0), &two, 1), at(752));
        assert_eq!(memory.access(at(0), &two, 2), at(376));
        assert_eq!(
            memory.access(at(0), &Accesses { reads: 1, writes: 5, ..Accesses::default() }, 1),
            at(760)
        );
        assert_eq!(memory.access(at(5), &Accesses::default(), 1), at(5));
    }

    #[test]
    fn caches_have_what_was_read_moments_before() {
        let repeated = Accesses { reads: 1, repeated: 2, ..Accesses::default() };
        assert_eq!(MemoryModel::new(CostProfile::CORES.memory).access(at(0), &repeated, 1), at(160));
        let no_cache = MemoryModel::new(CostProfile::FPGA.memory).access(at(0), &repeated, 1);
        assert_eq!(no_cache, at(3 * 376));
    }

    #[test]
    fn memory_has_a_rate() {
        let mut memory = MemoryModel::new(CostProfile::FPGA.memory);
        // 130 ps per byte on four channels: 32,500 ns for a megabyte.
        let megabyte = Accesses { writes: 1, bytes: 1_000_000, ..Accesses::default() };
        assert_eq!(memory.access(at(0), &megabyte, 1), at(32_500));
        assert_eq!(memory.access(at(0), &megabyte, 1), at(65_000));
    }

    #[test]
    fn a_bus_queues_each_direction_on_its_own() {
        let mut bus = BusModel::new(&CostProfile::HOST_CARD.wire_bus.unwrap());
        bus.bits_per_s = 8_000_000_000;
        assert_eq!(bus.to_host(at(0), 100), at(100 + 648));
        assert_eq!(bus.to_host(at(0), 100), at(200 + 648));
        assert_eq!(bus.to_card(at(0), 100), at(100 + 1_604));
        assert_eq!(bus.to_host(at(1_000), 0), at(1_648));
    }

    #[test]
    fn a_pipeline_takes_the_longer_of_beats_and_messages() {
        let mut processor = ProcessorModel::new(&CostProfile::FPGA);
        let mut batch = Batch { bytes_received: 65, bytes_sent: 60, ..Batch::default() };
        assert_eq!(processor.charge(at(0), &batch), charge(at(8), at(8)));
        batch.work.messages = 3;
        assert_eq!(processor.charge(at(0), &batch), charge(at(48), at(48)));
        batch.work.memory.reads = 3;
        assert_eq!(processor.charge(at(0), &batch), charge(at(376), at(48)));
        batch.work.memory.bytes = 40_000;
        // The channels are busy for 1,300 ns. The pipeline stalls until one latency before that.
        assert_eq!(processor.charge(at(0), &batch), charge(at(1_300), at(924)));
    }

    #[test]
    fn responses_wait_for_what_verbs_do_to_memory() {
        let mut processor = ProcessorModel::new(&CostProfile::FPGA);
        let mut batch = Batch { bytes_received: 64, ..Batch::default() };
        batch.work.verbs = Accesses { writes: 1, bytes: 64, ..Accesses::default() };
        let stored = Charge { done: at(4), alone: at(4), verbs_done: at(384), free: at(4) };
        assert_eq!(processor.charge(at(0), &batch), stored);
        batch.work.verbs = Accesses { reads: 1, bytes: 64, ..Accesses::default() };
        assert_eq!(processor.charge(at(1_000), &batch).verbs_done, at(1_376));
    }

    #[test]
    fn cores_share_a_batch() {
        let mut processor = ProcessorModel::new(&CostProfile::CORES);
        let echo = Work { frames_received: 1, messages: 1, frames_sent: 1, ..Work::default() };
        let one = processor.charge(at(0), &Batch { work: echo, ..Batch::default() });
        // One operation takes one thread 222.84 ns; 16 operations at once take no longer.
        assert_eq!(one.done, Instant::from_ps(222_840));
        assert_eq!(one.free, Instant::from_ps(222_840 / 16));
        let echoes = Work { frames_received: 32, messages: 32, frames_sent: 32, ..Work::default() };
        let many = processor.charge(at(0), &Batch { work: echoes, ..Batch::default() });
        let shared = Instant::from_ps(2 * 222_840);
        assert_eq!(many, Charge { alone: one.done, ..charge(shared, shared) });
        assert_eq!(processor.charge(at(7), &Batch::default()), charge(at(7), at(7)));
    }

    #[test]
    fn a_card_for_verbs_waits_for_the_hosts_memory_and_for_nothing_else() {
        let mut processor = ProcessorModel::new(&CostProfile::RDMA_CARD);
        let operation = Duration::from_ps(66_667);
        let mut batch = Batch { work: Work { frames_sent: 3, ..Work::default() }, ..Batch::default() };
        batch.work.host_memory.request_bytes = 220;
        assert_eq!(processor.charge(at(0), &batch), charge(at(0), at(0) + operation * 3));
        batch.work.host_memory.request_bytes = 221;
        assert_eq!(processor.charge(at(0), &batch).verbs_done, at(560));
        batch.work.host_memory = weft_nic::HostReads { responses: 1, request_bytes: 0 };
        assert_eq!(processor.charge(at(0), &batch).verbs_done, at(560));
        batch.work.host_memory = weft_nic::HostReads::default();
        batch.bytes_fetched = 221;
        assert_eq!(processor.charge(at(0), &batch).verbs_done, at(560));
    }

    #[test]
    fn what_takes_its_own_time_is_not_charged() {
        let mut processor = ProcessorModel::new(&CostProfile::GATEWARE);
        let batch = Batch { bytes_received: 4_096, bytes_sent: 4_096, ..Batch::default() };
        assert_eq!(processor.charge(at(3), &batch), charge(at(3), at(3)));
    }

    #[test]
    fn what_lies_on_the_host_is_a_bus_away() {
        let mut batch = Batch::default();
        batch.work.messages = 1;
        batch.work.host_state = Accesses { reads: 2, writes: 1, bytes: 192, ..Accesses::default() };
        let charged = ProcessorModel::new(&CostProfile::FPGA_APPLICATION).charge(at(0), &batch);
        // Two sequential reads and a write; the pipeline continues meanwhile.
        assert_eq!((charged.done, charged.free), (at(2 * 560 + 288), at(16)));
    }

    #[test]
    fn vectors_share_the_queues_of_the_dma_engine() {
        let cost = CostProfile::CORES.dma.unwrap();
        let mut dma = DmaModel::new(&cost);
        assert_eq!(dma.vector(), 15);
        // A full vector takes as long as a single copy, but keeps its queue busy 15 times as long.
        for queue in 0..8 {
            let copies = if queue == 0 { 1 } else { 15 };
            assert_eq!(dma.submit(at(0), DmaDirection::Read, copies, 64, None), at(1_295));
        }
        let next = at(0) + cost.operation.duration();
        assert_eq!(dma.submit(at(0), DmaDirection::Write, 15, 64, None), next + Duration::from_ns(570));
        assert_eq!(
            dma.submit(at(0), DmaDirection::Read, 1, 64, None),
            at(1_295) + cost.operation.duration() * 15
        );
        // The bytes cross the bus at slightly less than 64 Gb/s.
        let mut bus = BusModel::new(&CostProfile::CORES.host_bus.unwrap());
        let over = DmaModel::new(&cost).submit(at(0), DmaDirection::Write, 1, 63_015, Some(&mut bus));
        assert!(over > at(7_999 + 570) && over < at(8_000 + 570), "{over:?}");
    }

    #[test]
    fn cores_take_longer_for_computations_than_the_host() {
        let mut batch = Batch::default();
        batch.work.cpu_time = Duration::from_ns(1_600);
        let (cores, host) = (CostProfile::CORES, CostProfile::HOST_CARD);
        // One thread does the additional work; the others are free for other work.
        for (profile, shared, ready) in [(cores, 326, 5_216), (host, 100, 1_600)] {
            let mut processor = ProcessorModel::new(&profile);
            let charge = processor.charge(at(0), &batch);
            let expected =
                Charge { done: at(shared), alone: at(0), verbs_done: at(shared), free: at(shared) };
            assert_eq!(charge, expected);
            assert_eq!(processor.ready(&charge, batch.work.cpu_time), at(ready));
            // An additional cost that is shorter than the threads' time for the batch does not delay the
            // output.
            assert_eq!(processor.ready(&charge, Duration::from_ns(10)), at(shared));
        }
    }

    #[test]
    fn cores_pay_for_vectors_and_for_packets_of_their_host() {
        let batch = Batch { dma_vectors: 2, host_packets: (1, 1), ..Batch::default() };
        let charge = ProcessorModel::new(&CostProfile::CORES).charge(at(0), &batch);
        assert_eq!(charge.free.as_ps(), (2 * 190_000 + 2 * 89_136) / 16);
    }

    #[test]
    fn cores_cannot_outrun_their_memory() {
        let mut processor = ProcessorModel::new(&CostProfile::CORES);
        let mut batch = Batch::default();
        batch.work.messages = 1;
        batch.work.memory = Accesses { reads: 1, bytes: 1_000_000, ..Accesses::default() };
        // 50 ps per byte on two channels: 25 us for a megabyte.
        let alone = at(0) + Duration::from_ps(44_568) + CostProfile::CORES.memory.read.duration();
        assert_eq!(processor.charge(at(0), &batch), Charge { alone, ..charge(at(25_000), at(25_000)) });
    }
}
