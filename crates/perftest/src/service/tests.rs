//! Small measurements of services.

use std::fs;

use weft_rdma::FlatMemory;

use super::*;
use crate::payload::{ClientMemory, ServerMemory, memory_bytes};
use crate::tests::server_process;

fn bench(service: ServiceName, nic: NicModel) -> ServiceBench {
    ServiceBench {
        service,
        nic,
        pipeline: Declaration::preset("criteo").unwrap(),
        sizes_bytes: vec![3_001],
        queue_pairs: 3,
        mtu_bytes: 1_024,
        messages: Some(40),
        time: Duration::from_us(1),
        packets: None,
        seed: 5,
    }
}

#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn the_gateware_has_every_service() {
    for service in ServiceName::ALL {
        let result = bench(service, NicModel::Rtl).run().unwrap();
        assert!(result.intact, "{service}: {:?}", result.difference);
        assert_eq!((result.world.as_str(), result.points.len()), ("sim", 2), "{service}");
        let Figures { added_latency_cycles, fraction_of_limit, fraction_of_wire, .. } = result.figures;
        assert!((20..=60).contains(&added_latency_cycles.unwrap()), "{service}: {added_latency_cycles:?}");
        // Short runs, in which the round trip counts.
        assert!((0.3..=1.1).contains(&fraction_of_limit), "{service}: {fraction_of_limit}");
        assert!((0.1..=1.0).contains(&fraction_of_wire.unwrap()), "{service}");
        assert_eq!(result.figures.rows_per_s.is_some(), service == ServiceName::Preprocess);
    }
}

#[test]
fn the_soft_card_has_services_of_payload() {
    for service in ServiceName::ALL.into_iter().filter(|service| *service != ServiceName::Psp) {
        let result = bench(service, NicModel::Soft).run_with_server(server_process()).unwrap();
        assert!(result.intact, "{service}: {:?}", result.difference);
        assert_eq!((result.world.as_str(), result.points.len()), ("net", 2), "{service}");
        assert!(result.figures.fraction_of_limit > 0.0 && result.figures.added_latency_cycles.is_none());
        assert!(result.figures.alone.unwrap().bytes_per_s > 0.0);
    }
}

/// Two messages of 64 bytes that have arrived as they were sent, and what is wrong if this service was to be on their
/// path and its tap reads this.
fn mismatches(service: ServiceName, readings: &[u64]) -> u64 {
    let one = ServiceBench { queue_pairs: 1, ..bench(service, NicModel::Soft) };
    let load = RdmaBench { tx_depth: Some(2), ..one.run_of(64) }.load();
    let [mut arrived, mut other] = [(); 2].map(|()| FlatMemory::new(memory_bytes(&load) as usize));
    ClientMemory::new(load, &mut arrived);
    let memory = ServerMemory::new(load, &mut other, one.request().service().unwrap());
    memory.finish(&mut arrived, &[2], readings).mismatches
}

#[test]
fn a_service_that_did_not_run_is_noticed() {
    assert_eq!(mismatches(ServiceName::Xor, &[]), 2);
    assert_eq!(mismatches(ServiceName::Preprocess, &[]), 2);
    assert_eq!(mismatches(ServiceName::Count, &[128]), 0);
    assert_eq!(mismatches(ServiceName::Count, &[64]), 1, "a message was not counted");
    assert_eq!(mismatches(ServiceName::Inspect, &[1 << 32]), 1, "a packet was flagged");
}

#[test]
fn packets_are_judged_in_software() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["whole", "embedded", "clean"] {
        let packets: Vec<u8> = (0..3).flat_map(|_| [[64, 0, 0, 0].as_slice(), &[0; 64]].concat()).collect();
        fs::write(folder.path().join(name), packets).unwrap();
    }
    let bench =
        ServiceBench { packets: Some(folder.path().into()), ..bench(ServiceName::Inspect, NicModel::Soft) };
    let result = bench.run_with_server(server_process()).unwrap();
    let detection = result.detection.unwrap();
    assert_eq!((detection.false_positive_rate.flagged, detection.false_positive_rate.packets), (0, 3));
    assert!(result.to_text().contains("code embedded"));
}

#[test]
fn wrong_options_are_one_clear_line() {
    let good = || bench(ServiceName::Inspect, NicModel::Soft);
    let hash_first = "row = { int32 = 1 }\ncolumns.0 = [\"modulus 7\", \"neg2zero\"]".to_owned();
    let wrong = [
        (ServiceBench { sizes_bytes: vec![], ..good() }, "size of 0"),
        (ServiceBench { sizes_bytes: vec![64, 0], ..good() }, "size of 0"),
        (ServiceBench { queue_pairs: 0, ..good() }, "0 queue pairs"),
        (ServiceBench { packets: Some("nowhere".into()), ..good() }, "tools/inspection/export.py"),
        (ServiceBench { packets: Some("x".into()), ..bench(ServiceName::Xor, NicModel::Soft) }, "xor judges"),
        (bench(ServiceName::Psp, NicModel::Soft), "choose the NIC rtl"),
        (
            ServiceBench {
                pipeline: Declaration { name: "x".into(), text: hash_first },
                ..bench(ServiceName::Preprocess, NicModel::Rtl)
            },
            "column 0",
        ),
    ];
    for (bench, part) in wrong {
        let error = bench.run().unwrap_err();
        let line = error.to_string();
        assert!(line.contains(part) && !line.contains('\n') && error.is_usage(), "{line}");
    }
    let unknown = "inspct".parse::<ServiceName>().unwrap_err();
    assert!(ServiceName::ALL.iter().all(|service| unknown.to_string().contains(service.name())));
}
