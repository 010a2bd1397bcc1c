//! Child processes that run this program's own executable.
//!
//! A child never outlives its parent: it is killed when its [`ChildProcess`] is dropped, also by a panic, and the
//! kernel kills it when the parent ends in any other way.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use weft_time::Duration;

use crate::{log, system};

/// Number of lines of a child's standard error that are kept for error texts.
const KEPT_LINES: usize = 20;

/// Interval at which a child is checked for whether it has ended.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(1);

/// How long to wait for the last lines of a child that has ended, on a busy machine. Without a limit, a grandchild
/// that inherited the pipe could keep it open for ever.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(2);

/// An error of a child. Its text ends with the last lines that the child wrote to its standard error.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The child could not be started.
    #[error("{name} cannot be started: {source}")]
    Start {
        /// The child's name.
        name: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The child ended before it wrote the expected line.
    #[error("{name} ended ({status}) before it wrote \"{prefix}\"{stderr}")]
    EndedEarly {
        /// The child's name.
        name: String,
        /// Exit status of the child.
        status: ExitStatus,
        /// The prefix of the expected line.
        prefix: String,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// The child ended while it was still needed.
    #[error("{name} ended ({status}) in the middle of its work{stderr}")]
    Ended {
        /// The child's name.
        name: String,
        /// Exit status of the child.
        status: ExitStatus,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// The child accepts no more input.
    #[error("{name} does not listen any more{stderr}")]
    InputClosed {
        /// The child's name.
        name: String,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// The child did not write the expected line in time.
    #[error("{name} has not written \"{prefix}\" within {limit}{stderr}")]
    LineTimeout {
        /// The child's name.
        name: String,
        /// The prefix of the expected line.
        prefix: String,
        /// How long the line was awaited.
        limit: Duration,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// The child ended without success.
    #[error("{name} failed ({status}){stderr}")]
    Failed {
        /// The child's name.
        name: String,
        /// Exit status of the child.
        status: ExitStatus,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// The child did not end in time.
    #[error("{name} has not ended within {limit}{stderr}")]
    StillRunning {
        /// The child's name.
        name: String,
        /// How long the end was awaited.
        limit: Duration,
        /// Last lines of its standard error.
        stderr: String,
    },
}

/// The running executable, as a command to which arguments are added. It is the same program even if its file has
/// been replaced in the meantime.
pub fn own_executable() -> Command {
    let mut command = Command::new("/proc/self/exe");
    // The log level that the user has set is not for these processes.
    command.env_remove(log::LEVEL_VARIABLE);
    command
}

/// A child process whose standard output is read line by line. Of log lines only the message is returned.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last_errors: Arc<Mutex<VecDeque<String>>>,
    error_reader: thread::JoinHandle<()>,
}

impl ChildProcess {
    /// Starts `command` with empty standard input; `name` stands for the child in error texts.
    ///
    /// The kernel kills the child when the calling *thread* ends: call this from a thread that lives as long as
    /// the child is needed.
    ///
    /// # Errors
    /// [`ProcessError::Start`].
    pub fn start(name: impl Into<String>, command: Command) -> Result<Self, ProcessError> {
        Self::start_with_input(name, command, Stdio::null())
    }

    /// As [`ChildProcess::start`], for a child that reads the lines sent with [`ChildProcess::send_line`].
    ///
    /// # Errors
    /// [`ProcessError::Start`].
    pub fn start_listening(name: impl Into<String>, command: Command) -> Result<Self, ProcessError> {
        Self::start_with_input(name, command, Stdio::piped())
    }

    fn start_with_input(
        name: impl Into<String>,
        mut command: Command,
        input: Stdio,
    ) -> Result<Self, ProcessError> {
        let name = name.into();
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        system::die_with_parent(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(source) => return Err(ProcessError::Start { name, source }),
        };
        let input = child.stdin.take();
        let (output, errors) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        // Output is always read, whether or not a caller wants it, so that the child never blocks on a full pipe.
        thread::spawn(move || {
            for_each_line(output, |line| drop(sender.send(log::message(&line).to_owned())))
        });
        let last_errors = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT_LINES)));
        let kept = Arc::clone(&last_errors);
        let error_reader = thread::spawn(move || {
            for_each_line(errors, |line| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == KEPT_LINES {
                    kept.pop_front();
                }
                kept.push_back(line);
            });
        });
        Ok(Self { name, child, input, lines, last_errors, error_reader })
    }

    /// The child's process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to the standard input of a child that was started with [`ChildProcess::start_listening`].
    ///
    /// # Errors
    /// [`ProcessError::Ended`], [`ProcessError::InputClosed`].
    pub fn send_line(&mut self, line: &str) -> Result<(), ProcessError> {
        let told = self.input.as_mut().map(|input| input.write_all(format!("{line}\n").as_bytes()));
        if matches!(told, Some(Ok(()))) {
            return Ok(());
        }
        // A child that has just died closes its input slightly before its exit status is available.
        let name = self.name.clone();
        match self.wait_until(Instant::now() + LAST_WORDS) {
            Some(status) => Err(ProcessError::Ended { name, status, stderr: self.last_words() }),
            None => Err(ProcessError::InputClosed { name, stderr: self.last_words() }),
        }
    }

    /// The next line, if one arrives within `limit`; with a limit of zero, one that has arrived already.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] if the child has ended and all its lines have been taken.
    pub fn next_line(&mut self, limit: Duration) -> Result<Option<String>, ProcessError> {
        match self.lines.recv_timeout(standard(limit)) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let name = self.name.clone();
                match self.wait_until(Instant::now() + standard(limit).max(LAST_WORDS)) {
                    Some(status) => Err(ProcessError::Ended { name, status, stderr: self.last_words() }),
                    None => Ok(None),
                }
            }
        }
    }

    /// Waits for a line that begins with `prefix`, discarding others, and returns the remainder of it.
    ///
    /// # Errors
    /// [`ProcessError::EndedEarly`], [`ProcessError::LineTimeout`].
    pub fn wait_for_line(&mut self, prefix: &str, limit: Duration) -> Result<String, ProcessError> {
        let end = Instant::now() + standard(limit);
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(prefix) {
                        return Ok(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                // The child's standard output is closed, usually because the child has ended.
                Err(RecvTimeoutError::Disconnected) => {
                    let (name, prefix) = (self.name.clone(), prefix.to_owned());
                    let Some(status) = self.wait_until(end) else { break };
                    return Err(ProcessError::EndedEarly { name, status, prefix, stderr: self.last_words() });
                }
            }
        }
        let (name, prefix) = (self.name.clone(), prefix.to_owned());
        Err(ProcessError::LineTimeout { name, prefix, limit, stderr: self.last_words() })
    }

    /// Waits for the child to end with success; returns the lines of its standard output that were not taken.
    /// # Errors
    /// [`ProcessError::Failed`], [`ProcessError::StillRunning`].
    pub fn finish(&mut self, limit: Duration) -> Result<Vec<String>, ProcessError> {
        let name = self.name.clone();
        let Some(status) = self.wait_until(Instant::now() + standard(limit)) else {
            return Err(ProcessError::StillRunning { name, limit, stderr: self.last_words() });
        };
        if !status.success() {
            return Err(ProcessError::Failed { name, status, stderr: self.last_words() });
        }
        let end = Instant::now() + LAST_WORDS;
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            rest.push(line);
        }
        Ok(rest)
    }

    /// Requests the child to stop (SIGTERM) and waits for it to end with success, as [`ChildProcess::finish`].
    ///
    /// # Errors
    /// As [`ChildProcess::finish`].
    pub fn stop(&mut self, limit: Duration) -> Result<Vec<String>, ProcessError> {
        self.signal(libc::SIGTERM);
        self.finish(limit)
    }

    /// Ends the child as a crash would (SIGKILL), and waits until it has ended.
    pub fn kill(&mut self) {
        // This fails only for a child that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// As [`ChildProcess::kill`], without waiting: for several children that end at the same time.
    pub fn begin_kill(&mut self) {
        self.signal(libc::SIGKILL);
    }

    /// Freezes the child (SIGSTOP): it is alive but does nothing, as in a very long pause.
    pub fn pause(&mut self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets a frozen child go on (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// Exit status of the child, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn signal(&mut self, signal: i32) {
        // A child that has ended needs no signal, and its number may have been given to another process.
        if self.status().is_none() {
            let _ = system::signal_child(&self.child, signal);
        }
    }

    fn wait_until(&mut self, end: Instant) -> Option<ExitStatus> {
        loop {
            let status = self.status();
            if status.is_some() || Instant::now() >= end {
                return status;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines of standard error, as the end of an error text.
    fn last_words(&mut self) -> String {
        let end = Instant::now() + LAST_WORDS;
        while self.status().is_some() && !self.error_reader.is_finished() && Instant::now() < end {
            thread::sleep(LOOK_AGAIN);
        }
        let lines = self.last_errors.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return String::from("; it wrote nothing to standard error");
        }
        lines.iter().fold(String::from("; its standard error ends with:"), |text, line| text + "\n  " + line)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn standard(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_ns())
}

/// Calls `handle` with each line, whatever bytes it has, until the pipe closes.
fn for_each_line(pipe: impl Read, mut handle: impl FnMut(String)) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        handle(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> ChildProcess {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        ChildProcess::start("shell", command).unwrap()
    }

    fn is_alive(process: &str) -> bool {
        // A killed process that was not waited for is still listed, as a zombie.
        std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
    }

    #[test]
    fn a_ready_child_is_waited_for_and_its_other_lines_are_returned() {
        let mut child = shell("echo starting; echo ready at 1234; echo result; echo more");
        assert_eq!(child.wait_for_line("ready at ", LIMIT).unwrap(), "1234");
        assert_eq!(child.finish(LIMIT).unwrap(), ["result", "more"]);
    }

    #[test]
    fn a_failure_tells_status_and_last_words() {
        let mut child = shell("for i in $(seq 30); do echo line $i >&2; done; exit 3");
        let error = child.wait_for_line("ready", LIMIT).unwrap_err();
        assert!(matches!(error, ProcessError::EndedEarly { .. }));
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("line 30"), "{text}");
        assert!(!text.contains("line 10\n") && text.contains("line 11\n"), "{text}");
        assert!(matches!(child.finish(LIMIT), Err(ProcessError::Failed { .. })));
    }

    #[test]
    fn a_silent_child_is_reported() {
        let mut child = shell("echo other; exec sleep 100");
        let error = child.wait_for_line("ready", Duration::from_ms(50)).unwrap_err();
        assert!(matches!(error, ProcessError::LineTimeout { .. }), "{error}");
        assert!(matches!(child.finish(Duration::from_ms(1)), Err(ProcessError::StillRunning { .. })));
    }

    #[test]
    fn a_listening_child_is_told_and_answers() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "while read word; do echo heard $word; done; exit 7"]);
        let mut child = ChildProcess::start_listening("shell", command).unwrap();
        assert_eq!(child.next_line(Duration::ZERO).unwrap(), None);
        for word in ["one", "two"] {
            child.send_line(word).unwrap();
            assert_eq!(child.next_line(LIMIT).unwrap(), Some(format!("heard {word}")));
        }
        child.kill();
        let error = child.send_line("three").unwrap_err();
        assert!(matches!(error, ProcessError::Ended { .. }), "{error}");
        let error = child.next_line(LIMIT).unwrap_err().to_string();
        assert!(error.contains("shell ended (signal: 9"), "{error}");
    }

    #[test]
    fn what_does_not_exist_cannot_be_started() {
        let error = ChildProcess::start("nothing", Command::new("/does/not/exist")).unwrap_err();
        assert!(matches!(error, ProcessError::Start { .. }), "{error}");
    }

    #[test]
    fn stop_asks_and_waits() {
        let mut child = shell("trap 'echo stopping; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        child.wait_for_line("ready", LIMIT).unwrap();
        assert_eq!(child.stop(LIMIT).unwrap(), ["stopping"]);
    }

    #[test]
    fn a_paused_child_is_silent_until_it_goes_on() {
        let mut child = shell("echo ready; while :; do echo tick; sleep 0.01; done");
        child.wait_for_line("ready", LIMIT).unwrap();
        child.pause();
        while child.wait_for_line("tick", Duration::from_ms(200)).is_ok() {}
        child.resume();
        child.wait_for_line("tick", LIMIT).unwrap();
    }

    #[test]
    fn dropping_kills() {
        let child = shell("exec sleep 100");
        let id = child.id().to_string();
        assert!(is_alive(&id));
        drop(child);
        assert!(!is_alive(&id));
    }

    /// A child is tied to the thread that started it, so that thread stands for a parent that ends without
    /// dropping anything.
    #[test]
    fn the_child_of_a_vanished_parent_is_killed() {
        let child = thread::spawn(|| shell("exec sleep 100")).join().unwrap();
        let id = child.id().to_string();
        let end = Instant::now() + standard(LIMIT);
        while is_alive(&id) {
            assert!(Instant::now() < end, "the kernel has not killed the child");
            thread::sleep(LOOK_AGAIN);
        }
        std::mem::forget(child);
    }
}
