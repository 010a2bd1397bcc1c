//! CKC, the consensus: one instance begins in every round, and a window of instances runs at a time.
//!
//! In the first round of an instance each member's message has its proposal. In the rounds that follow, the
//! messages have a record of 12 bytes that says which member holds which proposals, until the instance is decided.
//! A proposal is sent once, and once more only to a member that lacks it when it is decided.

use weft_waist::Message;

use crate::algorithm::{Algorithm, Contradiction, Decision, MustStop, Output};
use crate::instance::{Instance, Receipt, Record};
use crate::members::Members;
use crate::message::{Fetch, Kind, Malformed, Proposal, Value};
use crate::parameters::Parameters;
use crate::window::Window;

/// The consensus over a window of instances.
#[derive(Clone, Debug)]
pub struct Ckc {
    parameters: Parameters,
    node: usize,
    round: u64,
    window: Window,
}

impl Ckc {
    /// The consensus of an instance that is still in the window and past its first round.
    pub fn consensus(&self, instance: u64) -> Option<&Instance> {
        self.window.get(instance)?.consensus.as_ref()
    }

    /// The instances to whose consensus the running round belongs, oldest first, with their index in the area.
    fn in_flight(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let (round, window) = (self.round, self.parameters.window);
        (0..window).filter_map(move |place| {
            let instance = (round + place).checked_sub(window)?;
            Some((instance, place as usize * Record::BYTES))
        })
    }

    /// Starts the consensus of the instance whose round of proposals ends, with the proposals that have arrived.
    fn open_consensus(&mut self) {
        let (node, parameters) = (self.node, &self.parameters);
        if let Some(slot) = self.window.get_mut(self.round) {
            let quorums = parameters.quorums(slot.members.len());
            let instance = Instance::open(node, slot.members, quorums, slot.held);
            #[cfg(feature = "planted-bugs")]
            let instance = instance.with_planted(parameters.planted_bug);
            slot.consensus = Some(instance);
        }
    }

    /// Requests the missing proposals of a decision from one holder, and if that fails from all: one of them is
    /// correct.
    fn fetch(&mut self, instance: u64, output: &mut dyn Output) {
        let (node, round) = (self.node, self.round);
        let Some(slot) = self.window.get_mut(instance) else { return };
        let (wanted, Some(consensus)) = (slot.lacking(), &slot.consensus) else { return };
        if wanted.is_empty() {
            return;
        }
        let known =
            wanted.iter().map(|member| consensus.holders(member)).fold(Members::EMPTY, Members::union);
        let holders = if known.is_empty() { slot.members } else { known }.without(node);
        let rank = (round as usize % 64 + node) % holders.len().max(1);
        let one = holders.iter().nth(rank).map_or(Members::EMPTY, Members::only);
        let to = if slot.asked { holders } else { one };
        slot.asked = true;
        let fetch = Fetch { instance, wanted };
        output.send(to, Kind::Fetch as u8, &[&fetch.encode()]);
    }

    /// Reports the decisions that are complete and next in order.
    fn release(&mut self, output: &mut dyn Output) {
        while let Some((instance, decision)) = self.window.complete() {
            for proposer in decision.iter() {
                let proposal = self.window.proposal(instance, proposer).expect("nothing is lacking");
                if !proposal.bytes.is_empty() {
                    output.decide(&Decision { instance, proposer, proposal });
                }
            }
            output.close(instance);
            self.window.release();
        }
    }
}

impl Algorithm for Ckc {
    const ID: u8 = 1;
    const DECIDES_CHANGES: bool = true;

    fn new(parameters: &Parameters) -> Self {
        let window = Window::new(parameters.slots(), parameters.value_bytes);
        Self { parameters: parameters.clone(), node: 0, round: 0, window }
    }

    fn area_bytes(&self) -> usize {
        self.parameters.window as usize * Record::BYTES
    }

    fn start(&mut self, node: usize, first: u64) {
        self.node = node;
        self.window.start(first);
    }

    fn begin(&mut self, round: u64, members: Members, proposal: &Proposal<'_>, area: &mut [u8]) {
        self.round = round;
        if members.contains(self.node) {
            self.window.open(round, members);
            self.window.store(round, self.node, proposal);
        }
        for (instance, place) in self.in_flight() {
            if let Some(consensus) = self.consensus(instance) {
                area[place..place + Record::BYTES].copy_from_slice(&consensus.record().encode());
            }
        }
    }

    fn receive(&mut self, from: usize, area: &[u8], proposal: &Proposal<'_>) -> Result<(), Contradiction> {
        let mut result = Ok(());
        for (instance, place) in self.in_flight() {
            let consensus = self.window.consensus_mut(instance);
            if let (Some(consensus), Some(record)) = (consensus, Record::parse(&area[place..]))
                && consensus.members().contains(from)
                && consensus.receive(from, &record) == Receipt::Contradiction
            {
                result = Err(Contradiction);
            }
        }
        if self.window.get(self.round).is_some() {
            self.window.store(self.round, from, proposal);
        }
        result
    }

    fn end(&mut self) -> Result<(), MustStop> {
        for (instance, _) in self.in_flight() {
            if let Some(consensus) = self.window.consensus_mut(instance) {
                consensus.end_round();
            }
        }
        self.open_consensus();
        // The oldest instance has had its last round, and the next instance needs its slot.
        let oldest = self.round.checked_sub(self.parameters.window);
        let oldest = oldest.and_then(|oldest| self.window.consensus_mut(oldest));
        #[cfg(feature = "planted-bugs")]
        let oldest = oldest.map(|oldest| oldest.guess());
        let undecided = oldest.is_some_and(|oldest| oldest.decision().is_none());
        if undecided || !self.window.has_room() { Err(MustStop) } else { Ok(()) }
    }

    fn settle(&mut self, output: &mut dyn Output) {
        for instance in self.window.instances() {
            self.fetch(instance, output);
        }
        self.release(output);
    }

    fn deliver(
        &mut self,
        from: usize,
        message: Message<'_>,
        output: &mut dyn Output,
    ) -> Result<(), Malformed> {
        match Kind::parse(message.kind) {
            Some(Kind::Fetch) => {
                let Fetch { instance, wanted } = Fetch::parse(message.payload)?;
                for proposer in wanted.iter() {
                    if let Some(proposal) = self.window.proposal(instance, proposer) {
                        let value = Value { instance, proposer, proposal };
                        output.send(
                            Members::only(from),
                            Kind::Value as u8,
                            &[&value.header(), proposal.bytes],
                        );
                    }
                }
            }
            Some(Kind::Value) => {
                let Value { instance, proposer, proposal } =
                    Value::parse(message.payload, self.parameters.value_bytes)?;
                let asked = self.window.get(instance).is_some_and(|slot| slot.lacking().contains(proposer));
                if asked {
                    self.window.store(instance, proposer, &proposal);
                    self.release(output);
                }
            }
            _ => return Err(Malformed::Field("kind")),
        }
        Ok(())
    }
}
