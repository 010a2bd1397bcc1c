//! Placement of the object's elements: on the card, or in the host's memory behind the bus (SafarDB section
//! 5.4).
//!
//! The state of an object is on the card's chip, and access to it is free. Optionally a replica keeps the
//! elements of a sort, from some number on, in the host's memory. A read of such an element waits for a read
//! across the bus, and a change is written across the bus. Only the cost of accesses differs; the state
//! itself is the same.

use weft_waist::Accesses;

use super::parameters::{OnHost, ReplicaParameters};
use crate::definition::{Parameter, ParameterKind};
use crate::object::Arguments;

/// Bytes that one access reads or writes: a cache line of the host.
const LINE_BYTES: u64 = 64;

/// Which elements are in the host's memory, and the accesses to it in the present event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// The number of the first element in the host's memory.
    from: i64,
    /// For each method and each query: the parameters that name elements of the sort.
    methods: Vec<Vec<usize>>,
    queries: Vec<Vec<usize>>,
    accesses: Accesses,
}

impl Placement {
    pub fn new(parameters: &ReplicaParameters) -> Self {
        let Some(OnHost { sort, from }) = parameters.on_host else { return Self::default() };
        let of = |parameters: &[Parameter]| -> Vec<usize> {
            let is_one =
                |parameter: &Parameter| matches!(parameter.kind, ParameterKind::Element(of) if of == sort);
            (0..parameters.len()).filter(|&index| is_one(&parameters[index])).collect()
        };
        let definition = parameters.kind.definition();
        Self {
            from: from as i64,
            methods: definition.methods.iter().map(|method| of(&method.parameters)).collect(),
            queries: definition.queries.iter().map(|query| of(&query.parameters)).collect(),
            accesses: Accesses::default(),
        }
    }

    fn elements(&self, of: &[Vec<usize>], index: usize, arguments: &Arguments) -> u64 {
        let named = of.get(index).map_or(&[][..], Vec::as_slice);
        named.iter().filter(|&&parameter| arguments[parameter] >= self.from).count() as u64
    }

    fn read(&mut self, elements: u64) {
        self.accesses.reads += elements;
        self.accesses.bytes += elements * LINE_BYTES;
    }

    fn write(&mut self, elements: u64) {
        self.accesses.writes += elements;
        self.accesses.bytes += elements * LINE_BYTES;
    }

    /// Counts the reads of a query.
    pub fn query(&mut self, query: usize, arguments: &Arguments) {
        self.read(self.elements(&self.queries, query, arguments));
    }

    /// Counts the reads of the check of a call.
    pub fn check(&mut self, method: usize, arguments: &Arguments) {
        self.read(self.elements(&self.methods, method, arguments));
    }

    /// Counts the writes of a call that was checked in the same event.
    pub fn apply_checked(&mut self, method: usize, arguments: &Arguments) {
        self.write(self.elements(&self.methods, method, arguments));
    }

    /// Counts the reads and writes of a call that was checked by another replica.
    pub fn apply(&mut self, method: usize, arguments: &Arguments) {
        self.check(method, arguments);
        self.apply_checked(method, arguments);
    }

    /// Counts the accesses of a summary in this slot. The slots of a method that names elements have the
    /// elements' numbers.
    pub fn absorb(&mut self, method: usize, slot: usize) {
        if self.methods.get(method).is_some_and(|named| !named.is_empty()) && slot as i64 >= self.from {
            self.read(1);
            self.write(1);
        }
    }

    /// Returns the accesses of this event, and resets them.
    pub fn take(&mut self) -> Accesses {
        std::mem::take(&mut self.accesses)
    }
}
