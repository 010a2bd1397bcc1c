/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `event_valid_i`.
    pub event_valid_i: u8,
    /// Port `payload_valid_i`.
    pub payload_valid_i: u8,
    /// Port `silence_i`.
    pub silence_i: u8,
    /// Port `message_ready_i`.
    pub message_ready_i: u8,
    /// Port `body_ready_i`.
    pub body_ready_i: u8,
    /// Port `memory_aw_ready_i`.
    pub memory_aw_ready_i: u8,
    /// Port `memory_w_ready_i`.
    pub memory_w_ready_i: u8,
    /// Port `memory_b_valid_i`.
    pub memory_b_valid_i: u8,
    /// Port `memory_b_response_i`.
    pub memory_b_response_i: u8,
    /// Port `memory_ar_ready_i`.
    pub memory_ar_ready_i: u8,
    /// Port `memory_r_valid_i`.
    pub memory_r_valid_i: u8,
    /// Port `now_i`.
    pub now_i: u64,
    /// Port `event_i`.
    pub event_i: [u32; 7],
    /// Port `payload_i`.
    pub payload_i: [u32; 17],
    /// Port `configuration_i`.
    pub configuration_i: [u32; 4],
    /// Port `period_i`.
    pub period_i: u64,
    /// Port `one_way_i`.
    pub one_way_i: u64,
    /// Port `memory_r_i`.
    pub memory_r_i: [u32; 17],
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `event_ready_o`.
    pub event_ready_o: u8,
    /// Port `payload_ready_o`.
    pub payload_ready_o: u8,
    /// Port `message_valid_o`.
    pub message_valid_o: u8,
    /// Port `body_valid_o`.
    pub body_valid_o: u8,
    /// Port `timer_valid_o`.
    pub timer_valid_o: u8,
    /// Port `timer_tag_o`.
    pub timer_tag_o: u8,
    /// Port `memory_aw_valid_o`.
    pub memory_aw_valid_o: u8,
    /// Port `memory_w_valid_o`.
    pub memory_w_valid_o: u8,
    /// Port `memory_ar_valid_o`.
    pub memory_ar_valid_o: u8,
    /// Port `memory_r_ready_o`.
    pub memory_r_ready_o: u8,
    /// Port `idle_o`.
    pub idle_o: u8,
    /// Port `events_o`.
    pub events_o: u32,
    /// Port `status_o`.
    pub status_o: u64,
    /// Port `message_o`.
    pub message_o: [u32; 5],
    /// Port `body_o`.
    pub body_o: [u32; 17],
    /// Port `timer_at_o`.
    pub timer_at_o: u64,
    /// Port `memory_aw_o`.
    pub memory_aw_o: u64,
    /// Port `memory_w_o`.
    pub memory_w_o: [u32; 19],
    /// Port `memory_ar_o`.
    pub memory_ar_o: u64,
}
