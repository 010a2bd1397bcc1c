/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `configure_valid_i`.
    pub configure_valid_i: u8,
    /// Port `in_valid_i`.
    pub in_valid_i: u8,
    /// Port `out_ready_i`.
    pub out_ready_i: u8,
    /// Port `accept_valid_i`.
    pub accept_valid_i: u8,
    /// Port `read_valid_i`.
    pub read_valid_i: u8,
    /// Port `preprocess_write_valid_i`.
    pub preprocess_write_valid_i: u8,
    /// Port `configure_flow_i`.
    pub configure_flow_i: u16,
    /// Port `read_flow_i`.
    pub read_flow_i: u16,
    /// Port `configure_i`.
    pub configure_i: [u32; 3],
    /// Port `configure_rule_i`.
    pub configure_rule_i: u64,
    /// Port `in_i`.
    pub in_i: [u32; 21],
    /// Port `accept_i`.
    pub accept_i: u64,
    /// Port `preprocess_write_i`.
    pub preprocess_write_i: [u32; 6],
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `configure_ready_o`.
    pub configure_ready_o: u8,
    /// Port `in_ready_o`.
    pub in_ready_o: u8,
    /// Port `out_valid_o`.
    pub out_valid_o: u8,
    /// Port `verdict_valid_o`.
    pub verdict_valid_o: u8,
    /// Port `accept_ready_o`.
    pub accept_ready_o: u8,
    /// Port `judged_valid_o`.
    pub judged_valid_o: u8,
    /// Port `judged_marked_o`.
    pub judged_marked_o: u8,
    /// Port `read_ready_o`.
    pub read_ready_o: u8,
    /// Port `read_done_o`.
    pub read_done_o: u8,
    /// Port `out_o`.
    pub out_o: [u32; 21],
    /// Port `verdict_o`.
    pub verdict_o: u64,
    /// Port `read_state_o`.
    pub read_state_o: u64,
}
