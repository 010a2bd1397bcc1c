//! Event channels, and the conversion of the manager's events to those that programs take.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_cm::{Event, Reject, private};
use weft_wire::roce::Gid;

use super::abi::{
    rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel, rdma_event_param, rdma_ud_param,
};
use super::address::write;
use super::{QUEUE_KEY, answered, bind, engine, make, of as id_of};
use crate::abi::{ibv_ah_attr, zeroed};
use crate::engine::State;
use crate::events::{count_down, count_up, counting_descriptor};

/// `rdma_cm_event_type`, by number.
#[allow(missing_docs, reason = "the names are those of librdmacm")]
pub mod kind {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const CONNECT_ERROR: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
}

/// An event that the program has not taken yet.
#[derive(Debug)]
pub struct Pending {
    id: usize,
    /// What has happened.
    pub what: What,
}

/// What has happened to an identifier.
#[derive(Debug)]
pub enum What {
    /// The library has completed a call that needs no peer.
    Plain(u32),
    /// The connection manager reports an event.
    Manager(Event),
}

impl Pending {
    /// An event that the library itself generates.
    pub fn plain(id: *mut rdma_cm_id, kind: u32) -> Self {
        Self { id: id as usize, what: What::Plain(kind) }
    }
}

/// The queue of events of a channel, and the descriptor that becomes readable when there are some.
#[derive(Debug)]
pub struct EventChannel {
    fd: RawFd,
    waiting: Mutex<VecDeque<Pending>>,
}

impl EventChannel {
    /// A channel whose descriptor counts the events that wait.
    pub fn new(fd: RawFd) -> Self {
        Self { fd, waiting: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Pending>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event and wakes a waiting program.
    pub fn push(&self, event: Pending) {
        self.lock().push_back(event);
        count_up(self.fd);
    }

    /// Waits for the next event; `None`, with `errno` set, if there is none and the descriptor is non-blocking.
    pub fn next(&self) -> Option<Pending> {
        loop {
            if !count_down(self.fd) {
                return None;
            }
            // The events of a destroyed identifier were removed, but their counts were not.
            let next = self.lock().pop_front();
            if next.is_some() {
                return next;
            }
        }
    }

    /// Removes the events of an identifier.
    pub fn forget(&self, id: *mut rdma_cm_id) {
        self.lock().retain(|event| event.id != id as usize);
    }

    /// Moves the events of an identifier to another channel.
    pub fn migrate(&self, id: *mut rdma_cm_id, to: &Self) {
        let mut waiting = self.lock();
        let (moves, stays) = waiting.drain(..).partition(|event| event.id == id as usize);
        *waiting = stays;
        drop(waiting);
        let moves: VecDeque<Pending> = moves;
        moves.into_iter().for_each(|event| to.push(event));
    }
}

/// Where the manager's events of a connection or a service are reported.
#[derive(Clone, Debug)]
pub struct EventTarget {
    id: usize,
    channel: Arc<EventChannel>,
}

impl EventTarget {
    /// The target for an identifier with this channel.
    pub fn of(id: *mut rdma_cm_id, channel: &Arc<EventChannel>) -> Self {
        Self { id: id as usize, channel: Arc::clone(channel) }
    }

    fn tell(&self, event: Event) {
        self.channel.push(Pending { id: self.id, what: What::Manager(event) });
    }
}

impl State {
    /// Moves the manager's events to the channels of the identifiers that they concern.
    pub fn deliver_connection_events(&mut self) {
        while let Some(event) = self.manager.poll_event() {
            let told = match &event {
                Event::Requested { request, .. } => self.listeners.get(&request.service.0),
                Event::DatagramsRequested { service, .. } => self.listeners.get(&service.0),
                Event::Accepted { id, .. }
                | Event::DatagramsAccepted { id, .. }
                | Event::Rejected { id, .. }
                | Event::Established(id)
                | Event::Unreachable(id)
                | Event::Disconnected(id) => self.connections.get(&id.number()),
            };
            if let Some(told) = told {
                told.tell(event);
            }
        }
    }
}

/// A channel as C sees it.
#[repr(C)]
struct Channel {
    base: rdma_event_channel,
    channel: Arc<EventChannel>,
}

/// Creates a channel for C. Returns null, with `errno` set, if its descriptor cannot be created.
pub fn create() -> *mut rdma_event_channel {
    let fd = counting_descriptor();
    if fd < 0 {
        return ptr::null_mut();
    }
    let channel = Arc::new(EventChannel::new(fd));
    Box::into_raw(Box::new(Channel { base: rdma_event_channel { fd }, channel })).cast()
}

/// Destroys a channel.
///
/// # Safety
/// It must come from [`create`].
pub unsafe fn destroy(channel: *mut rdma_event_channel) {
    // SAFETY: the caller keeps to this function's contract.
    unsafe {
        libc::close((*channel).fd);
        drop(Box::from_raw(channel.cast::<Channel>()));
    }
}

/// The events behind a channel.
///
/// # Safety
/// It must come from [`create`].
pub unsafe fn of(channel: *mut rdma_event_channel) -> Arc<EventChannel> {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { Arc::clone(&(*channel.cast::<Channel>()).channel) }
}

/// An event that the program has taken, with the private data that it points to.
#[repr(C)]
struct Taken {
    base: rdma_cm_event,
    private: Vec<u8>,
    count: Arc<AtomicU32>,
}

fn connection(private: &[u8], responder_resources: u8, initiator_depth: u8) -> rdma_conn_param {
    rdma_conn_param {
        private_data: ptr::null(),
        private_data_len: private.len() as u8,
        responder_resources,
        initiator_depth,
        flow_control: 0,
        retry_count: 0,
        rnr_retry_count: 0,
        srq: 0,
        qp_num: 0,
    }
}

/// Waits for the next event of a channel.
///
/// # Safety
/// The pointers come from the C caller and must be valid.
pub unsafe fn next(channel: *mut rdma_event_channel, out: *mut *mut rdma_cm_event) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let events = of(channel);
        loop {
            let Some(pending) = events.next() else { return -1 };
            if let Some(event) = take(pending) {
                *out = event;
                return 0;
            }
        }
    }
}

/// Converts an event to the C structure, with the actions that it requires; `None` if the program must not see it.
unsafe fn take(pending: Pending) -> Option<*mut rdma_cm_event> {
    let pointer = pending.id as *mut rdma_cm_id;
    // SAFETY: an identifier that is destroyed takes its events along.
    unsafe {
        let mut base: rdma_cm_event = zeroed();
        base.id = pointer;
        let mut private_data = Vec::new();
        let mut datagrams = id_of(pointer).base.ps == super::UDP;
        let mut count = Arc::clone(&id_of(pointer).taken);
        match pending.what {
            What::Plain(kind) => base.event = kind,
            What::Manager(Event::Requested { id, from, mut request }) => {
                let child = child_of(pointer, id, from);
                private_data = request.private.split_off(private::BYTES.min(request.private.len()));
                let mut conn =
                    connection(&private_data, request.initiator_depth, request.responder_resources);
                conn.flow_control = request.flow_control.into();
                conn.retry_count = request.retry_count;
                conn.rnr_retry_count = request.rnr_retry_count;
                conn.srq = request.srq.into();
                conn.qp_num = request.queue_pair;
                (*child).request = Some(request);
                count = Arc::clone(&(*child).taken);
                (base.id, base.listen_id, base.event) = (child.cast(), pointer, kind::CONNECT_REQUEST);
                base.param.conn = conn;
            }
            What::Manager(Event::DatagramsRequested { id, from, mut private, .. }) => {
                let child = child_of(pointer, id, from);
                private_data = private.split_off(private::BYTES.min(private.len()));
                count = Arc::clone(&(*child).taken);
                (base.id, base.listen_id, base.event) = (child.cast(), pointer, kind::CONNECT_REQUEST);
                base.param.ud = datagram(&private_data, from.ip(), 0, QUEUE_KEY);
            }
            What::Manager(Event::Accepted { reply, .. }) => {
                let id = id_of(pointer);
                private_data = reply.private.clone();
                let mut conn = connection(&private_data, reply.initiator_depth, reply.responder_resources);
                conn.rnr_retry_count = reply.rnr_retry_count;
                conn.qp_num = reply.queue_pair;
                base.param.conn = conn;
                let has_queue_pair = !id.base.qp.is_null();
                let well = answered(id, reply);
                base.event = match (has_queue_pair, well) {
                    (false, _) => kind::CONNECT_RESPONSE,
                    (true, true) if super::rdma_establish(pointer) == 0 => kind::ESTABLISHED,
                    _ => {
                        base.status = -libc::EINVAL;
                        kind::CONNECT_ERROR
                    }
                };
            }
            What::Manager(Event::DatagramsAccepted { reply, .. }) => {
                let peer = super::addresses(id_of(pointer))?.1;
                private_data = reply.private;
                base.event = kind::ESTABLISHED;
                base.param.ud =
                    datagram(&private_data, (*peer.ip()).into(), reply.queue_pair, reply.queue_key);
            }
            What::Manager(Event::Established(_)) => base.event = kind::ESTABLISHED,
            What::Manager(Event::Rejected { reason, private, .. }) => {
                private_data = private;
                base.event = kind::REJECTED;
                base.status = reason.0.into();
                if datagrams {
                    base.event = kind::UNREACHABLE;
                    base.status = -libc::ECONNREFUSED;
                } else if reason == Reject::TIMEOUT {
                    base.event = kind::UNREACHABLE;
                    base.status = -libc::ETIMEDOUT;
                }
                datagrams = false;
                base.param.conn = connection(&private_data, 0, 0);
            }
            What::Manager(Event::Unreachable(_)) => {
                (base.event, base.status) = (kind::UNREACHABLE, -libc::ETIMEDOUT);
            }
            What::Manager(Event::Disconnected(_)) => base.event = kind::DISCONNECTED,
        }
        count.fetch_add(1, Ordering::AcqRel);
        let taken = Box::into_raw(Box::new(Taken { base, private: private_data, count }));
        let data: *const c_void = (*taken).private.as_ptr().cast();
        if !(*taken).private.is_empty() {
            let param: &mut rdma_event_param = &mut (*taken).base.param;
            if datagrams {
                param.ud.private_data = data;
            } else {
                param.conn.private_data = data;
            }
        }
        Some(taken.cast())
    }
}

fn datagram(private: &[u8], peer: IpAddr, qp_num: u32, qkey: u32) -> rdma_ud_param {
    let mut ah_attr = ibv_ah_attr { is_global: 1, port_num: 1, ..ibv_ah_attr::default() };
    ah_attr.grh.dgid = Gid::from(peer).0;
    ah_attr.grh.hop_limit = 64;
    rdma_ud_param { private_data: ptr::null(), private_data_len: private.len() as u8, ah_attr, qp_num, qkey }
}

/// Makes the identifier for a connection request, with the listener's channel and context.
unsafe fn child_of(
    listener: *mut rdma_cm_id,
    connection: weft_cm::ConnectionId,
    from: SocketAddr,
) -> *mut super::Id {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let parent = id_of(listener);
        let child = make(parent.base.channel, parent.base.context, parent.base.ps, parent.base.qp_type);
        let id = &mut *child;
        id.connection = Some(connection);
        let port = parent.service.map_or(0, weft_cm::Service::port);
        if let Some(engine) = engine() {
            write(&mut id.base.route.addr.src, SocketAddrV4::new(engine.options().address, port));
            if let SocketAddr::V4(from) = from {
                write(&mut id.base.route.addr.dst, from);
            }
            let told = EventTarget::of(child.cast(), &id.channel);
            engine.lock().connections.insert(connection.number(), told);
        }
        bind(id);
        id.base.route.addr.ibaddr.dgid = Gid::from(from.ip()).0;
        child
    }
}

/// Frees an event that the program has acknowledged.
///
/// # Safety
/// It must come from [`next`].
pub unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller keeps to this function's contract.
    let taken = unsafe { Box::from_raw(event.cast::<Taken>()) };
    taken.count.fetch_sub(1, Ordering::AcqRel);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: c_uint) -> *const c_char {
    let name = match event {
        0 => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        1 => c"RDMA_CM_EVENT_ADDR_ERROR",
        2 => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        3 => c"RDMA_CM_EVENT_ROUTE_ERROR",
        4 => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        5 => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        6 => c"RDMA_CM_EVENT_CONNECT_ERROR",
        7 => c"RDMA_CM_EVENT_UNREACHABLE",
        8 => c"RDMA_CM_EVENT_REJECTED",
        9 => c"RDMA_CM_EVENT_ESTABLISHED",
        10 => c"RDMA_CM_EVENT_DISCONNECTED",
        11 => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        12 => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        13 => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        14 => c"RDMA_CM_EVENT_ADDR_CHANGE",
        15 => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        _ => c"UNKNOWN EVENT",
    };
    name.as_ptr()
}
