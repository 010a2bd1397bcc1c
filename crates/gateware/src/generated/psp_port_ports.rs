/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `write_valid_i`.
    pub write_valid_i: u8,
    /// Port `write_register_i`.
    pub write_register_i: u8,
    /// Port `rx_valid_i`.
    pub rx_valid_i: u8,
    /// Port `rx_last_i`.
    pub rx_last_i: u8,
    /// Port `rx_error_i`.
    pub rx_error_i: u8,
    /// Port `tx_ready_i`.
    pub tx_ready_i: u8,
    /// Port `card_tx_valid_i`.
    pub card_tx_valid_i: u8,
    /// Port `write_data_i`.
    pub write_data_i: u32,
    /// Port `rx_data_i`.
    pub rx_data_i: [u32; 16],
    /// Port `rx_keep_i`.
    pub rx_keep_i: u64,
    /// Port `card_tx_i`.
    pub card_tx_i: [u32; 17],
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `tx_valid_o`.
    pub tx_valid_o: u8,
    /// Port `tx_last_o`.
    pub tx_last_o: u8,
    /// Port `card_rx_valid_o`.
    pub card_rx_valid_o: u8,
    /// Port `card_rx_last_o`.
    pub card_rx_last_o: u8,
    /// Port `card_rx_error_o`.
    pub card_rx_error_o: u8,
    /// Port `card_tx_ready_o`.
    pub card_tx_ready_o: u8,
    /// Port `idle_o`.
    pub idle_o: u8,
    /// Port `events_o`.
    pub events_o: u16,
    /// Port `tx_data_o`.
    pub tx_data_o: [u32; 16],
    /// Port `card_rx_data_o`.
    pub card_rx_data_o: [u32; 16],
    /// Port `tx_keep_o`.
    pub tx_keep_o: u64,
    /// Port `card_rx_keep_o`.
    pub card_rx_keep_o: u64,
}
