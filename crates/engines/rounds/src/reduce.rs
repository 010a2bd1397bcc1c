//! All-reduce: the sum and the maximum of one number per member, for every round.
//!
//! In round *r* every member proposes its number. In round *r* + 1 each member sends the reduction of the numbers
//! that it received; it counts if all members send the same. So all members that get a result get the same one,
//! two rounds after the numbers. A round in which anything was lost has no result, and its members have to propose
//! their numbers again.

use crate::algorithm::{Algorithm, Contradiction, Decision, MustStop, Output};
use crate::members::Members;
use crate::message::Proposal;
use crate::parameters::Parameters;

/// A member's reduction of the numbers of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// The sum of all numbers, modulo 2^64.
    pub sum: u64,
    /// The largest number; 0 if there is none.
    pub maximum: u64,
    /// Members whose message arrived in the round.
    pub heard: Members,
    /// Members among them that proposed a number.
    pub contributors: Members,
}

impl Reduction {
    /// Bytes of a reduction: `sum(8) maximum(8) heard(1) contributors(1) zero(6)`, big-endian.
    pub const BYTES: usize = 24;

    /// Encodes the reduction.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.sum.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.maximum.to_be_bytes());
        (bytes[16], bytes[17]) = (self.heard.bits(), self.contributors.bits());
        bytes
    }

    /// Decodes a reduction.
    ///
    /// # Panics
    /// If there are fewer bytes than [`Reduction::BYTES`].
    pub fn parse(bytes: &[u8]) -> Self {
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let set = |at: usize| Members::from_bits(bytes[at]);
        Self { sum: number(0), maximum: number(8), heard: set(16), contributors: set(17) }
    }

    /// Adds a member's proposal: a number, or nothing.
    fn add(&mut self, member: usize, proposal: &Proposal<'_>) {
        self.heard = self.heard.with(member);
        if let Ok(number) = <[u8; 8]>::try_from(proposal.bytes).map(u64::from_be_bytes) {
            self.sum = self.sum.wrapping_add(number);
            self.maximum = self.maximum.max(number);
            self.contributors = self.contributors.with(member);
        }
    }
}

/// All-reduce, once per round.
#[derive(Clone, Debug)]
pub struct Reduce {
    node: usize,
    first: u64,
    round: u64,
    members: Members,
    /// Reduction of the running round.
    running: Reduction,
    /// Reduction of the previous round, and the members that sent the same one.
    last: Reduction,
    agreeing: Members,
    /// The instance that has ended and is not reported yet, with its result.
    result: Option<(u64, Option<Reduction>)>,
}

impl Algorithm for Reduce {
    const ID: u8 = 3;
    const DECIDES_CHANGES: bool = false;

    fn new(_: &Parameters) -> Self {
        Self {
            node: 0,
            first: 0,
            round: 0,
            members: Members::EMPTY,
            running: Reduction::default(),
            last: Reduction::default(),
            agreeing: Members::EMPTY,
            result: None,
        }
    }

    fn area_bytes(&self) -> usize {
        Reduction::BYTES
    }

    fn start(&mut self, node: usize, first: u64) {
        (self.node, self.first) = (node, first);
        (self.running, self.result) = (Reduction::default(), None);
    }

    fn begin(&mut self, round: u64, members: Members, proposal: &Proposal<'_>, area: &mut [u8]) {
        self.last = std::mem::take(&mut self.running);
        (self.round, self.members) = (round, members);
        self.agreeing = Members::only(self.node);
        self.running.add(self.node, proposal);
        area.copy_from_slice(&self.last.encode());
    }

    fn receive(&mut self, from: usize, area: &[u8], proposal: &Proposal<'_>) -> Result<(), Contradiction> {
        self.running.add(from, proposal);
        if Reduction::parse(area) == self.last {
            self.agreeing = self.agreeing.with(from);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), MustStop> {
        let complete = self.last.heard.includes(self.members) && self.agreeing.includes(self.members);
        if self.round > self.first {
            self.result = Some((self.round - 1, complete.then_some(self.last)));
        }
        Ok(())
    }

    fn settle(&mut self, output: &mut dyn Output) {
        let Some((instance, result)) = self.result.take() else { return };
        if let Some(reduction) = result.filter(|reduction| !reduction.contributors.is_empty()) {
            let bytes = reduction.encode();
            let proposal = Proposal { change: false, bytes: &bytes };
            // Each contributor gets the decision as its own proposal's, so that all of them see that their number
            // counts.
            let proposer =
                if reduction.contributors.contains(self.node) { self.node } else { first_of(reduction) };
            output.decide(&Decision { instance, proposer, proposal });
        }
        output.close(instance);
    }
}

fn first_of(reduction: Reduction) -> usize {
    reduction.contributors.iter().next().expect("somebody gave a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_survive_the_wire() {
        let mut reduction = Reduction::default();
        reduction.add(0, &Proposal { change: false, bytes: &u64::MAX.to_be_bytes() });
        reduction.add(4, &Proposal { change: false, bytes: &3u64.to_be_bytes() });
        reduction.add(2, &Proposal::default());
        assert_eq!((reduction.sum, reduction.maximum), (2, u64::MAX));
        assert_eq!(reduction.contributors, Members::from_iter([0, 4]));
        assert_eq!(Reduction::parse(&reduction.encode()), reduction);
    }
}
