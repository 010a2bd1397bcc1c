//! The message headers of `sendmmsg` and `recvmmsg`, with their buffers.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::check;

/// Room for the one control message that a header carries: 16 bytes of header and an integer, aligned.
const LONGEST_CONTROL: usize = 32;

/// A control message's buffer; the alignment is that of `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; LONGEST_CONTROL]);

/// An address of either family.
#[derive(Clone, Copy)]
#[repr(C)]
union SocketAddress {
    four: libc::sockaddr_in,
    six: libc::sockaddr_in6,
}

impl SocketAddress {
    /// The address in the kernel's representation, and its length.
    #[inline]
    fn new(address: SocketAddr) -> (Self, usize) {
        // SAFETY: all-zero is a valid address of both families.
        let mut union: Self = unsafe { zeroed() };
        match address {
            SocketAddr::V4(address) => {
                union.four = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (union, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                union.six = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (union, size_of::<libc::sockaddr_in6>())
            }
        }
    }
}

/// A part of an outgoing message that is not in the message's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Index of the message.
    pub(crate) message: usize,
    /// Number of the buffer's bytes before the piece.
    pub(crate) place: usize,
    /// Length of the piece in bytes.
    pub(crate) length: usize,
    /// Number by which its owner identifies the piece.
    pub(crate) number: usize,
}

/// Parameters of one outgoing message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) to: SocketAddr,
    /// Number of bytes in the buffer.
    pub(crate) length: usize,
    /// Length of the datagrams into which the kernel segments the message, if it does.
    pub(crate) segment: Option<u16>,
}

/// A fixed number of messages, each with a buffer, an address and a control message.
///
/// The headers point to the other tables and stay linked, so a system call needs no preparation beyond the
/// messages that it concerns.
pub(crate) struct Messages {
    // None of these tables ever grows, so none moves in memory and the headers' pointers stay valid. The pointers come
    // from `Vec::as_mut_ptr`, which the shared and exclusive borrows taken through the vectors do not end. A buffer
    // that is sent from may grow; its pointer is set for every message.
    headers: Vec<libc::mmsghdr>,
    /// `parts` entries for each message. Read and written only through the headers.
    _vectors: Vec<libc::iovec>,
    parts: usize,
    addresses: Vec<SocketAddress>,
    controls: Vec<Control>,
    /// Buffers, at least as long as their content. Only buffers for receiving must keep their length.
    buffers: Vec<Vec<u8>>,
    capacity: usize,
}

// SAFETY: the raw pointers in `headers` and `_vectors` point only into vectors that this value owns.
unsafe impl Send for Messages {}

impl Messages {
    /// `count` messages with buffers of `capacity` bytes, all zero, each to be sent in up to `parts` parts.
    pub(crate) fn new(count: usize, capacity: usize, parts: usize) -> Self {
        let mut buffers = vec![vec![0; capacity]; count];
        // SAFETY: all-zero is a valid address of both families, and a valid mmsghdr with null pointers and zero
        // lengths.
        let (mut addresses, mut headers) =
            unsafe { (vec![zeroed::<SocketAddress>(); count], vec![zeroed::<libc::mmsghdr>(); count]) };
        let mut controls = vec![Control([0; LONGEST_CONTROL]); count];
        let mut vectors = vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: capacity }; count * parts];
        for (vector, buffer) in vectors.iter_mut().step_by(parts).zip(&mut buffers) {
            vector.iov_base = buffer.as_mut_ptr().cast();
        }
        let first_vector = vectors.as_mut_ptr();
        let (first_address, first_control) = (addresses.as_mut_ptr(), controls.as_mut_ptr());
        for (index, message) in headers.iter_mut().enumerate() {
            let header = &mut message.msg_hdr;
            // SAFETY: every table has `count` entries, that of vectors `parts` for each, and `index` is below `count`.
            unsafe {
                let vector = first_vector.add(index * parts);
                header.msg_iov = vector;
                header.msg_name = first_address.add(index).cast();
                header.msg_control = first_control.add(index).cast();
            }
            header.msg_iovlen = 1;
        }
        let mut messages = Self { headers, _vectors: vectors, parts, addresses, controls, buffers, capacity };
        for index in 0..count {
            messages.prepare_receive(index);
        }
        messages
    }

    /// The number of messages.
    pub(crate) fn count(&self) -> usize {
        self.headers.len()
    }

    /// The size of each buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// `length` bytes from `start` on of the buffer of a message.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, index: usize, start: usize, length: usize) -> &mut [u8] {
        let buffer = &mut self.buffers[index];
        if buffer.len() < start + length {
            buffer.resize(start + length, 0);
        }
        &mut buffer[start..start + length]
    }

    /// Exchanges the buffer of an outgoing message for `bytes`.
    pub(crate) fn exchange(&mut self, index: usize, bytes: &mut Vec<u8>) {
        std::mem::swap(&mut self.buffers[index], bytes);
    }

    /// The buffer of an outgoing message, truncated to `start` bytes, so that bytes can be appended.
    #[inline]
    pub(crate) fn tail(&mut self, index: usize, start: usize) -> &mut Vec<u8> {
        let buffer = &mut self.buffers[index];
        buffer.truncate(start);
        buffer
    }

    /// Copies the bytes from `start` on of the buffer of message `from` to offset `place` in that of message `to`.
    /// Both messages are outgoing.
    pub(crate) fn copy_tail(&mut self, from: usize, start: usize, to: usize, place: usize) {
        let buffers = self.buffers.get_disjoint_mut([from, to]);
        let [source, destination] = buffers.expect("two different messages");
        destination.truncate(place);
        destination.extend_from_slice(&source[start..]);
    }

    /// Prepares a message for receiving.
    pub(crate) fn prepare_receive(&mut self, index: usize) {
        let header = &mut self.headers[index].msg_hdr;
        header.msg_namelen = size_of::<SocketAddress>() as libc::socklen_t;
        header.msg_controllen = LONGEST_CONTROL as _;
        header.msg_flags = 0;
    }

    /// Receives the messages that are waiting, as many as fit, without blocking; returns their number.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: every header points to one iovec, which points to a buffer of the length that it states, to an
        // address of `msg_namelen` bytes and to a control buffer of `msg_controllen` bytes (`prepare_receive`); the
        // exclusive borrow keeps everybody else from them. All are initialised, whatever the kernel leaves untouched.
        let received = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        })?;
        Ok(received as usize)
    }

    /// The number of bytes of a received message; `None` if it was truncated because a buffer was too short.
    pub(crate) fn received_length(&self, index: usize) -> Option<usize> {
        let message = &self.headers[index];
        let truncated = message.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        (!truncated && message.msg_len as usize <= self.capacity).then_some(message.msg_len as usize)
    }

    /// Source of a received message; `None` if the kernel gave no IPv4 or IPv6 address.
    #[inline]
    pub(crate) fn source(&self, index: usize) -> Option<SocketAddr> {
        let (address, length) = (&self.addresses[index], self.headers[index].msg_hdr.msg_namelen as usize);
        // SAFETY: all bytes are initialised, and both members begin with the family.
        let family = libc::c_int::from(unsafe { address.four.sin_family });
        if length == size_of::<libc::sockaddr_in>() && family == libc::AF_INET {
            // SAFETY: every bit pattern is a valid sockaddr_in.
            let address = unsafe { address.four };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        } else if length == size_of::<libc::sockaddr_in6>() && family == libc::AF_INET6 {
            // SAFETY: every bit pattern is a valid sockaddr_in6.
            let address = unsafe { address.six };
            let (ip, port) = (Ipv6Addr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port));
            Some(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        } else {
            None
        }
    }

    /// The length of the segments from which the kernel joined a received message; `None` if it is a single
    /// datagram.
    pub(crate) fn received_segment(&self, index: usize) -> Option<usize> {
        let header = &self.headers[index].msg_hdr;
        // SAFETY: `msg_control` points to `msg_controllen` initialised bytes that are aligned as a cmsghdr must be; the
        // kernel has set the length to what it wrote, at most what it was given. CMSG_FIRSTHDR gives null if not
        // even a header is there.
        let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
        // SAFETY: CMSG_LEN only computes.
        let expected = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) } as usize;
        let is_segment = control.cmsg_level == libc::SOL_UDP && control.cmsg_type == libc::UDP_GRO;
        if !is_segment || (control.cmsg_len as usize) < expected {
            return None;
        }
        // SAFETY: the control message's length, just checked, covers an integer behind its header.
        let length = unsafe { libc::CMSG_DATA(control).cast::<c_int>().read_unaligned() };
        usize::try_from(length).ok().filter(|&length| length > 0)
    }

    /// Sends the messages from `first` up to `end` without blocking; returns how many the kernel accepted.
    /// `sending` returns the parameters of each. `pieces`, in the order of messages and offsets, are outside the
    /// buffers; `outside` returns them by their numbers.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        end: usize,
        sending: impl Fn(usize) -> Sending,
        pieces: &[Piece],
        outside: impl Fn(usize) -> &'a [u8],
    ) -> io::Result<usize> {
        let mut next = pieces.partition_point(|piece| piece.message < first);
        for index in first..end {
            self.prepare_send(index, sending(index), pieces, &mut next, &outside);
        }
        let batch = &mut self.headers[first..end];
        // SAFETY: `prepare_send` has just set every header's parts, within buffers that the exclusive borrow covers and
        // in slices that are borrowed at least until this call returns; the kernel reads them, and writes only
        // `msg_len`. The parts are not used later: each send prepares them again.
        let sent = check(unsafe {
            libc::sendmmsg(socket.as_raw_fd(), batch.as_mut_ptr(), batch.len() as _, libc::MSG_DONTWAIT as _)
        })?;
        Ok(sent as usize)
    }

    /// Copies a message's pieces into its buffer, at their offsets. `length` is the number of bytes in the buffer
    /// before. Returns the message's length.
    pub(crate) fn bring_in<'a>(
        &mut self,
        index: usize,
        length: usize,
        pieces: &[Piece],
        outside: impl Fn(usize) -> &'a [u8],
    ) -> usize {
        let mut whole = Vec::with_capacity(self.capacity);
        let (buffer, mut start) = (&self.buffers[index][..length], 0);
        for piece in pieces.iter().filter(|piece| piece.message == index) {
            whole.extend_from_slice(&buffer[start..piece.place]);
            whole.extend_from_slice(outside(piece.number));
            start = piece.place;
        }
        whole.extend_from_slice(&buffer[start..]);
        self.buffers[index] = whole;
        self.buffers[index].len()
    }

    /// Prepares a message for sending. Its pieces begin at index `next`, which is moved behind them.
    fn prepare_send<'a>(
        &mut self,
        index: usize,
        sending: Sending,
        pieces: &[Piece],
        next: &mut usize,
        outside: &impl Fn(usize) -> &'a [u8],
    ) {
        let Sending { to, length, segment } = sending;
        let buffer = &mut self.buffers[index][..length];
        let (address, address_bytes) = SocketAddress::new(to);
        self.addresses[index] = address;
        let header = &mut self.headers[index].msg_hdr;
        header.msg_namelen = address_bytes as libc::socklen_t;
        header.msg_flags = 0;
        let (mut parts, vectors) = (0, header.msg_iov);
        let mut add = |base: *mut u8, length: usize| {
            assert!(parts < self.parts, "a message of more parts than there is room for");
            // SAFETY: `msg_iov` points to the first of this message's `parts` iovecs, and the exclusive borrow covers
            // them.
            unsafe { vectors.add(parts).write(libc::iovec { iov_base: base.cast(), iov_len: length }) };
            parts += 1;
        };
        let mut start = 0;
        while let Some(piece) = pieces.get(*next).filter(|piece| piece.message == index) {
            let own = &mut buffer[start..piece.place];
            if !own.is_empty() {
                add(own.as_mut_ptr(), own.len());
            }
            let outside = outside(piece.number);
            assert_eq!(outside.len(), piece.length);
            // The kernel only reads it.
            add(outside.as_ptr().cast_mut(), outside.len());
            (start, *next) = (piece.place, *next + 1);
        }
        let rest = &mut buffer[start..];
        add(rest.as_mut_ptr(), rest.len());
        header.msg_iovlen = parts as _;
        header.msg_controllen = 0;
        let Some(segment) = segment else { return };
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, control_length) = unsafe {
            (libc::CMSG_SPACE(size_of::<u16>() as u32) as usize, libc::CMSG_LEN(size_of::<u16>() as u32))
        };
        assert!(space <= LONGEST_CONTROL);
        self.controls[index] = Control([0; LONGEST_CONTROL]);
        header.msg_controllen = space as _;
        // SAFETY: the control buffer is aligned as a cmsghdr must be and longer than `space`, so CMSG_FIRSTHDR gives
        // its beginning and the data of two bytes behind the header lies within it; the exclusive borrow covers it.
        unsafe {
            let control = libc::CMSG_FIRSTHDR(header);
            (*control).cmsg_level = libc::SOL_UDP;
            (*control).cmsg_type = libc::UDP_SEGMENT;
            (*control).cmsg_len = control_length as _;
            libc::CMSG_DATA(control).cast::<u16>().write_unaligned(segment);
        }
    }
}
