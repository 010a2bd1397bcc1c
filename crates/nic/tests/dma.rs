//! Engines that copy between their memory and the host's.

use weft_nic::{Card, CardConfig, DmaDirection, HostCommand, Meter};
use weft_time::{Duration, Instant};
use weft_verbs::{CompletionStatus, Target};
use weft_waist::{Capabilities, Computation, Engine, EngineStatus, Event, Io, Memory, NODES_MAX};

const NOW: Instant = Instant::ZERO;

/// An engine that reads 8 bytes of the host, adds one to the first, and writes them back 64 bytes further. It
/// records completions.
#[derive(Default)]
struct Copier {
    host: u64,
    ended: Vec<(u64, CompletionStatus)>,
}

const READ: u64 = 7;
const WRITE: u64 = 8;

impl Engine for Copier {
    const NEEDS: Capabilities = Capabilities::HOST_MEMORY;

    fn handle(&mut self, _: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Call { message, .. } => {
                self.host = u64::from(message.payload[0]);
                io.effects.computed(Computation::Compare(self.host));
                io.effects.computed(Computation::Procedure(1));
                io.effects.host_read(READ, self.host, 16, 8);
            }
            Event::Done { tag, status } => {
                self.ended.push((tag, status));
                if tag == READ && status == CompletionStatus::Success {
                    let first = io.memory.read(16, 1)[0];
                    io.memory.write(16, &[first + 1]);
                    io.effects.host_write(WRITE, 16, self.host + 64, 8);
                }
            }
            _ => {}
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

fn card() -> Card<Copier> {
    let config = CardConfig {
        peers: [None; NODES_MAX],
        datagram_bytes: 1_472,
        transport: weft_rdma::Config::default(),
        region_bytes: 128,
    };
    let mut card = Card::new(config, vec![(Copier::default(), Memory::new(24))]);
    card.region_memory()
        .image_mut(Target::Host)
        .copy_from_slice(&std::array::from_fn::<u8, 128, _>(|i| i as u8));
    card
}

fn call(card: &mut Card<Copier>, host: u8) {
    card.submit(NOW, HostCommand::Call { engine: 0, token: 0, kind: 0, payload: &[host] });
}

#[test]
fn bytes_move_when_the_world_says_so_and_the_engine_is_told() {
    let mut card = card();
    call(&mut card, 4);
    let read = card.poll_dma().unwrap();
    assert_eq!((read.direction, read.host, read.memory, read.length), (DmaDirection::Read, 4, 16, 8));
    assert_eq!(card.poll_dma(), None);
    // The READ returns bytes that the host wrote meanwhile.
    card.region_memory().image_mut(Target::Host)[4] = 40;
    card.complete_dma(NOW, &read);
    assert_eq!(card.engine(0).1.image()[16..24], [41, 5, 6, 7, 8, 9, 10, 11]);
    let write = card.poll_dma().unwrap();
    assert_eq!((write.direction, write.host), (DmaDirection::Write, 68));
    assert_eq!(card.image(Target::Host)[68], 68, "nothing is written yet");
    card.complete_dma(NOW, &write);
    assert_eq!(card.image(Target::Host)[68..76], [41, 5, 6, 7, 8, 9, 10, 11]);
    let success = CompletionStatus::Success;
    assert_eq!(card.engine(0).0.ended, [(READ, success), (WRITE, success)]);
}

#[test]
fn a_world_without_a_bus_copies_at_once() {
    let mut card = card();
    call(&mut card, 4);
    card.complete_all_dma(NOW);
    assert_eq!(card.image(Target::Host)[68..70], [5, 5]);
}

#[test]
fn a_range_beyond_the_hosts_memory_is_refused() {
    let mut card = card();
    call(&mut card, 121);
    card.complete_all_dma(NOW);
    assert_eq!(card.engine(0).0.ended, [(READ, CompletionStatus::LocalProtectionError)]);
    assert_eq!(card.engine(0).1.image(), [0; 24]);
}

#[test]
fn an_engine_hears_nothing_of_what_it_asked_for_before_a_reset() {
    let mut card = card();
    call(&mut card, 4);
    let taken = card.poll_dma().unwrap();
    call(&mut card, 5);
    card.submit(NOW, HostCommand::Reset { engine: 0 });
    assert_eq!(card.poll_dma(), None, "nor is what nobody has taken carried out");
    card.complete_dma(NOW, &taken);
    assert_eq!(card.engine(0).0.ended, []);
    assert_eq!(card.engine(0).1.image(), [0; 24]);
}

/// A byte compared takes a nanosecond, any other computation a microsecond.
#[derive(Debug)]
struct SlowMeter;

impl Meter for SlowMeter {
    fn cpu_time(&self, computations: &[Computation]) -> Duration {
        let time = |computation: &Computation| match computation {
            Computation::Compare(bytes) => Duration::from_ns(*bytes),
            _ => Duration::from_us(1),
        };
        computations.iter().map(time).fold(Duration::ZERO, |sum, time| sum + time)
    }
}

#[test]
fn computations_take_the_time_that_the_meter_says() {
    let mut card = card();
    card.set_meter(Box::new(SlowMeter));
    call(&mut card, 4);
    call(&mut card, 9);
    let mut times = Vec::new();
    while card.poll_dma().is_some() {
        times.push(card.cpu_time());
    }
    assert_eq!(times, [Duration::from_ns(1_004), Duration::from_ns(1_009)]);
    assert_eq!(card.take_work().cpu_time, Duration::from_ns(2_013));
    assert_eq!(card.take_work().cpu_time, Duration::ZERO);
}

#[test]
fn without_a_meter_computations_take_no_time() {
    let mut card = card();
    call(&mut card, 4);
    assert!(card.poll_dma().is_some());
    assert_eq!((card.cpu_time(), card.take_work().cpu_time), (Duration::ZERO, Duration::ZERO));
}
