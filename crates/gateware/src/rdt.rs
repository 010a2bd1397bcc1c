//! The replicated data types in the gateware: the module `rdt_types`, which holds one object of each type that
//! ships. `weft-rdt` generates them, and is not a dependency of this crate.

use crate::axi::{Gate, Pressure};
use crate::engine_package::{RdtAnswer, RdtCall};
use crate::model::Model;
use crate::model::rdt_types::{Inputs, Outputs, Top};

/// Far more cycles than a burst of calls takes.
const CYCLES_MAX: u64 = 100_000;

/// One object of each type, after reset.
#[derive(Debug)]
pub struct RtlTypes {
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    calls: Gate,
    answers: Gate,
    ticks: u64,
}

/// What became of a burst of calls.
#[derive(Clone, Debug, Default)]
pub struct Burst {
    /// The answers, in the order of the calls.
    pub answers: Vec<RdtAnswer>,
    /// Cycles from the first accepted call to the last answer.
    pub cycles: u64,
}

impl RtlTypes {
    /// Creates the objects, which belong to replica `replica`, and resets them. `pressure` holds up calls and
    /// answers at random. Storage that reset does not clear holds zeros for `power_on_seed` 0, otherwise random
    /// bits.
    pub fn new(replica: usize, pressure: Option<Pressure>, power_on_seed: u32) -> Self {
        let inputs = Inputs { replica_i: replica as u8, ..Inputs::default() };
        Self {
            model: Model::new(power_on_seed),
            inputs,
            outputs: Outputs::default(),
            calls: Gate::new(pressure, 1),
            answers: Gate::new(pressure, 2),
            ticks: 0,
        }
    }

    /// Makes calls, one right after the other, to the object of the type with this number, and waits until it is
    /// idle.
    ///
    /// # Panics
    /// If calls are not answered, or an assertion of the gateware fails.
    pub fn call(&mut self, number: usize, calls: &[RdtCall]) -> Burst {
        self.inputs.type_i = number as u8;
        let mut burst = Burst::default();
        let mut next = 0;
        let mut first = None;
        for _ in 0..CYCLES_MAX {
            let offered = calls.get(next).filter(|_| self.calls.is_open());
            self.inputs.call_valid_i = offered.is_some().into();
            self.inputs.call_i = offered.map_or_else(Default::default, RdtCall::pack);
            self.inputs.answer_ready_i = self.answers.is_open().into();
            self.tick();
            if offered.is_some() && self.outputs.call_ready_o != 0 {
                next += 1;
                first.get_or_insert(self.ticks);
            }
            if self.outputs.answer_valid_o != 0 && self.inputs.answer_ready_i != 0 {
                burst.answers.push(RdtAnswer::unpack(&self.outputs.answer_o));
                burst.cycles = self.ticks - first.expect("an answer follows a call");
            }
            if burst.answers.len() == calls.len() && self.outputs.idle_o != 0 {
                return burst;
            }
        }
        panic!("the gateware answered {} of {} calls", burst.answers.len(), calls.len());
    }

    /// Reads words of the states: from this window on, as many as `words` holds.
    pub fn read(&mut self, window: usize, words: &mut [u64]) {
        self.inputs.call_valid_i = 0;
        self.inputs.answer_ready_i = 0;
        for (offset, chunk) in words.chunks_mut(self.outputs.state_o.len() / 2).enumerate() {
            self.inputs.window_i = (window + offset) as u8;
            self.tick();
            for (word, halves) in chunk.iter_mut().zip(self.outputs.state_o.chunks(2)) {
                *word = u64::from(halves[0]) | u64::from(halves[1]) << 32;
            }
        }
    }

    fn tick(&mut self) {
        self.model.step(&self.inputs, &mut self.outputs, self.ticks * crate::CYCLE.as_ps());
        self.ticks += 1;
    }
}
