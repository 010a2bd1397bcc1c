//! Output in the format of the `perftest` tools (`ib_write_bw`, `ib_write_lat` and others), which existing
//! scripts parse: the same rulers, parameter block, headings and columns.
//!
//! Units are those of perftest: MiB/s of 2^20 bytes, millions of messages per second, microseconds.

use std::fmt;

use weft_results::histogram::Latencies;

/// The verb under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// FETCH_ADD or CMP_SWAP.
    Atomic,
}

impl Verb {
    fn test_name(self) -> &'static str {
        match self {
            Self::Send => "Send",
            Self::Write => "RDMA_Write",
            Self::Read => "RDMA_Read",
            Self::Atomic => "Atomic",
        }
    }
}

/// Content of the parameter block.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The verb under test.
    pub verb: Verb,
    /// The name of the NIC.
    pub device: String,
    /// Number of queue pairs under load at the same time.
    pub queue_pairs: u32,
    /// Number of work requests outstanding on each queue pair.
    pub send_depth: u32,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// `Ethernet`, or another name for a simulated link.
    pub link_type: String,
}

/// One line of a bandwidth test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Message length in bytes.
    pub bytes: u64,
    /// Number of messages.
    pub iterations: u64,
    /// The highest rate over any part of the test, in bytes per second.
    pub peak_bytes_per_s: f64,
    /// The rate over the whole test, in bytes per second.
    pub average_bytes_per_s: f64,
}

/// One line of a latency test: one-way times as perftest reports them (half a round trip for WRITE and SEND).
#[derive(Clone, Debug)]
pub struct Latency<'a> {
    /// Message length in bytes.
    pub bytes: u64,
    /// The measured latencies.
    pub latencies: &'a Latencies,
}

/// The headings of a bandwidth test.
pub const BANDWIDTH_HEADINGS: &str =
    " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]";
/// The headings of a latency test.
pub const LATENCY_HEADINGS: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
     t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";

const RULER_LENGTH: usize = 87;

/// The ruler between the parts of the output.
pub fn ruler() -> String {
    "-".repeat(RULER_LENGTH)
}

/// The output of a bandwidth test: parameters, headings, and one line for each message length.
pub fn bandwidth_test(parameters: &Parameters, lines: &[Bandwidth]) -> String {
    test(parameters, "BW", BANDWIDTH_HEADINGS, lines)
}

/// The output of a latency test: parameters, headings, and one line for each message length.
pub fn latency_test(parameters: &Parameters, lines: &[Latency<'_>]) -> String {
    test(parameters, "Latency", LATENCY_HEADINGS, lines)
}

fn test(parameters: &Parameters, quantity: &str, headings: &str, lines: &[impl fmt::Display]) -> String {
    let Parameters { verb, device, queue_pairs, send_depth, mtu, link_type } = parameters;
    let ruler = ruler();
    let mut text = format!(
        "{ruler}\n                    {} {quantity} Test\n \
         Dual-port       : OFF\t\tDevice         : {device}\n \
         Number of qps   : {queue_pairs}\t\tTransport type : IB\n \
         Connection type : RC\t\tUsing SRQ      : OFF\n \
         TX depth        : {send_depth}\n \
         Mtu             : {mtu}[B]\n \
         Link type       : {link_type}\n{ruler}\n{headings}\n",
        verb.test_name()
    );
    for line in lines {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&ruler);
    text.push('\n');
    text
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1_048_576.0;
        let messages = if self.bytes == 0 { 0.0 } else { self.average_bytes_per_s / self.bytes as f64 / 1e6 };
        write!(
            f,
            " {:<7}    {:<10}       {:<7.2}            {:<7.2}\t\t   {messages:<7.6}",
            self.bytes,
            self.iterations,
            self.peak_bytes_per_s / MIB,
            self.average_bytes_per_s / MIB
        )
    }
}

impl fmt::Display for Latency<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.latencies.summary();
        let us = |ns: u64| ns as f64 / 1e3;
        write!(
            f,
            " {:<7} {}          {:<7.2}        {:<7.2}      {:<7.2}  \t       {:<7.2}     \t{:<7.2}\t\t{:<7.2} \t\t{:<7.2}",
            self.bytes,
            summary.operations,
            us(summary.min_ns),
            us(summary.max_ns),
            us(summary.p50_ns),
            summary.mean_ns / 1e3,
            self.latencies.standard_deviation_ns() / 1e3,
            us(summary.p99_ns),
            us(summary.p999_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Duration;

    use super::*;

    fn parameters() -> Parameters {
        Parameters {
            verb: Verb::Write,
            device: "weft0".into(),
            queue_pairs: 4,
            send_depth: 128,
            mtu: 4096,
            link_type: "Ethernet".into(),
        }
    }

    /// As scripts do: finds the headings, and takes the fields of the line below by position.
    fn fields_below<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
        let mut lines = text.lines().skip_while(|line| !line.contains(heading));
        lines.next().expect("the headings are there");
        lines.next().expect("a line follows").split_whitespace().collect()
    }

    #[test]
    fn bandwidth_reads_as_perftest() {
        let line = Bandwidth {
            bytes: 65_536,
            iterations: 5_000,
            peak_bytes_per_s: 2.0 * 1_048_576.0,
            average_bytes_per_s: 1_048_576.0,
        };
        let text = bandwidth_test(&parameters(), &[line]);
        assert_eq!(fields_below(&text, "MsgRate[Mpps]"), ["65536", "5000", "2.00", "1.00", "0.000016"]);
        assert!(text.contains("                    RDMA_Write BW Test\n"));
        assert!(text.contains(" Number of qps   : 4\t\tTransport type : IB\n"));
        assert!(text.contains(" Mtu             : 4096[B]\n"));
        let rulers = text.lines().filter(|line| !line.is_empty() && line.chars().all(|c| c == '-'));
        assert!(rulers.map(str::len).eq([87, 87, 87]));
    }

    #[test]
    fn latency_reads_as_perftest() {
        let mut latencies = Latencies::new();
        for us in 1..=1000 {
            latencies.record(Duration::from_us(us));
        }
        let text = latency_test(&parameters(), &[Latency { bytes: 64, latencies: &latencies }]);
        let fields = fields_below(&text, "t_typical[usec]");
        assert_eq!(fields.len(), 9);
        assert_eq!(fields[..2], ["64", "1000"]);
        let numbers: Vec<f64> = fields[2..].iter().map(|field| field.parse().unwrap()).collect();
        // Minimum, maximum, median, mean and deviation of 1 to 1000, and two percentiles.
        for (got, expected) in numbers.iter().zip([1.0, 1000.0, 500.0, 500.5, 288.7, 990.0, 999.0]) {
            assert!((got / expected - 1.0).abs() < 2e-3, "{got} for {expected}");
        }
        assert_eq!(LATENCY_HEADINGS.split_whitespace().count(), 11);
    }

    #[test]
    fn empty_messages_have_no_rate() {
        let line = Bandwidth { bytes: 0, iterations: 0, peak_bytes_per_s: 0.0, average_bytes_per_s: 0.0 };
        assert!(line.to_string().contains("0.000000"));
    }
}
