//! Programs that run only as long as a condition holds.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

/// Interval at which a program and its condition are checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Reason for which a program has not run to its end.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The program cannot be started.
    NotStarted(io::Error),
    /// The program was killed for this reason.
    Killed(String),
}

/// Runs a program with its arguments and this environment variable to its end. `condition` is checked meanwhile: it
/// returns the time for which it certainly holds, or the reason to kill the program.
pub(crate) fn run_while(
    command: &[String],
    (variable, value): (&str, &str),
    mut condition: impl FnMut() -> Result<Duration, String>,
) -> Result<ExitStatus, Interrupted> {
    let child = Command::new(&command[0]).args(&command[1..]).env(variable, value).spawn();
    let mut child = child.map_err(Interrupted::NotStarted)?;
    loop {
        let held = match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => condition(),
            Err(error) => Err(error.to_string()),
        };
        match held {
            Ok(left) => thread::sleep(LOOK_EVERY.min(left)),
            Err(reason) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Interrupted::Killed(reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        words: &[&str],
        condition: impl FnMut() -> Result<Duration, String>,
    ) -> Result<ExitStatus, Interrupted> {
        let command: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        run_while(&command, ("TOKEN", "7"), condition)
    }

    #[test]
    fn a_program_runs_to_its_end_and_sees_the_variable() {
        let status = run(&["sh", "-c", "test $TOKEN = 7"], || Ok(Duration::MAX)).unwrap();
        assert!(status.success());
        let status = run(&["sh", "-c", "exit $TOKEN"], || Ok(Duration::MAX)).unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_program_is_killed_when_the_condition_fails() {
        let mut checks = 0;
        let condition = || {
            checks += 1;
            if checks < 3 { Ok(Duration::ZERO) } else { Err("it is over".to_owned()) }
        };
        let killed = run(&["sleep", "1000"], condition);
        assert!(matches!(killed, Err(Interrupted::Killed(reason)) if reason == "it is over"));
        let missing = run(&["there/is/no/such/program"], || Ok(Duration::MAX));
        assert!(matches!(missing, Err(Interrupted::NotStarted(_))));
    }
}
