//! Queue pairs: creation and modification, and both ways to post requests.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use weft_device::{Attributes, Change, Element, QueuePairInit, SendOperation, SendRequest, State};
use weft_verbs::{Operation, PathMtu, RemoteAddress};
use weft_wire::roce::{Gid, Service};

use crate::abi::{
    ibv_ah, ibv_ah_attr, ibv_context, ibv_cq, ibv_data_buf, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap,
    ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, zeroed,
};
use crate::completion_queue::completion_queue;
use crate::context::context;
use crate::engine::{Engine, Listener, Raised, State as EngineState};
use crate::error::{code, fail, null, number};
use crate::objects::{access, address, destination, domain, shared_receive};

/// `ibv_qp_type`.
const RC: c_uint = 2;
const UC: c_uint = 3;
const UD: c_uint = 4;

/// `ibv_send_flags`.
const FENCE: c_uint = 1;
const SIGNALED: c_uint = 2;
const SOLICITED: c_uint = 4;
const INLINE: c_uint = 8;

/// A queue pair: the C structure that the program sees, and the library's data behind it.
#[repr(C)]
pub struct QueuePair {
    /// The C structure. It is the first field, so both have one address.
    pub base: ibv_qp_ex,
    engine: Arc<Engine>,
    /// Numbers of events that the program has yet to acknowledge.
    pub raised: Arc<Raised>,
    cap: ibv_qp_cap,
    sq_sig_all: bool,
    /// `send_ops_flags`, if the queue pair was created for the extended functions, which build requests step by
    /// step.
    built_operations: Option<u64>,
    /// Requests that are being built.
    building: Vec<Built>,
    build_error: c_int,
}

/// A request that is being built.
struct Built {
    id: u64,
    flags: c_uint,
    operation: SendOperation,
    elements: Vec<Element>,
    inline: bool,
}

/// The queue pair behind a pointer from C.
///
/// # Safety
/// `qp` must come from this library and not be destroyed.
pub unsafe fn queue_pair<'a>(qp: *mut ibv_qp) -> &'a mut QueuePair {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { &mut *qp.cast::<QueuePair>() }
}

/// A list of scatter/gather elements; the C structure and [`Element`] have the same layout.
///
/// # Safety
/// `list` must have `count` elements.
pub unsafe fn elements<'a>(list: *const ibv_sge, count: c_int) -> &'a [Element] {
    const _: () = assert!(size_of::<ibv_sge>() == size_of::<Element>());
    if count <= 0 || list.is_null() {
        return &[];
    }
    // SAFETY: the caller keeps to this function's contract; the fields are the same in number, order and size.
    unsafe { slice::from_raw_parts(list.cast::<Element>(), count as usize) }
}

struct Wanted {
    pd: *mut ibv_pd,
    user: *mut c_void,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    kind: c_uint,
    sq_sig_all: bool,
    built_operations: Option<u64>,
}

unsafe fn create(pointer: *mut ibv_context, wanted: &Wanted, cap: &mut ibv_qp_cap) -> *mut ibv_qp {
    let service = match wanted.kind {
        RC => Service::ReliableConnection,
        UC => Service::UnreliableConnection,
        UD => Service::UnreliableDatagram,
        _ => return null(libc::EOPNOTSUPP),
    };
    if wanted.pd.is_null() || wanted.send_cq.is_null() || wanted.recv_cq.is_null() {
        return null(libc::EINVAL);
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let owner = context(pointer);
        let engine = Arc::clone(&owner.engine);
        let mut state = engine.lock();
        cap.max_send_sge = cap.max_send_sge.max(1);
        cap.max_recv_sge = cap.max_recv_sge.max(1);
        let shared = (!wanted.srq.is_null()).then(|| shared_receive(wanted.srq).number);
        let init = QueuePairInit {
            service,
            domain: domain(wanted.pd),
            send_completions: completion_queue(wanted.send_cq).number,
            receive_completions: completion_queue(wanted.recv_cq).number,
            shared,
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
            sq_sig_all: wanted.sq_sig_all,
        };
        let number = match state.device.create_queue_pair(&init) {
            Ok(number) => number,
            Err(error) => return null(crate::error::number(error)),
        };
        let mut base: ibv_qp_ex = zeroed();
        let plain = &mut base.qp_base;
        plain.context = pointer;
        plain.qp_context = wanted.user;
        plain.pd = wanted.pd;
        plain.send_cq = wanted.send_cq;
        plain.recv_cq = wanted.recv_cq;
        plain.srq = wanted.srq;
        plain.handle = number;
        plain.qp_num = number;
        plain.qp_type = wanted.kind;
        base.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
        base.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
        base.wr_rdma_read = Some(wr_rdma_read);
        base.wr_rdma_write = Some(wr_rdma_write);
        base.wr_rdma_write_imm = Some(wr_rdma_write_imm);
        base.wr_send = Some(wr_send);
        base.wr_send_imm = Some(wr_send_imm);
        base.wr_set_ud_addr = Some(wr_set_ud_addr);
        base.wr_set_inline_data = Some(wr_set_inline_data);
        base.wr_set_inline_data_list = Some(wr_set_inline_data_list);
        base.wr_set_sge = Some(wr_set_sge);
        base.wr_set_sge_list = Some(wr_set_sge_list);
        base.wr_start = Some(wr_start);
        base.wr_complete = Some(wr_complete);
        base.wr_abort = Some(wr_abort);
        let raised = Arc::new(Raised::default());
        let made = Box::into_raw(Box::new(QueuePair {
            base,
            engine: Arc::clone(&engine),
            raised: Arc::clone(&raised),
            cap: *cap,
            sq_sig_all: wanted.sq_sig_all,
            built_operations: wanted.built_operations,
            building: Vec::new(),
            build_error: 0,
        }));
        let listener =
            Listener { object: made.cast(), channel: None, context: Arc::clone(&owner.events), raised };
        state.queue_pairs.insert(number, listener);
        made.cast()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let init = &mut *init;
        let wanted = Wanted {
            pd,
            user: init.qp_context,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            kind: init.qp_type,
            sq_sig_all: init.sq_sig_all != 0,
            built_operations: None,
        };
        create((*pd).context, &wanted, &mut init.cap)
    }
}

/// `IBV_QP_INIT_ATTR_PD` and `_SEND_OPS_FLAGS`, and the supported operations: all but memory windows, invalidation
/// and TSO.
const WITH_DOMAIN: u32 = 1;
const WITH_OPERATIONS: u32 = 1 << 6;
const OPERATIONS: u64 = 0x7f;

pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let init = &mut *init;
        if init.comp_mask & WITH_DOMAIN == 0 {
            return null(libc::EINVAL);
        }
        let built = (init.comp_mask & WITH_OPERATIONS != 0).then_some(init.send_ops_flags);
        // Creation flags are not supported.
        let flags = init.comp_mask & 1 << 2 != 0 && init.create_flags != 0;
        if init.comp_mask & !(WITH_DOMAIN | WITH_OPERATIONS | 1 << 2) != 0
            || flags
            || built.is_some_and(|operations| operations & !OPERATIONS != 0)
        {
            return null(libc::EOPNOTSUPP);
        }
        let wanted = Wanted {
            pd: init.pd,
            user: init.qp_context,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            kind: init.qp_type,
            sq_sig_all: init.sq_sig_all != 0,
            built_operations: built,
        };
        create(context, &wanted, &mut init.cap)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the C caller passes a valid pointer.
    if unsafe { queue_pair(qp) }.built_operations.is_some() { qp.cast() } else { ptr::null_mut() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        let found = queue_pair(qp);
        {
            let mut state = found.engine.lock();
            if let Err(error) = state.device.destroy_queue_pair((*qp).qp_num) {
                return fail(number(error));
            }
            state.queue_pairs.remove(&(*qp).qp_num);
        }
        context((*qp).context).events.forget(qp.cast());
        found.raised.wait();
        drop(Box::from_raw(qp.cast::<QueuePair>()));
    }
    0
}

/// `ibv_qp_attr_mask`: its bits.
mod mask {
    pub const STATE: u32 = 1;
    pub const CURRENT: u32 = 1 << 1;
    pub const DRAINED_EVENT: u32 = 1 << 2;
    pub const ACCESS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const PATH: u32 = 1 << 7;
    pub const MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_RD_ATOMIC: u32 = 1 << 13;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const CAP: u32 = 1 << 19;
    pub const DEST_QPN: u32 = 1 << 20;
    pub const RATE_LIMIT: u32 = 1 << 25;
}

/// Converts a modification from C; `None` if a value is invalid.
fn change(attr: &ibv_qp_attr, bits: u32, service: Service) -> Option<Change> {
    let has = |bit| bits & bit != 0;
    let state = |bit, number| -> Option<Option<State>> {
        if has(bit) { State::from_number(number).map(Some) } else { Some(None) }
    };
    if has(mask::PORT) && attr.port_num != 1
        || has(mask::PKEY_INDEX) && attr.pkey_index != 0
        || has(mask::CAP | mask::RATE_LIMIT)
    {
        return None;
    }
    let to = state(mask::STATE, attr.qp_state)?;
    if to == Some(State::Init) && bits & (mask::PORT | mask::PKEY_INDEX) == 0 {
        return None;
    }
    let connected = service != Service::UnreliableDatagram;
    let path = has(mask::PATH) && connected;
    let destination = if path { Some(address(&attr.ah_attr)?) } else { None };
    let path_mtu = if has(mask::MTU) {
        Some(PathMtu::ALL.into_iter().find(|&mtu| mtu as c_uint == attr.path_mtu)?)
    } else {
        None
    };
    Some(Change {
        state: to,
        current: state(mask::CURRENT, attr.cur_qp_state)?,
        access: has(mask::ACCESS).then(|| access(attr.qp_access_flags)),
        queue_key: has(mask::QKEY).then_some(attr.qkey),
        destination,
        destination_qp_num: has(mask::DEST_QPN).then_some(attr.dest_qp_num),
        path_mtu,
        rq_psn: has(mask::RQ_PSN).then_some(attr.rq_psn),
        sq_psn: has(mask::SQ_PSN).then_some(attr.sq_psn),
        timeout: has(mask::TIMEOUT).then_some(attr.timeout),
        retry_cnt: has(mask::RETRY).then_some(attr.retry_cnt),
        rnr_retry: has(mask::RNR_RETRY).then_some(attr.rnr_retry),
        min_rnr_timer: has(mask::MIN_RNR_TIMER).then_some(attr.min_rnr_timer),
        max_rd_atomic: has(mask::MAX_RD_ATOMIC).then_some(attr.max_rd_atomic),
        max_dest_rd_atomic: has(mask::MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic),
        drained_event: has(mask::DRAINED_EVENT).then_some(attr.en_sqd_async_notify != 0),
    })
}

/// Writes a modification into the C structure; returns its mask.
pub fn describe(change: &Change, attr: &mut ibv_qp_attr) -> c_int {
    let mut bits = 0;
    if let Some(state) = change.state {
        attr.qp_state = state as c_uint;
        bits |= mask::STATE;
        if state == State::Init {
            (attr.port_num, attr.pkey_index) = (1, 0);
            bits |= mask::PORT | mask::PKEY_INDEX;
        }
    }
    if let Some(access) = change.access {
        attr.qp_access_flags = access.bits().into();
        bits |= mask::ACCESS;
    }
    if let Some(destination) = change.destination {
        attr.ah_attr = ibv_ah_attr { port_num: 1, is_global: 1, ..ibv_ah_attr::default() };
        attr.ah_attr.grh.dgid = Gid::from(destination).0;
        attr.ah_attr.grh.hop_limit = 64;
        bits |= mask::PATH;
    }
    if let Some(mtu) = change.path_mtu {
        attr.path_mtu = mtu as c_uint;
        bits |= mask::MTU;
    }
    let words = [
        (change.queue_key, &mut attr.qkey, mask::QKEY),
        (change.destination_qp_num, &mut attr.dest_qp_num, mask::DEST_QPN),
        (change.rq_psn, &mut attr.rq_psn, mask::RQ_PSN),
        (change.sq_psn, &mut attr.sq_psn, mask::SQ_PSN),
    ];
    for (value, place, bit) in words {
        if let Some(value) = value {
            *place = value;
            bits |= bit;
        }
    }
    let bytes = [
        (change.timeout, &mut attr.timeout, mask::TIMEOUT),
        (change.retry_cnt, &mut attr.retry_cnt, mask::RETRY),
        (change.rnr_retry, &mut attr.rnr_retry, mask::RNR_RETRY),
        (change.min_rnr_timer, &mut attr.min_rnr_timer, mask::MIN_RNR_TIMER),
        (change.max_rd_atomic, &mut attr.max_rd_atomic, mask::MAX_RD_ATOMIC),
        (change.max_dest_rd_atomic, &mut attr.max_dest_rd_atomic, mask::MAX_DEST_RD_ATOMIC),
    ];
    for (value, place, bit) in bytes {
        if let Some(value) = value {
            *place = value;
            bits |= bit;
        }
    }
    bits as c_int
}

fn service(kind: c_uint) -> Service {
    match kind {
        UC => Service::UnreliableConnection,
        UD => Service::UnreliableDatagram,
        _ => Service::ReliableConnection,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, bits: c_int) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let found = queue_pair(qp);
        let Some(change) = change(&*attr, bits as u32, service((*qp).qp_type)) else {
            return fail(libc::EINVAL);
        };
        let mut state = found.engine.lock();
        let result = state.device.modify_queue_pair((*qp).qp_num, change);
        if result.is_ok() {
            if let Some(state) = change.state {
                (*qp).state = state as c_uint;
            }
            // Requests that were held back may be sent now, and programs may wait for flushed ones.
            found.engine.progress(&mut state);
        }
        code(result)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _bits: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let found = queue_pair(qp);
        let attributes = match found.engine.lock().device.query_queue_pair((*qp).qp_num) {
            Ok(attributes) => attributes,
            Err(error) => return fail(number(error)),
        };
        (*qp).state = attributes.state as c_uint;
        *attr = of(&attributes, found.cap);
        if !init.is_null() {
            *init = ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: found.cap,
                qp_type: (*qp).qp_type,
                sq_sig_all: found.sq_sig_all.into(),
            };
        }
    }
    0
}

/// Converts attributes to the C structure.
fn of(attributes: &Attributes, cap: ibv_qp_cap) -> ibv_qp_attr {
    let mut path = ibv_ah_attr { port_num: 1, ..ibv_ah_attr::default() };
    if let Some(destination) = attributes.destination {
        path.is_global = 1;
        path.grh.dgid = Gid::from(destination).0;
        path.grh.hop_limit = 64;
    }
    // SAFETY: zero is a value of each of its fields.
    let none: ibv_qp_attr = unsafe { zeroed() };
    ibv_qp_attr {
        qp_state: attributes.state as c_uint,
        cur_qp_state: attributes.state as c_uint,
        path_mtu: attributes.path_mtu as c_uint,
        qkey: attributes.queue_key,
        rq_psn: attributes.rq_psn,
        sq_psn: attributes.sq_psn,
        dest_qp_num: attributes.destination_qp_num,
        qp_access_flags: attributes.access.bits().into(),
        cap,
        ah_attr: path,
        en_sqd_async_notify: attributes.drained_event.into(),
        sq_draining: attributes.draining.into(),
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: 1,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_cnt,
        rnr_retry: attributes.rnr_retry,
        ..none
    }
}

/// The operation of a C request; `None` if it is unsupported.
unsafe fn operation(request: &ibv_send_wr, service: Service) -> Option<SendOperation> {
    let immediate = Some(u32::from_be(request.imm_data));
    // SAFETY: the operation says which of the operands are there.
    unsafe {
        if service == Service::UnreliableDatagram {
            let datagram = request.wr.ud;
            if datagram.ah.is_null() {
                return None;
            }
            let immediate = match request.opcode {
                2 => None,
                3 => immediate,
                _ => return None,
            };
            return Some(SendOperation::Datagram {
                destination: destination(datagram.ah),
                queue_pair: datagram.remote_qpn & 0xff_ffff,
                queue_key: datagram.remote_qkey,
                immediate,
            });
        }
        let remote = || {
            let rdma = request.wr.rdma;
            RemoteAddress { address: rdma.remote_addr, rkey: rdma.rkey }
        };
        let word = || {
            let atomic = request.wr.atomic;
            RemoteAddress { address: atomic.remote_addr, rkey: atomic.rkey }
        };
        Some(SendOperation::Connected(match request.opcode {
            0 => Operation::Write { remote: remote(), immediate: None },
            1 => Operation::Write { remote: remote(), immediate },
            2 => Operation::Send { immediate: None },
            3 => Operation::Send { immediate },
            4 => Operation::Read { remote: remote() },
            5 => Operation::CompareSwap {
                remote: word(),
                compare: request.wr.atomic.compare_add,
                swap: request.wr.atomic.swap,
            },
            6 => Operation::FetchAdd { remote: word(), add: request.wr.atomic.compare_add },
            _ => return None,
        }))
    }
}

fn post(
    state: &mut EngineState,
    number: u32,
    id: u64,
    flags: c_uint,
    operation: SendOperation,
    elements: &[Element],
) -> Result<(), c_int> {
    let request = SendRequest {
        id,
        operation,
        elements,
        inline: flags & INLINE != 0,
        signaled: flags & SIGNALED != 0,
        fence: flags & FENCE != 0,
        solicited: flags & SOLICITED != 0,
    };
    let now = state.now();
    state.device.post_send(now, number, &request).map_err(crate::error::number)
}

/// `ibv_post_send`: posts a list of work requests to the send queue.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut request: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let found = queue_pair(qp);
        let kind = service((*qp).qp_type);
        let mut state = found.engine.lock();
        let mut posted = 0;
        let mut result = 0;
        while !request.is_null() {
            let wanted = &*request;
            let done = match operation(wanted, kind) {
                Some(operation) => {
                    let list = elements(wanted.sg_list, wanted.num_sge);
                    post(&mut state, (*qp).qp_num, wanted.wr_id, wanted.send_flags, operation, list)
                }
                None => Err(libc::EINVAL),
            };
            if let Err(number) = done {
                *bad = request;
                result = fail(number);
                break;
            }
            posted += 1;
            request = wanted.next;
        }
        found.engine.posted(&mut state, posted);
        result
    }
}

/// `ibv_post_recv`: posts a list of receive requests.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    mut request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let found = queue_pair(qp);
        let mut state = found.engine.lock();
        while !request.is_null() {
            let list = elements((*request).sg_list, (*request).num_sge);
            if let Err(error) = state.device.post_receive((*qp).qp_num, (*request).wr_id, list) {
                *bad = request;
                return fail(number(error));
            }
            request = (*request).next;
        }
        // On a queue pair in ERROR the requests complete at once.
        found.engine.deliver(&mut state);
    }
    0
}

unsafe fn building<'a>(qp: *mut ibv_qp_ex) -> &'a mut QueuePair {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { queue_pair(qp.cast()) }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the C caller passes a valid pointer.
    let found = unsafe { building(qp) };
    found.building.clear();
    found.build_error = 0;
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { building(qp) }.building.clear();
}

unsafe fn begin(qp: *mut ibv_qp_ex, operation: SendOperation) {
    // SAFETY: the C caller passes a valid pointer.
    let found = unsafe { building(qp) };
    found.building.push(Built {
        id: found.base.wr_id,
        flags: found.base.wr_flags & !INLINE,
        operation,
        elements: Vec::new(),
        inline: false,
    });
}

/// The requests built since `wr_start` are posted together: all or none of them.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    let found = unsafe { building(qp) };
    if found.build_error != 0 {
        found.building.clear();
        return found.build_error;
    }
    let number = found.base.qp_base.qp_num;
    let mut state = found.engine.lock();
    let mut posted = 0;
    let mut result = 0;
    for built in found.building.drain(..) {
        let flags = built.flags | if built.inline { INLINE } else { 0 };
        if let Err(number) = post(&mut state, number, built.id, flags, built.operation, &built.elements) {
            result = number;
            break;
        }
        posted += 1;
    }
    found.engine.posted(&mut state, posted);
    result
}

/// Begins a SEND. On a datagram queue pair, its destination is set later.
unsafe fn begin_send(qp: *mut ibv_qp_ex, immediate: Option<u32>) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        let datagram = (*qp).qp_base.qp_type == UD;
        begin(
            qp,
            if datagram {
                let destination = [0, 0, 0, 0].into();
                SendOperation::Datagram { destination, queue_pair: 0, queue_key: 0, immediate }
            } else {
                SendOperation::Connected(Operation::Send { immediate })
            },
        );
    }
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { begin_send(qp, None) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { begin_send(qp, Some(u32::from_be(immediate))) };
}

unsafe fn connected(qp: *mut ibv_qp_ex, operation: Operation) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { begin(qp, SendOperation::Connected(operation)) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { connected(qp, Operation::Write { remote: RemoteAddress { address, rkey }, immediate: None }) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, address: u64, immediate: u32) {
    let immediate = Some(u32::from_be(immediate));
    // SAFETY: the C caller passes a valid pointer.
    unsafe { connected(qp, Operation::Write { remote: RemoteAddress { address, rkey }, immediate }) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { connected(qp, Operation::Read { remote: RemoteAddress { address, rkey } }) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(qp: *mut ibv_qp_ex, rkey: u32, address: u64, compare: u64, swap: u64) {
    let remote = RemoteAddress { address, rkey };
    // SAFETY: the C caller passes a valid pointer.
    unsafe { connected(qp, Operation::CompareSwap { remote, compare, swap }) };
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, address: u64, add: u64) {
    let remote = RemoteAddress { address, rkey };
    // SAFETY: the C caller passes a valid pointer.
    unsafe { connected(qp, Operation::FetchAdd { remote, add }) };
}

/// The request that was begun last; if there is none, the whole list is invalid.
unsafe fn last<'a>(qp: *mut ibv_qp_ex) -> Option<&'a mut Built> {
    // SAFETY: the C caller passes a valid pointer.
    let found = unsafe { building(qp) };
    if found.building.is_empty() {
        found.build_error = libc::EINVAL;
    }
    found.building.last_mut()
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, handle: *mut ibv_ah, number: u32, key: u32) {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if let Some(Built {
            operation: SendOperation::Datagram { destination: to, queue_pair, queue_key, .. },
            ..
        }) = last(qp)
        {
            (*to, *queue_pair, *queue_key) = (destination(handle), number & 0xff_ffff, key);
        }
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32) {
    // SAFETY: the C caller passes a valid pointer.
    if let Some(built) = unsafe { last(qp) } {
        built.elements.push(Element { address, length, lkey });
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if let Some(built) = last(qp) {
            built.elements.extend_from_slice(elements(list, count as c_int));
        }
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, address: *mut c_void, length: usize) {
    let buffer = ibv_data_buf { addr: address, length };
    // SAFETY: the C caller passes valid pointers.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const buffer) };
}

/// The interface lets the program change the bytes as soon as this returns. But they are copied only when the list
/// is posted; programs build and post a list in one go, under their own lock.
unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if let Some(built) = last(qp) {
            built.inline = true;
            for buffer in slice::from_raw_parts(list, count) {
                let length = buffer.length as u32;
                built.elements.push(Element { address: buffer.addr as u64, length, lkey: 0 });
            }
        }
    }
}
