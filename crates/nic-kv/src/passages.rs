//! Counts the cycles that an operation spends in an idle card, part by part.

use serde::{Deserialize, Serialize};
use weft_gateware::lock_step::{Act, LockStep, Observation};
use weft_kv::{Operation, Status};
use weft_waist::EngineState;

use super::NicKvError;
use super::rig::{Asked, KEY_BYTES, Setup, answers};

/// Cycles to wait between operations; after these, nothing of the previous operation is in flight.
const SETTLE: u64 = 600;

/// Limit of a simulation in cycles, far above the length of any operation here.
const LIMIT: u64 = 200_000;

/// Bytes of a beat of the gateware's streams.
pub(super) const BEAT_BYTES: usize = 64;

/// Cycles of an operation in a card, from the last beat of the incoming frame to the first beat of the outgoing one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// From the last beat to the memory's command. If the operation does not wait for memory, all of its
    /// cycles.
    pub receive_cycles: u64,
    /// From the memory's command to its end: the last word of a read, or the response to a write.
    pub memory_cycles: u64,
    /// From the end of the memory access to the first beat.
    pub transmit_cycles: u64,
}

impl Passage {
    /// Cycles of the gateware without the memory.
    pub const fn replication_cycles(&self) -> u64 {
        self.receive_cycles + self.transmit_cycles
    }

    const fn straight(cycles: u64) -> Self {
        Self { receive_cycles: cycles, memory_cycles: 0, transmit_cycles: 0 }
    }

    fn slower(self, other: Self) -> Self {
        let whole = |passage: Self| passage.replication_cycles() + passage.memory_cycles;
        if whole(other) > whole(self) { other } else { self }
    }
}

/// The parts of a write at a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderWrite {
    /// At the leader: from the request to the first copy for a follower.
    pub leader: Passage,
    /// From the first copy to the last copy. Each copy is sent completely before the next.
    pub copies_cycles: u64,
    /// At the slowest follower: from the copy to its acknowledgement.
    pub replica: Passage,
    /// At the leader: from the last acknowledgement to the answer.
    pub acknowledge: Passage,
    /// From the last beat of the request to the first beat of the answer, without MACs and with links that take no
    /// time. Frames are passed on when they are complete, so this includes the beats of a copy and of an
    /// acknowledgement.
    pub whole_cycles: u64,
}

impl LeaderWrite {
    /// The slower of the two in each part.
    fn slower(self, other: Self) -> Self {
        Self {
            leader: self.leader.slower(other.leader),
            copies_cycles: self.copies_cycles.max(other.copies_cycles),
            replica: self.replica.slower(other.replica),
            acknowledge: self.acknowledge.slower(other.acknowledge),
            whole_cycles: self.whole_cycles.max(other.whole_cycles),
        }
    }
}

/// Measures `samples` operations on idle cards, each on another key; the slowest counts.
pub(super) struct Measure {
    setup: Setup,
    value_bytes: usize,
    keys: Vec<[u8; KEY_BYTES]>,
    cards: LockStep,
    requests: u64,
}

/// Observations of one operation.
struct Seen {
    observations: Vec<Observation>,
    /// Cycle of the answer's first beat.
    answered: u64,
}

impl Measure {
    /// Makes a cluster and waits until it serves clients.
    ///
    /// # Errors
    /// The cluster does not reach that state.
    pub(super) fn new(setup: Setup, value_bytes: usize, samples: usize) -> Result<Self, NicKvError> {
        let mut cards = LockStep::new(&setup.cards(), &Setup::others());
        for node in 0..setup.nodes {
            cards.configure(node, setup.configuration(node));
        }
        let mut full = vec![false; setup.nodes];
        for _ in 0..LIMIT {
            cards.step();
            for (node, full) in full.iter_mut().enumerate() {
                *full |= cards.status(node).is_some_and(|status| status.state == EngineState::Full);
            }
            if full.iter().all(|full| *full) {
                let mut keys: Vec<_> = setup.keys().take(samples + 1).collect();
                let first = keys.remove(0);
                let mut measure = Self { setup, value_bytes, keys, cards, requests: 0 };
                // Runs one operation at each card first: when a card sends to a station for the first time,
                // it needs a lookup in its neighbour table.
                for node in 0..setup.nodes {
                    measure.run(if node == 0 { Operation::Put } else { Operation::Get }, node, first)?;
                }
                return Ok(measure);
            }
        }
        Err(NicKvError::NotFounded)
    }

    /// Runs one operation.
    fn run(&mut self, operation: Operation, node: usize, key: [u8; KEY_BYTES]) -> Result<Seen, NicKvError> {
        for _ in 0..SETTLE {
            self.cards.step();
        }
        self.cards.take_observations();
        self.requests += 1;
        let asked =
            Asked { operation, client: 1, request: self.requests, key, value_bytes: self.value_bytes };
        self.cards.send(node, &asked.frame(node));
        for _ in 0..LIMIT {
            self.cards.step();
            let Some(frame) = self.cards.poll() else { continue };
            let mut right = 0;
            answers(&frame, |reply| {
                let is_right = reply.status == Status::Ok
                    && reply.request == asked.request
                    && asked.is_answered_by(reply.value);
                right += i32::from(is_right);
            });
            if right != 1 {
                return Err(NicKvError::WrongAnswer);
            }
            // The answer is seen a cycle after its last beat, and a frame has no gaps.
            let answered = self.cards.cycle() - frame.len().div_ceil(BEAT_BYTES) as u64;
            return Ok(Seen { observations: self.cards.take_observations(), answered });
        }
        Err(NicKvError::Unanswered)
    }

    /// Measures a read of a value in memory, at a follower if there is one.
    pub(super) fn read(&mut self) -> Result<Passage, NicKvError> {
        let mut slowest = Passage::default();
        let node = usize::from(self.setup.nodes > 1);
        for key in self.keys.clone() {
            self.run(Operation::Put, 0, key)?;
            let seen = self.run(Operation::Get, node, key)?;
            let from = seen.first(node, Act::FrameIn, 0)?;
            slowest =
                slowest.slower(seen.passage(node, from, seen.answered, Act::ReadCommand, Act::ReadEnd)?);
        }
        Ok(slowest)
    }

    /// Measures a write at a key's leader. Without followers, the leader waits for no acknowledgement.
    pub(super) fn write(&mut self) -> Result<LeaderWrite, NicKvError> {
        let mut slowest = LeaderWrite::default();
        let followers = self.setup.nodes - 1;
        for key in self.keys.clone() {
            let seen = self.run(Operation::Put, 0, key)?;
            let from = seen.first(0, Act::FrameIn, 0)?;
            let copy = seen.first(0, Act::FrameOut, from)?;
            let copies: Vec<u64> = seen.all(0, Act::FrameOut).take(followers).collect();
            let mut replica = Passage::default();
            for follower in 1..self.setup.nodes {
                let from = seen.first(follower, Act::FrameIn, 0)?;
                let to = seen.first(follower, Act::FrameOut, from)?;
                replica = replica.slower(if self.setup.acknowledge_after_memory {
                    seen.passage(follower, from, to, Act::WriteCommand, Act::WriteEnd)?
                } else {
                    Passage::straight(to - from)
                });
            }
            // The frames that the leader received: the request, then the acknowledgements.
            let last =
                seen.all(0, Act::FrameIn).nth(followers).ok_or(NicKvError::Unseen("acknowledgement"))?;
            slowest = slowest.slower(LeaderWrite {
                leader: Passage::straight(copy - from),
                copies_cycles: copies.last().map_or(0, |last| last - copy),
                replica,
                acknowledge: Passage::straight(seen.answered - last),
                whole_cycles: seen.answered - from,
            });
        }
        Ok(slowest)
    }
}

impl Seen {
    /// The cycles in which a card did `act`.
    fn all(&self, card: usize, act: Act) -> impl Iterator<Item = u64> {
        let of = self.observations.iter().filter(move |seen| seen.card == card && seen.act == act);
        of.map(|seen| seen.cycle)
    }

    /// The first cycle, from `from` on, in which a card did `act`.
    fn first(&self, card: usize, act: Act, from: u64) -> Result<u64, NicKvError> {
        self.all(card, act).find(|cycle| *cycle >= from).ok_or(NicKvError::Unseen(name(act)))
    }

    /// The parts of the path from `from` to `to` that includes a memory access.
    fn passage(
        &self,
        card: usize,
        from: u64,
        to: u64,
        command: Act,
        end: Act,
    ) -> Result<Passage, NicKvError> {
        let began = self.first(card, command, from)?;
        let ended = self.all(card, end).take_while(|cycle| *cycle <= to).last();
        let ended = ended.filter(|ended| *ended >= began).ok_or(NicKvError::Unseen(name(end)))?;
        Ok(Passage {
            receive_cycles: began - from,
            memory_cycles: ended - began,
            transmit_cycles: to - ended,
        })
    }
}

const fn name(act: Act) -> &'static str {
    match act {
        Act::FrameIn => "frame that came in",
        Act::FrameOut => "frame that went out",
        Act::ReadCommand => "read of memory",
        Act::ReadEnd => "word of memory",
        Act::WriteCommand => "write of memory",
        Act::WriteEnd => "response of memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_cut_where_the_memory_is_asked_and_where_it_has_answered() {
        let at = |cycle, card, act| Observation { cycle, card, act };
        let seen = Seen {
            observations: vec![
                at(5, 1, Act::FrameIn),
                at(9, 1, Act::WriteCommand),
                at(11, 1, Act::ReadCommand),
                at(12, 0, Act::ReadCommand),
                at(40, 1, Act::ReadEnd),
                at(42, 1, Act::ReadEnd),
                at(47, 1, Act::FrameOut),
                at(60, 1, Act::ReadEnd),
            ],
            answered: 47,
        };
        let passage = seen.passage(1, 5, 47, Act::ReadCommand, Act::ReadEnd).unwrap();
        assert_eq!(passage, Passage { receive_cycles: 6, memory_cycles: 31, transmit_cycles: 5 });
        assert_eq!(passage.replication_cycles(), 11);
        assert!(seen.passage(1, 5, 47, Act::WriteCommand, Act::WriteEnd).is_err());
        assert!(seen.first(0, Act::FrameIn, 0).is_err());
    }

    #[test]
    fn the_slowest_part_counts() {
        let write = |leader, whole_cycles| LeaderWrite {
            leader: Passage::straight(leader),
            whole_cycles,
            ..LeaderWrite::default()
        };
        assert_eq!(write(5, 90).slower(write(7, 80)), write(7, 90));
    }
}
