//! Services in the gateware, behind the card: the module `service_port`, connected to the card as in `roce_top`.

use std::collections::VecDeque;

use crate::model::Model;
use crate::model::service_port::{Inputs, Outputs, Top};
use crate::model::weft_nic;

/// Capacity in beats of the queues between card and services, as in `roce_top`.
const QUEUE: usize = 2;

/// The module and its connections to the card.
#[derive(Debug)]
pub(crate) struct ServicePort {
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    to_services: VecDeque<Beat>,
    from_services: VecDeque<Beat>,
}

/// A packed `service_beat_t`.
type Beat = [u32; 21];

impl ServicePort {
    /// The module after reset.
    pub(crate) fn new(power_on_seed: u32) -> Self {
        Self {
            model: Model::new(power_on_seed),
            inputs: Inputs::default(),
            outputs: Outputs::default(),
            to_services: VecDeque::with_capacity(QUEUE),
            from_services: VecDeque::with_capacity(QUEUE),
        }
    }

    /// Sets the inputs that the card gets from its services in this cycle.
    pub(crate) fn drive(&self, card: &mut weft_nic::Inputs) {
        card.service_readings_i = self.outputs.readings_o;
        card.serve_valid_i = self.outputs.serve_valid_o;
        card.serve_qp_i = self.outputs.serve_qp_o;
        card.serve_i = self.outputs.serve_o;
        card.service_ready_i = (self.to_services.len() < QUEUE).into();
        card.served_valid_i = (!self.from_services.is_empty()).into();
        if let Some(beat) = self.from_services.front() {
            card.served_i = *beat;
        }
        card.judged_valid_i = self.outputs.judged_valid_o;
        card.judged_marked_i = self.outputs.judged_marked_o;
    }

    /// Simulates the cycle that the card has just simulated. Returns whether nothing is in progress.
    pub(crate) fn step(&mut self, time_ps: u64, driven: &weft_nic::Inputs, card: &weft_nic::Outputs) -> bool {
        let inputs = &mut self.inputs;
        inputs.registers_i = card.service_registers_o;
        inputs.service_valid_i = (!self.to_services.is_empty()).into();
        if let Some(beat) = self.to_services.front() {
            inputs.service_i = *beat;
        }
        inputs.served_ready_i = (self.from_services.len() < QUEUE).into();
        self.model.step(inputs, &mut self.outputs, time_ps);
        if driven.served_valid_i != 0 && card.served_ready_o != 0 {
            self.from_services.pop_front();
        }
        if self.outputs.served_valid_o != 0 && self.inputs.served_ready_i != 0 {
            self.from_services.push_back(self.outputs.served_o);
        }
        if self.inputs.service_valid_i != 0 && self.outputs.service_ready_o != 0 {
            self.to_services.pop_front();
        }
        if card.service_valid_o != 0 && driven.service_ready_i != 0 {
            self.to_services.push_back(card.service_o);
        }
        self.outputs.idle_o != 0 && self.to_services.is_empty() && self.from_services.is_empty()
    }
}
