//! The decisions that the nodes reported, and the check that they are one order.

use std::collections::BTreeMap;

use weft_rounds::message::Value;

/// A value that is unique to this proposal.
pub fn value(node: usize, number: u64) -> Vec<u8> {
    let mut bytes = [(node as u64).to_be_bytes(), number.to_be_bytes()].concat();
    bytes.resize(16 + (number % 48) as usize, node as u8);
    bytes
}

/// Position of a value in the order: instance and proposer.
type Position = (u64, usize);

/// All decisions that any node reported, and those of each node.
#[derive(Clone, Debug)]
pub struct Order {
    /// Whether the decision is a change of the members, and its bytes.
    entries: BTreeMap<Position, (bool, Vec<u8>)>,
    /// By node: the decisions that it reported since it started.
    told: Vec<Vec<Position>>,
    /// The decisions that earlier incarnations of nodes reported.
    former: Vec<Vec<Position>>,
    decided: BTreeMap<Vec<u8>, Position>,
    /// Values that were reported as dropped.
    dropped: BTreeMap<Vec<u8>, Position>,
}

impl Order {
    pub fn new(nodes: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            told: vec![Vec::new(); nodes],
            former: Vec::new(),
            decided: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Number of decisions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that a node has restarted.
    pub fn begin(&mut self, node: usize) {
        self.former.push(std::mem::take(&mut self.told[node]));
    }

    /// Checks and records a decision that a node reports.
    pub fn decided(&mut self, node: usize, value: &Value<'_>) {
        let (place, change) = ((value.instance, value.proposer), value.proposal.change);
        let bytes = value.proposal.bytes.to_vec();
        let last = self.told[node].last();
        assert!(last.is_none_or(|last| *last < place), "node {node} is told {place:?} after {last:?}");
        self.told[node].push(place);
        if let Some(known) = self.entries.get(&place) {
            assert_eq!(
                known,
                &(change, bytes),
                "node {node} is told something else than others of {place:?}"
            );
            return;
        }
        if !change {
            let proposer = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(proposer, place.1 as u64, "{place:?} was proposed by another");
            let number = u64::from_be_bytes(bytes[8..16].try_into().unwrap());
            assert_eq!(bytes, self::value(place.1, number), "nobody proposed {place:?}");
            assert_eq!(self.decided.insert(bytes.clone(), place), None, "{place:?} is decided twice");
            assert_eq!(self.dropped.get(&bytes), None, "{place:?} was said to be dropped");
        }
        self.entries.insert(place, (change, bytes));
    }

    /// Checks the answer to a proposer that its value is decided.
    pub fn acknowledged(&self, node: usize, instance: u64, bytes: &[u8]) {
        assert_eq!(self.decided.get(bytes), Some(&(instance, node)), "node {node} was told so too early");
    }

    /// Checks the answer to a proposer that its value was dropped and never will be decided.
    pub fn dropped(&mut self, node: usize, instance: u64, bytes: &[u8]) {
        assert_eq!(self.decided.get(bytes), None, "node {node} was told that {bytes:x?} is not decided");
        self.dropped.insert(bytes.to_vec(), (instance, node));
    }

    /// Checks that no node skipped a decision between its first and its last.
    pub fn check(&self) {
        for told in self.told.iter().chain(&self.former) {
            let (Some(first), Some(last)) = (told.first(), told.last()) else { continue };
            let all: Vec<_> = self.entries.range((first.0, 0)..=*last).map(|(place, _)| *place).collect();
            assert_eq!(told, &all, "a node was told less than others");
        }
    }

    /// Checks that all nodes got all decisions up to the last.
    pub fn check_complete(&self) {
        self.check();
        let end = self.entries.keys().last().expect("something was decided");
        assert!(self.told.iter().all(|told| told.last() == Some(end)), "not everyone was told {end:?}");
    }
}
