//! The loop that drives one endpoint over its ports.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;

use weft_time::Instant;

use crate::{Address, Clock, Datagram, IdlePolicy, Poller, Stop, UdpPort, system};

/// A state machine that a thread drives over its ports: a node, or a client.
pub trait Endpoint<A: Address = SocketAddrV4> {
    /// Processes a datagram that has arrived on the port of this index. `now` was read after its arrival. So a
    /// decision that depends on the time, for example whether a lease is valid, is made for a time at which the
    /// datagram had arrived.
    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_, A>);

    /// A descriptor beside the ports, which is readable when [`Endpoint::receive_from_descriptor`] has something to do.
    /// It stays the same.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Receives from the descriptor, a part at a time. Returns how much it has received, in a unit of its own.
    ///
    /// # Errors
    /// Only errors after which the endpoint cannot go on.
    fn receive_from_descriptor(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    /// When [`Endpoint::handle_deadline`] must be called, if nothing arrives before.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles what is due at `now`.
    fn handle_deadline(&mut self, now: Instant);

    /// Queues datagrams for as long as the ports have room. It is called last in each round, so that datagrams
    /// caused by several received ones are sent together.
    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<A>]);
}

/// Drives `endpoint` over `ports` in this thread until `stop` is requested. Each round receives a batch from every
/// ready port and from the endpoint's descriptor, handles deadlines, queues and sends datagrams, and, if there
/// was nothing to do, waits as `policy` says. Datagrams that are queued at the stop are sent as far as the kernel
/// accepts them.
///
/// # Errors
/// Only errors after which no port works, such as a closed descriptor. The ports count errors that a peer or the
/// network may cause.
pub fn run<A: Address>(
    endpoint: &mut impl Endpoint<A>,
    ports: &mut [UdpPort<A>],
    clock: Clock,
    policy: IdlePolicy,
    stop: &Stop,
) -> io::Result<()> {
    let mut poller = Poller::new(ports, stop, policy)?;
    if let Some(descriptor) = endpoint.descriptor() {
        poller.watch_descriptor(descriptor)?;
    }
    system::make_timers_precise();
    let mut ready = poller.ready()?;
    while !stop.is_requested() {
        let mut now = clock.now();
        let mut moved = 0;
        for (index, port) in ports.iter_mut().enumerate() {
            if ready.contains(index) {
                let mut arrival = None;
                moved += port.receive(|datagram| {
                    now = *arrival.get_or_insert_with(|| clock.now());
                    endpoint.receive(now, index, datagram);
                })?;
            }
        }
        if ready.descriptor() {
            moved += endpoint.receive_from_descriptor()?;
        }
        if endpoint.next_deadline().is_some_and(|deadline| deadline <= now) {
            endpoint.handle_deadline(now);
        }
        let refused_before = refused(ports);
        let sent_before = sent(ports);
        endpoint.transmit(now, ports);
        // An endpoint that found a port full has more datagrams as soon as the port has room.
        let has_more = refused(ports) > refused_before;
        let mut held_back = false;
        for port in ports.iter_mut() {
            port.flush()?;
            held_back |= port.queued() > 0;
        }
        // Include the datagrams sent to make room in a full port.
        moved += (sent(ports) - sent_before) as usize;
        let look_again = moved > 0 && (poller.busy() || has_more);
        ready = if look_again {
            poller.ready()?
        } else if stop.is_requested() {
            break;
        } else {
            poller.idle(clock, endpoint.next_deadline(), held_back)?
        };
    }
    Ok(())
}

/// Number of datagrams that the kernel has accepted.
fn sent<A: Address>(ports: &[UdpPort<A>]) -> u64 {
    ports.iter().map(|port| port.counters().sent).sum()
}

/// Number of datagrams that full ports have refused.
fn refused<A: Address>(ports: &[UdpPort<A>]) -> u64 {
    ports.iter().map(|port| port.counters().not_queued).sum()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use weft_time::Duration;

    use super::*;
    use crate::PortOptions;

    /// An endpoint that requests the stop at the first datagram, and at its deadline if it has one.
    struct Witness<'a> {
        stop: &'a Stop,
        deadline: Option<Instant>,
        rounds: u32,
        received: Vec<(usize, Vec<u8>)>,
        woken_at: Option<Instant>,
    }

    impl<'a> Witness<'a> {
        fn new(stop: &'a Stop, deadline: Option<Instant>) -> Self {
            Self { stop, deadline, rounds: 0, received: Vec::new(), woken_at: None }
        }
    }

    impl Endpoint for Witness<'_> {
        fn receive(&mut self, _now: Instant, port: usize, datagram: Datagram<'_>) {
            self.received.push((port, datagram.bytes.to_vec()));
            self.stop.request();
        }

        fn next_deadline(&self) -> Option<Instant> {
            self.deadline
        }

        fn handle_deadline(&mut self, now: Instant) {
            self.deadline = None;
            self.woken_at = Some(now);
            self.stop.request();
        }

        fn transmit(&mut self, _now: Instant, _ports: &mut [UdpPort]) {
            self.rounds += 1;
        }
    }

    fn port() -> UdpPort {
        UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &PortOptions::default()).unwrap()
    }

    #[test]
    fn a_sleeper_wakes_at_its_deadline() {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        for policy in
            [IdlePolicy::SLEEP, IdlePolicy::share_then_sleep(Duration::from_us(20)), IdlePolicy::POLL]
        {
            let stop = if policy == IdlePolicy::SLEEP { &stop } else { &Stop::new().unwrap() };
            let deadline = clock.now() + Duration::from_us(1_500);
            let mut witness = Witness::new(stop, Some(deadline));
            run(&mut witness, &mut [port()], clock, policy, stop).unwrap();
            assert!(witness.woken_at.unwrap() >= deadline);
            if policy == IdlePolicy::SLEEP {
                assert!(witness.rounds <= 3, "it has looked {} times instead of sleeping", witness.rounds);
            }
        }
    }

    #[test]
    fn a_sleeper_wakes_for_a_packet_on_any_port() {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let mut ports = [port(), port(), port()];
        let to = ports[2].local_address();
        let mut witness = Witness::new(&stop, None);
        thread::scope(|scope| {
            scope.spawn(move || {
                // By then the other thread is usually asleep; the test is valid in any case.
                thread::sleep(std::time::Duration::from_millis(20));
                let mut sender = port();
                assert!(sender.push(to, b"wake up"));
                sender.flush().unwrap();
            });
            run(&mut witness, &mut ports, clock, IdlePolicy::SLEEP, &stop).unwrap();
        });
        assert_eq!(witness.received, [(2, b"wake up".to_vec())]);
    }

    #[test]
    fn a_sleeper_wakes_for_the_stop() {
        let stop = Stop::new().unwrap();
        let mut witness = Witness::new(&stop, None);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(std::time::Duration::from_millis(20));
                stop.request();
            });
            run(&mut witness, &mut [port()], Clock::starting_now(), IdlePolicy::SLEEP, &stop).unwrap();
        });
        assert!(witness.received.is_empty() && witness.woken_at.is_none());
    }

    /// An endpoint that requests the stop when a stream gives it bytes.
    struct Reader<'a> {
        stop: &'a Stop,
        stream: UnixStream,
        read: Vec<u8>,
    }

    impl Endpoint for Reader<'_> {
        fn receive(&mut self, _now: Instant, _port: usize, _datagram: Datagram<'_>) {}

        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            Some(self.stream.as_fd())
        }

        fn receive_from_descriptor(&mut self) -> io::Result<usize> {
            let mut bytes = [0; 4];
            let count = self.stream.read(&mut bytes)?;
            self.read.extend_from_slice(&bytes[..count]);
            if self.read.len() == 9 {
                self.stop.request();
            }
            Ok(count)
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn handle_deadline(&mut self, _now: Instant) {}

        fn transmit(&mut self, _now: Instant, _ports: &mut [UdpPort]) {}
    }

    #[test]
    fn a_sleeper_wakes_for_another_descriptor_and_takes_it_in_parts() {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let (stream, mut writer) = UnixStream::pair().unwrap();
        let mut reader = Reader { stop: &stop, stream, read: Vec::new() };
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(std::time::Duration::from_millis(20));
                writer.write_all(b"some text").unwrap();
            });
            run(&mut reader, &mut [port()], clock, IdlePolicy::SLEEP, &stop).unwrap();
        });
        assert_eq!(reader.read, b"some text");
    }

    /// An endpoint that answers each datagram on the first port by one to the second port, and records when it
    /// sent and received it.
    struct Chronicler<'a> {
        clock: Clock,
        stop: &'a Stop,
        sender: UdpPort,
        second: SocketAddrV4,
        times: Option<(Instant, Instant)>,
    }

    impl Endpoint for Chronicler<'_> {
        fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_>) {
            if port == 0 {
                let sent = self.clock.now().as_ps().to_be_bytes();
                assert!(self.sender.push(self.second, &sent));
                self.sender.flush().unwrap();
            } else if let Ok(sent) = datagram.bytes.try_into() {
                self.times = Some((Instant::from_ps(u64::from_be_bytes(sent)), now));
                self.stop.request();
            }
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn handle_deadline(&mut self, _now: Instant) {}

        fn transmit(&mut self, _now: Instant, _ports: &mut [UdpPort]) {}
    }

    /// A lease that was valid before a request was sent says nothing about the time of the request, so received
    /// datagrams must not be dated too early. Both ports have datagrams when the round begins, so the one sent
    /// during the round is received in the same round.
    #[test]
    fn nothing_is_received_before_it_was_sent() {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let (mut ports, mut sender) = ([port(), port()], port());
        for port in &ports {
            assert!(sender.push(port.local_address(), b"something"));
        }
        sender.flush().unwrap();
        let second = ports[1].local_address();
        let mut chronicler = Chronicler { clock, stop: &stop, sender, second, times: None };
        run(&mut chronicler, &mut ports, clock, IdlePolicy::SLEEP, &stop).unwrap();
        let (sent, received) = chronicler.times.unwrap();
        assert!(sent <= received, "sent at {sent:?}, received at {received:?}");
    }

    #[test]
    fn a_signal_is_a_stop_and_others_pass() {
        let stop = Stop::on_signals().unwrap();
        let mut witness = Witness::new(stop, None);
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "sleep 0.02; kill -HUP $PPID; kill -USR1 $PPID; kill -USR2 $PPID; kill -TERM $PPID"])
            .spawn()
            .unwrap();
        run(&mut witness, &mut [port()], Clock::starting_now(), IdlePolicy::SLEEP, stop).unwrap();
        assert!(stop.is_requested() && std::ptr::eq(stop, Stop::on_signals().unwrap()));
        assert!(shell.wait().unwrap().success());
    }
}
