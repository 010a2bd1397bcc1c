//! Where the object's elements lie: on the card, or in the host's memory behind the bus (SafarDB section 5.4).
//!
//! The state of an object is on the card's chip and costs no access. A replica may keep the elements of a sort from
//! some number on in the host's memory instead. Whoever looks at such an element waits for a read across the bus, and
//! what changes it is written there. The state itself is one and the same: only where it is, and so what it costs,
//! differs.

use weft_waist::Accesses;

use super::parameters::{OnHost, ReplicaParameters};
use crate::definition::{Parameter, ParameterKind};
use crate::object::Arguments;

/// Bytes of an element that are read or written at a time: a line of the host's cache.
const LINE_BYTES: u64 = 64;

/// Places of elements, and the accesses to the host's memory in this event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// Elements from this number on lie there.
    from: i64,
    /// By method and by query: the parameters that name elements of the sort.
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

    fn elements(&self, of: &[Vec<usize>], index: usize, arguments: &Arguments) -> u32 {
        let named = of.get(index).map_or(&[][..], Vec::as_slice);
        named.iter().filter(|&&parameter| arguments[parameter] >= self.from).count() as u32
    }

    fn read(&mut self, elements: u32) {
        self.accesses.reads += elements;
        self.accesses.bytes += u64::from(elements) * LINE_BYTES;
    }

    fn write(&mut self, elements: u32) {
        self.accesses.writes += elements;
        self.accesses.bytes += u64::from(elements) * LINE_BYTES;
    }

    /// A query reads what it names.
    pub fn query(&mut self, query: usize, arguments: &Arguments) {
        self.read(self.elements(&self.queries, query, arguments));
    }

    /// Whoever checks a call reads what it names.
    pub fn check(&mut self, method: usize, arguments: &Arguments) {
        self.read(self.elements(&self.methods, method, arguments));
    }

    /// A call that was checked in this event takes effect.
    pub fn apply_checked(&mut self, method: usize, arguments: &Arguments) {
        self.write(self.elements(&self.methods, method, arguments));
    }

    /// A call that was checked elsewhere takes effect.
    pub fn apply(&mut self, method: usize, arguments: &Arguments) {
        self.check(method, arguments);
        self.apply_checked(method, arguments);
    }

    /// A summary of that slot is taken in: slots of a method that names elements are numbered by these.
    pub fn absorb(&mut self, method: usize, slot: usize) {
        if self.methods.get(method).is_some_and(|named| !named.is_empty()) && slot as i64 >= self.from {
            self.read(1);
            self.write(1);
        }
    }

    /// The accesses of this event.
    pub fn take(&mut self) -> Accesses {
        std::mem::take(&mut self.accesses)
    }
}
