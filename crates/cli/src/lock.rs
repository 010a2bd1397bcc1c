//! `weft lock`: locks of a running cluster.

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_client::{Acquired, Error, Holder, Lease, Locks};

use crate::client::{ClientOptions, failure, verdict};
use crate::failure::{Failure, Verdict};
use crate::output;
use crate::supervise::{Interrupted, run_while};

/// The longest pause between two attempts to acquire a lock that another client holds.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// The shortest such pause.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// The cluster, and the operation on a lock.
#[derive(Clone, Debug, Args)]
pub(crate) struct LockArguments {
    #[command(flatten)]
    options: ClientOptions,
    #[command(subcommand)]
    request: Request,
}

#[derive(Clone, Debug, Args)]
struct Acquisition {
    /// The lock's name, 1 to 48 bytes
    name: String,
    /// Time to live of the lock in ms; the lock ends then unless it is renewed (`run` renews it)
    #[arg(long, value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    ttl_ms: u64,
    /// How long to try again while another client holds the lock, in ms; 0 tries once. --give-up-ms limits each
    /// attempt
    #[arg(long, value_name = "MS", default_value_t = 0)]
    wait_ms: u64,
}

#[derive(Clone, Debug, Args)]
struct Held {
    /// The lock's name
    name: String,
    /// The fencing token that `acquire` printed
    token: u64,
}

#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Acquire a lock, and print its fencing token
    Acquire(Acquisition),
    /// Renew a lock: its time to live starts again
    Renew(Held),
    /// Release a lock
    Release(Held),
    /// Show whether a lock is held: the holder's fencing token and the time left
    Query {
        /// The lock's name
        name: String,
    },
    /// Hold a lock while a command runs, and kill the command if the lock is lost; the command gets the fencing
    /// token in the environment variable WEFT_LOCK_TOKEN
    Run {
        #[command(flatten)]
        acquisition: Acquisition,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

impl LockArguments {
    /// Sends the request, and shows the answer. If another client holds the lock, the exit code says so.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let options = &self.options;
        let config = options.load()?;
        if config.engines.lock.is_none() {
            return Err(Failure::at(&options.config, "the cluster has no locks: there is no [lock]"));
        }
        let locks = options.open(&config)?.lock()?;
        match &self.request {
            Request::Acquire(acquisition) => match acquisition.acquire(&locks)? {
                Acquired::Granted(lease) => self.granted(&acquisition.name, "acquired", &lease),
                Acquired::Held(holder) => self.held(&acquisition.name, &holder, Verdict::Negative),
            },
            Request::Renew(held) => {
                match locks.renew(&held.name, held.token).wait().map_err(|it| ended(&it))? {
                    Some(lease) => self.granted(&held.name, "renewed", &lease),
                    None => self.lost(held),
                }
            }
            Request::Release(held) => {
                if !locks.release(&held.name, held.token).wait().map_err(|it| ended(&it))? {
                    return self.lost(held);
                }
                self.deliver(&held.name, "released", "released", json!({ "token": held.token }))?;
                Ok(Verdict::Good)
            }
            Request::Query { name } => match locks.query(name).wait()? {
                Some(holder) => self.held(name, &holder, Verdict::Good),
                None => {
                    self.deliver(name, "free: no client holds it", "free", json!({}))?;
                    Ok(verdict(false))
                }
            },
            Request::Run { acquisition, command } => match acquisition.acquire(&locks)? {
                Acquired::Granted(lease) => self.run_command(&locks, &acquisition.name, lease, command),
                Acquired::Held(holder) => self.held(&acquisition.name, &holder, Verdict::Negative),
            },
        }
    }

    fn deliver(&self, name: &str, line: &str, outcome: &str, more: Value) -> Result<(), Failure> {
        let mut object = json!({ "lock": name, "outcome": outcome });
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        self.options.deliver(line, &object)
    }

    fn granted(&self, name: &str, outcome: &str, lease: &Lease) -> Result<Verdict, Failure> {
        let (token, left_ms) = (lease.token, lease.remaining().as_millis() as u64);
        let line = format!("{outcome}, token {token}, for {left_ms} ms");
        self.deliver(name, &line, outcome, json!({ "token": token, "remaining_ms": left_ms }))?;
        Ok(Verdict::Good)
    }

    fn held(&self, name: &str, holder: &Holder, verdict: Verdict) -> Result<Verdict, Failure> {
        let (token, left_ms) = (holder.token, holder.remaining.as_millis() as u64);
        let line = format!("held with token {token}, for {left_ms} ms unless it is renewed");
        self.deliver(name, &line, "held", json!({ "token": token, "remaining_ms": left_ms }))?;
        Ok(verdict)
    }

    fn lost(&self, held: &Held) -> Result<Verdict, Failure> {
        let line = format!("lost: token {} does not hold the lock any more", held.token);
        self.deliver(&held.name, &line, "lost", json!({ "token": held.token }))?;
        Ok(Verdict::Negative)
    }

    /// Holds the lock while the command runs. Its exit code decides, if it had the lock until it ended.
    fn run_command(
        &self,
        locks: &Locks,
        name: &str,
        lease: Lease,
        command: &[String],
    ) -> Result<Verdict, Failure> {
        let (token, program) = (lease.token, &command[0]);
        let variable = ("WEFT_LOCK_TOKEN", &*token.to_string());
        let ran = run_while(command, variable, renewing(locks, name, lease));
        if !matches!(ran, Err(Interrupted::Killed(_))) {
            // A lock that is not released ends by itself.
            let _ = locks.release(name, token).wait();
        }
        let status = ran.map_err(|interrupted| match interrupted {
            Interrupted::NotStarted(error) => {
                Failure::new(format!("{program}: cannot be started ({error}); name a program"))
            }
            Interrupted::Killed(reason) => Failure::new(format!(
                "{program}: killed, because the lock `{name}` is lost ({reason}); see whether the nodes run"
            )),
        })?;
        if let Some(json) = self.options.json() {
            let object = json!({ "lock": name, "outcome": "ran", "token": token, "exit": status.code() });
            output::deliver(Some(json), || format!("{object:#}\n"), "")?;
        }
        match status.success() {
            true => Ok(Verdict::Good),
            false => Err(Failure::new(format!("{program}: ended with {status}; the lock is released"))),
        }
    }
}

/// Renews the lock at each third of its time to live. Each call returns the time for which the lock is still held, or
/// the reason for which it is lost.
fn renewing(locks: &Locks, name: &str, mut lease: Lease) -> impl FnMut() -> Result<Duration, String> {
    let mut renewal = None;
    move || {
        let left = lease.remaining();
        if left.is_zero() {
            return Err("its time is over".to_owned());
        }
        if renewal.is_none() && left < lease.ttl * 2 / 3 {
            renewal = Some(locks.renew(name, lease.token));
        }
        match renewal.take_if(|answer| answer.is_ready()).map(|answer| answer.wait()) {
            Some(Ok(Some(renewed))) => lease = renewed,
            Some(Ok(None)) => return Err("another client has held it since".to_owned()),
            // A request without an answer is repeated while there is time.
            Some(Err(_)) | None => {}
        }
        Ok(left)
    }
}

fn ended(error: &Error) -> Failure {
    failure(error, "query the lock, which ends by itself")
}

impl Acquisition {
    /// Acquires the lock; waits for it as long as `--wait-ms` says.
    fn acquire(&self, locks: &Locks) -> Result<Acquired, Failure> {
        let until = Instant::now() + Duration::from_millis(self.wait_ms);
        loop {
            let acquired = locks.acquire(&self.name, Duration::from_millis(self.ttl_ms)).wait();
            match acquired.map_err(|it| ended(&it))? {
                Acquired::Held(holder) if Instant::now() < until => {
                    let left = until.saturating_duration_since(Instant::now());
                    thread::sleep(holder.remaining.clamp(PAUSE_MIN, PAUSE_MAX).min(left));
                }
                Acquired::Granted(lease) if lease.remaining().is_zero() => {
                    return Err(Failure::new(format!(
                        "the answer took longer than the time to live; give more than --ttl-ms {}",
                        self.ttl_ms
                    )));
                }
                acquired => return Ok(acquired),
            }
        }
    }
}
