//! The rate of one queue pair by DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
//! SIGCOMM 2015, sections 3.1 and 3.3), in integers. `rtl/rdma/rate_machine.sv` computes the same bits.

/// The rate of the port, 100 Gb/s. The unit of all rates is one byte in 65,536 ns, about 122 kb/s.
pub const LINE_RATE: u32 = 819_200;

/// The lowest rate of a queue pair, about 100 Mb/s.
pub const RATE_MIN: u32 = 819;

/// Bits per second of a rate of one unit.
pub const BITS_PER_S: f64 = 8e9 / 65_536.0;

/// The maximum of the congestion estimate, in 65,536ths. A notification reduces the rate by half of the
/// estimate.
const ALPHA_MAX: u32 = 0xffff;

/// The weight of one notification, or of one period without a notification, is 2^-6 (`g`; 2^-8 in the paper).
/// With this weight, and with increases that are four times those of the paper, eight clients reach equal
/// shares of a port of 100 Gb/s within milliseconds; see docs/benchmarks/congestion.md.
const GAIN_SHIFT: u32 = 6;

/// Fast recovery steps before the rate increases further (`F`).
const RECOVERY_STEPS: u8 = 5;

/// The largest count of steps.
const STEPS_MAX: u8 = 15;

/// Additive increase of the target, 160 Mb/s (`R_AI`).
const ADDITIVE: u32 = 1_311;

/// Hyper increase of the target, 1.6 Gb/s times the steps since it began (`R_HAI`).
const HYPER: u32 = 13_107;

/// Bytes on the wire after which the byte counter makes a step (`B`): 1 MiB. At 100 Gb/s, a tenth of the
/// paper's 10 MB takes as long as a period of the timer.
pub const STEP_BYTES: u32 = 1 << 20;

/// The rate machine of a queue pair. At the line rate it limits and counts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateMachine {
    /// The current rate (`R_C`): [`RATE_MIN`] to [`LINE_RATE`].
    pub current: u32,
    /// The target rate (`R_T`).
    pub target: u32,
    /// The congestion estimate, in 65,536ths.
    pub alpha: u32,
    /// Timer periods since the last notification, at most 15 (`T`).
    pub timer_steps: u8,
    /// Steps of [`STEP_BYTES`] since the last notification, at most 15 (`BC`).
    pub byte_steps: u8,
    /// Bytes since the last step.
    pub bytes: u32,
}

impl Default for RateMachine {
    fn default() -> Self {
        Self {
            current: LINE_RATE,
            target: LINE_RATE,
            alpha: ALPHA_MAX,
            timer_steps: 0,
            byte_steps: 0,
            bytes: 0,
        }
    }
}

impl RateMachine {
    /// Whether the rate is below the line rate.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.current < LINE_RATE
    }

    /// Time for one byte, in 2^-14 ns.
    pub fn byte_time(&self) -> u32 {
        (1 << 30) / self.current
    }

    /// Handles a congestion notification: reduces the rate.
    pub fn on_notification(&mut self) {
        self.target = self.current;
        let cut = (u64::from(self.current) * u64::from(self.alpha)) >> 17;
        self.current = (self.current - cut as u32).max(RATE_MIN);
        self.alpha = (self.alpha - (self.alpha >> GAIN_SHIFT) + (1 << (16 - GAIN_SHIFT))).min(ALPHA_MAX);
        self.timer_steps = 0;
        self.byte_steps = 0;
        self.bytes = 0;
    }

    /// Handles a timer period without a notification.
    pub fn on_timer(&mut self) {
        self.alpha -= self.alpha.div_ceil(1 << GAIN_SHIFT);
        self.timer_steps = (self.timer_steps + 1).min(STEPS_MAX);
        self.increase();
    }

    /// Handles the transmission of `bytes` bytes, at most [`STEP_BYTES`].
    #[inline]
    pub fn on_bytes(&mut self, bytes: u32) {
        self.bytes += bytes;
        if self.bytes >= STEP_BYTES {
            self.bytes -= STEP_BYTES;
            self.byte_steps = (self.byte_steps + 1).min(STEPS_MAX);
            self.increase();
        }
    }

    /// Makes a step of fast recovery, additive increase or hyper increase, depending on the counts of steps.
    /// At the line rate the machine returns to its initial state.
    fn increase(&mut self) {
        let (fewer, more) = (self.timer_steps.min(self.byte_steps), self.timer_steps.max(self.byte_steps));
        if fewer > RECOVERY_STEPS {
            self.target += u32::from(fewer - RECOVERY_STEPS) * HYPER;
        } else if more >= RECOVERY_STEPS {
            self.target += ADDITIVE;
        }
        self.target = self.target.min(LINE_RATE);
        self.current = (self.current + self.target).div_ceil(2);
        if !self.is_limited() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Notification,
        Timer,
        Bytes(u32),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            2 => Just(Event::Notification),
            6 => Just(Event::Timer),
            6 => (1..=STEP_BYTES).prop_map(Event::Bytes),
        ];
        prop::collection::vec(event, 0..300)
    }

    fn apply(machine: &mut RateMachine, event: Event) {
        match event {
            Event::Notification => machine.on_notification(),
            // At the line rate the machine gets no such events.
            _ if !machine.is_limited() => {}
            Event::Timer => machine.on_timer(),
            Event::Bytes(bytes) => machine.on_bytes(bytes),
        }
    }

    proptest! {
        /// The rate is never above the line rate, never below the minimum, and never above its target. Only
        /// notifications reduce it.
        #[test]
        fn a_rate_stays_within_its_bounds(events in events()) {
            let mut machine = RateMachine::default();
            for event in events {
                let before = machine;
                apply(&mut machine, event);
                prop_assert!((RATE_MIN..=LINE_RATE).contains(&machine.current), "{machine:?}");
                prop_assert!(machine.target <= LINE_RATE && machine.current <= machine.target);
                prop_assert!(machine.alpha <= ALPHA_MAX && machine.bytes < STEP_BYTES);
                match event {
                    Event::Notification => prop_assert!(machine.current <= before.current),
                    _ => prop_assert!(machine.current >= before.current),
                }
                prop_assert!(machine.byte_time() >= (1 << 30) / LINE_RATE);
            }
        }

        /// From any state, a queue pair that gets no more notifications returns to the line rate.
        #[test]
        fn a_rate_recovers(events in events()) {
            let mut machine = RateMachine::default();
            events.into_iter().for_each(|event| apply(&mut machine, event));
            let mut periods = 0;
            while machine.is_limited() {
                // Bytes sent in a period of 55 us.
                let sent = ((u64::from(machine.current) * 55_000) >> 16) as u32;
                apply(&mut machine, Event::Bytes(sent.min(STEP_BYTES)));
                apply(&mut machine, Event::Timer);
                periods += 1;
                prop_assert!(periods < 3_000, "{machine:?}");
            }
            prop_assert_eq!(machine, RateMachine::default());
        }
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_five_periods_bring_most_of_it_back() {
        let mut machine = RateMachine::default();
        machine.on_notification();
        assert_eq!((machine.current, machine.target), (LINE_RATE / 2 + 7, LINE_RATE));
        for _ in 0..4 {
            machine.on_timer();
        }
        assert_eq!((machine.current, machine.target), (LINE_RATE - LINE_RATE / 32 + 1, LINE_RATE));
    }

    #[test]
    fn a_byte_takes_80_ps_at_the_line_rate() {
        let machine = RateMachine::default();
        assert_eq!((u64::from(machine.byte_time()) * 1_000) >> 14, 79);
        assert_eq!((f64::from(LINE_RATE) * BITS_PER_S).round(), 100e9);
    }
}
