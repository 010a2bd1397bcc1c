//! The metrics of a running node, as a scraper fetches them.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weft_cluster::METRICS_PORT;

use common::{Addresses, Running};

const ENGINES: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n\
    [transactions]\nprocedures = \"ledger\"\nsize = 100\n\
    [[object]]\nname = \"visits\"\ntype = \"pn-counter\"\n\
    [[log]]\nname = \"audit\"\n[[log]]\nname = \"events\"\n\
    [rounds]\nperiod_us = 200000\n";

/// The status code and the body of an answer.
fn get(address: SocketAddrV4, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn everything_counted_is_shown_with_help() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(1, folder.path(), ENGINES);
    config.metrics_port = Some(METRICS_PORT);
    let address = SocketAddrV4::new(addresses.node(0), METRICS_PORT);
    let mut node = Running::start(&config, 0);
    node.wait_for(" as full ");
    let text = loop {
        let (status, text) = get(address, "/metrics");
        assert_eq!(status, 200);
        if text.contains("weft_full{node=\"0\"} 1") {
            break text;
        }
    };
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("# HELP ")) {
        let help = line.splitn(4, ' ').nth(3).unwrap_or_default();
        assert!(help.len() > 5 && help.ends_with('.') && !help.starts_with(' '), "{line}");
    }
    for expected in [
        "weft_kv_writes_led_total{node=\"0\",engine=\"[kv]\"} ",
        "weft_log_leaderships_total{node=\"0\",engine=\"[[log]] audit\"} ",
        "weft_log_leaderships_total{node=\"0\",engine=\"[[log]] events\"} ",
        "weft_engine_leads{node=\"0\",engine=\"[kv]\"} 256",
        "weft_datagram_port_received_total{node=\"0\"} ",
        "weft_membership_heartbeats_total{node=\"0\"} ",
    ] {
        assert_eq!(text.matches(expected).count(), 1, "{expected}\n{text}");
    }
    assert_eq!(get(address, "/livez"), (200, "ok\n".to_owned()));
    assert_eq!(get(address, "/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(get(address, "/").0, 404);
    node.end().unwrap();
    // The thread of the HTTP library that accepts connections closes the port slightly later.
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < end, "the port stays open when the node has ended");
    }
}

#[test]
fn a_node_without_its_peers_lives_and_is_not_ready() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(2, folder.path(), ENGINES);
    config.metrics_port = Some(METRICS_PORT);
    let address = SocketAddrV4::new(addresses.node(0), METRICS_PORT);
    let mut node = Running::start(&config, 0);
    node.wait_for(" ready on ");
    while get(address, "/livez").0 != 200 {}
    assert_eq!(get(address, "/readyz"), (503, "the node is outside\n".to_owned()));
    node.end().unwrap();
}

#[test]
fn a_port_in_use_is_named() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(1, folder.path(), ENGINES);
    config.metrics_port = Some(METRICS_PORT);
    let _holder = TcpListener::bind((addresses.node(0), METRICS_PORT)).unwrap();
    let error = Running::start(&config, 0).result().unwrap_err().to_string();
    assert!(
        error.starts_with("[cluster] metrics_port: TCP 127.") && error.contains("choose another"),
        "{error}"
    );
}
