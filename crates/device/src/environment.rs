//! How a program's device is described to it: by variables of its environment, which `weft run` sets.

/// The IPv4 address of the device; 127.0.0.1 without it.
pub const ADDRESS: &str = "WEFT_RDMA_ADDRESS";
/// The device's name; `weft0` without it.
pub const DEVICE: &str = "WEFT_RDMA_DEVICE";
/// Payload bytes in a packet: 256, 512, 1024, 2048 or 4096.
pub const MTU: &str = "WEFT_RDMA_MTU";
