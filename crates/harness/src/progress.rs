//! Shows progress on standard error, for tasks that take longer than two seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Tasks shorter than this show no progress.
const SILENCE: Duration = Duration::from_secs(2);
/// Interval between two lines if standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Interval between two updates of the bar, so that showing progress costs the run next to nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows a bar on a terminal, or a plain line every few seconds elsewhere; nothing in the first two seconds.
/// The bar disappears from the terminal when this is dropped.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    begin: Instant,
    next: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of `label` towards `total` units (operations, seeds, ...); 0 if the total is unknown.
    pub fn new(label: &str, total: u64) -> Self {
        let begin = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            // The bar is hidden for the first two seconds, so that a short task prints nothing.
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
            let template = match total {
                0 => "{msg} {spinner}  {human_pos} in {elapsed}",
                _ => "{msg} {bar:32} {percent:>3} %  {human_pos} of {human_len}  {eta} left",
            };
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.expect("the template is valid").progress_chars("━╸─"));
            bar.set_message(label.to_owned());
            bar
        });
        Self { label: label.into(), total, begin, next: begin + SILENCE, bar }
    }

    /// Notes that `done` units are done.
    pub fn set(&mut self, done: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_position(done);
                self.next = now + LOOK_EVERY;
            }
            None => {
                // If standard error is closed, the run continues.
                let _ = writeln!(
                    std::io::stderr(),
                    "{}",
                    plain_line(&self.label, done, self.total, now - self.begin)
                );
                self.next = now + LINE_EVERY;
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn plain_line(label: &str, done: u64, total: u64, passed: Duration) -> String {
    let (seconds, grouped) = (passed.as_secs(), weft_results::table::grouped);
    match u128::from(done.min(total)) * 100 {
        _ if total == 0 => format!("{label}: {} after {seconds} s", grouped(done)),
        hundredfold => {
            let percent = hundredfold / u128::from(total);
            format!("{label}: {percent} % ({} of {}) after {seconds} s", grouped(done), grouped(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_says_how_far_it_is() {
        let line = plain_line("ycsb-a", 250_000, 1_000_000, Duration::from_millis(7_900));
        assert_eq!(line, "ycsb-a: 25 % (250,000 of 1,000,000) after 7 s");
        assert_eq!(plain_line("x", 1_234, 0, Duration::from_secs(3)), "x: 1,234 after 3 s");
        assert!(plain_line("x", u64::MAX, u64::MAX, Duration::ZERO).contains("100 %"));
    }

    /// No line is due in the first two seconds, and each further line is due five seconds after the previous
    /// one.
    #[test]
    fn lines_are_rare() {
        let mut progress = Progress::new("x", 10);
        progress.bar = None;
        assert!(progress.next >= progress.begin + SILENCE);
        progress.set(1);
        assert_eq!(progress.next, progress.begin + SILENCE);
        progress.next = progress.begin;
        progress.set(2);
        assert!(progress.next >= progress.begin + LINE_EVERY);
    }
}
