//! The loop that drives one endpoint over its ports.

use std::io;

use weft_time::Instant;

use crate::{Clock, Datagram, IdlePolicy, Poller, Stop, UdpPort, system};

/// What a thread runs over its ports: a node, or a client.
pub trait Endpoint {
    /// A datagram has arrived on the port of this index.
    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_>);

    /// When [`Endpoint::handle_deadline`] wants to be called, if nothing arrives before.
    fn next_deadline(&self) -> Option<Instant>;

    /// Does what is due at `now`.
    fn handle_deadline(&mut self, now: Instant);

    /// Queues what there is to send, for as long as the ports take it. Called after everything else in each round, so
    /// what several datagrams bring about leaves together.
    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]);
}

/// Drives `endpoint` over `ports` in this thread until `stop` is requested: receive a batch from every ready port, do
/// what is due, queue and send, and pass the time by `policy` if that was nothing. What is queued when the stop comes
/// is sent as far as the kernel takes it.
///
/// # Errors
/// Only what makes going on pointless, such as a closed descriptor. Whatever a peer or the network may cause is counted
/// by the ports.
pub fn run(
    endpoint: &mut impl Endpoint,
    ports: &mut [UdpPort],
    clock: Clock,
    policy: IdlePolicy,
    stop: &Stop,
) -> io::Result<()> {
    let mut poller = Poller::new(ports, stop, policy)?;
    system::make_timers_precise();
    while !stop.is_requested() {
        let ready = poller.ready()?;
        let now = clock.now();
        let mut moved = 0;
        for (index, port) in ports.iter_mut().enumerate() {
            if ready.contains(index) {
                moved += port.receive(|datagram| endpoint.receive(now, index, datagram))?;
            }
        }
        if endpoint.next_deadline().is_some_and(|deadline| deadline <= now) {
            endpoint.handle_deadline(now);
        }
        endpoint.transmit(now, ports);
        let mut held_back = false;
        for port in ports.iter_mut() {
            moved += port.flush()?;
            held_back |= port.queued() > 0;
        }
        if moved > 0 {
            poller.busy();
        } else if !stop.is_requested() {
            poller.idle(clock, endpoint.next_deadline(), held_back)?;
        }
    }
    Ok(())
}
