//! librdmacm: identifiers, event channels, connections.
//!
//! The connection manager runs beside the device, under its lock ([`crate::engine`]). Its events are added to the
//! channel of the identifier that they concern. When a peer has answered, the library has to move the queue pair
//! to RTR and RTS: it does so in the program thread that takes the event.

pub mod abi;

mod address;
mod endpoint;
mod events;
mod sockets;

use std::ffi::{c_int, c_uint, c_void};
use std::mem::size_of;
use std::net::SocketAddrV4;
use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weft_cm::{ConnectionId, Parameters, Reject, Rep, Reply, Req, Service, private};
use weft_device::{Change, State};
use weft_verbs::{AccessFlags, PathMtu};

use crate::abi::{ibv_context, ibv_device, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, zeroed};
use crate::completion_queue;
use crate::context::{context, ibv_free_device_list, ibv_get_device_list, ibv_open_device};
use crate::engine::{Engine, READS};
use crate::events::set_errno;
use crate::objects::ibv_alloc_pd;
use crate::queue_pair::{ibv_create_qp, ibv_destroy_qp};
use abi::{rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel};
use address::{read, write};
use events::Pending;
pub use events::{EventChannel, EventTarget, What, kind};

/// `RDMA_PS_TCP` and `RDMA_PS_UDP`.
const TCP: c_uint = 0x0106;
const UDP: c_uint = 0x0111;

/// The Q_Key of datagram services (`RDMA_UDP_QKEY`).
const QUEUE_KEY: u32 = 0x0123_4567;

const RC: c_uint = 2;
const UD: c_uint = 4;

/// The library's data of an identifier.
#[repr(C)]
pub struct Id {
    base: rdma_cm_id,
    channel: Arc<EventChannel>,
    /// Whether the identifier was created without a channel, so that its calls block until they have completed.
    waits: bool,
    connection: Option<ConnectionId>,
    service: Option<Service>,
    request: Option<Req>,
    reply: Option<Rep>,
    psn: u32,
    retry_count: u8,
    rnr_retry_count: u8,
    /// The numbers of READs that both ends have agreed on, incoming and outgoing.
    responder_resources: u8,
    initiator_depth: u8,
    /// Number of events that were taken and not acknowledged.
    taken: Arc<AtomicU32>,
    /// For a listening endpoint, the parameters of the queue pairs of its connections.
    template: Option<(*mut ibv_pd, ibv_qp_init_attr)>,
    /// Whether the library has made the completion queues.
    owns_completion_queues: bool,
}

unsafe fn of<'a>(id: *mut rdma_cm_id) -> &'a mut Id {
    // SAFETY: an identifier that this library has made and the program has not destroyed.
    unsafe { &mut *id.cast::<Id>() }
}

struct Opened(*mut ibv_context);

// SAFETY: the context is shared by all threads, as verbs allow.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

/// The device, which stays open until the program ends.
fn device() -> Option<*mut ibv_context> {
    static DEVICE: OnceLock<Opened> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| {
        // SAFETY: the list is ours until it is freed.
        unsafe {
            let list = ibv_get_device_list(ptr::null_mut());
            if list.is_null() {
                return Opened(ptr::null_mut());
            }
            let first: *mut ibv_device = *list;
            let context = if first.is_null() { ptr::null_mut() } else { ibv_open_device(first) };
            ibv_free_device_list(list);
            Opened(context)
        }
    });
    (!opened.0.is_null()).then_some(opened.0)
}

fn engine() -> Option<&'static Arc<Engine>> {
    // SAFETY: the context stays open.
    device().map(|device| unsafe { &context(device).engine })
}

/// Returns -1, with `errno` set.
fn refuse(number: c_int) -> c_int {
    set_errno(number);
    -1
}

/// A number that is different at each call: for ports and first PSNs.
fn number() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let before = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mut word = before ^ u64::from(std::process::id()) << 32;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ word >> 31
}

fn ephemeral() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (u64::from(std::process::id()) * 97 % 16_384) as u16;
    0xc000 | (NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(first) & 0x3fff)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    events::create()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe { events::destroy(channel) };
}

unsafe fn make(channel: *mut rdma_event_channel, user: *mut c_void, ps: c_uint, qp_type: c_uint) -> *mut Id {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let waits = channel.is_null();
        let channel = if waits { events::create() } else { channel };
        let mut base: rdma_cm_id = zeroed();
        base.channel = channel;
        base.context = user;
        base.ps = ps;
        base.qp_type = qp_type;
        Box::into_raw(Box::new(Id {
            base,
            channel: events::of(channel),
            waits,
            connection: None,
            service: None,
            request: None,
            reply: None,
            psn: number() as u32 & 0xff_ffff,
            retry_count: 7,
            rnr_retry_count: 7,
            responder_resources: READS,
            initiator_depth: READS,
            taken: Arc::default(),
            template: None,
            owns_completion_queues: false,
        }))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    user: *mut c_void,
    ps: c_uint,
) -> c_int {
    let qp_type = match ps {
        TCP => RC,
        UDP => UD,
        _ => return refuse(libc::EPROTONOSUPPORT),
    };
    if device().is_none() {
        return refuse(libc::ENODEV);
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe { *id = make(channel, user, ps, qp_type).cast() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_id(pointer: *mut rdma_cm_id) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        let id = of(pointer);
        if let Some(engine) = engine() {
            let mut state = engine.lock();
            if let Some(service) = id.service.take() {
                let now = state.now();
                state.manager.unlisten(now, service);
                state.listeners.remove(&service.0);
            }
            if let Some(connection) = id.connection.take() {
                let now = state.now();
                state.manager.forget(now, connection);
                state.connections.remove(&connection.number());
            }
            engine.progress(&mut state);
        }
        if !id.base.event.is_null() {
            rdma_ack_cm_event(id.base.event);
        }
        id.channel.forget(pointer);
        while id.taken.load(Ordering::Acquire) > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if id.waits {
            events::destroy(id.base.channel);
        }
        drop(Box::from_raw(pointer.cast::<Id>()));
    }
    0
}

/// If the identifier has no channel, waits until the call has completed.
unsafe fn complete(pointer: *mut rdma_cm_id) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let id = of(pointer);
        if !id.waits {
            return 0;
        }
        if !id.base.event.is_null() {
            rdma_ack_cm_event(id.base.event);
            id.base.event = ptr::null_mut();
        }
        let mut event = ptr::null_mut();
        if rdma_get_cm_event(id.base.channel, &raw mut event) != 0 {
            return -1;
        }
        id.base.event = event;
        match (*event).status {
            0 => 0,
            _ if (*event).event == kind::REJECTED => refuse(libc::ECONNREFUSED),
            status => refuse(status.abs()),
        }
    }
}

/// Whether a program may bind to an address: that of the device, or the unspecified one.
fn is_ours(address: SocketAddrV4) -> bool {
    address.ip().is_unspecified() || engine().is_some_and(|engine| engine.options().address == *address.ip())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_bind_addr(pointer: *mut rdma_cm_id, address: *mut libc::sockaddr) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let Some(mut address) = read(address) else { return refuse(libc::EAFNOSUPPORT) };
        if !is_ours(address) {
            return refuse(libc::EADDRNOTAVAIL);
        }
        if address.port() == 0 {
            address.set_port(ephemeral());
        }
        let id = of(pointer);
        write(&mut id.base.route.addr.src, address);
        if !address.ip().is_unspecified() {
            bind(id);
        }
    }
    0
}

/// Binds an identifier to the device.
fn bind(id: &mut Id) {
    id.base.verbs = device().unwrap_or(ptr::null_mut());
    id.base.port_num = 1;
    // SAFETY: the context stays open.
    if id.base.pd.is_null() {
        // SAFETY: as above.
        id.base.pd = unsafe { default_domain() };
    }
    let Some(engine) = engine() else { return };
    id.base.route.addr.ibaddr.sgid = crate::context::gid(engine.options());
    id.base.route.addr.ibaddr.pkey = 0xffff_u16.to_be();
}

/// The default protection domain, for identifiers to which the program gives none.
unsafe fn default_domain() -> *mut ibv_pd {
    struct Domain(*mut ibv_pd);
    // SAFETY: protection domains are shared by all threads, as verbs allow.
    unsafe impl Send for Domain {}
    // SAFETY: as above.
    unsafe impl Sync for Domain {}
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    let domain = DOMAIN.get_or_init(|| {
        // SAFETY: the context stays open.
        Domain(device().map_or(ptr::null_mut(), |device| unsafe { ibv_alloc_pd(device) }))
    });
    domain.0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_addr(
    pointer: *mut rdma_cm_id,
    source: *mut libc::sockaddr,
    destination: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        let Some(to) = read(destination) else { return refuse(libc::EAFNOSUPPORT) };
        let Some(engine) = engine() else { return refuse(libc::ENODEV) };
        let bound = read((&raw mut id.base.route.addr.src).cast());
        let wanted = if source.is_null() { bound } else { read(source) };
        if wanted.is_some_and(|wanted| !is_ours(wanted)) {
            return refuse(libc::EADDRNOTAVAIL);
        }
        let port = wanted.map_or(0, |wanted| wanted.port());
        let port = if port == 0 { ephemeral() } else { port };
        write(&mut id.base.route.addr.src, SocketAddrV4::new(engine.options().address, port));
        write(&mut id.base.route.addr.dst, to);
        bind(id);
        id.base.route.addr.ibaddr.dgid = weft_wire::roce::Gid::from(*to.ip()).0;
        id.channel.push(Pending::plain(pointer, kind::ADDR_RESOLVED));
        complete(pointer)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_route(pointer: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let id = of(pointer);
        if id.base.verbs.is_null() {
            return refuse(libc::EINVAL);
        }
        id.channel.push(Pending::plain(pointer, kind::ROUTE_RESOLVED));
        complete(pointer)
    }
}

/// Makes completion queues with channels, for a program that gives none.
unsafe fn make_completion_queues(id: &mut Id, init: &mut ibv_qp_init_attr) -> bool {
    // SAFETY: the context stays open.
    unsafe {
        let verbs = id.base.verbs;
        for (given, count, queue, channel) in [
            (&mut init.send_cq, init.cap.max_send_wr, &mut id.base.send_cq, &mut id.base.send_cq_channel),
            (&mut init.recv_cq, init.cap.max_recv_wr, &mut id.base.recv_cq, &mut id.base.recv_cq_channel),
        ] {
            if !given.is_null() {
                continue;
            }
            *channel = completion_queue::ibv_create_comp_channel(verbs);
            let user = ptr::from_mut(&mut *queue).cast();
            *queue = completion_queue::create(verbs, count.max(1) as c_int, user, *channel).cast();
            if queue.is_null() {
                return false;
            }
            (**queue).cq_context = ptr::null_mut();
            *given = *queue;
            id.owns_completion_queues = true;
        }
    }
    true
}

unsafe fn destroy_completion_queues(id: &mut Id) {
    if !std::mem::take(&mut id.owns_completion_queues) {
        return;
    }
    // SAFETY: the library has made them, and no queue pair uses them any more.
    unsafe {
        for (queue, channel) in [
            (&mut id.base.send_cq, &mut id.base.send_cq_channel),
            (&mut id.base.recv_cq, &mut id.base.recv_cq_channel),
        ] {
            if !queue.is_null() {
                completion_queue::ibv_destroy_cq(*queue);
                completion_queue::ibv_destroy_comp_channel(*channel);
                (*queue, *channel) = (ptr::null_mut(), ptr::null_mut());
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp(
    pointer: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        if id.base.verbs.is_null() || !id.base.qp.is_null() {
            return refuse(libc::EINVAL);
        }
        let pd = if pd.is_null() { default_domain() } else { pd };
        if (*init).qp_type == 0 {
            (*init).qp_type = id.base.qp_type;
        }
        if !make_completion_queues(id, &mut *init) {
            return refuse(libc::ENOMEM);
        }
        let qp = ibv_create_qp(pd, init);
        if qp.is_null() {
            destroy_completion_queues(id);
            return -1;
        }
        adopt(id, qp, pd)
    }
}

/// Takes over a queue pair that was just created, and moves it to a state in which it accepts receive requests.
unsafe fn adopt(id: &mut Id, qp: *mut ibv_qp, pd: *mut ibv_pd) -> c_int {
    // SAFETY: the queue pair was just made.
    unsafe {
        id.base.qp = qp;
        id.base.pd = pd;
        let datagrams = (*qp).qp_type == UD;
        let init = Change {
            access: (!datagrams).then_some(AccessFlags::ALL),
            queue_key: datagrams.then_some(QUEUE_KEY),
            ..Change::to(State::Init)
        };
        let mut changes = vec![init];
        if datagrams {
            changes.push(Change::to(State::ReadyToReceive));
            changes.push(Change { sq_psn: Some(id.psn), ..Change::to(State::ReadyToSend) });
        }
        for change in changes {
            if !modify(qp, change) {
                ibv_destroy_qp(qp);
                id.base.qp = ptr::null_mut();
                destroy_completion_queues(id);
                return refuse(libc::EINVAL);
            }
        }
    }
    0
}

/// Modifies a queue pair, and the state in its C structure.
unsafe fn modify(qp: *mut ibv_qp, change: Change) -> bool {
    let Some(engine) = engine() else { return false };
    let mut state = engine.lock();
    // SAFETY: the caller's queue pair.
    unsafe {
        if state.device.modify_queue_pair((*qp).qp_num, change).is_err() {
            return false;
        }
        if let Some(state) = change.state {
            (*qp).state = state as c_uint;
        }
    }
    engine.progress(&mut state);
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp_ex(
    pointer: *mut rdma_cm_id,
    init: *mut crate::abi::ibv_qp_init_attr_ex,
) -> c_int {
    // SAFETY: the C caller passes valid pointers; both structures have the same first fields.
    unsafe {
        let id = of(pointer);
        if id.base.verbs.is_null() || !id.base.qp.is_null() {
            return refuse(libc::EINVAL);
        }
        if (*init).comp_mask & 1 == 0 {
            (*init).comp_mask |= 1;
            (*init).pd = default_domain();
        }
        if !make_completion_queues(id, &mut *init.cast::<ibv_qp_init_attr>()) {
            return refuse(libc::ENOMEM);
        }
        let pd = (*init).pd;
        let qp = crate::queue_pair::create_qp_ex(id.base.verbs, init);
        if qp.is_null() {
            destroy_completion_queues(id);
            return -1;
        }
        adopt(id, qp, pd)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_qp(pointer: *mut rdma_cm_id) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let id = of(pointer);
        if !id.base.qp.is_null() {
            ibv_destroy_qp(id.base.qp);
            id.base.qp = ptr::null_mut();
        }
        destroy_completion_queues(id);
    }
}

/// The program's connection parameters, limited to what the device supports.
unsafe fn parameters(id: &mut Id, wanted: *const rdma_conn_param) -> Parameters {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let none = rdma_conn_param {
            private_data: ptr::null(),
            private_data_len: 0,
            responder_resources: READS,
            initiator_depth: READS,
            flow_control: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: 0,
            qp_num: 0,
        };
        let wanted = if wanted.is_null() { &none } else { &*wanted };
        let length = usize::from(wanted.private_data_len);
        let private = if wanted.private_data.is_null() || length == 0 {
            Vec::new()
        } else {
            std::slice::from_raw_parts(wanted.private_data.cast::<u8>(), length).to_vec()
        };
        let (queue_pair, srq) = if id.base.qp.is_null() {
            (wanted.qp_num, wanted.srq != 0)
        } else {
            ((*id.base.qp).qp_num, !(*id.base.qp).srq.is_null())
        };
        Parameters {
            queue_pair,
            starting_psn: id.psn,
            responder_resources: wanted.responder_resources.min(READS),
            initiator_depth: wanted.initiator_depth.min(READS),
            flow_control: wanted.flow_control != 0,
            retry_count: wanted.retry_count.min(7),
            rnr_retry_count: wanted.rnr_retry_count.min(7),
            srq,
            private,
        }
    }
}

/// The source and destination addresses of an identifier.
unsafe fn addresses(id: &mut Id) -> Option<(SocketAddrV4, SocketAddrV4)> {
    let addr = &mut id.base.route.addr;
    // SAFETY: both are the identifier's own.
    unsafe { Some((read((&raw mut addr.src).cast())?, read((&raw mut addr.dst).cast())?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_connect(pointer: *mut rdma_cm_id, wanted: *mut rdma_conn_param) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        let Some((from, to)) = addresses(id) else { return refuse(libc::EINVAL) };
        let Some(engine) = engine() else { return refuse(libc::ENODEV) };
        let mut parameters = parameters(id, wanted);
        let room = if id.base.ps == UDP { 180 } else { 56 };
        if parameters.private.len() > room {
            return refuse(libc::EINVAL);
        }
        let mut private = private::header(from.into(), (*to.ip()).into()).to_vec();
        private.append(&mut parameters.private);
        parameters.private = private;
        (id.retry_count, id.rnr_retry_count) = (parameters.retry_count, parameters.rnr_retry_count);
        (id.responder_resources, id.initiator_depth) =
            (parameters.responder_resources, parameters.initiator_depth);
        let service = Service::new(id.base.ps as u16, to.port());
        let mut state = engine.lock();
        let now = state.now();
        let peer = (*to.ip()).into();
        let connection = if id.base.ps == UDP {
            state.manager.resolve(now, peer, service, parameters.private)
        } else {
            let mtu = engine.options().mtu as u8;
            state.manager.connect(now, peer, service, mtu, true, parameters)
        };
        id.connection = Some(connection);
        state.connections.insert(connection.number(), EventTarget::of(pointer, &id.channel));
        engine.progress(&mut state);
        drop(state);
        complete(pointer)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_listen(pointer: *mut rdma_cm_id, _backlog: c_int) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let id = of(pointer);
        let Some(engine) = engine() else { return refuse(libc::ENODEV) };
        let bound = read((&raw mut id.base.route.addr.src).cast());
        let address = bound.unwrap_or_else(|| SocketAddrV4::new([0, 0, 0, 0].into(), ephemeral()));
        write(&mut id.base.route.addr.src, address);
        let service = Service::new(id.base.ps as u16, address.port());
        let mut state = engine.lock();
        if !state.manager.listen(service) {
            return refuse(libc::EADDRINUSE);
        }
        id.service = Some(service);
        state.listeners.insert(service.0, EventTarget::of(pointer, &id.channel));
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_accept(pointer: *mut rdma_cm_id, wanted: *mut rdma_conn_param) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        let Some(engine) = engine() else { return refuse(libc::ENODEV) };
        let Some(connection) = id.connection else { return refuse(libc::EINVAL) };
        let mut parameters = parameters(id, wanted);
        if id.base.ps == UDP {
            let (queue_pair, private) = (parameters.queue_pair, parameters.private);
            let mut state = engine.lock();
            let now = state.now();
            let reply = Reply { queue_pair, queue_key: QUEUE_KEY, private };
            let accepted = state.manager.answer(now, connection, 0, reply);
            engine.progress(&mut state);
            return if accepted { 0 } else { refuse(libc::EINVAL) };
        }
        let Some(request) = id.request.clone() else { return refuse(libc::EINVAL) };
        // Without parameters from the program, as many READs as the peer requests and supports.
        if wanted.is_null() {
            parameters.responder_resources = READS;
            parameters.initiator_depth = READS;
        }
        parameters.responder_resources = parameters.responder_resources.min(request.initiator_depth);
        parameters.initiator_depth = parameters.initiator_depth.min(request.responder_resources);
        (id.responder_resources, id.initiator_depth) =
            (parameters.responder_resources, parameters.initiator_depth);
        (id.retry_count, id.rnr_retry_count) = (request.retry_count, request.rnr_retry_count);
        if !(id.base.qp.is_null() || ready_to_receive(id) && ready_to_send(id)) {
            return refuse(libc::EINVAL);
        }
        let mut state = engine.lock();
        let now = state.now();
        let accepted = state.manager.accept(now, connection, parameters);
        engine.progress(&mut state);
        drop(state);
        if !accepted {
            return refuse(libc::EINVAL);
        }
        complete(pointer)
    }
}

/// The modification to RTR, from the peer's parameters.
unsafe fn receive_change(id: &mut Id) -> Option<Change> {
    // SAFETY: the identifier's own addresses.
    let (_, peer) = unsafe { addresses(id) }?;
    let (number, psn, mtu) = match (&id.request, &id.reply) {
        (Some(request), _) => (request.queue_pair, request.starting_psn, request.mtu),
        (None, Some(reply)) => (reply.queue_pair, reply.starting_psn, 5),
        _ => return None,
    };
    let ours = engine()?.options().mtu;
    let theirs = PathMtu::ALL.into_iter().find(|&other| other as u8 == mtu).unwrap_or(ours);
    Some(Change {
        access: Some(AccessFlags::ALL),
        destination: Some((*peer.ip()).into()),
        destination_qp_num: Some(number),
        path_mtu: Some(ours.min(theirs)),
        rq_psn: Some(psn),
        max_dest_rd_atomic: Some(id.responder_resources),
        // Code for 0.64 ms.
        min_rnr_timer: Some(12),
        ..Change::to(State::ReadyToReceive)
    })
}

/// The modification to RTS.
fn send_change(id: &Id) -> Change {
    Change {
        sq_psn: Some(id.psn),
        // Code for 67 ms.
        timeout: Some(14),
        retry_cnt: Some(id.retry_count),
        rnr_retry: Some(id.rnr_retry_count),
        max_rd_atomic: Some(id.initiator_depth),
        ..Change::to(State::ReadyToSend)
    }
}

unsafe fn ready_to_receive(id: &mut Id) -> bool {
    // SAFETY: the identifier's own queue pair.
    unsafe { receive_change(id).is_some_and(|change| modify(id.base.qp, change)) }
}

unsafe fn ready_to_send(id: &mut Id) -> bool {
    // SAFETY: the identifier's own queue pair.
    unsafe { modify(id.base.qp, send_change(id)) }
}

/// Handles the peer's acceptance: stores the agreed parameters, and moves the queue pair, if there is one, to RTS.
/// Returns whether this succeeded.
unsafe fn answered(id: &mut Id, reply: Rep) -> bool {
    id.responder_resources = id.responder_resources.min(reply.initiator_depth);
    id.initiator_depth = id.initiator_depth.min(reply.responder_resources);
    id.rnr_retry_count = reply.rnr_retry_count;
    id.reply = Some(reply);
    // SAFETY: the identifier's own queue pair.
    unsafe { id.base.qp.is_null() || ready_to_receive(id) && ready_to_send(id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_establish(pointer: *mut rdma_cm_id) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    let id = unsafe { of(pointer) };
    let Some(engine) = engine() else { return refuse(libc::ENODEV) };
    let mut state = engine.lock();
    let now = state.now();
    let done = id.connection.is_some_and(|connection| state.manager.establish(now, connection));
    engine.progress(&mut state);
    if done { 0 } else { refuse(libc::EINVAL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_reject(pointer: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    let (id, private) = unsafe {
        let bytes =
            if data.is_null() { &[][..] } else { std::slice::from_raw_parts(data.cast(), length.into()) };
        (of(pointer), bytes.to_vec())
    };
    let Some(engine) = engine() else { return refuse(libc::ENODEV) };
    let mut state = engine.lock();
    let now = state.now();
    let connection = id.connection;
    let done = connection.is_some_and(|id| state.manager.reject(now, id, Reject::CONSUMER, private));
    engine.progress(&mut state);
    if done { 0 } else { refuse(libc::EINVAL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_reject_ece(pointer: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe { rdma_reject(pointer, data, length) }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_notify(_id: *mut rdma_cm_id, _event: c_uint) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_disconnect(pointer: *mut rdma_cm_id) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let id = of(pointer);
        let Some(engine) = engine() else { return refuse(libc::ENODEV) };
        if !id.base.qp.is_null() && (*id.base.qp).qp_type != UD {
            modify(id.base.qp, Change::to(State::Error));
        }
        let mut state = engine.lock();
        let now = state.now();
        let waits = id.connection.is_some_and(|connection| state.manager.disconnect(now, connection));
        engine.progress(&mut state);
        drop(state);
        if waits { complete(pointer) } else { 0 }
    }
}

/// The next modification that a queue pair needs which the program manages itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_init_qp_attr(
    pointer: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        let datagrams = id.base.ps == UDP;
        let change = match State::from_number((*attr).qp_state) {
            Some(State::Init) => Change {
                access: (!datagrams).then_some(AccessFlags::ALL),
                queue_key: datagrams.then_some(QUEUE_KEY),
                ..Change::to(State::Init)
            },
            Some(State::ReadyToReceive) if datagrams => Change::to(State::ReadyToReceive),
            Some(State::ReadyToReceive) => match receive_change(id) {
                Some(change) => change,
                None => return refuse(libc::EINVAL),
            },
            Some(State::ReadyToSend) if datagrams => {
                Change { sq_psn: Some(id.psn), ..Change::to(State::ReadyToSend) }
            }
            Some(State::ReadyToSend) => send_change(id),
            _ => return refuse(libc::EINVAL),
        };
        *mask = crate::queue_pair::describe(&change, &mut *attr);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe { events::next(channel, event) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe { events::acknowledge(event) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_migrate_id(pointer: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let id = of(pointer);
        let waits = channel.is_null();
        let target = if waits { events::create() } else { channel };
        let next = events::of(target);
        if let Some(engine) = engine() {
            let mut state = engine.lock();
            id.channel.migrate(pointer, &next);
            let told = EventTarget::of(pointer, &next);
            if let Some(connection) = id.connection {
                state.connections.insert(connection.number(), told.clone());
            }
            if let Some(service) = id.service {
                state.listeners.insert(service.0, told);
            }
        }
        if id.waits {
            events::destroy(id.base.channel);
        }
        (id.base.channel, id.channel, id.waits) = (target, next, waits);
    }
    0
}

/// Options (type of service, reuse of addresses, time-outs) are accepted and ignored.
#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    _id: *mut rdma_cm_id,
    level: c_int,
    _name: c_int,
    _value: *mut c_void,
    _length: usize,
) -> c_int {
    if level == 0 { 0 } else { refuse(libc::ENOSYS) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    let Some(device) = device() else { return crate::error::null(libc::ENODEV) };
    // SAFETY: the memory holds the device and the end; programs free it by `rdma_free_devices`.
    unsafe {
        if !count.is_null() {
            *count = 1;
        }
        let list = libc::calloc(2, size_of::<*mut ibv_context>()).cast::<*mut ibv_context>();
        if !list.is_null() {
            *list = device;
        }
        list
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: it was allocated above.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_src_port(pointer: *mut rdma_cm_id) -> u16 {
    // SAFETY: the C caller passes a valid pointer.
    let address = unsafe { read((&raw mut (*pointer).route.addr.src).cast()) };
    address.map_or(0, |address| address.port().to_be())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_dst_port(pointer: *mut rdma_cm_id) -> u16 {
    // SAFETY: the C caller passes a valid pointer.
    let address = unsafe { read((&raw mut (*pointer).route.addr.dst).cast()) };
    address.map_or(0, |address| address.port().to_be())
}
