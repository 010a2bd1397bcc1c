//! AF_XDP sockets: rings of frames in memory that the kernel and this process share, and a BPF program that
//! redirects an interface's frames to the socket. Layouts and numbers are those of linux/if_xdp.h and linux/bpf.h.

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::check;

/// Bytes of a chunk of the shared memory, which holds one frame.
const CHUNK_BYTES: usize = 4_096;
/// Bytes that a driver keeps free before a frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Number of chunks for each direction.
const CHUNKS: u32 = 1_024;
/// Entries in each ring, a power of two. The kernel announces a received frame before it announces that it has
/// taken the frame's chunk from the fill ring. So rings need more entries than there are chunks.
const RING_ENTRIES: u32 = 2 * CHUNKS;

/// The longest frame that is received or sent.
pub(crate) const LONGEST_XDP_FRAME: usize = CHUNK_BYTES - HEADROOM;

/// A range of memory that is shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to whoever has the value, wherever that runs.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes: of `file` from `offset` on, or of new memory.
    fn new(length: usize, file: Option<(BorrowedFd<'_>, libc::off_t)>) -> io::Result<Self> {
        let (flags, descriptor, offset) = match file {
            Some((file, offset)) => (libc::MAP_SHARED | libc::MAP_POPULATE, file.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = ptr::NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Self { start, length })
    }

    /// Pointer to a value of type `T` in the mapping; the offset must be aligned for it.
    fn place<T>(&self, offset: usize) -> *mut T {
        assert!(offset.is_multiple_of(align_of::<T>()));
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.length));
        // SAFETY: the offset lies in the mapping.
        unsafe { self.start.as_ptr().add(offset).cast() }
    }

    /// A range of bytes. The caller ensures that the kernel does not use them at the same time.
    fn bytes(&mut self, offset: usize, length: usize) -> &mut [u8] {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length));
        // SAFETY: the range lies in the mapping, whose bytes are initialised, and the exclusive borrow covers it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of this value, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A ring of entries of type `T`, with one producer and one consumer. The kernel is one of the two.
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    /// Offsets of the ring's parts in the mapping.
    offsets: libc::xdp_ring_offset,
    /// Index of the next entry that this process produces or consumes.
    next: u32,
    entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(socket: BorrowedFd<'_>, place: libc::off_t, offsets: libc::xdp_ring_offset) -> io::Result<Self> {
        let length = offsets.desc as usize + RING_ENTRIES as usize * size_of::<T>();
        let mapping = Mapping::new(length, Some((socket, place)))?;
        Ok(Self { mapping, offsets, next: 0, entries: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the word is aligned and lies in the mapping, which the borrow keeps; both sides use it atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.place(offset as usize)) }
    }

    fn entry(&self, index: u32) -> *mut T {
        self.mapping.place(self.offsets.desc as usize + (index % RING_ENTRIES) as usize * size_of::<T>())
    }

    /// Takes the next entry that the kernel has produced.
    fn take(&mut self) -> Option<T> {
        if self.word(self.offsets.producer).load(Ordering::Acquire) == self.next {
            return None;
        }
        // SAFETY: the entry lies before the kernel's mark, which was read with acquire, so the kernel has written it
        // and will not touch it before this side's mark passes it.
        let entry = unsafe { self.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        self.word(self.offsets.consumer).store(self.next, Ordering::Release);
        Some(entry)
    }

    /// Produces an entry for the kernel. There is always room, because fewer entries exist than a ring holds.
    fn put(&mut self, entry: T) {
        assert!(
            self.next.wrapping_sub(self.word(self.offsets.consumer).load(Ordering::Acquire)) < RING_ENTRIES
        );
        // SAFETY: the kernel reads the entry only once the mark below has passed it.
        unsafe { self.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        self.word(self.offsets.producer).store(self.next, Ordering::Release);
    }

    /// Whether the kernel has not yet consumed all entries.
    fn is_pending(&self) -> bool {
        self.word(self.offsets.consumer).load(Ordering::Acquire) != self.next
    }

    fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// An AF_XDP socket on one queue of an interface. As long as it exists, it receives all frames of the queue.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    /// The BPF program, its map and its link, which redirect frames. Fields are dropped in order, so they are
    /// closed first.
    _steering: [OwnedFd; 3],
    frames: Mapping,
    fill: Ring<u64>,
    received: Ring<libc::xdp_desc>,
    sending: Ring<libc::xdp_desc>,
    sent: Ring<u64>,
    /// Chunks that are not in use for sending.
    free: Vec<u64>,
    socket: OwnedFd,
}

impl XdpSocket {
    pub(crate) fn open(interface: &str, queue: u32) -> io::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: the pointer is valid for reads up to the terminating zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes no pointers; the descriptor that comes back is nobody else's.
        let socket = unsafe {
            OwnedFd::from_raw_fd(check(libc::socket(
                libc::AF_XDP,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            ))?)
        };
        let frames = Mapping::new(2 * CHUNKS as usize * CHUNK_BYTES, None)?;
        // SAFETY: all-zero is a valid value of these types.
        let (mut memory, mut offsets, mut address) = unsafe {
            (
                zeroed::<libc::xdp_umem_reg>(),
                zeroed::<libc::xdp_mmap_offsets>(),
                zeroed::<libc::sockaddr_xdp>(),
            )
        };
        memory.addr = frames.start.as_ptr() as u64;
        memory.len = frames.length as u64;
        memory.chunk_size = CHUNK_BYTES as u32;
        set(socket.as_fd(), libc::XDP_UMEM_REG, &memory)?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set(socket.as_fd(), ring, &RING_ENTRIES)?;
        }
        let mut length = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
        // SAFETY: both pointers are valid for writes, the first of `length` bytes.
        check(unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_MMAP_OFFSETS,
                (&raw mut offsets).cast(),
                &raw mut length,
            )
        })?;
        let of = socket.as_fd();
        let mut fill = Ring::new(of, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, offsets.fr)?;
        let sent = Ring::new(of, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, offsets.cr)?;
        let received = Ring::new(of, libc::XDP_PGOFF_RX_RING, offsets.rx)?;
        let sending = Ring::new(of, libc::XDP_PGOFF_TX_RING, offsets.tx)?;
        let chunk = |number: u32| u64::from(number) * CHUNK_BYTES as u64;
        (0..CHUNKS).for_each(|number| fill.put(chunk(number)));
        let free = (CHUNKS..2 * CHUNKS).map(chunk).collect();
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP;
        address.sxdp_ifindex = index;
        address.sxdp_queue_id = queue;
        // SAFETY: the pointer is valid for a read of the length given.
        check(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        })?;
        let _steering = steer(index, queue, of)?;
        Ok(Self { _steering, frames, fill, received, sending, sent, free, socket })
    }

    /// Appends the next frame that has arrived to `frame`; returns whether there was one.
    pub(crate) fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(place) = self.received.take() else {
            if self.fill.needs_wakeup() {
                // A driver that ran out of chunks waits until this call reports that there are new ones. An error needs
                // no handling: the next call repeats the report.
                // SAFETY: the null pointers are allowed, because the length is 0 and no address is requested.
                unsafe {
                    libc::recvfrom(
                        self.socket.as_raw_fd(),
                        ptr::null_mut(),
                        0,
                        libc::MSG_DONTWAIT,
                        ptr::null_mut(),
                        ptr::null_mut(),
                    )
                };
            }
            return false;
        };
        frame.extend_from_slice(self.frames.bytes(place.addr as usize, place.len as usize));
        self.fill.put(place.addr / CHUNK_BYTES as u64 * CHUNK_BYTES as u64);
        true
    }

    /// Puts a frame into the ring; returns whether there was room. [`XdpSocket::flush`] sends it.
    pub(crate) fn transmit(&mut self, frame: &[u8]) -> bool {
        while let Some(chunk) = self.sent.take() {
            self.free.push(chunk);
        }
        let Some(chunk) = self.free.pop() else { return false };
        self.frames.bytes(chunk as usize, frame.len()).copy_from_slice(frame);
        self.sending.put(libc::xdp_desc { addr: chunk, len: frame.len() as u32, options: 0 });
        true
    }

    /// Makes the kernel send the frames in the ring, as many as it can for the moment.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        // Each call sends a few frames, and reports an error if there are more.
        for _ in 0..RING_ENTRIES {
            if !self.sending.is_pending() || !self.sending.needs_wakeup() {
                break;
            }
            // SAFETY: takes no pointers that are valid for more than no bytes.
            let sent = unsafe {
                libc::sendto(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
            };
            if sent == -1 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    // The device cannot send for the moment, or is down.
                    Some(libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => break,
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets an option of an AF_XDP socket.
fn set<T>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is valid for a read of the length given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Redirects the frames that arrive on a queue of an interface to `socket`, for as long as the returned
/// descriptors are open: a map of sockets, a BPF program that looks up the socket in it, and the program's link to
/// the interface. Frames of other queues take the normal path.
fn steer(interface: u32, queue: u32, socket: BorrowedFd<'_>) -> io::Result<[OwnedFd; 3]> {
    const MAP_CREATE: c_int = 0;
    const MAP_UPDATE_ELEMENT: c_int = 2;
    const PROGRAM_LOAD: c_int = 5;
    const LINK_CREATE: c_int = 28;
    const MAP_OF_SOCKETS: u32 = 17;
    const PROGRAM_XDP: u32 = 6;
    const ATTACH_XDP: u32 = 37;
    /// Flag: run the program in the kernel's generic path, for interfaces whose driver cannot run programs.
    const GENERIC: u32 = 1 << 1;

    let map = descriptor(bpf(MAP_CREATE, &[MAP_OF_SOCKETS, 4, 4, queue.saturating_add(1)])?);
    let [key, value] = [queue, socket.as_raw_fd() as u32];
    let element = [u64::from(map.as_raw_fd() as u32), (&raw const key) as u64, (&raw const value) as u64, 0];
    bpf(MAP_UPDATE_ELEMENT, &element)?;
    // An instruction is one word: code, destination and source register, offset, and the immediate value in the
    // upper half.
    let instruction = |code: u64, registers: u64, offset: u64, value: u32| {
        code | registers << 8 | offset << 16 | u64::from(value) << 32
    };
    let program = [
        instruction(0x61, 0x12, 16, 0), // r2 = the queue (xdp_md.rx_queue_index)
        instruction(0x18, 0x11, 0, map.as_raw_fd() as u32), // r1 = the map:
        0,                              // the second half of a two-word instruction
        instruction(0xb7, 0x03, 0, 2),  // r3 = XDP_PASS, if there is no socket
        instruction(0x85, 0, 0, 51),    // bpf_redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0),     // return the result
    ];
    let licence = c"Apache-2.0";
    let load = [
        u64::from(PROGRAM_XDP) | (program.len() as u64) << 32,
        program.as_ptr() as u64,
        licence.as_ptr() as u64,
    ];
    let program = descriptor(bpf(PROGRAM_LOAD, &load)?);
    let link = |flags| bpf(LINK_CREATE, &[program.as_raw_fd() as u32, interface, ATTACH_XDP, flags]);
    let link = descriptor(link(0).or_else(|_| link(GENERIC))?);
    Ok([map, program, link])
}

/// The system call `bpf`. The attributes are a C structure of words of this size; trailing zeros may be left out.
fn bpf<T>(command: c_int, attributes: &[T]) -> io::Result<c_int> {
    // SAFETY: the pointer is valid for reads of the length given, and the kernel writes to none of the commands used
    // here; the pointers among the attributes are those of values that live until the call returns.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr().cast::<c_void>(), size_of_val(attributes))
    };
    check(result as c_int)
}

fn descriptor(number: c_int) -> OwnedFd {
    // SAFETY: the kernel has just opened the descriptor, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(number) }
}
