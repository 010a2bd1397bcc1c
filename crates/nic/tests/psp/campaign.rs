//! An adversary who records, replays, changes and forges millions of frames, while regular traffic must
//! continue.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_nic::{HostCommand, Nic};
use weft_service::Seal;
use weft_service::psp::{Key, Psp, PspConfig};
use weft_wire::datagram;
use weft_wire::frame::{Endpoint, Flow, emit_udp_frame};
use weft_wire::roce::{Opcode, Reth};

use super::pair::{NOW, PSN, Pair, address, hardware, spi};

/// Offset of the PSP header, where the authenticated part of a frame begins.
const PSP_AT: usize = 42;
/// The most frames that the adversary keeps.
const KEPT: usize = 512;

/// Number of attempts of the adversary, by kind.
#[derive(Debug, Default)]
struct Tried {
    replays: u64,
    flips: u64,
    cuts: u64,
    splices: u64,
    downgrades: u64,
    forgeries: u64,
    reflections: u64,
}

impl Tried {
    const fn total(&self) -> u64 {
        self.replays
            + self.flips
            + self.cuts
            + self.splices
            + self.downgrades
            + self.forgeries
            + self.reflections
    }
}

struct Adversary {
    chance: Xoshiro256PlusPlus,
    /// Encrypts with the adversary's own keys, under SPIs that the cards know.
    own: [Psp; 2],
    /// Frames that were delivered, each with its receiver.
    kept: Vec<(usize, Vec<u8>)>,
    tried: Tried,
}

impl Adversary {
    fn below(&mut self, bound: usize) -> usize {
        (self.chance.next_u64() % bound as u64) as usize
    }

    /// Forges a frame from recorded ones, or from `coming`, which is about to be delivered to card `to`.
    fn frame(&mut self, pair: &Pair, to: usize, coming: &[u8]) -> (usize, Vec<u8>) {
        let at = self.below(self.kept.len());
        let (kept_to, kept) = self.kept[at].clone();
        match self.below(8) {
            0 => {
                self.tried.replays += 1;
                (kept_to, kept)
            }
            // In the frame that is about to be delivered, only authenticated bytes are changed: with another
            // hop count it would still be valid.
            1 => {
                self.tried.flips += 1;
                let mut frame = coming.to_vec();
                for _ in 0..=self.below(3) {
                    let bit = 8 * PSP_AT + self.below(8 * (frame.len() - PSP_AT));
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
                (to, if frame == coming { kept } else { frame })
            }
            2 => {
                self.tried.flips += 1;
                let mut frame = kept;
                let bit = self.below(8 * frame.len());
                frame[bit / 8] ^= 1 << (bit % 8);
                (kept_to, frame)
            }
            3 => {
                self.tried.cuts += 1;
                let length = self.below(coming.len());
                (to, coming[..length].to_vec())
            }
            // The headers of one frame with the content of another.
            4 => {
                self.tried.splices += 1;
                let mut frame = coming.to_vec();
                let common = frame.len().min(kept.len());
                let from = PSP_AT + self.below(common - PSP_AT);
                frame[from..common].copy_from_slice(&kept[from..common]);
                if frame == coming { (kept_to, kept) } else { (to, frame) }
            }
            5 => {
                self.tried.downgrades += 1;
                (to, self.plain(pair, to))
            }
            6 => {
                self.tried.forgeries += 1;
                let mut frame = self.plain(pair, to);
                self.own[to].seal(&mut frame).expect("the adversary has a key");
                // A forged counter, which does not depend on any key.
                let counter = self.chance.next_u64() >> self.below(64);
                frame[PSP_AT + 8..PSP_AT + 16].copy_from_slice(&counter.to_be_bytes());
                (to, frame)
            }
            // The frame is sent back to its sender, with the addresses exchanged.
            _ => {
                self.tried.reflections += 1;
                let mut frame = coming.to_vec();
                let (destination, source) = (hardware(1 - to).0, hardware(to).0);
                frame[..6].copy_from_slice(&destination);
                frame[6..12].copy_from_slice(&source);
                frame[26..30].copy_from_slice(&address(to).octets());
                frame[30..34].copy_from_slice(&address(1 - to).octets());
                (1 - to, frame)
            }
        }
    }

    /// A frame in plaintext that a card without PSP would accept.
    fn plain(&mut self, pair: &Pair, to: usize) -> Vec<u8> {
        if self.below(2) == 0 {
            let reth = Reth { address: 64, rkey: pair.keys[to].rkey, length: 8 };
            let psn = (PSN + pair.writes) & 0xff_ffff;
            return pair
                .forge_with(to, Opcode::WriteOnly, psn, &[0xee; 8], |packet| packet.reth = Some(reth));
        }
        let end =
            |node| Endpoint { hardware: hardware(node), address: address(node), port: datagram::UDP_PORT };
        let flow = Flow { source: end(1 - to), destination: end(to), type_of_service: 0 };
        let mut builder = datagram::Builder::new(1_000);
        assert!(builder.try_push(0, 1, b"forged"));
        let mut frame = Vec::new();
        emit_udp_frame(&mut frame, &flow, builder.finish());
        frame
    }
}

/// Makes `attempts` attempts on two cards that exchange WRITEs and messages of engines.
///
/// # Errors
/// A frame that reached a transport or an engine and must not, or the other way round.
fn run(seed: u64, attempts: u64, psp: fn() -> Psp) -> Result<Tried, String> {
    let mut pair = Pair::new(Some(psp));
    let own = [0, 1].map(|to| {
        let mut psp = Psp::new(PspConfig::default());
        psp.install_sender(address(to), spi(1 - to), &Key::Aes256([9; 32])).unwrap();
        psp
    });
    let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut adversary = Adversary { chance, own, kept: Vec::new(), tried: Tried::default() };
    let mut expected = 0_u64;
    while adversary.tried.total() < attempts {
        expected += 1;
        pair.store(0, 256, expected.to_le_bytes());
        pair.post_write(256);
        if adversary.below(4) == 0 {
            let node = adversary.below(2);
            let kind = 1 - node as u8;
            let call = HostCommand::Call { engine: 0, token: 0, kind, payload: b"hello" };
            pair.nics[node].submit(NOW, call);
        }
        loop {
            let frames: Vec<_> = (0..2)
                .flat_map(|from| pair.take(from).into_iter().map(move |frame| (1 - from, frame)))
                .collect();
            if frames.is_empty() {
                break;
            }
            for (to, coming) in frames {
                for _ in 0..adversary.below(16) {
                    if adversary.kept.is_empty() {
                        break;
                    }
                    let (target, frame) = adversary.frame(&pair, to, &coming);
                    let before = pair.reached(target);
                    pair.nics[target].receive_frame(NOW, &frame);
                    if pair.reached(target) != before {
                        return Err(format!(
                            "card {target} took a frame of the adversary: {:?}",
                            adversary.tried
                        ));
                    }
                }
                let before = pair.reached(to);
                pair.nics[to].receive_frame(NOW, &coming);
                if pair.reached(to) != before + 1 {
                    return Err(format!("card {to} lost a frame of its peer: {:?}", adversary.tried));
                }
                if adversary.kept.len() == KEPT {
                    let place = adversary.below(KEPT);
                    adversary.kept.swap_remove(place);
                }
                adversary.kept.push((to, coming));
            }
        }
        if pair.memory(1, 256) != expected.to_le_bytes() || pair.completions[0].len() as u64 != expected {
            return Err(format!("WRITE {expected} was not carried out"));
        }
        // Only the first card WRITEs, and not to these addresses.
        if pair.memory(1, 64) != [0; 8] || pair.memory(0, 64) != [0; 8] {
            return Err("the adversary has written memory".to_owned());
        }
    }
    Ok(adversary.tried)
}

#[test]
fn nothing_of_an_adversary_reaches_transport_or_engine() {
    let tried = run(1, 20_000, Psp::default).unwrap();
    assert!(tried.replays.min(tried.flips).min(tried.cuts).min(tried.splices) > 1_000, "{tried:?}");
    assert!(tried.downgrades.min(tried.forgeries).min(tried.reflections) > 1_000, "{tried:?}");
}

/// A million attempts.
#[test]
#[ignore = "takes half a minute in a release build"]
fn nothing_of_a_patient_adversary_reaches_transport_or_engine() {
    println!("{:?}", run(2, 1_000_000, Psp::default).unwrap());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_found() {
    use weft_service::psp::PlantedBug;

    let find = |psp: fn() -> Psp, name: &str| assert!(run(3, 20_000, psp).is_err(), "{name}");
    find(|| Psp::default().with_planted_bug(PlantedBug::WindowBeforeTag), "window before tag");
    find(|| Psp::default().with_planted_bug(PlantedBug::PlaintextAccepted), "plaintext accepted");
    find(|| Psp::default().with_planted_bug(PlantedBug::WindowIgnored), "window ignored");
}
