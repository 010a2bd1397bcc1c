//! PSP on both kinds of card: soft NIC and gateware encrypt, decrypt and refuse the same frames, one by one.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_gateware::{Latency, RtlNic, RtlNicConfig};
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, NoEngine, SoftNic, SoftNicConfig};
use weft_service::Seal;
use weft_service::psp::{Change, Key, Psp, PspConfig};
use weft_time::{Duration, Instant};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, emit_roce_bytes_frame, emit_udp_frame};
use weft_wire::{datagram, roce};

const CARD: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEERS: usize = 3;
/// Prefix of the names of PSP's counters.
const COUNTERS: &str = "psp_";

fn peer(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + number as u8)
}

/// Both cards, and software PSP instances of the peers.
struct Twins {
    chance: Xoshiro256PlusPlus,
    soft: SoftNic<NoEngine>,
    gates: RtlNic,
    now: Instant,
    peers: [Psp; PEERS],
    /// Frames of peers that were given to the cards earlier.
    sent: VecDeque<Vec<u8>>,
    generation: u32,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let transport = weft_rdma::Config { max_queue_pairs: 1, ..Default::default() };
        let card = CardConfig::without_engines(4_096, transport.clone());
        let config = SoftNicConfig { hardware: CARD, address: ADDRESS, card };
        let mut soft = SoftNic::new(config, Vec::new());
        soft.set_psp(Psp::default());
        let gates = RtlNic::new(&RtlNicConfig {
            hardware: CARD,
            address: ADDRESS,
            transport,
            region_bytes: 4_096,
            bits_per_s: 100_000_000_000,
            hbm: Latency { read_cycles: 40, write_cycles: 20 },
            host: Latency { read_cycles: 150, write_cycles: 60 },
            pressure: None,
            power_on_seed: seed as u32 | 1,
            psp: Some(PspConfig::default()),
            services: false,
            engine: None,
        });
        let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut twins = Self {
            chance,
            soft,
            gates,
            now: Instant::ZERO,
            peers: std::array::from_fn(|_| Psp::default()),
            sent: VecDeque::new(),
            generation: 0,
        };
        // The last peer has no association.
        (0..PEERS - 1).for_each(|number| twins.rekey(number));
        twins
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.chance.next_u64() % bound as u64) as usize
    }

    fn change(&mut self, change: Change) {
        self.soft.submit(self.now, HostCommand::Associate(change));
        self.gates.submit(self.now, HostCommand::Associate(change));
    }

    /// Installs new keys between the cards and a peer, in both directions. The peer's previous key stays
    /// valid.
    fn rekey(&mut self, number: usize) {
        self.generation += 1;
        let generation = self.generation;
        let mut key = || {
            let mut bytes = [0; 32];
            self.chance.fill_bytes(&mut bytes);
            Key::Aes256(bytes)
        };
        let (inward, out) = (key(), key());
        let spi = |generation: u32| 32 * generation + 4 * number as u32 + generation % 4;
        if let Some(former) = generation.checked_sub(4) {
            for old in former.saturating_sub(8)..=former {
                self.change(Change::RemoveReceiver { spi: spi(old) });
            }
        }
        let address = peer(number);
        self.change(Change::InstallReceiver { peer: address, spi: spi(generation), key: inward });
        self.change(Change::InstallSender { peer: address, spi: 7, key: out });
        self.peers[number].install_sender(ADDRESS, spi(generation), &inward).unwrap();
    }

    /// A frame with random content: sent by the cards if `out`, otherwise to them.
    fn frame(&mut self, number: usize, out: bool) -> Vec<u8> {
        let longest = if self.below(8) == 0 { 4_096 } else { 400 };
        let bytes = 18 + self.below(longest);
        let mut payload = vec![0; bytes];
        self.chance.fill_bytes(&mut payload);
        let (from, to) = match self.below(5) {
            0 | 1 => (0xc000 | self.below(0x4000) as u16, roce::UDP_PORT),
            2 => (datagram::UDP_PORT, datagram::UDP_PORT),
            // To a client.
            3 => (datagram::UDP_PORT, 5_000),
            _ => (5_353, 5_353),
        };
        let here = Endpoint { hardware: CARD, address: ADDRESS, port: if out { from } else { to } };
        let there = Endpoint {
            hardware: MacAddress([2, 0, 0, 0, 0, 9]),
            address: peer(number),
            port: if out { to } else { from },
        };
        let (source, destination) = if out { (here, there) } else { (there, here) };
        let flow = Flow { source, destination, type_of_service: self.below(256) as u8 };
        let mut frame = Vec::new();
        if to == roce::UDP_PORT {
            emit_roce_bytes_frame(&mut frame, &flow, &payload);
        } else {
            emit_udp_frame(&mut frame, &flow, &payload);
        }
        frame
    }

    /// A frame of a peer as it arrives over an intact network, a faulty one, or from an adversary.
    fn arriving(&mut self) -> Vec<u8> {
        let number = self.below(PEERS - 1);
        let mut frame = self.frame(number, false);
        if self.below(12) > 0 {
            self.peers[number].seal(&mut frame).unwrap();
        }
        self.sent.push_back(frame.clone());
        if self.sent.len() > 200 {
            self.sent.pop_front();
        }
        match self.below(10) {
            0 => {
                let at = self.below(self.sent.len());
                self.sent[at].clone()
            }
            1 => {
                // Behind the headers. The two kinds of cards use different counters for faults in the
                // headers.
                let bit = 8 * 42 + self.below(8 * (frame.len() - 42));
                frame[bit / 8] ^= 1 << (bit % 8);
                frame
            }
            2 => {
                let length = 60 + self.below(frame.len() - 59);
                frame.truncate(length);
                frame
            }
            3 if frame.len() > 100 => {
                // Changes the SPI, the counter or the version.
                let at = 45 + self.below(13);
                frame[at] ^= 1 << self.below(8);
                frame
            }
            _ => frame,
        }
    }

    /// Compares the frames that both cards send and give to their hosts, until both are quiet.
    fn settle(&mut self) -> Result<(), String> {
        self.now += Duration::from_us(1);
        let limit = self.now + Duration::from_us(20);
        let mut gates = (Vec::new(), Vec::new());
        while let Some(at) = self.gates.next_deadline().filter(|at| *at <= limit) {
            self.gates.handle_deadline(at);
            self.now = self.now.max(at);
            drain(&mut self.gates, at, &mut gates);
        }
        drain(&mut self.gates, self.now, &mut gates);
        let mut soft = (Vec::new(), Vec::new());
        drain(&mut self.soft, self.now, &mut soft);
        if soft.0 != gates.0 {
            return Err(difference("sent", &soft.0, &gates.0));
        }
        if soft.1 != gates.1 {
            return Err(difference("given to the host", &soft.1, &gates.1));
        }
        Ok(())
    }

    fn counters(&self) -> [Vec<(&'static str, u64)>; 2] {
        let of_psp = |all: Vec<(&'static str, u64)>| {
            all.into_iter().filter(|(name, _)| name.starts_with(COUNTERS)).collect()
        };
        [of_psp(self.soft.counters()), of_psp(self.gates.counters())]
    }

    fn run(&mut self, steps: u64) -> Result<(), String> {
        for step in 0..steps {
            let wrong = |what: String| format!("step {step}: {what}");
            if self.below(100) == 0 {
                let number = self.below(PEERS - 1);
                self.rekey(number);
            }
            for _ in 0..=self.below(4) {
                let number = self.below(PEERS);
                let frame = self.frame(number, true);
                self.soft.submit(self.now, HostCommand::Transmit(&frame));
                self.gates.submit(self.now, HostCommand::Transmit(&frame));
            }
            for _ in 0..=self.below(4) {
                let frame = self.arriving();
                self.soft.receive_frame(self.now, &frame);
                self.gates.receive_frame(self.now, &frame);
            }
            self.settle().map_err(wrong)?;
            if step % 16 == 0 {
                let [soft, gates] = self.counters();
                if soft != gates {
                    return Err(wrong(format!("soft {soft:?}\ngates {gates:?}")));
                }
            }
        }
        Ok(())
    }
}

/// The frame without Ethernet's padding, which the soft NIC restores and the gates do not.
fn content(frame: &[u8]) -> Vec<u8> {
    let length = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let is_packet = frame[12..14] == [8, 0] && (34..=frame.len()).contains(&length);
    frame[..if is_packet { length } else { frame.len() }].to_vec()
}

fn drain(nic: &mut impl Nic, now: Instant, (sent, given): &mut (Vec<Vec<u8>>, Vec<Vec<u8>>)) {
    let mut frame = Vec::new();
    while nic.poll_frame(now, &mut frame) {
        sent.push(std::mem::take(&mut frame));
    }
    while let Some(event) = nic.poll_host() {
        if let HostEvent::Frame(bytes) = event {
            given.push(content(&bytes));
        }
    }
}

fn difference(what: &str, soft: &[Vec<u8>], gates: &[Vec<u8>]) -> String {
    let at = soft.iter().zip(gates).take_while(|(one, other)| one == other).count();
    format!(
        "of {} and {} frames {what}, number {at} differs:\nsoft  {:02x?}\ngates {:02x?}",
        soft.len(),
        gates.len(),
        soft.get(at),
        gates.get(at)
    )
}

#[test]
fn gates_seal_open_and_refuse_as_software_does() {
    for seed in 1..=1 {
        let mut twins = Twins::new(seed);
        twins.run(150).unwrap_or_else(|wrong| panic!("seed {seed}, {wrong}"));
        let [soft, gates] = twins.counters();
        assert_eq!(soft, gates);
        // Every kind of event has occurred.
        for name in ["psp_sealed", "psp_opened", "psp_without_association", "psp_plaintext", "psp_malformed"]
        {
            assert!(soft.iter().any(|(known, count)| *known == name && *count > 5), "{name}: {soft:?}");
        }
        for name in ["psp_unknown_spi", "psp_bad_tag", "psp_replayed"] {
            assert!(soft.iter().any(|(known, count)| *known == name && *count > 5), "{name}: {soft:?}");
        }
    }
}

/// A longer run.
#[test]
#[ignore = "takes minutes in a release build"]
fn gates_seal_open_and_refuse_as_software_does_at_length() {
    for seed in 100..120 {
        Twins::new(seed).run(2_000).unwrap_or_else(|wrong| panic!("seed {seed}, {wrong}"));
    }
}
