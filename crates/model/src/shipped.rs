//! The consensus that ships: [`weft_rounds::Instance`] itself, driven through its public functions.

use weft_rounds::{Instance, Members, Receipt, Record};

use crate::protocol::{Protocol, Quorums, View, all_of};

/// The consensus that Weft's engine itself runs, [`Instance`], as opposed to the published algorithm and to variants
/// with a deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The quorums that the instances use.
    pub quorums: Quorums,
}

impl Shipped {
    /// The consensus with the default quorums.
    pub const fn of(nodes: usize) -> Self {
        Self { quorums: Quorums::of(nodes) }
    }
}

impl Protocol for Shipped {
    type Node = Instance;
    type Message = Record;

    const DISSEMINATES: bool = true;

    fn name(&self) -> &'static str {
        "shipped"
    }

    fn quorums(&self) -> Quorums {
        self.quorums
    }

    fn rounds_to_decide(&self, faults: u8) -> u8 {
        // Nothing was lost: all rows are full, and round 0 shows this to all nodes.
        if faults == 0 { 1 } else { faults + 2 }
    }

    fn open(&self, node: usize, row: u8) -> Instance {
        let Quorums { nodes, decision, survival, holders, .. } = self.quorums;
        let quorums = weft_rounds::Quorums {
            decision: decision as u8,
            survival: survival as u8,
            holders: holders as u8,
        };
        Instance::open(node, Members::from_bits(all_of(nodes)), quorums, Members::from_bits(row))
    }

    fn message(&self, node: &Instance) -> Option<Record> {
        Some(node.record())
    }

    fn receive(&self, node: &mut Instance, from: usize, record: &Record) {
        let receipt = node.receive(from, record);
        assert_ne!(
            receipt,
            Receipt::Contradiction,
            "nodes that only lose messages never contradict each other"
        );
    }

    fn end_round(&self, node: &mut Instance) -> Option<u8> {
        node.end_round().map(Members::bits)
    }

    fn view(&self, node: &Instance) -> View {
        let known = node.rows().iter().enumerate().filter(|(_, row)| !row.is_empty());
        View {
            known: known.fold(0, |set, (owner, _)| set | 1 << owner),
            suspected: node.suspected().bits(),
            locked: u8::from(node.is_locked()) << node.node(),
            decision: node.decision().map(Members::bits),
            running: true,
        }
    }
}
