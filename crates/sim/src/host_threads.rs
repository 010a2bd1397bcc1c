//! A host's program that runs on several threads.

use std::collections::VecDeque;

use weft_nic::HostEvent;
use weft_time::{Duration, Instant};

use crate::cost::HOST_PROCESSOR;
use crate::host::{Command, Commands, Host};

/// A program whose own work ([`Host::take_cpu_time`]) takes time. The threads of [`HOST_PROCESSOR`] that it
/// runs on share the work evenly.
///
/// An event for the program waits until the threads are free, and the program's commands are sent when the
/// work that they belong to is done. The program's code runs at the start of its work.
#[derive(Debug)]
pub struct HostThreads<H> {
    program: H,
    /// Throughput of all threads together, in per cent of one thread alone.
    capacity_percent: u64,
    free_at: Instant,
    busy: Duration,
    /// Events that wait for the program.
    waiting: VecDeque<HostEvent>,
    /// The program's commands during one event.
    asked: Commands,
    /// Commands of the program and the times at which they are sent, in the order of time.
    leaving: VecDeque<(Instant, Command)>,
}

impl<H: Host> HostThreads<H> {
    /// Runs a program on `threads` threads.
    pub fn new(program: H, threads: u32) -> Self {
        assert!(threads > 0, "a program has a thread");
        Self {
            program,
            capacity_percent: HOST_PROCESSOR.capacity_percent(threads),
            free_at: Instant::ZERO,
            busy: Duration::ZERO,
            waiting: VecDeque::new(),
            asked: Commands::default(),
            leaving: VecDeque::new(),
        }
    }

    /// The program, for inspection.
    pub const fn program(&self) -> &H {
        &self.program
    }

    /// The program, mutable, so that an observer can take out what it has recorded.
    pub const fn program_mut(&mut self) -> &mut H {
        &mut self.program
    }

    /// Busy time of the program: of all threads together, as far as they share the work evenly.
    pub const fn busy(&self) -> Duration {
        self.busy
    }

    /// Calls `act` with the program, so that the caller can act as the program. Use it within
    /// [`crate::NicMachine::with_host`].
    pub fn with_program<R>(
        &mut self,
        now: Instant,
        commands: &mut Commands,
        act: impl FnOnce(&mut H, &mut Commands) -> R,
    ) -> R {
        let result = self.charge(now, commands, act);
        self.leave(now, commands);
        result
    }

    /// Lets the program act at `now`, and charges its work.
    fn charge<R>(
        &mut self,
        now: Instant,
        commands: &mut Commands,
        act: impl FnOnce(&mut H, &mut Commands) -> R,
    ) -> R {
        std::mem::swap(self.asked.host_memory(), commands.host_memory());
        let result = act(&mut self.program, &mut self.asked);
        std::mem::swap(self.asked.host_memory(), commands.host_memory());
        let cpu_time = self.program.take_cpu_time();
        let shared = cpu_time.total * 100 / self.capacity_percent;
        let done = now + shared.max(cpu_time.longest);
        self.busy += shared;
        self.free_at = self.free_at.max(now) + shared;
        while let Some(command) = self.asked.take() {
            if let Command::Reset { engine } = command {
                // Calls that are not sent yet were meant for the engine before its reset.
                self.leaving.retain(
                    |(_, former)| !matches!(former, Command::Call { engine: slot, .. } if *slot == engine),
                );
            }
            let place = self.leaving.partition_point(|(other, _)| *other <= done);
            self.leaving.insert(place, (done, command));
        }
        result
    }

    /// Sends the commands that are due.
    fn leave(&mut self, now: Instant, commands: &mut Commands) {
        while self.leaving.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, command)) = self.leaving.pop_front()
        {
            commands.pass_on(command);
        }
    }

    /// Lets the program handle events as long as the threads are free.
    fn run(&mut self, now: Instant, commands: &mut Commands) {
        while self.free_at <= now {
            if let Some(event) = self.waiting.pop_front() {
                self.charge(now, commands, |program, commands| program.handle(now, event, commands));
            } else if self.program.next_deadline().is_some_and(|at| at <= now) {
                self.charge(now, commands, |program, commands| program.wake(now, commands));
                // A program that has more to do sets its deadline to now, and is called again afterwards.
                break;
            } else {
                break;
            }
        }
        self.leave(now, commands);
    }
}

impl<H: Host> Host for HostThreads<H> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        self.waiting.push_back(event);
        self.run(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let event = (!self.waiting.is_empty()).then_some(self.free_at);
        let program = self.program.next_deadline().map(|at| at.max(self.free_at));
        let leaving = self.leaving.front().map(|(at, _)| *at);
        [event, program, leaving].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        self.run(now, commands);
    }
}

#[cfg(test)]
mod tests {
    use weft_nic::HostCommand;

    use super::*;
    use crate::host::CpuTime;

    /// The token with which the program resets its engine.
    const RESET: u32 = 99;

    /// A program whose work for a reply is given by the reply's kind, in pieces. Then it calls with the
    /// reply's token.
    #[derive(Debug, Default)]
    struct Worker {
        began: Vec<Instant>,
        cpu_time: CpuTime,
        alarm: Option<Instant>,
    }

    impl Host for Worker {
        fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
            let HostEvent::Reply { token, kind, payload, .. } = event else { panic!("only replies come") };
            self.began.push(now);
            for _ in 0..payload[0] {
                self.cpu_time.add(ns(u64::from(kind)));
            }
            commands.host_memory()[0] += 1;
            if token == RESET {
                return commands.submit(HostCommand::Reset { engine: 0 });
            }
            commands.submit(HostCommand::Call { engine: 0, token, kind, payload: &[] });
        }

        fn next_deadline(&self) -> Option<Instant> {
            self.alarm
        }

        fn wake(&mut self, now: Instant, _: &mut Commands) {
            self.began.push(now);
            self.alarm = None;
        }

        fn take_cpu_time(&mut self) -> CpuTime {
            std::mem::take(&mut self.cpu_time)
        }
    }

    fn ns(ns: u64) -> Duration {
        Duration::from_ns(ns)
    }

    fn at(ns: u64) -> Instant {
        Instant::from_ps(ns * 1_000)
    }

    /// Runs the program to its end. Returns the tokens of its calls, and when they were sent.
    fn calls(host: &mut HostThreads<Worker>, commands: &mut Commands) -> Vec<(u64, u32)> {
        let mut calls = Vec::new();
        let mut now = Instant::ZERO;
        loop {
            while let Some(command) = commands.take() {
                let Command::Call { token, .. } = command else { panic!("only calls come") };
                calls.push((now.as_ns(), token));
            }
            let Some(next) = host.next_deadline() else { return calls };
            now = now.max(next);
            host.wake(now, commands);
        }
    }

    fn reply(token: u32, kind: u8, pieces: u8) -> HostEvent {
        HostEvent::Reply { engine: 0, token, kind, payload: vec![pieces] }
    }

    #[test]
    fn threads_share_the_work_and_answers_come_after_it() {
        let mut host = HostThreads::new(Worker::default(), 4);
        let mut commands = Commands::default();
        commands.host_memory().push(0);
        // One piece of 200 ns keeps one of four threads busy; 20 pieces of 10 ns keep all of them busy.
        for (token, kind, pieces) in [(1, 200, 1), (2, 10, 20), (3, 40, 1)] {
            host.handle(at(0), reply(token, kind, pieces), &mut commands);
        }
        assert_eq!(calls(&mut host, &mut commands), [(100, 2), (140, 3), (200, 1)]);
        assert_eq!(host.program().began, [at(0), at(50), at(100)]);
        assert_eq!(host.busy(), ns(110));
        assert_eq!(commands.host_memory()[..], [3]);
    }

    #[test]
    fn a_reset_calls_back_what_has_not_left() {
        let mut host = HostThreads::new(Worker::default(), 4);
        let mut commands = Commands::default();
        commands.host_memory().push(0);
        for (token, kind, pieces) in [(1, 200, 1), (RESET, 0, 0), (2, 200, 1)] {
            host.handle(at(0), reply(token, kind, pieces), &mut commands);
        }
        host.wake(at(50), &mut commands);
        assert!(matches!(commands.take(), Some(Command::Reset { engine: 0 })));
        assert_eq!(calls(&mut host, &mut commands), [(250, 2)]);
    }

    #[test]
    fn a_program_without_own_work_is_never_kept_waiting() {
        let mut host = HostThreads::new(Worker { alarm: Some(at(70)), ..Worker::default() }, 1);
        let mut commands = Commands::default();
        commands.host_memory().push(0);
        for token in 0..3 {
            host.handle(at(0), reply(token, 0, 1), &mut commands);
        }
        assert_eq!(calls(&mut host, &mut commands), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(host.program().began, [at(0), at(0), at(0), at(70)]);
    }
}
