//! Environment variables that describe the device to a program. `weft run` sets them.

/// The device's IPv4 address; 127.0.0.1 if not set.
pub const ADDRESS: &str = "WEFT_RDMA_ADDRESS";
/// The device's name; `weft0` if not set.
pub const DEVICE: &str = "WEFT_RDMA_DEVICE";
/// The largest payload of a packet in bytes: 256, 512, 1024, 2048 or 4096.
pub const MTU: &str = "WEFT_RDMA_MTU";
