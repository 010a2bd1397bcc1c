//! Small benchmarks in both worlds.

use std::process::Command;

use super::*;

fn small(operation: RdmaOperation) -> RdmaBench {
    let size_bytes = if operation.is_atomic() { 8 } else { 3_001 };
    RdmaBench {
        operation,
        size_bytes,
        mtu_bytes: 1_024,
        amount: Amount::Messages(400),
        tx_depth: Some(16),
        seed: 5,
        ..RdmaBench::default()
    }
}

fn loss(probability: f64) -> FaultPlan {
    let text =
        format!("[[fault]]\nkind = \"loss\"\nfrom_us = 0\nuntil_us = 1000000\nprobability = {probability}\n");
    FaultPlan::parse(&text).unwrap()
}

#[test]
fn every_operation_arrives_and_is_verified() {
    for operation in RdmaOperation::ALL {
        for queue_pairs in [1, 3] {
            let result = RdmaBench { queue_pairs, ..small(operation) }.run().unwrap();
            assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
            assert!(result.messages >= 400 && result.messages <= 400 + u64::from(queue_pairs), "{operation}");
            assert_eq!(result.latency.operations, LATENCY_MESSAGES);
            assert!(result.p50_ns > 1_000 && result.p50_ns <= result.p999_ns, "{operation}");
            assert!(
                (0.001..1.0).contains(&result.fraction_of_limit),
                "{operation}: {}",
                result.fraction_of_limit
            );
            assert!(result.verification.messages >= 16, "{operation}");
            let text = result.to_text();
            assert!(text.contains("data verified") && text.contains("#bytes"), "{text}");
        }
    }
}

#[test]
fn a_seed_decides_a_run() {
    for faults in [None, Some(loss(0.01))] {
        let bench = RdmaBench { faults, ..small(RdmaOperation::Write) };
        let first = bench.run().unwrap();
        assert_eq!(bench.run().unwrap(), first);
        let other = RdmaBench { seed: 6, ..bench }.run().unwrap();
        assert_ne!(other.log_hash, first.log_hash);
    }
}

#[test]
fn lost_packets_are_made_good() {
    for operation in RdmaOperation::ALL {
        let whole = small(operation).run().unwrap();
        let result = RdmaBench { faults: Some(loss(0.01)), ..small(operation) }.run().unwrap();
        assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
        assert_ne!(result.log_hash, whole.log_hash, "{operation}: something was lost");
        assert!(result.messages_per_s < whole.messages_per_s, "{operation}");
    }
}

/// If a link loses every frame, the run fails with the status that verbs define for this case.
#[test]
fn a_dead_link_is_an_error() {
    let error = RdmaBench { faults: Some(loss(1.0)), ..small(RdmaOperation::Write) }.run().unwrap_err();
    assert!(error.to_string().contains("IBV_WC_RETRY_EXC_ERR") && !error.is_usage(), "{error}");
}

/// The gateware executes the same operations as the soft NIC, with its own times. Each goes through loss; WRITEs, READs
/// and SENDs without it, too.
#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn the_gateware_carries_every_operation() {
    for operation in RdmaOperation::ALL {
        let undisturbed =
            matches!(operation, RdmaOperation::Write | RdmaOperation::Send | RdmaOperation::Read);
        let lossy = Some(loss(0.01));
        let plans = if undisturbed { vec![None, lossy] } else { vec![lossy] };
        for faults in plans {
            let repeated = operation == RdmaOperation::Write && faults.is_some();
            let bench = RdmaBench {
                nic: NicModel::Rtl,
                queue_pairs: 3,
                amount: Amount::Messages(40),
                faults,
                ..small(operation)
            };
            let result = bench.run().unwrap();
            assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
            assert_eq!((result.nic.as_str(), result.latency.operations), ("rtl", LATENCY_MESSAGES_RTL));
            if repeated {
                let again = bench.run().unwrap().without_wall_clock();
                assert_eq!(again, result.without_wall_clock(), "a seed decides a run");
            }
        }
    }
}

#[test]
fn directions_are_measured_at_once() {
    for operation in RdmaOperation::ALL {
        for (direction, count) in [(Directions::Both, 2), (Directions::Ring(3), 3)] {
            let result = RdmaBench { direction, ..small(operation) }.run().unwrap();
            assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
            assert_eq!(result.directions.len(), count);
            assert!(result.messages >= 400 * count as u64);
            assert_eq!(result.latency.operations, LATENCY_MESSAGES);
            // Acknowledgements of the other direction use part of the wire.
            let plain = result.plain_limit.as_ref().unwrap();
            assert!(plain.goodput_bits_per_s > result.limit.goodput_bits_per_s, "{operation}");
            let smallest = result.directions.iter().map(|one| one.fraction_of_limit).fold(1.0, f64::min);
            assert_eq!(result.fraction_of_limit, smallest);
            assert!(result.to_text().contains(" of the plain one"));
        }
    }
}

#[test]
fn messages_of_random_sizes_arrive_through_loss() {
    let operations = RdmaOperation::ALL.into_iter().filter(|operation| !operation.is_atomic());
    for operation in operations {
        let bench = RdmaBench { random_sizes: true, faults: Some(loss(0.01)), ..small(operation) };
        let result = bench.run().unwrap();
        assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
        let bound = result.loss_bound.unwrap();
        assert!((bound.packet_loss - 0.0199).abs() < 1e-9, "two links, each of which loses 1 %");
        assert!(bound.goodput_bits_per_s < result.limit.goodput_bits_per_s);
        assert!((0.0..1.0).contains(&bound.fraction_of_bound) && bound.packets_sent_per_packet > 1.0);
    }
}

/// Every queue pair gets its share, even if the whole load can be posted at once.
#[test]
fn a_load_that_fits_the_queues_is_shared() {
    let bench = RdmaBench {
        queue_pairs: 32,
        tx_depth: Some(4_096),
        amount: Amount::Messages(8_000),
        size_bytes: 64,
        ..RdmaBench::default()
    };
    let result = bench.run().unwrap();
    assert!(result.jain_index > 0.99, "{}", result.jain_index);
}

#[test]
fn frames_are_captured_and_traced() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("captures");
    let artifacts = Artifacts { capture: Some(capture.clone()), trace: true, waveform: None };
    let result = RdmaBench { artifacts, ..small(RdmaOperation::Write) }.run().unwrap();
    for port in ["client", "server"] {
        assert!(std::fs::metadata(capture.join(format!("{port}-port0.pcapng"))).unwrap().len() > 400 * 3_001);
    }
    let trace = String::from_utf8_lossy(result.trace.as_deref().unwrap()).into_owned();
    assert!(trace.contains("WriteFirst psn") && trace.contains("Acknowledge psn"));
}

#[test]
fn large_writes_fill_the_wire() {
    let bench = RdmaBench { amount: Amount::Time(Duration::from_us(500)), ..RdmaBench::default() };
    let result = bench.run().unwrap();
    assert!(
        result.fraction_of_limit > 0.9 && result.fraction_of_limit <= 1.0,
        "{}",
        result.fraction_of_limit
    );
    // 16 packets of 4,096 bytes, each with 78 bytes around it (14 + 20 + 8 + 12 + 24) and an ICRC, and a RETH
    // in the first.
    let bytes: f64 = 65_536.0 + 16.0 * (78.0 + 4.0) + 16.0;
    let expected = 1e11 * 65_536.0 / bytes;
    assert!((result.limit.goodput_bits_per_s / expected - 1.0).abs() < 1e-9, "{}", result.limit.what);
}

#[test]
fn many_queue_pairs_share_fairly() {
    let result = RdmaBench::fairness(3).run().unwrap();
    assert_eq!((result.qps, result.busy_qps), (500, 32));
    assert!(result.jain_index >= 0.99, "{}", result.jain_index);
    assert_eq!(result.checked, DataChecked::Verified);
}

#[test]
fn the_index_of_fairness_is_jains() {
    assert_eq!(jain_index(&[7, 7, 7]), 1.0);
    assert_eq!(jain_index(&[1, 0, 0, 0]), 0.25);
    assert_eq!(jain_index(&[]), 0.0);
}

/// The check detects every kind of error that it is meant for: another message, a flipped bit, a word that
/// was incremented twice.
#[test]
fn wrong_bytes_are_noticed() {
    use payload::{ClientMemory, MessageId, ServerMemory, TARGET};
    use weft_rdma::FlatMemory;

    let load = RdmaBench { tx_depth: Some(2), ..small(RdmaOperation::Write) }.load();
    let mut sent = FlatMemory::new(payload::memory_bytes(&load) as usize);
    ClientMemory::new(load, &mut sent);
    let finish = |memory: &mut FlatMemory, load, sent: &[u64]| {
        ServerMemory::new(load, &mut FlatMemory::new(1 << 20), None).finish(memory, sent, &[])
    };
    assert_eq!(finish(&mut sent, load, &[2]).mismatches, 0);
    assert_eq!(finish(&mut sent, load, &[3]).mismatches, 1, "the buffer of message 2 holds message 0");
    assert_eq!(finish(&mut sent, load, &[1]).mismatches, 1, "message 1 was never sent");
    let last = ClientMemory::address(&load, MessageId { flow: 0, number: 1 }) as usize + 3_000;
    sent.image_mut(TARGET)[last] ^= 1;
    let verification = finish(&mut sent, load, &[2]);
    assert_eq!((verification.mismatches, verification.messages), (1, 2));
    assert!(verification.first.unwrap().contains("number: 1"));

    let load = small(RdmaOperation::FetchAdd).load();
    let mut words = FlatMemory::new(1 << 12);
    words.image_mut(TARGET)[0] = 9;
    assert_eq!(finish(&mut words, load, &[9]).mismatches, 0);
    assert_eq!(finish(&mut words, load, &[8]).mismatches, 1);
}

#[test]
fn wrong_options_are_one_clear_line() {
    let good = RdmaBench::default;
    let wrong = [
        (RdmaBench { size_bytes: 0, ..good() }, "size of 0"),
        (RdmaBench { mtu_bytes: 1_500, ..good() }, "MTU of 1500"),
        (RdmaBench { mtu_bytes: 128, ..good() }, "MTU of 128"),
        (RdmaBench { mtu_bytes: 8_192, ..good() }, "MTU of 8192"),
        (RdmaBench { queue_pairs: 0, ..good() }, "0 queue pairs"),
        (RdmaBench { queue_pairs: 501, ..good() }, "501 queue pairs"),
        (RdmaBench { busy_queue_pairs: Some(2), ..good() }, "of 1 queue pairs 2"),
        (RdmaBench { operation: RdmaOperation::FetchAdd, size_bytes: 64, ..good() }, "8 bytes, not 64"),
        (RdmaBench { tx_depth: Some(0), ..good() }, "depth of 0"),
        (RdmaBench { size_bytes: 1 << 30, ..good() }, "buffers"),
        (RdmaBench { amount: Amount::Messages(0), ..good() }, "nothing to do"),
        (RdmaBench { profile: "asic".into(), ..good() }, "profile `asic`"),
        (RdmaBench { direction: Directions::Ring(1), ..good() }, "ring of 1"),
        (RdmaBench { direction: Directions::Both, queue_pairs: 251, ..good() }, "251 queue pairs"),
        (RdmaBench { random_sizes: true, ..small(RdmaOperation::CmpSwap) }, "random sizes"),
        (RdmaBench { world: World::Net, direction: Directions::Both, ..good() }, "simulator only"),
        (RdmaBench { world: World::Net, nic: NicModel::Rtl, ..good() }, "the simulator only"),
        (RdmaBench { world: World::Net, faults: Some(loss(0.1)), ..good() }, "simulator only"),
    ];
    for (bench, part) in wrong {
        let error = bench.run().unwrap_err();
        let line = error.to_string();
        assert!(line.contains(part) && !line.contains('\n') && error.is_usage(), "{line}");
    }
    let unknown = "writ".parse::<RdmaOperation>().unwrap_err().to_string();
    assert!(unknown.starts_with("unknown operation `writ`; known are write, write_imm, "), "{unknown}");
    for operation in RdmaOperation::ALL {
        assert!(
            unknown.contains(operation.name())
                && operation.name().parse::<RdmaOperation>().unwrap() == operation
        );
    }
    assert!(child_main(&[]).is_err() && child_main(&["nowhere".into()]).is_err());
}

/// The environment variable from which [`a_server_process`] takes its argument.
const ADDRESS: &str = "WEFT_TEST_RDMA_SERVER";

/// The command that starts [`a_server_process`].
pub(crate) fn server_process() -> Command {
    // The shell moves the address from the last argument to the environment, because the test harness would
    // use that argument as a filter.
    let mut server = Command::new("/bin/sh");
    let script = format!("{ADDRESS}=$2 exec \"$1\" --quiet --exact tests::a_server_process --nocapture");
    server.args(["-c", &script, "server"]).arg(std::env::current_exe().unwrap());
    server
}

/// Not a test itself, but the server's process for the tests below and those of services, which start this
/// executable with only this test.
#[test]
fn a_server_process() {
    if let Ok(address) = std::env::var(ADDRESS) {
        child_main(&[address]).unwrap();
    }
}

#[test]
fn two_processes_exchange_every_operation() {
    for operation in RdmaOperation::ALL {
        let bench = RdmaBench { world: World::Net, queue_pairs: 2, ..small(operation) };
        let result = bench.run_with_server(server_process()).unwrap();
        assert_eq!(result.checked, DataChecked::Verified, "{operation}: {:?}", result.verification);
        assert_eq!(result.rounds.len(), ROUNDS);
        assert!(result.messages >= 400 * ROUNDS as u64);
        assert!(result.fraction_of_limit > 0.0 && result.limit.messages_per_s > 0.0);
        assert_eq!(result.latency.operations, LATENCY_MESSAGES * ROUNDS as u64);
        assert!(result.log_hash.is_none());
    }
}
