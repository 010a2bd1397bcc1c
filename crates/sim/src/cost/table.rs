//! The table of all constants, for the documentation.

use std::fmt::Write;

use super::procedures::PROCEDURES;
use super::{
    CostProfile, Execution, HAMBAND_PROCESS, HOST_DATAGRAMS, HOST_PROCESS, HOST_PROCESSOR, HOST_TRANSACTION,
};
use crate::network::NetworkProfile;

/// All profiles as one Markdown table, followed by the published measurements that the sums of constants are
/// checked against.
pub fn cost_table_markdown() -> String {
    let mut table = String::from("| profile | part | constant | value | source |\n|---|---|---|---:|---|\n");
    for profile in CostProfile::TABLE {
        for (part, figure) in profile.figures() {
            let (name, amount, source) = (figure.name, figure.amount(), figure.source);
            // A write to a String cannot fail.
            let _ = writeln!(table, "| `{}` | {part} | {name} | {amount} | {source} |", profile.name);
        }
    }
    let Execution::Verbs { operation, .. } = CostProfile::RDMA_CARD_PARALLEL.execution else {
        unreachable!("the card does verbs")
    };
    let parallel = CostProfile::RDMA_CARD_PARALLEL.name;
    let _ = writeln!(
        table,
        "| `{parallel}` | work | {} | {} | {} |",
        operation.name,
        operation.amount(),
        operation.source
    );
    let Execution::Cores { threads, .. } = CostProfile::CORES_ALL.execution else {
        unreachable!("the card has cores")
    };
    let all = CostProfile::CORES_ALL.name;
    let _ =
        writeln!(table, "| `{all}` | work | {} | {} | {} |", threads.name, threads.amount(), threads.source);
    let safardb = CostProfile::FPGA_SAFARDB;
    for (part, figure) in [("receive", safardb.receive[0]), ("transmit", safardb.transmit[0])] {
        let (name, amount, source) = (figure.name, figure.amount(), figure.source);
        let _ = writeln!(table, "| `{}` | {part} | {name} | {amount} | {source} |", safardb.name);
    }
    let process = HOST_PROCESS.figures().map(|figure| ("host process", figure));
    let two_cores = HAMBAND_PROCESS.figures().map(|figure| ("host process, two cores", figure));
    let transactions = HOST_TRANSACTION.figures().map(|figure| ("host, transactions", figure));
    let datagrams = HOST_DATAGRAMS.figures().map(|figure| ("host process, datagrams", figure));
    let datagrams = datagrams.into_iter().filter(|(_, figure)| !HOST_PROCESS.figures().contains(figure));
    let processor = HOST_PROCESSOR.figures().map(|figure| ("host processor", figure));
    let procedures = PROCEDURES.map(|(_, figure)| ("host, transactions", figure));
    let rest = transactions.into_iter().chain(procedures).chain(datagrams).chain(processor);
    for (profile, figure) in process.into_iter().chain(two_cores).chain(rest) {
        let (name, amount, source) = (figure.name, figure.amount(), figure.source);
        let _ = writeln!(table, "| {profile} | work | {name} | {amount} | {source} |");
    }
    table.push('\n');
    for profile in CostProfile::TABLE {
        let _ = writeln!(table, "- `{}`: {}.", profile.name, profile.basis);
    }
    let application = CostProfile::FPGA_APPLICATION.name;
    let _ =
        writeln!(table, "- `{application}`: `fpga` without the host bus: the application is on the card.");
    let _ = writeln!(
        table,
        "- `{}`: `{application}` with SafarDB's passages, which contain the network, in place of NIC-KV's.",
        safardb.name
    );
    let _ =
        writeln!(table, "- `{parallel}`: `rdma-card` with many queue pairs at work, which fill the link.");
    let _ = writeln!(
        table,
        "- host process: an engine on one core beside an `rdma-card`, or on several threads."
    );
    let _ = writeln!(
        table,
        "- host process, two cores: as Hamband's, one for calls and completions, one for timers, memory and\n  messages; the rest as above."
    );
    let _ = writeln!(
        table,
        "- host, transactions: the program beside `cores` that starts transactions and applies their log."
    );
    let _ = writeln!(table, "- `{all}`: `cores` with all of the card's.");
    let _ = writeln!(
        table,
        "- host process, datagrams: as host process, which sends and takes its messages with verbs of the card."
    );
    let _ = writeln!(
        table,
        "- host processor: two threads on a core do more than one, and each less; of all programs of transactions on hosts."
    );
    table.push_str("\n| network | constant | value | source |\n|---|---|---:|---|\n");
    for figure in [NetworkProfile::DETPU.one_way_min, NetworkProfile::DETPU.one_way_max] {
        let (name, amount, source) = (figure.name, figure.amount(), figure.source);
        let _ = writeln!(table, "| `{}` | {name} | {amount} | {source} |", NetworkProfile::DETPU.name);
    }
    table.push_str(
        "\nTransactions run on a network that loses nothing, all systems alike: RoCE cards are run with flow control by priority\n\
         (IEEE 802.1Qbb), without which READs of several servers overflow the 1 MiB of a port and are repeated without end.\n\
         What a port has no room for waits there and holds up nothing else, which is better than a real network, and favours\n\
         those that overload it. A queue pair between two servers stands for those of all 32 threads, which have 16 READs or\n\
         ATOMICs under way each: together 512, of which its 8 bits allow 255.\n",
    );
    table
        .push_str("\n| published measurement | value | source | what the model says |\n|---|---:|---|---|\n");
    for check in &MEASUREMENTS {
        let _ = writeln!(table, "| {} | {} | {} | {} |", check.what, check.value, check.source, check.model);
    }
    table
}

/// A published end-to-end measurement, and the model's value for it.
struct Measurement {
    what: &'static str,
    value: &'static str,
    source: &'static str,
    model: &'static str,
}

/// The tests of [`super`] check the models' values.
const MEASUREMENTS: [Measurement; 8] = [
    Measurement {
        what: "read in an FPGA (1 KB, to judge by the MAC times)",
        value: "873 ns",
        source: "NIC-KV table 5.7",
        model: "`fpga`: 790 ns, and 82 ns for the bytes on the link",
    },
    Measurement {
        what: "write in a replica's FPGA (likewise)",
        value: "856 ns",
        source: "NIC-KV table 5.7",
        model: "`fpga`: 798 ns, and 82 ns for the bytes on the link",
    },
    Measurement {
        what: "leader's part of a write, before the followers'",
        value: "472 ns",
        source: "NIC-KV table 5.9",
        model: "`fpga`: 414 ns, and the write of its own memory, which NIC-KV does not wait for",
    },
    Measurement {
        what: "replicated operations in software behind the same card",
        value: "45 to 164 us",
        source: "NIC-KV table 5.13",
        model: "none: through a kernel's network stack, which `host-card` bypasses",
    },
    Measurement {
        what: "RDMA read and write between two hosts",
        value: "1.8 and 2.0 us",
        source: "SafarDB table 2.1",
        model: "`rdma-card`: 1.64 us for both and the network twice; 1.08 us for a WRITE that goes along with its request",
    },
    Measurement {
        what: "RDMA write into the peer FPGA's HBM, block RAM, register",
        value: "413, 309, 285 ns",
        source: "SafarDB table C.1, one way, with the network",
        model: "`fpga`: 798, 414, 414 ns and the network, with NIC-KV's MACs, pipelines and HBM; Weft's gateware, without MACs and \
                network: 584, 200, 200 ns",
    },
    Measurement {
        what: "remote operations of SmartNIC and RDMA card, 256 B",
        value: "an order, without numbers",
        source: "Xenic section 3.2",
        model: "`cores` from NIC: 1.70 us to the NIC, 3.18 us to host memory; from the host: 4.21, 5.69 and 6.86 us to NIC, memory and host; \
                `rdma-card`: WRITE 1.93, READ 2.49, message and answer 3.79 us: in the same order",
    },
    Measurement {
        what: "batched writes of 16 B to memory of NIC and host",
        value: "the network's rate; 63 to 73 Mops/s",
        source: "Xenic figure 3, section 3.4",
        model: "`cores`: the network's rate, since the cores could handle 330 Mops/s; 69.6 Mops/s",
    },
];
