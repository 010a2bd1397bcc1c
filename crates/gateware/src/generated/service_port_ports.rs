/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `service_valid_i`.
    pub service_valid_i: u8,
    /// Port `served_ready_i`.
    pub served_ready_i: u8,
    /// Port `registers_i`.
    pub registers_i: u64,
    /// Port `service_i`.
    pub service_i: [u32; 21],
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `serve_valid_o`.
    pub serve_valid_o: u8,
    /// Port `serve_o`.
    pub serve_o: u8,
    /// Port `service_ready_o`.
    pub service_ready_o: u8,
    /// Port `served_valid_o`.
    pub served_valid_o: u8,
    /// Port `judged_valid_o`.
    pub judged_valid_o: u8,
    /// Port `judged_marked_o`.
    pub judged_marked_o: u8,
    /// Port `idle_o`.
    pub idle_o: u8,
    /// Port `serve_qp_o`.
    pub serve_qp_o: u16,
    /// Port `readings_o`.
    pub readings_o: [u32; 3],
    /// Port `served_o`.
    pub served_o: [u32; 21],
}
