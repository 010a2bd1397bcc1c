//! A UDP socket with batched system calls.

use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use weft_seal::{AFTER_BYTES, BEFORE_BYTES, SEAL_BYTES};

use crate::Address;
use crate::seal::{Seal, SocketSeal};
use crate::system::{self, Messages, Piece, Sending};

/// The longest payload of a UDP datagram over IPv4: 65,535 bytes less the two headers. The same limit is used for
/// IPv6.
pub const LONGEST_DATAGRAM: usize = 65_535 - 20 - 8;

/// Socket option: receive datagrams over IPv6 without a checksum (linux/udp.h).
const UDP_NO_CHECK6_RX: libc::c_int = 102;

/// The most segments of one send that every kernel with segmentation accepts (`UDP_MAX_SEGMENTS` before Linux
/// 6.9).
const MOST_SEGMENTS: u16 = 64;

/// Options of a [`UdpPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Send runs of datagrams of equal size as one buffer that the kernel segments (`UDP_SEGMENT`), and receive
    /// such runs as one buffer (`UDP_GRO`). The crate's documentation says what this means for the IP
    /// identification.
    pub segmentation: bool,
    /// Receive datagrams over IPv6 without a UDP checksum, such as Linux's soft RoCE sends. Over IPv4 they are
    /// always received.
    pub accept_zero_checksum: bool,
    /// The longest datagram that is sent or received, in bytes of UDP payload, at most [`LONGEST_DATAGRAM`].
    pub longest_datagram: usize,
    /// Number of buffers that one system call can fill or send.
    pub batch: usize,
    /// Size of the kernel's buffer for the socket in each direction, in bytes. A smaller one is not an error.
    pub kernel_buffer_bytes: usize,
}

impl Default for PortOptions {
    /// Segmentation, checksums required over IPv6, datagrams of any length, batches of 32 buffers and 4 MiB in the
    /// kernel.
    fn default() -> Self {
        Self {
            segmentation: true,
            accept_zero_checksum: false,
            longest_datagram: LONGEST_DATAGRAM,
            batch: 32,
            kernel_buffer_bytes: 4 << 20,
        }
    }
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket uses the address.
    #[error(
        "UDP {address} is in use: stop the process that has it (`ss -ulpn 'sport = :{port}'` names it) or choose another \
         address", port = address.port()
    )]
    InUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// No interface of this machine has the address.
    #[error("no interface of this machine has {}: choose one of `ip address`", address.ip())]
    NotLocal {
        /// The requested address.
        address: SocketAddr,
    },
    /// The port is below the limit for ordinary users (1024 by default).
    #[error("UDP {address} is reserved for root: choose a port from 1024 on")]
    Reserved {
        /// The requested address.
        address: SocketAddr,
    },
    /// Another error of the kernel.
    #[error("UDP {address} cannot be opened: {source}")]
    Other {
        /// The requested address.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl BindError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::AddrNotAvailable => Self::NotLocal { address },
            io::ErrorKind::PermissionDenied => Self::Reserved { address },
            _ => Self::Other { address, source },
        }
    }
}

/// A datagram was longer than its path allows; fragmentation is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{length} bytes to {to} exceed what the path takes in one datagram: lower the path MTU in the configuration"
)]
pub struct OversizedDatagram {
    /// Destination of the datagram.
    pub to: SocketAddr,
    /// Length of its UDP payload in bytes.
    pub length: usize,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a, A = SocketAddrV4> {
    /// Source address of the datagram.
    pub from: A,
    /// UDP payload of the datagram.
    pub bytes: &'a [u8],
    /// The IPv4 identification that it carried, inferred from its index in a segmented buffer.
    pub identification: u16,
}

/// A piece of a datagram that is sent from the memory where it is, without a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftOut {
    /// Number of the datagram's bytes before the piece.
    pub(crate) place: usize,
    /// Length of the piece in bytes.
    pub(crate) length: usize,
    /// Number by which its owner identifies the piece.
    pub(crate) number: usize,
}

/// Whether [`UdpPort::push_composed`] has queued the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composed {
    /// A datagram is queued, or was dropped because it is too long.
    Queued,
    /// There was no datagram.
    Nothing,
    /// The port is full, and the kernel accepts nothing for the moment: repeat the call after a
    /// [`UdpPort::flush`].
    Full,
}

weft_counters::counters! {
    /// Counters of a port, in datagrams unless the name says otherwise.
    pub struct Counters {
        /// Datagrams received and passed to the caller.
        received,
        /// System calls that received at least one datagram.
        receive_calls,
        /// Datagrams dropped because they were longer than a buffer or had no source address.
        malformed,
        /// Datagrams sent, that is, accepted by the kernel.
        sent,
        /// System calls that sent at least one datagram.
        send_calls,
        /// Times that the kernel could accept no more for the moment.
        held_back,
        /// Attempts to queue a datagram while the port was full.
        not_queued,
        /// Datagrams dropped because they were longer than their path allows.
        oversized,
        /// Datagrams dropped because the kernel has no route to the destination or refuses it.
        refused,
        /// Ignored reports that a peer's port is closed: a dead peer is not an error of this socket.
        unreachable,
    }
}

/// A train: datagrams to one destination that are sent as one buffer, each of `segment` bytes but the last.
#[derive(Clone, Copy, Debug)]
struct Train<A> {
    to: A,
    length: usize,
    /// Number of the train's bytes that are in its buffer; the others are in pieces.
    own: usize,
    segment: usize,
    segments: u16,
}

impl<A> Train<A> {
    /// Whether a further datagram of at most `longest` bytes may be appended, provided that it is not longer than
    /// the others.
    #[inline]
    fn is_open(&self, longest: usize, capacity: usize) -> bool {
        self.takes(self.segment, capacity) && self.length + longest <= capacity
    }

    /// Whether a datagram of `length` bytes may be appended.
    #[inline]
    fn takes(&self, length: usize, capacity: usize) -> bool {
        let all_equal = self.length == self.segment * usize::from(self.segments);
        all_equal
            && (1..=self.segment).contains(&length)
            && self.segments < MOST_SEGMENTS
            && self.length + length <= capacity
    }
}

/// A non-blocking UDP socket over IPv4, or over IPv6 ([`Address`]), that is not connected and forbids fragmentation.
///
/// [`UdpPort::push`] queues datagrams and [`UdpPort::flush`] sends them. Datagrams to one destination keep their
/// order; between destinations there is no order. All memory is allocated when the port is opened, or comes with the
/// datagrams ([`UdpPort::push_exchanged`]).
pub struct UdpPort<A = SocketAddrV4> {
    socket: UdpSocket,
    local: A,
    longest_datagram: usize,
    segmentation: bool,
    incoming: Messages,
    outgoing: Messages,
    /// The trains in the buffers of `outgoing`, from the first buffer; trains before `sent` have been sent.
    trains: Vec<Train<A>>,
    sent: usize,
    /// Pieces of the trains that are not in the buffers.
    pieces: Vec<Piece>,
    oversized: Option<OversizedDatagram>,
    /// Seals and opens datagrams, if they are sealed.
    seal: Option<Box<SocketSeal>>,
    counters: Counters,
}

impl<A: Address> UdpPort<A> {
    /// Opens the socket. With port 0 the kernel chooses a port; see [`UdpPort::local_address`].
    ///
    /// # Errors
    /// [`BindError`], whose text says what to do.
    ///
    /// # Panics
    /// If the options have no buffers, or a longest datagram outside 1 to [`LONGEST_DATAGRAM`].
    pub fn bind(address: A, options: &PortOptions) -> Result<Self, BindError> {
        assert!(options.batch > 0, "a batch has at least one buffer");
        assert!((1..=LONGEST_DATAGRAM).contains(&options.longest_datagram), "no datagram has this length");
        let address: SocketAddr = address.into();
        let other = |source| BindError::Other { address, source };
        let socket = UdpSocket::bind(address).map_err(|source| BindError::new(address, source))?;
        let local = A::of(socket.local_addr().map_err(other)?).expect("the family is that of the address");
        let segmentation = configure(&socket, address.is_ipv6(), options).map_err(other)?;
        let capacity = if segmentation { LONGEST_DATAGRAM } else { options.longest_datagram };
        Ok(Self {
            socket,
            local,
            longest_datagram: options.longest_datagram,
            segmentation,
            incoming: Messages::new(options.batch, capacity, 1),
            outgoing: Messages::new(options.batch, capacity, 2 * usize::from(MOST_SEGMENTS) + 1),
            trains: Vec::with_capacity(options.batch),
            sent: 0,
            pieces: Vec::with_capacity(options.batch * usize::from(MOST_SEGMENTS)),
            oversized: None,
            seal: None,
            counters: Counters::default(),
        })
    }

    /// The same port, whose datagrams are sealed if there is a seal. A sealed datagram is [`SEAL_BYTES`] longer, and
    /// the longest one that can be sent is shorter by as much. Empty datagrams are not passed on.
    #[must_use]
    pub fn sealed(self, seal: Option<&Seal>) -> Self {
        let local = self.local.into();
        Self { seal: seal.map(|seal| Box::new(SocketSeal::new(seal, local))), ..self }
    }

    /// Counters of the seal, if datagrams are sealed.
    pub fn seal_counters(&self) -> Option<&weft_seal::Counters> {
        self.seal.as_ref().map(|seal| seal.counters())
    }

    /// Whether datagrams are sealed.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// From this address, of a socket of this process, [`WAKE`](crate::WAKE) is received without a seal. An address can
    /// be forged, so it must do no harm.
    pub fn set_waker(&mut self, waker: Option<SocketAddr>) {
        if let Some(seal) = &mut self.seal {
            seal.set_waker(waker);
        }
    }

    /// The address that the socket is bound to.
    pub fn local_address(&self) -> A {
        self.local
    }

    /// Whether runs of datagrams are sent and received as one buffer: it was requested, and the kernel supports
    /// it.
    pub fn segmentation(&self) -> bool {
        self.segmentation
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of datagrams that the kernel has dropped since the socket was opened because its receive buffer was
    /// full.
    ///
    /// # Errors
    /// The kernel's error, if it is older than this statistic (Linux 4.12).
    pub fn receive_buffer_drops(&self) -> io::Result<u32> {
        system::receive_buffer_drops(self.as_fd())
    }

    /// The first datagram that was longer than its path allows. It is returned once.
    pub fn take_oversized(&mut self) -> Option<OversizedDatagram> {
        self.oversized.take()
    }

    /// Receives one batch without waiting and calls `handle` with each datagram in order; returns how many there were.
    ///
    /// # Errors
    /// Only errors after which the socket cannot be used any more.
    pub fn receive(&mut self, mut handle: impl FnMut(Datagram<'_, A>)) -> io::Result<usize> {
        let messages = loop {
            match self.incoming.receive(self.socket.as_fd()) {
                Ok(messages) => break messages,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(0),
                    Some(libc::EINTR) => {}
                    Some(code) if reports_a_peer(code) => self.counters.unreachable += 1,
                    _ => return Err(error),
                },
            }
        };
        if let Some(seal) = &mut self.seal {
            seal.advance();
        }
        let (mut datagrams, mut passed) = (0, 0);
        for index in 0..messages {
            let source = self.incoming.source(index).and_then(A::of);
            let whole = source.zip(self.incoming.received_length(index));
            let joined_from = self.incoming.received_segment(index);
            self.incoming.prepare_receive(index);
            let Some((from, length)) = whole else {
                self.counters.malformed += 1;
                continue;
            };
            let segment = joined_from.unwrap_or(length).min(length);
            if segment > self.longest_datagram {
                self.counters.malformed += 1;
                continue;
            }
            let bytes = self.incoming.bytes_mut(index, 0, length);
            // An empty message is one empty datagram, not none.
            let count = length.div_ceil(segment.max(1)).max(1);
            for place in 0..count {
                let bytes = &mut bytes[place * segment..length.min((place + 1) * segment)];
                let bytes = match &mut self.seal {
                    None => bytes,
                    Some(seal) => match seal.open(from.into(), bytes) {
                        Some(payload) => payload,
                        None => continue,
                    },
                };
                handle(Datagram { from, bytes, identification: place as u16 });
                passed += 1;
            }
            datagrams += count;
        }
        self.counters.receive_calls += 1;
        self.counters.received += passed;
        Ok(datagrams)
    }

    /// Queues a copy of `bytes` for `to`; returns as [`UdpPort::push_with`].
    pub fn push(&mut self, to: A, bytes: &[u8]) -> bool {
        self.push_with(to, bytes.len(), |_, buffer| buffer.copy_from_slice(bytes))
    }

    /// Queues a datagram of `length` bytes for `to`, which `write` writes in place. `write` gets the IP
    /// identification that the datagram will carry, and a buffer with unspecified content.
    ///
    /// Returns `false`, without calling `write`, if the port is full and the kernel accepts nothing for the
    /// moment: the caller keeps the datagram and repeats the call after a [`UdpPort::flush`]. A datagram that is
    /// longer than [`PortOptions::longest_datagram`] can never be sent: it is dropped and counted, also without
    /// calling `write`, and the result is `true`.
    pub fn push_with(&mut self, to: A, length: usize, write: impl FnOnce(u16, &mut [u8])) -> bool {
        if self.seal.is_some() {
            return self.queue_sealed(to, length, write);
        }
        self.queue(to, length, |train, messages, index| {
            write(train.segments, messages.bytes_mut(index, train.own, length));
        })
    }

    /// Queues the datagram `bytes` for `to`; returns as [`UdpPort::push_with`]. Unless the kernel can send it
    /// together with an earlier one, it is not copied: its buffer is exchanged for one with unspecified content.
    pub fn push_exchanged(&mut self, to: A, bytes: &mut Vec<u8>) -> bool {
        if self.seal.is_some() {
            return self.push(to, bytes);
        }
        self.queue(to, bytes.len(), |train, messages, index| {
            if train.segments == 0 {
                messages.exchange(index, bytes);
            } else {
                messages.tail(index, train.own).extend_from_slice(bytes);
            }
        })
    }

    /// Queues a datagram that `put` puts behind a train in the buffer of this index; returns as
    /// [`UdpPort::push_with`].
    fn queue(&mut self, to: A, length: usize, put: impl FnOnce(&Train<A>, &mut Messages, usize)) -> bool {
        if length > self.longest_datagram {
            self.note_oversized(OversizedDatagram { to: to.into(), length }, 1);
            return true;
        }
        let Some(index) = self.train_for(to, length) else {
            self.counters.not_queued += 1;
            return false;
        };
        let train = &mut self.trains[index];
        put(train, &mut self.outgoing, index);
        train.length += length;
        train.own += length;
        train.segments += 1;
        true
    }

    /// Queues a sealed datagram with a payload of `length` bytes; returns as [`UdpPort::push_with`]. Without an
    /// association with its receiver it is sent later.
    fn queue_sealed(&mut self, to: A, length: usize, write: impl FnOnce(u16, &mut [u8])) -> bool {
        let framed = length + SEAL_BYTES;
        if framed > self.longest_datagram {
            self.note_oversized(OversizedDatagram { to: to.into(), length: framed }, 1);
            return true;
        }
        let Some(index) = self.train_for(to, framed) else {
            self.counters.not_queued += 1;
            return false;
        };
        let Train { own, segments, .. } = self.trains[index];
        let frame = self.outgoing.bytes_mut(index, own, framed);
        write(segments, &mut frame[BEFORE_BYTES..BEFORE_BYTES + length]);
        self.seal_last(to, index, framed);
        true
    }

    /// Seals the datagram of `length` bytes behind the train at this index and appends it to the train, unless it has
    /// to wait for an association.
    fn seal_last(&mut self, to: A, index: usize, length: usize) {
        let train = &mut self.trains[index];
        let frame = self.outgoing.bytes_mut(index, train.own, length);
        let seal = self.seal.as_mut().expect("the port is sealed");
        if seal.seal(to.into(), frame) {
            train.length += length;
            train.own += length;
            train.segments += 1;
        } else if train.segments == 0 {
            // It is the last one, which was made for this datagram.
            self.trains.pop();
        }
    }

    /// Queues handshakes, and what has waited for them, as far as there is room; returns whether there may be more.
    fn queue_own(&mut self) -> bool {
        while self.trains.len() < self.outgoing.count() {
            let Some((to, bytes)) = self.seal.as_mut().and_then(|seal| seal.poll_transmit()) else {
                return false;
            };
            let to = A::of(to).expect("peers are of the socket's family");
            self.queue(to, bytes.len(), |train, messages, index| {
                messages.tail(index, train.own).extend_from_slice(&bytes);
            });
        }
        self.seal.is_some()
    }

    /// Queues a datagram whose destination and length are known only once it is written, in most cases without
    /// another copy.
    ///
    /// `compose` appends the datagram, of at most `longest` bytes, to the buffer that it gets, and returns the
    /// destination. Then `complete` gets the destination and the IP identification that the datagram will carry,
    /// and may change its bytes. If the port is full, `compose` is not called: [`Composed::Full`]. A datagram that
    /// is longer than [`PortOptions::longest_datagram`] is dropped and counted, without calling `complete`.
    pub fn push_composed(
        &mut self,
        longest: usize,
        compose: impl FnOnce(&mut Vec<u8>) -> Option<A>,
        complete: impl FnOnce(A, u16, &mut [u8]),
    ) -> Composed {
        let compose = |(): &mut (), buffer: &mut Vec<u8>| Some((compose(buffer)?, None));
        self.push_parts(longest, &mut (), compose, |(), to, identification, datagram| {
            complete(to, identification, datagram);
        })
    }

    /// As [`UdpPort::push_composed`], but `compose` may leave a piece of the datagram in its memory and return the
    /// piece's number; not if the port is sealed. From then on until [`UdpPort::flush_parts`], only this method may
    /// queue datagrams, and a full port returns at once, without trying to send. Both closures get `context`.
    pub(crate) fn push_parts<C>(
        &mut self,
        longest: usize,
        context: &mut C,
        compose: impl FnOnce(&mut C, &mut Vec<u8>) -> Option<(A, Option<LeftOut>)>,
        complete: impl FnOnce(&mut C, A, u16, &mut [u8]),
    ) -> Composed {
        // The datagram may need a new train.
        if self.trains.len() == self.outgoing.count() {
            if self.has_parts() {
                return Composed::Full;
            }
            if !self.make_room() {
                self.counters.not_queued += 1;
                return Composed::Full;
            }
        }
        let seal_bytes = if self.seal.is_some() { SEAL_BYTES } else { 0 };
        // Guess that the datagram continues the last train, which is usually right.
        let (guess, start) = match self.trains[self.sent..].last() {
            Some(train)
                if self.segmentation && train.is_open(longest + seal_bytes, self.outgoing.capacity()) =>
            {
                (self.trains.len() - 1, train.own)
            }
            _ => (self.trains.len(), 0),
        };
        let buffer = self.outgoing.tail(guess, start);
        if self.seal.is_some() {
            buffer.resize(start + BEFORE_BYTES, 0);
        }
        let Some((to, left_out)) = compose(context, buffer) else { return Composed::Nothing };
        if self.seal.is_some() {
            buffer.resize(buffer.len() + AFTER_BYTES, 0);
        }
        let own = buffer.len() - start;
        let length = own + left_out.map_or(0, |piece| piece.length);
        if length > self.longest_datagram {
            self.note_oversized(OversizedDatagram { to: to.into(), length }, 1);
            return Composed::Queued;
        }
        let index = self.train_for(to, length).expect("there is room for another train");
        let train = &mut self.trains[index];
        if index != guess {
            self.outgoing.copy_tail(guess, start, index, train.own);
        }
        if self.seal.is_some() {
            assert!(left_out.is_none(), "a piece that is sent from where it lies cannot be sealed");
            let payload = self.outgoing.bytes_mut(index, train.own + BEFORE_BYTES, own - SEAL_BYTES);
            complete(context, to, train.segments, payload);
            self.seal_last(to, index, own);
            return Composed::Queued;
        }
        complete(context, to, train.segments, self.outgoing.bytes_mut(index, train.own, own));
        if let Some(LeftOut { place, length, number }) = left_out {
            self.pieces.push(Piece { message: index, place: train.own + place, length, number });
        }
        train.length += length;
        train.own += own;
        train.segments += 1;
        Composed::Queued
    }

    /// Whether datagrams are queued that only [`UdpPort::flush_parts`] can send.
    pub(crate) fn has_parts(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The train that a datagram joins, or a new one if there is room; `None` if there is none.
    #[inline]
    fn train_for(&mut self, to: A, length: usize) -> Option<usize> {
        let capacity = self.outgoing.capacity();
        if self.segmentation {
            // Only the latest train to a destination may grow. Otherwise a datagram could overtake an earlier one.
            let latest = self.trains[self.sent..].iter().rposition(|train| train.to == to);
            let latest = latest.map(|place| place + self.sent);
            if let Some(index) = latest.filter(|&index| self.trains[index].takes(length, capacity)) {
                return Some(index);
            }
        }
        if self.trains.len() == self.outgoing.count() && !self.make_room() {
            return None;
        }
        self.trains.push(Train { to, length: 0, own: 0, segment: length, segments: 0 });
        Some(self.trains.len() - 1)
    }

    /// Number of datagrams that are queued and not sent.
    pub fn queued(&self) -> usize {
        self.trains[self.sent..].iter().map(|train| usize::from(train.segments)).sum()
    }

    /// Sends the queued datagrams; returns how many the kernel accepted. Those that it cannot accept for the
    /// moment stay queued; those that it never will are dropped and counted.
    ///
    /// # Errors
    /// Only errors after which the socket cannot be used any more.
    pub fn flush(&mut self) -> io::Result<usize> {
        assert!(!self.has_parts(), "what was left out has to be there");
        if let Some(seal) = &mut self.seal {
            seal.advance();
        }
        let mut sent = 0;
        loop {
            let has_more = self.queue_own();
            sent += self.send(|_| unreachable!("nothing was left out"))?;
            if !has_more || !self.trains.is_empty() {
                return Ok(sent);
            }
        }
    }

    /// As [`UdpPort::flush`], for datagrams of [`UdpPort::push_parts`]: `outside` returns the pieces by their
    /// numbers. Pieces of datagrams that the kernel does not accept for the moment are copied into the buffers.
    ///
    /// # Errors
    /// Only errors after which the socket cannot be used any more.
    pub(crate) fn flush_parts<'a>(&mut self, outside: impl Fn(usize) -> &'a [u8]) -> io::Result<usize> {
        // Trains to several destinations have grown in turn, so their pieces are mixed.
        self.pieces.sort_unstable_by_key(|piece| (piece.message, piece.place));
        let sent = self.send(&outside);
        self.copy_parts(outside);
        sent
    }

    /// Copies the pieces of unsent trains into their buffers.
    fn copy_parts<'a>(&mut self, outside: impl Fn(usize) -> &'a [u8]) {
        self.pieces.sort_unstable_by_key(|piece| (piece.message, piece.place));
        for index in self.sent..self.trains.len() {
            let train = &mut self.trains[index];
            if train.own < train.length {
                train.own = self.outgoing.bring_in(index, train.own, &self.pieces, &outside);
                assert_eq!(train.own, train.length, "every byte of a train is somewhere");
            }
        }
        self.pieces.clear();
    }

    fn send<'a>(&mut self, outside: impl Fn(usize) -> &'a [u8]) -> io::Result<usize> {
        let mut datagrams = 0;
        while self.sent < self.trains.len() {
            let trains = &self.trains;
            let sending = |index: usize| {
                let Train { to, own, segment, segments, .. } = trains[index];
                let segment = (segments > 1).then_some(segment as u16);
                Sending { to: to.into(), length: own, segment }
            };
            let socket = self.socket.as_fd();
            match self.outgoing.send(socket, self.sent, trains.len(), sending, &self.pieces, &outside) {
                Ok(messages) => {
                    let left = &self.trains[self.sent..self.sent + messages];
                    datagrams += left.iter().map(|train| usize::from(train.segments)).sum::<usize>();
                    self.counters.send_calls += 1;
                    self.sent += messages;
                }
                Err(error) => {
                    if !self.handle_send_error(error)? {
                        break;
                    }
                }
            }
        }
        if self.sent == self.trains.len() {
            self.trains.clear();
            self.sent = 0;
        }
        self.counters.sent += datagrams as u64;
        Ok(datagrams)
    }

    /// Sends until nothing is queued; returns whether that succeeded.
    fn make_room(&mut self) -> bool {
        // An error that makes the socket unusable occurs again in the caller's next flush.
        let _ = self.flush();
        self.trains.is_empty()
    }

    /// Counts datagrams that are too long, and keeps the first for [`UdpPort::take_oversized`].
    fn note_oversized(&mut self, datagram: OversizedDatagram, datagrams: u64) {
        if self.counters.oversized == 0 {
            self.oversized = Some(datagram);
        }
        self.counters.oversized += datagrams;
    }

    /// Handles the kernel's refusal of the first queued message; returns whether to go on.
    fn handle_send_error(&mut self, error: io::Error) -> io::Result<bool> {
        let train = self.trains[self.sent];
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => {
                self.counters.held_back += 1;
                return Ok(false);
            }
            Some(libc::EINTR) => return Ok(true),
            // The error concerns an earlier datagram; the kernel has not tried this message.
            Some(code) if reports_a_peer(code) => {
                self.counters.unreachable += 1;
                return Ok(true);
            }
            Some(libc::EMSGSIZE) => {
                let datagram = OversizedDatagram { to: train.to.into(), length: train.segment };
                self.note_oversized(datagram, u64::from(train.segments));
            }
            // A device without checksum offload, or a kernel with another limit, cannot send segmented buffers.
            // These datagrams are lost: sent one by one, they would not carry the identifications that their
            // writers were given.
            Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP) if train.segments > 1 => {
                self.counters.refused += u64::from(train.segments);
                self.segmentation = false;
            }
            Some(
                libc::EINVAL
                | libc::EIO
                | libc::EACCES
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EADDRNOTAVAIL,
            ) => self.counters.refused += u64::from(train.segments),
            _ => return Err(error),
        }
        self.sent += 1;
        Ok(true)
    }
}

impl<A> AsFd for UdpPort<A> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<A: fmt::Debug> fmt::Debug for UdpPort<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpPort")
            .field("local", &self.local)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Whether an error reports a peer's ICMP message about an earlier datagram.
fn reports_a_peer(code: i32) -> bool {
    matches!(code, libc::ECONNREFUSED | libc::ECONNRESET | libc::EHOSTDOWN)
}

/// Sets the socket's options; returns whether the kernel supports segmentation.
fn configure(socket: &UdpSocket, is_ipv6: bool, options: &PortOptions) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    let (level, name, value) = if is_ipv6 {
        (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)
    } else {
        (libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
    };
    system::set_option(socket.as_fd(), level, name, value)?;
    if is_ipv6 && options.accept_zero_checksum {
        system::set_option(socket.as_fd(), libc::SOL_UDP, UDP_NO_CHECK6_RX, 1)?;
    }
    let bytes = i32::try_from(options.kernel_buffer_bytes).unwrap_or(i32::MAX / 2);
    for (forced, ordinary) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // The forced option may exceed net.core.[rw]mem_max but needs root; the ordinary one is limited to it.
        if system::set_option(socket.as_fd(), libc::SOL_SOCKET, forced, bytes).is_err() {
            system::set_option(socket.as_fd(), libc::SOL_SOCKET, ordinary, bytes)?;
        }
    }
    // A kernel without this option cannot segment; reading the option has no effect.
    Ok(options.segmentation
        && system::option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
        && system::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6};

    use proptest::prelude::*;
    use weft_time::Duration;

    use super::*;
    use crate::{Clock, IdlePolicy, Poller, Stop};

    const LOOPBACK: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

    fn port(segmentation: bool) -> UdpPort {
        UdpPort::bind(LOOPBACK, &PortOptions { segmentation, ..PortOptions::default() }).unwrap()
    }

    /// A received datagram, copied from its buffer: source, bytes, identification.
    type Owned = (SocketAddrV4, Vec<u8>, u16);

    /// Waits for `count` datagrams.
    fn receive(port: &mut UdpPort, count: usize) -> Vec<Owned> {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let mut poller = Poller::new(std::slice::from_ref(port), &stop, IdlePolicy::SLEEP).unwrap();
        let give_up = clock.now() + Duration::from_secs(60);
        let mut received = Vec::new();
        while received.len() < count {
            port.receive(|datagram| {
                received.push((datagram.from, datagram.bytes.to_vec(), datagram.identification));
            })
            .unwrap();
            if received.len() < count {
                assert!(clock.now() < give_up, "{} of {count} datagrams have arrived", received.len());
                poller.idle(clock, Some(give_up), false).unwrap();
            }
        }
        received
    }

    fn segments_here() -> bool {
        let segments = port(true).segmentation();
        if !segments {
            eprintln!("skipped: this kernel offers no UDP segmentation");
        }
        segments
    }

    #[test]
    fn a_run_of_equal_datagrams_leaves_in_one_call_and_arrives_in_one() {
        if !segments_here() {
            return;
        }
        let (mut sender, mut receiver) = (port(true), port(true));
        let to = receiver.local_address();
        for number in 0..10u8 {
            let length = if number == 9 { 7 } else { 1000 };
            assert!(sender.push_with(to, length, |identification, buffer| {
                assert_eq!(identification, u16::from(number));
                buffer.fill(number);
            }));
        }
        assert_eq!(sender.queued(), 10);
        assert_eq!(sender.flush().unwrap(), 10);
        assert_eq!((sender.counters().send_calls, sender.queued()), (1, 0));
        for (number, (from, bytes, identification)) in receive(&mut receiver, 10).into_iter().enumerate() {
            assert_eq!(from, sender.local_address());
            assert_eq!(identification, number as u16);
            assert_eq!(bytes, vec![number as u8; if number == 9 { 7 } else { 1000 }]);
        }
        assert_eq!(receiver.counters().receive_calls, 1);
    }

    /// As over IPv4, but without identifications.
    #[test]
    fn a_run_of_equal_datagrams_over_ipv6() {
        let loopback = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0);
        let options = PortOptions { accept_zero_checksum: true, ..PortOptions::default() };
        let open = || UdpPort::bind(loopback, &options);
        let (mut sender, mut receiver) = match (open(), open()) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            (error, _) => return eprintln!("skipped: no IPv6: {error:?}"),
        };
        for number in 0..10u8 {
            assert!(sender.push(receiver.local_address(), &[number; 1000]));
        }
        assert_eq!(sender.flush().unwrap(), 10);
        assert_eq!(sender.counters().send_calls, 1);
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let mut poller = Poller::new(std::slice::from_ref(&receiver), &stop, IdlePolicy::SLEEP).unwrap();
        let mut received = Vec::new();
        while received.len() < 10 {
            receiver.receive(|datagram| received.push((datagram.from, datagram.bytes.to_vec()))).unwrap();
            poller.idle(clock, Some(clock.now() + Duration::from_ms(10)), false).unwrap();
        }
        let from = sender.local_address();
        assert!(received.iter().enumerate().all(|(number, one)| *one == (from, vec![number as u8; 1000])));
    }

    #[test]
    fn a_receiver_without_segmentation_gets_the_same_datagrams() {
        let (mut sender, mut receiver) = (port(true), port(false));
        for number in 0..100u8 {
            assert!(sender.push(receiver.local_address(), &[number; 300]));
        }
        sender.flush().unwrap();
        let received = receive(&mut receiver, 100);
        assert!(received.iter().enumerate().all(|(number, (_, bytes, _))| *bytes == [number as u8; 300]));
    }

    #[test]
    fn without_segmentation_every_identification_is_zero() {
        let (mut sender, mut receiver) = (port(false), port(false));
        for _ in 0..100 {
            assert!(sender.push_with(receiver.local_address(), 64, |identification, buffer| {
                assert_eq!(identification, 0);
                buffer.fill(1);
            }));
        }
        sender.flush().unwrap();
        assert!(receive(&mut receiver, 100).iter().all(|(_, _, identification)| *identification == 0));
    }

    #[test]
    fn a_port_in_use_is_a_clear_error() {
        let holder = port(true);
        let address = holder.local_address();
        let error = UdpPort::bind(address, &PortOptions::default()).unwrap_err();
        assert!(matches!(error, BindError::InUse { address: named } if named == address.into()));
        let text = error.to_string();
        assert!(text.contains(&address.to_string()) && text.contains("stop the process"), "{text}");
    }

    #[test]
    fn an_address_of_another_machine_is_a_clear_error() {
        // 192.0.2.0/24 is reserved for documentation (RFC 5737).
        let error = UdpPort::bind("192.0.2.1:4791".parse::<SocketAddrV4>().unwrap(), &PortOptions::default())
            .unwrap_err();
        assert!(matches!(error, BindError::NotLocal { .. }), "{error}");
    }

    #[test]
    fn a_dead_peer_disturbs_nobody() {
        let (mut sender, mut receiver) = (port(true), port(true));
        let dead = port(true).local_address();
        for number in 0..50u8 {
            assert!(sender.push(dead, &[number; 8]));
            assert!(sender.push(receiver.local_address(), &[number; 8]));
            sender.flush().unwrap();
            sender.receive(|_| panic!("nobody answers")).unwrap();
        }
        let received = receive(&mut receiver, 50);
        assert!(received.iter().enumerate().all(|(number, (_, bytes, _))| *bytes == [number as u8; 8]));
    }

    #[test]
    fn what_the_kernel_refuses_is_dropped_and_the_rest_goes_on() {
        let (mut sender, mut receiver) = (port(true), port(true));
        let nowhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        for to in [receiver.local_address(), nowhere, receiver.local_address()] {
            assert!(sender.push(to, b"a datagram of its own"));
            sender.flush().unwrap();
        }
        assert_eq!(receive(&mut receiver, 2).len(), 2);
        assert_eq!((sender.counters().refused, sender.counters().sent), (1, 2));
    }

    #[test]
    fn a_refused_run_ends_segmentation_and_not_the_socket() {
        let (mut sender, mut receiver) = (port(true), port(true));
        let nowhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        if !sender.segmentation() {
            return;
        }
        assert!(sender.push(nowhere, &[0; 8]) && sender.push(nowhere, &[0; 8]));
        sender.flush().unwrap();
        assert_eq!(sender.counters().refused, 2);
        assert!(!sender.segmentation());
        for _ in 0..2 {
            assert!(sender.push_with(receiver.local_address(), 8, |identification, buffer| {
                assert_eq!(identification, 0);
                buffer.fill(0);
            }));
        }
        sender.flush().unwrap();
        assert!(receive(&mut receiver, 2).iter().all(|(_, _, identification)| *identification == 0));
    }

    #[test]
    fn what_the_kernel_cannot_take_yet_stays_queued() {
        for code in [libc::EAGAIN, libc::ENOBUFS] {
            let (mut sender, mut receiver) = (port(true), port(true));
            assert!(sender.push(receiver.local_address(), b"patient"));
            assert!(!sender.handle_send_error(io::Error::from_raw_os_error(code)).unwrap());
            assert_eq!((sender.counters().held_back, sender.queued()), (1, 1));
            assert_eq!(sender.flush().unwrap(), 1);
            assert_eq!(receive(&mut receiver, 1)[0].1, b"patient");
        }
    }

    #[test]
    fn only_a_useless_socket_is_an_error() {
        let mut sender = port(true);
        assert!(sender.push(LOOPBACK, &[0; 8]));
        assert!(sender.handle_send_error(io::Error::from_raw_os_error(libc::EBADF)).is_err());
        assert!(sender.handle_send_error(io::Error::from_raw_os_error(libc::ECONNREFUSED)).unwrap());
        assert_eq!((sender.counters().unreachable, sender.queued()), (1, 1));
    }

    #[test]
    fn too_long_a_datagram_is_reported_once() {
        let options = PortOptions { longest_datagram: 100, ..PortOptions::default() };
        let mut sender = UdpPort::bind(LOOPBACK, &options).unwrap();
        let to = sender.local_address();
        for length in [101, 102] {
            assert!(sender.push_with(to, length, |_, _| panic!("there is no room for it")));
        }
        assert_eq!(sender.queued(), 0);
        assert_eq!(sender.take_oversized(), Some(OversizedDatagram { to: to.into(), length: 101 }));
        assert!(sender.push(to, &[0; 103]));
        assert_eq!((sender.take_oversized(), sender.counters().oversized), (None, 3));
    }

    #[test]
    fn a_datagram_that_begins_a_train_is_not_copied() {
        let (mut sender, mut receiver) = (port(true), port(true));
        let to = receiver.local_address();
        for (number, is_first) in [(0u8, true), (1, !sender.segmentation())] {
            let mut bytes = vec![number; 300];
            let address = bytes.as_ptr();
            assert!(sender.push_exchanged(to, &mut bytes));
            assert_eq!(bytes.as_ptr() != address, is_first);
        }
        sender.flush().unwrap();
        let received = receive(&mut receiver, 2);
        assert!(received.iter().enumerate().all(|(number, (_, bytes, _))| *bytes == [number as u8; 300]));
        assert!(sender.push_exchanged(to, &mut vec![0; LONGEST_DATAGRAM + 1]));
        assert_eq!((sender.queued(), sender.counters().oversized), (0, 1));
    }

    #[test]
    fn what_is_not_composed_or_too_long_leaves_no_trace() {
        let options = PortOptions { longest_datagram: 100, ..PortOptions::default() };
        let mut sender = UdpPort::bind(LOOPBACK, &options).unwrap();
        let to = sender.local_address();
        let compose = |sender: &mut UdpPort, length: usize| {
            let append = |buffer: &mut Vec<u8>| {
                buffer.resize(buffer.len() + length, 7);
                (length > 0).then_some(to)
            };
            sender.push_composed(200, append, |_, _, buffer| buffer[0] = length as u8)
        };
        let composed = [50, 0, 101, 50, 0, 101].map(|length| compose(&mut sender, length));
        let queued = composed.iter().filter(|&&composed| composed == Composed::Queued).count();
        assert_eq!((queued, sender.queued(), sender.counters().oversized), (4, 2, 2));
        sender.flush().unwrap();
        let mut expected = [7; 50];
        expected[0] = 50;
        assert!(receive(&mut sender, 2).iter().all(|(_, bytes, _)| *bytes == expected));
    }

    #[test]
    fn too_long_a_datagram_is_not_received() {
        for segmentation in [false, true] {
            let options = PortOptions { segmentation, longest_datagram: 100, ..PortOptions::default() };
            let mut receiver = UdpPort::bind(LOOPBACK, &options).unwrap();
            let mut sender = port(true);
            for length in [101, 100, 300, 99] {
                assert!(sender.push(receiver.local_address(), &vec![0; length]));
                sender.flush().unwrap();
            }
            let received = receive(&mut receiver, 2);
            assert_eq!((received[0].1.len(), received[1].1.len()), (100, 99));
            assert_eq!(receiver.counters().malformed, 2);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every queued datagram arrives: whole, in order at each destination, and with the identification that
        /// its writer was given.
        #[test]
        fn what_is_queued_arrives(
            datagrams in prop::collection::vec(
                (
                    0..3usize,
                    prop_oneof![Just(0), Just(1), Just(256), Just(1500), 0..9000usize],
                    prop::bool::weighted(0.05),
                    0..3u8,
                ),
                0..150,
            ),
            segmentation: bool,
        ) {
            let mut sender = port(segmentation);
            let mut receivers = [port(segmentation), port(segmentation), port(segmentation)];
            let mut expected = [vec![], vec![], vec![]];
            for (number, &(destination, length, flush, way)) in datagrams.iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|place| (place + number) as u8).collect();
                let mut told = 0;
                let to = receivers[destination].local_address();
                if way == 0 {
                    let compose = |buffer: &mut Vec<u8>| {
                        buffer.extend(bytes.iter().map(|byte| !byte));
                        Some(to)
                    };
                    let queued = sender.push_composed(9_000, compose, |_, identification, buffer| {
                        buffer.iter_mut().for_each(|byte| *byte = !*byte);
                        told = identification;
                    });
                    prop_assert_eq!(queued, Composed::Queued);
                } else if way == 1 {
                    prop_assert!(sender.push_exchanged(to, &mut bytes.clone()));
                    let train = sender.trains.iter().rfind(|train| train.to == to).unwrap();
                    told = train.segments - 1;
                } else {
                    let taken = sender.push_with(to, length, |identification, buffer| {
                        buffer.copy_from_slice(&bytes);
                        told = identification;
                    });
                    prop_assert!(taken);
                }
                expected[destination].push((sender.local_address(), bytes, told));
                if flush {
                    sender.flush().unwrap();
                }
            }
            sender.flush().unwrap();
            prop_assert_eq!(sender.queued(), 0);
            prop_assert_eq!(sender.counters().sent, datagrams.len() as u64);
            for (receiver, expected) in receivers.iter_mut().zip(expected) {
                prop_assert_eq!(receive(receiver, expected.len()), expected);
                prop_assert_eq!(receiver.receive(|_| panic!("nothing else was sent")).unwrap(), 0);
                prop_assert_eq!(receiver.receive_buffer_drops().unwrap(), 0);
            }
        }

        /// A datagram with a piece outside the buffers is like any other: its parts arrive as one datagram, in
        /// order, with the identification that its writer was given, also if the kernel first accepts nothing.
        #[test]
        fn what_is_left_out_arrives(
            datagrams in prop::collection::vec(
                (0..2usize, 0..40usize, prop::option::of(prop_oneof![Just(1_024), 1..4_096usize]), 0..9usize),
                1..200,
            ),
            segmentation: bool,
            held_back: bool,
        ) {
            let mut sender = port(segmentation);
            let mut receivers = [port(segmentation), port(segmentation)];
            let mut expected = [vec![], vec![]];
            let outside: Vec<Vec<u8>> = (0..)
                .zip(&datagrams)
                .map(|(number, datagram)| {
                    (0..datagram.2.unwrap_or(0)).map(|place| (place * 3 + number) as u8).collect()
                })
                .collect();
            for (number, &(destination, before, middle, behind)) in datagrams.iter().enumerate() {
                let to = receivers[destination].local_address();
                let mut bytes = vec![1; before];
                bytes.extend_from_slice(&outside[number]);
                bytes.extend(vec![2; behind]);
                let mut told = 0;
                loop {
                    let compose = |(): &mut (), buffer: &mut Vec<u8>| {
                        buffer.extend(vec![1; before]);
                        buffer.extend(vec![9; behind]);
                        Some((to, middle.map(|length| LeftOut { place: before, length, number })))
                    };
                    let composed = sender.push_parts(9_000, &mut (), compose, |(), _, identification, own| {
                        own[before..].fill(2);
                        told = identification;
                    });
                    if composed == Composed::Queued {
                        break;
                    }
                    prop_assert!(composed == Composed::Full && sender.has_parts());
                    sender.flush_parts(|number| &outside[number]).unwrap();
                }
                expected[destination].push((sender.local_address(), bytes, told));
            }
            if held_back {
                sender.copy_parts(|number| &outside[number]);
                prop_assert!(!sender.has_parts());
                sender.flush().unwrap();
            } else {
                sender.flush_parts(|number| &outside[number]).unwrap();
            }
            prop_assert_eq!((sender.queued(), sender.has_parts()), (0, false));
            for (receiver, expected) in receivers.iter_mut().zip(expected) {
                prop_assert_eq!(receive(receiver, expected.len()), expected);
                prop_assert_eq!(receiver.receive_buffer_drops().unwrap(), 0);
            }
        }
    }
}
