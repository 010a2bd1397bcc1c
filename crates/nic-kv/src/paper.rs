//! The results that NIC-KV's tables give for its cards. Times are in nanoseconds unless a name says otherwise.

/// Packet sizes of the paper's tables 5.1 to 5.6, in bytes.
pub(super) const SIZES: [u32; 6] = [128, 256, 512, 1_024, 2_048, 4_096];

/// Bytes of the operations in the paper's tables from 5.7 on.
#[cfg(test)]
pub(super) const BYTES: u32 = 1_024;

/// The path of an operation through a card, part by part (tables 5.7 and 5.8).
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) mac_receive: u64,
    pub(super) replication_receive: u64,
    pub(super) memory: u64,
    pub(super) replication_transmit: u64,
    pub(super) mac_transmit: u64,
}

pub(super) const READ: Way = Way {
    mac_receive: 71,
    replication_receive: 152,
    memory: 376,
    replication_transmit: 120,
    mac_transmit: 154,
};

/// A write at a replica.
pub(super) const WRITE: Way = Way {
    mac_receive: 117,
    replication_receive: 164,
    memory: 384,
    replication_transmit: 120,
    mac_transmit: 71,
};

/// Time in which the MAC receives or sends a frame without a value (table 5.8).
pub(super) const MAC_SHORT: u64 = 71;

/// A write at a leader (table 5.9).
pub(super) mod leader_write {
    pub(in super::super) const LEADER: u64 = 472;
    pub(in super::super) const REPLICA: u64 = 856;
    pub(in super::super) const ACKNOWLEDGE: u64 = 448;
    pub(in super::super) const WITHOUT_NETWORK: u64 = 1_776;
    pub(in super::super) const WITH_NETWORK: u64 = 2_352;
    /// Two round trips over half a metre of fibre, including transceivers: the difference of the two totals.
    pub(in super::super) const NETWORK: u64 = WITH_NETWORK - WITHOUT_NETWORK;
    /// The number in the same table's column `Network`. It differs from the difference of the totals.
    pub(in super::super) const NETWORK_COLUMN: u64 = 952;
}

/// Times that replication and memory add to a card without them (table 5.11).
pub(super) mod added {
    pub(in super::super) const READ: (u64, u64) = (272, 376);
    pub(in super::super) const WRITE: (u64, u64) = (284, 384);
    pub(in super::super) const LEADER_WRITE: (u64, u64) = (544, 384);
}

/// Times of replication in software on the host behind the same card (table 5.13), in microseconds.
pub(super) mod software_us {
    pub(in super::super) const READ: f64 = 45.0;
    pub(in super::super) const WRITE: f64 = 48.0;
    pub(in super::super) const LEADER_WRITE: f64 = 164.0;
}

/// A column of a table whose rows are packet sizes. The last sizes are missing where the paper's table ends
/// earlier.
pub(super) struct BySize {
    pub(super) column: &'static str,
    pub(super) ns: &'static [u64],
}

/// A table whose rows are packet sizes.
pub(super) struct SizeTable {
    pub(super) number: &'static str,
    pub(super) title: &'static str,
    pub(super) columns: &'static [BySize],
}

const fn by_size(column: &'static str, ns: &'static [u64]) -> BySize {
    BySize { column, ns }
}

/// Times in which the MAC receives a packet, and in which it sends one (table 5.4).
const MAC_RECEIVE: [u64; 6] = [73, 78, 89, 117, 165, 265];
const MAC_TRANSMIT: [u64; 6] = [63, 76, 106, 154, 256, 456];

/// Times between MAC and HBM: totals here, their parts in `HBM_TABLES`.
pub(super) const HBM_WRITE: [u64; 6] = [261, 281, 325, 417, 593, 949];
pub(super) const HBM_READ: [u64; 6] = [635, 660, 722, 834, 1_064, 1_536];

pub(super) const HBM_TABLES: [SizeTable; 2] = [
    SizeTable {
        number: "5.3",
        title: "MAC to HBM and HBM to MAC",
        columns: &[by_size("write", &HBM_WRITE), by_size("read", &HBM_READ)],
    },
    SizeTable {
        number: "5.4",
        title: "MAC to HBM and HBM to MAC, by part",
        columns: &[
            by_size("write: MAC", &MAC_RECEIVE),
            by_size("write: mover", &[20; 6]),
            by_size("write: HBM", &[168, 184, 216, 296, 408, 664]),
            by_size("read: HBM", &[524, 540, 576, 636, 764, 1_036]),
            by_size("read: mover", &[48, 44, 44, 44, 44, 44]),
            by_size("read: MAC", &MAC_TRANSMIT),
        ],
    },
];

/// Tables about the host's bus. Here the bus is a model, so there is nothing to compare with.
pub(super) const HOST_TABLES: [SizeTable; 4] = [
    SizeTable {
        number: "5.1",
        title: "host to MAC and MAC to host",
        columns: &[
            by_size("out: descriptor", &[540; 5]),
            by_size("out: write", &[941, 971, 1_005, 1_120, 1_236]),
            by_size("in: descriptor", &[532, 536, 536, 536, 528]),
            by_size("in: read", &[886, 915, 977, 1_038, 1_166]),
        ],
    },
    SizeTable {
        number: "5.2",
        title: "host to MAC and MAC to host, by part",
        columns: &[
            by_size("out: host to DMA", &[560, 576, 600, 672, 740]),
            by_size("out: DMA", &[320, 328, 328, 344, 344]),
            by_size("out: DMA to MAC", &[16; 5]),
            by_size("out: MAC", &[45, 51, 61, 88, 136]),
            by_size("in: MAC", &[62, 75, 105, 162, 276]),
            by_size("in: MAC to DMA", &[16; 5]),
            by_size("in: DMA", &[520, 520, 520, 488, 428]),
            by_size("in: DMA to host", &[288, 304, 336, 372, 446]),
        ],
    },
    SizeTable {
        number: "5.5",
        title: "host to HBM and HBM to host",
        columns: &[
            by_size("write: descriptor", &[544, 540, 544, 544, 544, 544]),
            by_size("write", &[1_160, 1_200, 1_276, 1_463, 1_576, 1_828]),
            by_size("read: descriptor", &[540, 544, 544, 540, 540, 536]),
            by_size("read", &[956, 992, 1_072, 1_136, 1_264, 3_617]),
        ],
    },
    SizeTable {
        number: "5.6",
        title: "host to HBM and HBM to host, by part",
        columns: &[
            by_size("write: host to DMA", &[560, 576, 604, 679, 740, 916]),
            by_size("write: DMA", &[408, 416, 432, 480, 404, 228]),
            by_size("write: DMA to HBM", &[192, 208, 240, 304, 432, 684]),
            by_size("read: HBM to DMA", &[284, 308, 340, 404, 528, 1_204]),
            by_size("read: DMA", &[384, 380, 396, 332, 212, 212]),
            by_size("read: DMA to host", &[288, 304, 336, 400, 532, 2_480]),
        ],
    },
];

impl Way {
    pub(super) const fn mac(&self) -> u64 {
        self.mac_receive + self.mac_transmit
    }

    pub(super) const fn replication(&self) -> u64 {
        self.replication_receive + self.replication_transmit
    }

    pub(super) const fn total(&self) -> u64 {
        self.mac() + self.replication() + self.memory
    }
}

/// Time in which the MAC receives a frame with a value of `bytes` bytes.
pub(super) fn mac_receive(bytes: u32) -> u64 {
    between(&MAC_RECEIVE, bytes)
}

/// Time in which the MAC sends a frame with a value of `bytes` bytes.
pub(super) fn mac_transmit(bytes: u32) -> u64 {
    between(&MAC_TRANSMIT, bytes)
}

/// Interpolates linearly between the sizes that the paper lists. Sizes below the first use the first.
fn between(column: &[u64; 6], bytes: u32) -> u64 {
    let Some(above) = SIZES.iter().position(|size| *size >= bytes) else { return column[column.len() - 1] };
    if above == 0 || SIZES[above] == bytes {
        return column[above];
    }
    let (from, to) = (u64::from(SIZES[above - 1]), u64::from(SIZES[above]));
    let (low, high) = (column[above - 1], column[above]);
    low + ((high - low) * (u64::from(bytes) - from) + (to - from) / 2) / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adding up the paper's figures yields the sums that the paper gives.
    #[test]
    fn the_papers_figures_agree_with_each_other() {
        assert_eq!((READ.total(), WRITE.total()), (873, 856));
        assert_eq!((READ.mac(), WRITE.mac()), (225, 188));
        assert_eq!((READ.replication(), WRITE.replication()), (272, 284));
        use leader_write::{ACKNOWLEDGE, LEADER, NETWORK, NETWORK_COLUMN, REPLICA, WITHOUT_NETWORK};
        assert_eq!(LEADER + REPLICA + ACKNOWLEDGE, WITHOUT_NETWORK);
        assert_eq!(REPLICA, WRITE.total());
        assert_eq!(LEADER, WRITE.mac() + WRITE.replication());
        assert_eq!(added::LEADER_WRITE.0, LEADER + ACKNOWLEDGE - 2 * WRITE.mac());
        assert_eq!(NETWORK, 576);
        assert_ne!(NETWORK, NETWORK_COLUMN, "the paper's own columns do not");
        let [whole, parts] = &HBM_TABLES;
        for (at, (write, read)) in HBM_WRITE.iter().zip(&HBM_READ).enumerate() {
            let sum = |columns: &[BySize]| columns.iter().map(|column| column.ns[at]).sum::<u64>();
            // The paper's figures are averages, so the sums agree only within 4 ns, and for the write of 1 KB
            // within 16 ns.
            assert!(sum(&parts.columns[..3]).abs_diff(*write) <= 16, "{}", whole.title);
            assert!(sum(&parts.columns[3..]).abs_diff(*read) <= 4, "{}", whole.title);
        }
    }

    #[test]
    fn the_mac_of_a_listed_size_is_the_listed_one() {
        assert_eq!((mac_receive(BYTES), mac_transmit(BYTES)), (WRITE.mac_receive, READ.mac_transmit));
        assert_eq!((mac_receive(8), mac_receive(128)), (73, 73));
        assert_eq!(mac_receive(768), 103);
        assert_eq!(mac_transmit(9_000), 456);
    }
}
