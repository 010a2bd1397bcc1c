//! A node's metrics over HTTP, served by a separate thread.
//!
//! The node publishes its counters several times in the length of a lease; the thread serves the latest ones. The
//! node never waits for the thread: while the thread is formatting an answer, the node skips a publication.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Method, Response, Server};

/// The content type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A node whose loop has published nothing for this long counts as hung. It publishes several times in the length
/// of a lease.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// Why a node's metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[error(
    "[cluster] metrics_port: TCP {address} cannot be opened: {reason}; choose another port, or remove the line"
)]
pub struct MetricsError {
    address: SocketAddr,
    reason: String,
}

/// A value that a node publishes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// Name of the metric, without the prefix `weft_` and without the suffix `total` of counters.
    pub name: String,
    /// Description of the metric.
    pub help: &'static str,
    /// The engine to which the value belongs, by its name in the configuration.
    pub engine: Option<String>,
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// A value that only grows while the process runs.
    Counter(u64),
    Gauge(f64),
}

/// The values that a node has published.
#[derive(Debug, Default)]
struct Published {
    node: usize,
    readings: Vec<Reading>,
    /// Why the node does not serve its clients; empty if it does.
    unready: String,
    at: Option<Instant>,
}

/// The published values, shared by the node and the thread that serves them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Published>>);

impl Board {
    /// Publishes values, unless the thread is reading the previous ones.
    pub(crate) fn publish(&self, node: usize, readings: Vec<Reading>, unready: String) {
        if let Ok(mut published) = self.0.try_lock() {
            *published = Published { node, readings, unready, at: Some(Instant::now()) };
        }
    }

    fn read(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that serves a board's values; it ends when this value is dropped.
pub(crate) struct MetricsServer {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Starts to serve at this address.
    pub(crate) fn start(address: SocketAddr, board: Board) -> Result<Self, MetricsError> {
        let error = |reason: String| MetricsError { address, reason };
        let server = Arc::new(Server::http(address).map_err(|source| error(source.to_string()))?);
        let theirs = Arc::clone(&server);
        let body = move || theirs.incoming_requests().for_each(|request| answer(request, &board));
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(body);
        Ok(Self { server, thread: Some(thread.map_err(|source| error(source.to_string()))?) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: tiny_http::Request, board: &Board) {
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, kind, text) = match path {
        _ if !is_read => (405, "text/plain", "only GET and HEAD are answered\n".to_owned()),
        "/metrics" => (200, OPEN_METRICS, metrics(&board.read())),
        "/livez" => health(hang(&board.read())),
        "/readyz" => {
            let published = board.read();
            health(hang(&published).or_else(|| Some(published.unready.clone()).filter(|why| !why.is_empty())))
        }
        _ => (404, "text/plain", "there are /metrics, /livez and /readyz\n".to_owned()),
    };
    let header = Header::from_bytes("Content-Type", kind).expect("it is plain ASCII");
    // An error means that the client has closed the connection.
    let _ = request.respond(Response::from_string(text).with_status_code(status).with_header(header));
}

fn health(wrong: Option<String>) -> (u16, &'static str, String) {
    wrong.map_or((200, "text/plain", "ok\n".to_owned()), |wrong| (503, "text/plain", wrong + "\n"))
}

/// An error text if the node has not published for long.
fn hang(published: &Published) -> Option<String> {
    let Some(at) = published.at else { return Some("the node is starting".to_owned()) };
    let silent = at.elapsed();
    (silent > HANGS_AFTER).then(|| format!("the node hangs: it was silent for {} s", silent.as_secs()))
}

/// The values in the OpenMetrics text format.
fn metrics(published: &Published) -> String {
    let mut readings: Vec<_> = published.readings.clone();
    // All samples of a family follow its name and help; the families keep the order of their first samples.
    let mut names: Vec<_> = readings.iter().map(|reading| reading.name.clone()).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    readings.sort_by_key(|reading| names.iter().position(|name| *name == reading.name));
    let mut registry = Registry::with_prefix("weft");
    registry.register_collector(Box::new(Readings { node: published.node, readings }));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text takes whatever is written to it");
    text
}

/// Readings, iterated by family.
#[derive(Debug)]
struct Readings {
    node: usize,
    readings: Vec<Reading>,
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in self.readings.chunk_by(|one, other| one.name == other.name) {
            let Reading { name, help, value, .. } = &family[0];
            let kind = match value {
                Value::Counter(_) => MetricType::Counter,
                Value::Gauge(_) => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for reading in family {
                let node = ("node", self.node.to_string());
                let mut labels = vec![node];
                labels.extend(reading.engine.clone().map(|engine| ("engine", engine)));
                let sample = metric.encode_family(&labels)?;
                match reading.value {
                    Value::Counter(count) => ConstCounter::new(count).encode(sample)?,
                    Value::Gauge(value) => ConstGauge::new(value).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}
