//! Which IP identifications are accepted in RoCE v2 packets of a peer.
//!
//! The ICRC covers the identification of an IPv4 packet, and a UDP socket does not show it. It can be solved from
//! the ICRC ([`weft_wire::icrc::Path::solve`]), but that uses up 16 of the 32 check bits: one of 2^16 damaged
//! packets has a solution. Restrictions on the identifications that a peer can have chosen regain some of the lost
//! bits.
//!
//! - **Fixed identifications.** Weft sends identification 0, and segment *i* of a segmented send carries *i*.
//!   Other senders that leave the identification at 0 because they forbid fragmentation (RFC 6864) do the same. A
//!   packet with one of these two identifications is accepted from every peer: a damaged one passes with a
//!   probability of at most 2 / 2^32 = 2^-31.
//! - **Counted identifications.** Linux's soft RoCE takes them from a counter that all UDP traffic between two
//!   addresses may share. The counter also advances by itself, by at most one for every tick of the kernel's clock
//!   since its last use (`ip_idents_reserve`; a tick takes 1 ms or longer). A packet is accepted if it is ahead of
//!   the last accepted one by at most [`STEP`] plus one for each millisecond, or behind it by at most [`STEP`],
//!   because networks reorder. If a peer's packets arrive every 10 ms, a damaged packet passes with a probability
//!   of 525 / 2^32 < 2^-22 (256 + 10 ahead, 256 behind, and 3 more). If the last step was more than half the
//!   tolerance, the tolerance is twice that step.
//!
//! A peer's first packet decides whether it has fixed or counted identifications. A peer of the second kind
//! changes to the first after [`FIXED_AFTER`] packets with fixed identifications that its counter does not
//! explain.
//!
//! **Resynchronisation.** A packet outside the tolerance is dropped, although its ICRC has a solution; the peer
//! retransmits it. The tolerance for the next packet is then sixteen times as large. So if a peer's counter has
//! jumped, its third packet is accepted in any case; for a peer with fixed identifications, the second one is. An
//! accepted packet resets the tolerance. Damaged packets widen it as well, but only those that have a solution,
//! one of 2^16.
//!
//! So the check is weakest, 2^-16, for the first packet of a peer, for a packet after more than a minute of
//! silence, and for a packet after two that were dropped for their identification. No check of an ICRC protects
//! against a hostile sender: if it can forge a peer's address, it can compute the right ICRC, too. Three forged
//! packets in a row cause the peer's own next two to be dropped, and its transport retransmits them.

use std::net::Ipv4Addr;

use weft_time::{Duration, Instant};

/// By how much a counter may advance between two packets, in addition to the time between them. The most that was
/// observed with Linux 6.1 is 233.
const STEP: u32 = 256;

/// Factor by which the tolerance grows with each dropped packet.
const WIDENING: u32 = 16;

/// The tolerance that accepts every identification.
const EVERYTHING: u32 = 1 << 16;

/// The shortest tick that a Linux kernel can be configured for.
const TICK: Duration = Duration::from_ms(1);

/// After this many packets in a row with fixed identifications that the counter does not explain, the peer changes
/// to fixed identifications.
const FIXED_AFTER: u8 = 8;

/// Number of peers in a set. A new peer replaces the one in its set that was silent for longest.
const WAYS: usize = 4;

/// Number of sets; a peer's address determines its set. A peer that was replaced counts as new.
const SETS: usize = 256;

/// Records of the peers whose packets arrived last.
#[derive(Debug)]
pub(crate) struct Identifications {
    sets: Vec<[Option<Peer>; WAYS]>,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    address: Ipv4Addr,
    accepted_at: Instant,
    scheme: Scheme,
}

/// How a peer chooses identifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// The peer sends fixed identifications. `doubted`: the last packet had another one, and was dropped.
    Fixed { doubted: bool },
    /// The peer counts. `last`: the furthest identification accepted; `tolerance`: how far from it the next may
    /// be, in addition to the time between them; `dropped`: number of packets dropped in a row; `fixed`: number of
    /// packets in a row whose identification is fixed and not explained by the counter.
    Counted { last: u16, tolerance: u32, dropped: u8, fixed: u8 },
}

impl Scheme {
    fn of_first(identification: u16, is_fixed: bool) -> Self {
        if is_fixed {
            Self::Fixed { doubted: false }
        } else {
            Self::Counted { last: identification, tolerance: STEP, dropped: 0, fixed: 0 }
        }
    }

    /// Whether the next packet, which arrives after `silence`, is accepted.
    fn accept(&mut self, identification: u16, is_fixed: bool, silence: Duration) -> bool {
        match self {
            Self::Fixed { doubted } if is_fixed => *doubted = false,
            Self::Fixed { doubted: doubted @ false } => {
                *doubted = true;
                return false;
            }
            Self::Fixed { doubted: true } => *self = Self::of_first(identification, false),
            Self::Counted { last, tolerance, dropped, fixed } => {
                let ahead = u32::from(identification.wrapping_sub(*last));
                let behind = u32::from(last.wrapping_sub(identification));
                let ticks = (silence.as_ps() / TICK.as_ps()).min(u64::from(EVERYTHING)) as u32;
                let limit = (*tolerance * WIDENING.pow((*dropped).into())).min(EVERYTHING);
                if ahead <= limit + ticks {
                    let step = ahead.saturating_sub(ticks);
                    *tolerance = (2 * step).max(*tolerance / 2).clamp(STEP, EVERYTHING);
                    (*last, *dropped, *fixed) = (identification, 0, 0);
                } else if behind <= limit {
                    (*dropped, *fixed) = (0, 0);
                } else if is_fixed {
                    *fixed += 1;
                    if *fixed == FIXED_AFTER {
                        *self = Self::of_first(identification, true);
                    }
                } else {
                    *dropped += 1;
                    return false;
                }
            }
        }
        true
    }
}

impl Identifications {
    pub(crate) fn new() -> Self {
        Self { sets: vec![[None; WAYS]; SETS], refused: 0 }
    }

    /// Number of packets dropped because the solution of their ICRC was not accepted.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether a packet that arrived from `source` at `now` is accepted. `identification` is the solution of its
    /// ICRC, `place` its index in a segmented buffer.
    #[inline]
    pub(crate) fn accept(&mut self, now: Instant, source: Ipv4Addr, place: u16, identification: u16) -> bool {
        let is_fixed = identification == 0 || identification == place;
        let set = &mut self.sets[set_of(source)];
        let accepted = match set.iter_mut().flatten().find(|peer| peer.address == source) {
            Some(peer) => {
                let silence = now.saturating_since(peer.accepted_at);
                let accepted = peer.scheme.accept(identification, is_fixed, silence);
                // A dropped packet does not show how far the counter has advanced.
                if accepted {
                    peer.accepted_at = now;
                }
                accepted
            }
            None => {
                let oldest = set.iter_mut().min_by_key(|peer| peer.map(|peer| peer.accepted_at));
                let scheme = Scheme::of_first(identification, is_fixed);
                *oldest.expect("a set has ways") = Some(Peer { address: source, accepted_at: now, scheme });
                true
            }
        };
        self.refused += u64::from(!accepted);
        accepted
    }
}

/// Index of a peer's set. Neighbouring addresses have different sets.
fn set_of(address: Ipv4Addr) -> usize {
    let mixed = address.to_bits().wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - SETS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// A peer whose packets arrive once a millisecond.
    struct Peering {
        identifications: Identifications,
        now: Instant,
    }

    impl Peering {
        fn new() -> Self {
            Self { identifications: Identifications::new(), now: Instant::ZERO }
        }

        fn accepts(&mut self, identification: u16) -> bool {
            self.now += TICK;
            self.identifications.accept(self.now, PEER, 0, identification)
        }

        /// Number of identifications that would be accepted in the next packet.
        fn tolerated(&self) -> usize {
            let accepts = |identification: &u16| {
                let mut peer = self.identifications.sets[set_of(PEER)][0].unwrap();
                peer.scheme.accept(*identification, *identification == 0, TICK)
            };
            (0..=u16::MAX).filter(accepts).count()
        }
    }

    /// Arrival times and identifications recorded from a machine with rdma_rxe of Linux 6.1 and a tick of 4 ms.
    fn of_linux() -> impl Iterator<Item = (Instant, u16)> {
        include_str!("../tests/data/rxe_identifications.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (time, identification) = line.split_once(' ').unwrap();
                let time = Instant::ZERO + Duration::from_us(time.parse().unwrap());
                (time, identification.parse().unwrap())
            })
    }

    #[test]
    fn linux_is_accepted_from_its_first_packet_on() {
        let mut identifications = Identifications::new();
        let mut accepted = 0;
        for (now, identification) in of_linux() {
            assert!(identifications.accept(now, PEER, 0, identification), "{identification} at {now:?}");
            accepted += 1;
        }
        assert!(accepted > 500 && identifications.refused() == 0);
    }

    #[test]
    fn the_tolerances_are_those_that_the_documentation_gives() {
        let mut peering = Peering::new();
        assert!(peering.accepts(0));
        assert_eq!(peering.tolerated(), 1);
        let mut peering = Peering::new();
        assert!(peering.accepts(10_000));
        // STEP and one tick ahead, the same, STEP behind, and 0.
        assert_eq!(peering.tolerated(), 2 * STEP as usize + 1 + 1 + 1);
        peering.now += Duration::from_ms(1_000);
        assert!(!peering.accepts(10_000 + 2_000) && peering.accepts(10_000 + 1_200));
        peering.now += Duration::from_secs(66);
        assert!(peering.accepts(1_000));
    }

    #[test]
    fn a_jump_costs_two_packets_and_the_tolerance_returns() {
        let mut peering = Peering::new();
        assert!(peering.accepts(5_000));
        let accepted = [30_000, 30_001, 30_002, 30_003].map(|identification| peering.accepts(identification));
        assert_eq!(accepted, [false, false, true, true]);
        let before = peering.tolerated();
        for number in 4..20 {
            assert!(peering.accepts(30_000 + number));
        }
        assert!(before > 16_384 && peering.tolerated() < 600, "{before} and {}", peering.tolerated());
    }

    #[test]
    fn a_peer_whose_counter_others_move_fast_is_accepted() {
        let mut peering = Peering::new();
        let accepted = (0..1_000_u16)
            .filter(|number| peering.accepts(number.wrapping_mul(5_003).wrapping_add(77)))
            .count();
        assert!(accepted >= 998, "{accepted}");
    }

    #[test]
    fn a_peer_with_fixed_identifications_is_not_taken_for_another_after_one_packet() {
        let mut peering = Peering::new();
        assert!(peering.accepts(0));
        for _ in 0..100 {
            assert!(!peering.accepts(4_711) && peering.accepts(0));
        }
        assert!(!peering.accepts(7) && peering.accepts(8), "Linux took the address over");
        for _ in 0..FIXED_AFTER {
            assert!(peering.identifications.accept(peering.now, PEER, 0x8000, 0x8000));
        }
        assert_eq!(peering.tolerated(), 1, "Weft took the address over");
    }

    #[test]
    fn a_counter_that_passes_0_stays_a_counter() {
        let mut peering = Peering::new();
        for number in 0..100_000_u32 {
            assert!(peering.accepts(number as u16 | 1) && peering.accepts(number as u16));
        }
        assert!(peering.tolerated() > 1);
    }

    /// The receive offload of a real link may join segments into other buffers: they carry the numbers of the
    /// sender's segments, not their index in the received buffer.
    #[test]
    fn segments_that_were_joined_anew_are_accepted() {
        let mut peering = Peering::new();
        let lost = (0..64).cycle().take(10_000).filter(|&number| !peering.accepts(number)).count();
        assert!(lost <= 1, "{lost}");
    }

    #[test]
    fn more_peers_than_places_are_accepted_and_the_memory_stays_what_it_is() {
        let mut identifications = Identifications::new();
        for round in 0..3_u16 {
            for number in 0..10_000_u32 {
                let peer = Ipv4Addr::from_bits(number);
                assert!(identifications.accept(Instant::ZERO, peer, 0, 500 + round));
            }
        }
        assert_eq!(identifications.sets.len(), SETS);
    }

    proptest! {
        /// Packets with random identifications, like those of damaged packets whose ICRC has a solution, rarely
        /// pass, while the peer's own packets do.
        #[test]
        fn garbage_hardly_passes_between_packets_of_a_peer(
            start: u16,
            garbage in prop::collection::vec(any::<u16>(), 1_000),
        ) {
            let mut peering = Peering::new();
            peering.accepts(start);
            let (mut own, mut foreign) = (0, 0);
            for (number, &garbage) in (1_u16..).zip(&garbage) {
                own += u32::from(peering.accepts(start.wrapping_add(number)));
                foreign += u32::from(peering.accepts(garbage));
            }
            prop_assert!(own >= 950, "{own} of the peer's own");
            prop_assert!(foreign <= 250, "{foreign} of garbage");
        }
    }
}
