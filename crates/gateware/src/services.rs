//! Maps and taps in the gateware: the module `services` as a [`weft_service::Path`].

use weft_service::preprocess::{
    BORDER_SETS, COLUMNS, Column, Divisor, Image, ImageError, Last, PIPELINES, Pipeline,
};
use weft_service::{Flow, Outcome, Pace, Packet, Path, Setting};

use crate::CYCLE;
use crate::axi::{Gate, Pressure};
use crate::model::Model;
use crate::model::services::{Inputs, Outputs, Top};
use crate::package::{
    self, BEAT_BYTES, PreprocessWrite, SERVICE_LATENCY, SERVICE_TAP_LATENCY, ServiceBeat, TapVerdict,
};

const _: () = {
    assert!(package::PREPROCESS_PIPELINES == PIPELINES as u64);
    assert!(package::PREPROCESS_COLUMNS == COLUMNS as u64);
    assert!(package::PREPROCESS_BORDER_SETS == BORDER_SETS as u64);
};

/// Far more cycles than anything takes.
const CYCLES_MAX: u64 = 1_000_000;

/// The Verilated module, with a clock of its own.
#[derive(Debug)]
pub struct RtlServices {
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    ticks: u64,
    gate: Gate,
    /// The consumer never stalls the module.
    free: bool,
    pace: Option<Pace>,
    /// What the tables of the preprocessing hold.
    image: Image,
}

impl RtlServices {
    /// Creates the module and resets it. `pressure` stalls the output at random. Storage that reset does not
    /// clear holds zeros for `power_on_seed` 0, otherwise random bits.
    pub fn new(pressure: Option<Pressure>, power_on_seed: u32) -> Self {
        Self {
            model: Model::new(power_on_seed),
            inputs: Inputs::default(),
            outputs: Outputs::default(),
            ticks: 0,
            gate: Gate::new(pressure, 1),
            free: pressure.is_none(),
            pace: None,
            image: Image::default(),
        }
    }

    /// Loads a pipeline and returns its number. Settings with [`weft_service::MapKind::Preprocess`] have this
    /// number as their value.
    ///
    /// # Errors
    /// If the gates cannot run the pipeline.
    pub fn load(&mut self, pipeline: &Pipeline) -> Result<u64, ImageError> {
        let mut image = self.image.clone();
        let number = image.load(pipeline)?;
        self.write(image);
        Ok(number)
    }

    /// Writes the tables of the preprocessing. None of its pipelines may be in use.
    pub fn write(&mut self, image: Image) {
        for entry in entries_of(&image) {
            self.inputs.preprocess_write_i = entry.pack();
            self.inputs.preprocess_write_valid_i = 1;
            self.tick();
            self.inputs.preprocess_write_valid_i = 0;
        }
        self.image = image;
    }

    fn tick(&mut self) {
        self.inputs.out_ready_i = self.gate.is_open().into();
        self.model.step(&self.inputs, &mut self.outputs, CYCLE.as_ps() * self.ticks);
        self.ticks += 1;
        assert!(self.ticks < u64::MAX / CYCLE.as_ps(), "services: the clock has run out");
    }

    /// Simulates cycles until `done`.
    fn until(&mut self, done: impl Fn(&Outputs) -> bool) {
        for _ in 0..CYCLES_MAX {
            self.tick();
            if done(&self.outputs) {
                return;
            }
        }
        panic!("services: still busy after {CYCLES_MAX} cycles");
    }
}

/// The writes that load an image into the tables of the preprocessing.
pub(crate) fn entries_of(image: &Image) -> Vec<PreprocessWrite> {
    let mut writes = Vec::new();
    let mut write = |table: u64, address: u16, entry: &[u32]| {
        let mut data = [0; 6];
        data[..entry.len()].copy_from_slice(entry);
        writes.push(PreprocessWrite { entries: table as u8, address, data });
    };
    for (set, borders) in (0_u16..).zip(&image.borders) {
        for (index, border) in (0..).zip(borders) {
            let address = set * borders.len() as u16 + index;
            write(package::PREPROCESS_TABLE_BORDERS, address, &[*border as u32]);
        }
    }
    for (index, column) in (0..).zip(&image.columns) {
        write(package::PREPROCESS_TABLE_COLUMNS, index, &column_entry(column).pack());
        if let Some(divisor) = column.last.divisor() {
            write(package::PREPROCESS_TABLE_DIVISORS, index, &divisor_entry(divisor).pack());
        }
    }
    for (number, row) in (0..).zip(&image.pipelines) {
        let columns = divisor_entry(row.columns);
        let entry = package::PreprocessPipeline { first: row.first as u16, columns };
        write(package::PREPROCESS_TABLE_PIPELINES, number, &entry.pack());
    }
    writes
}

const fn divisor_entry(divisor: Divisor) -> package::PreprocessDivisor {
    let Divisor { divisor, reciprocal, bias } = divisor;
    package::PreprocessDivisor { divisor, reciprocal, bias }
}

const fn column_entry(column: &Column) -> package::PreprocessColumn {
    let (operation, operand) = match column.last {
        Last::None => (package::PREPROCESS_NONE, 0),
        Last::Log(constant) => (package::PREPROCESS_LOG, constant as u64),
        Last::Modulus(_) => (package::PREPROCESS_MODULUS, 0),
        Last::Bucketize(set) => (package::PREPROCESS_BUCKETIZE, set as u64),
        Last::SigridHash { salt, .. } => (package::PREPROCESS_SIGRID_HASH, salt as u64),
    };
    package::PreprocessColumn {
        missing: column.missing as u32,
        low: column.low as u32,
        high: column.high as u32,
        operation: operation as u8,
        operand,
    }
}

fn flow_of(flow: Flow) -> package::Flow {
    package::Flow::from_bits(flow.index() as u64)
}

/// A packet's beats: its bytes in the lanes of their offsets, arbitrary bytes in the others.
fn beats_of(packet: &Packet) -> impl Iterator<Item = ServiceBeat> {
    let lanes = BEAT_BYTES;
    let Packet { flow, offset, bytes } = packet;
    let end = offset + bytes.len() as u64;
    (offset / lanes..end.div_ceil(lanes)).map(move |word| {
        let mut data = [0xa5_u8; BEAT_BYTES as usize];
        let mut strobe = 0_u64;
        for lane in 0..lanes {
            let at = word * lanes + lane;
            if (*offset..end).contains(&at) {
                data[lane as usize] = bytes[(at - offset) as usize];
                strobe |= 1 << lane;
            }
        }
        let words = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        ServiceBeat {
            flow: flow_of(*flow),
            word,
            last: (word + 1) * lanes >= end,
            strobe,
            data: std::array::from_fn(|index| words(&data[4 * index..4 * index + 4])),
        }
    })
}

impl Path for RtlServices {
    fn configure(&mut self, flow: Flow, setting: Setting) {
        self.inputs.configure_valid_i = 1;
        self.inputs.configure_flow_i = flow.index() as u16;
        self.inputs.configure_i =
            package::Setting { map: setting.map as u8, tap: setting.tap as u8, value: setting.value }.pack();
        let (action, threshold) = setting.action.numbers();
        self.inputs.configure_rule_i = package::Rule { action, threshold }.to_bits();
        self.until(|outputs| outputs.configure_ready_o != 0);
        self.inputs.configure_valid_i = 0;
    }

    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome> {
        let mut waiting = packets.iter().flat_map(beats_of).peekable();
        let (mut first, mut last, mut beats, mut taken_last) = (None, 0, 0, 0);
        let mut bytes = vec![Vec::new()];
        let mut verdicts = Vec::new();
        let start = self.ticks;
        while bytes.len() <= packets.len() || verdicts.len() < packets.len() {
            let offered = waiting.peek().copied();
            self.inputs.in_valid_i = offered.is_some().into();
            if let Some(beat) = &offered {
                self.inputs.in_i = beat.pack();
            }
            self.tick();
            let now = self.ticks - 1;
            assert!(now - start < CYCLES_MAX, "services: still busy after {CYCLES_MAX} cycles");
            if let Some(beat) = offered.filter(|_| self.outputs.in_ready_o != 0) {
                waiting.next();
                first.get_or_insert(now);
                taken_last = if beat.last { now } else { taken_last };
                beats += 1;
            }
            if self.outputs.out_valid_o != 0 && self.inputs.out_ready_i != 0 {
                let beat = ServiceBeat::unpack(&self.outputs.out_o);
                let data = beat.data.iter().flat_map(|word| word.to_le_bytes());
                let strobed = data.enumerate().filter(|(lane, _)| beat.strobe >> lane & 1 != 0);
                bytes.last_mut().expect("there is one").extend(strobed.map(|(_, byte)| byte));
                last = now;
                if beat.last {
                    let of = &packets[bytes.len() - 1];
                    assert_eq!(flow_of(of.flow), beat.flow, "services: the flow of a beat has changed");
                    bytes.push(Vec::new());
                }
            }
            if self.outputs.verdict_valid_o != 0 {
                let TapVerdict { flow, verdict } = TapVerdict::from_bits(self.outputs.verdict_o);
                assert_eq!(
                    flow,
                    flow_of(packets[verdicts.len()].flow),
                    "services: a verdict of another flow"
                );
                verdicts.push(verdict);
                let is_behind_its_beat = waiting.peek().is_none() && verdicts.len() == packets.len();
                assert!(
                    !is_behind_its_beat || now == taken_last + SERVICE_TAP_LATENCY,
                    "services: a late verdict"
                );
            }
        }
        self.inputs.in_valid_i = 0;
        self.pace = first.filter(|_| self.free).map(|first| Pace {
            beats,
            // The first beat counts as a cycle, too.
            cycles: last + 1 - first,
            latency: SERVICE_LATENCY,
        });
        bytes.into_iter().zip(verdicts).map(|(bytes, verdict)| Outcome { bytes, verdict }).collect()
    }

    fn accept(&mut self, flow: Flow, verdict: u32) -> bool {
        self.inputs.accept_valid_i = 1;
        self.inputs.accept_i = TapVerdict { flow: flow_of(flow), verdict }.to_bits();
        self.until(|outputs| outputs.accept_ready_o != 0);
        self.inputs.accept_valid_i = 0;
        self.until(|outputs| outputs.judged_valid_o != 0);
        self.outputs.judged_marked_o != 0
    }

    fn reading(&mut self, flow: Flow) -> u64 {
        self.inputs.read_valid_i = 1;
        self.inputs.read_flow_i = flow.index() as u16;
        self.until(|outputs| outputs.read_ready_o != 0);
        self.inputs.read_valid_i = 0;
        self.until(|outputs| outputs.read_done_o != 0);
        self.outputs.read_state_o
    }

    fn pace(&self) -> Option<Pace> {
        self.pace
    }
}
