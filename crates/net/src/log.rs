//! The log of nodes and membership services: one line for each event, with the wall clock and a level.
//!
//! Events are those of the crate `tracing`; the program that runs a node installs a subscriber, such as
//! [`subscriber`]. Only rare events are logged: views, refusals, stalls, and the counters at the end. No event is
//! logged per request.

use std::fmt;
use std::str::FromStr;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

pub use tracing::level_filters::LevelFilter as LogLevel;

/// The environment variable with the log level, used if no option sets the level.
pub const LEVEL_VARIABLE: &str = "WEFT_LOG";

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `2026-11-24T02:08:32.123Z INFO node 0 ready on 127.0.0.1:4793`
    #[default]
    Text,
    /// A JSON object: `timestamp`, `level`, `message`, and the values in the message as fields.
    Json,
}

/// The text is not the name of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("choose text or json")]
pub struct NoLogFormat;

impl FromStr for LogFormat {
    type Err = NoLogFormat;

    fn from_str(name: &str) -> Result<Self, NoLogFormat> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(NoLogFormat),
        }
    }
}

/// A subscriber that writes events at least as severe as `level` to the output that `writer` makes.
pub fn subscriber(
    format: LogFormat,
    level: LogLevel,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Box<dyn Subscriber + Send + Sync> {
    // If the reader of the lines is gone, the node goes on without a complaint.
    let lines =
        tracing_subscriber::fmt().with_max_level(level).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Text => Box::new(lines.event_format(Text).finish()),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_timer(Utc).with_target(false);
            Box::new(lines.with_current_span(false).with_span_list(false).finish())
        }
    }
}

/// The length of a time with milliseconds: `2026-11-24T02:08:32.123Z`.
const TIME_BYTES: usize = 24;

/// The message in a line of [`LogFormat::Text`], without time and level; any other line unchanged.
pub fn message(line: &str) -> &str {
    let message = || {
        let (time, rest) = line.split_at_checked(TIME_BYTES)?;
        let is_time = time.ends_with('Z') && time.as_bytes()[10] == b'T';
        let (level, message) = rest.strip_prefix(' ')?.split_once(' ')?;
        (is_time && level.parse::<tracing::Level>().is_ok()).then_some(message.trim_start())
    };
    message().unwrap_or(line)
}

/// The present time by the wall clock, as in the lines of a log.
pub fn utc_now() -> String {
    let mut time = String::new();
    // Writing to a text cannot fail.
    let _ = Utc.format_time(&mut Writer::new(&mut time));
    time
}

/// The wall clock in UTC, with milliseconds, in the format of RFC 3339.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        // The formatted time has microseconds: cut it to milliseconds.
        let milliseconds = time.get(..TIME_BYTES - 1).ok_or(fmt::Error)?;
        write!(writer, "{milliseconds}Z")
    }
}

/// Formats time, level and message. The fields are left out, because the message contains their values.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        Utc.format_time(&mut writer)?;
        write!(writer, " {:<5} ", event.metadata().level())?;
        let mut message = Message(&mut writer, Ok(()));
        event.record(&mut message);
        message.1?;
        writeln!(writer)
    }
}

/// Writes an event's message without its other fields.
struct Message<'a, 'b>(&'a mut Writer<'b>, fmt::Result);

impl Visit for Message<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.1 = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The lines that `body` logs.
    pub(crate) fn logged(format: LogFormat, level: LogLevel, body: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let theirs = kept.clone();
        let subscriber = subscriber(format, level, move || theirs.clone());
        tracing::subscriber::with_default(subscriber, body);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn example(format: LogFormat) -> String {
        logged(format, LogLevel::WARN, || {
            tracing::info!("left out");
            tracing::warn!(node = 1, full = "0,2", "node 1 starts over");
        })
    }

    #[test]
    fn a_line_of_text_has_time_level_and_message() {
        let line = example(LogFormat::Text);
        assert_eq!(message(line.trim_end()), "node 1 starts over");
        let (time, rest) = line.split_at(TIME_BYTES);
        assert_eq!(rest, " WARN  node 1 starts over\n");
        let form: String =
            time.chars().map(|digit| if digit.is_ascii_digit() { '0' } else { digit }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000Z");
    }

    #[test]
    fn a_line_of_json_has_the_fields() {
        let line: serde_json::Value = serde_json::from_str(&example(LogFormat::Json)).unwrap();
        assert_eq!(line["timestamp"].as_str().unwrap().len(), TIME_BYTES);
        for (field, value) in [("level", "WARN"), ("message", "node 1 starts over"), ("full", "0,2")] {
            assert_eq!(line[field], value, "{line}");
        }
        assert_eq!(line["node"], 1);
    }

    #[test]
    fn other_lines_are_left_as_they_are() {
        for line in [
            "",
            "ready 1",
            "2026-11-24T02:08:32.123Z",
            "2026-11-24T02:08:32.123Z LOUD x",
            "ü".repeat(30).as_str(),
        ] {
            assert_eq!(message(line), line);
        }
        assert_eq!(message("2026-11-24T02:08:32.123Z INFO  x y"), "x y");
    }
}
