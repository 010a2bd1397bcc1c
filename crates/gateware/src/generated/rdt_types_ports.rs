/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `replica_i`.
    pub replica_i: u8,
    /// Port `type_i`.
    pub type_i: u8,
    /// Port `call_valid_i`.
    pub call_valid_i: u8,
    /// Port `answer_ready_i`.
    pub answer_ready_i: u8,
    /// Port `window_i`.
    pub window_i: u8,
    /// Port `call_i`.
    pub call_i: [u32; 13],
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `call_ready_o`.
    pub call_ready_o: u8,
    /// Port `answer_valid_o`.
    pub answer_valid_o: u8,
    /// Port `idle_o`.
    pub idle_o: u8,
    /// Port `answer_o`.
    pub answer_o: [u32; 15],
    /// Port `state_o`.
    pub state_o: [u32; 32],
}
