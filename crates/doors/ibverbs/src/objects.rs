//! Protection domains, memory regions, address handles and shared receive queues.

use std::ffi::{c_int, c_uint, c_void};
use std::net::IpAddr;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_device::MemoryRegion;
use weft_verbs::{AccessFlags, ProtectionDomain};
use weft_wire::roce::Gid;

use crate::abi::{
    ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_grh, ibv_mr, ibv_parent_domain_init_attr, ibv_pd, ibv_qp,
    ibv_recv_wr, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex, ibv_td, ibv_wc,
    zeroed,
};
use crate::completion_queue::completion_queue;
use crate::context::context;
use crate::engine::{Engine, Listener, Raised};
use crate::error::{code, fail, null, number};
use crate::events::kind;
use crate::queue_pair::{elements, queue_pair};

/// `IBV_ACCESS_ZERO_BASED`, and all flags that a region may have; those of memory windows are not supported.
const ZERO_BASED: c_uint = 1 << 5;
const OFFERED: c_uint = 0xf | ZERO_BASED | 1 << 6 | 1 << 7 | 0x3ff << 20;

/// A protection domain: the C structure, and the device's number for it.
#[repr(C)]
pub struct Domain {
    base: ibv_pd,
    /// The device's number for the domain.
    pub domain: ProtectionDomain,
    /// Whether this is a parent domain, which shares the number of another domain.
    parent: bool,
}

/// The protection domain behind a pointer from C.
///
/// # Safety
/// `pd` must come from this library and not be deallocated.
pub unsafe fn domain(pd: *mut ibv_pd) -> ProtectionDomain {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { (*pd.cast::<Domain>()).domain }
}

unsafe fn engine<'a>(pd: *mut ibv_pd) -> &'a Arc<Engine> {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { &context((*pd).context).engine }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(pointer: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the C caller passes a valid pointer.
    let allocated = unsafe { context(pointer) }.engine.lock().device.allocate_domain();
    match allocated {
        Ok(domain) => {
            let base = ibv_pd { context: pointer, handle: domain.0 };
            Box::into_raw(Box::new(Domain { base, domain, parent: false })).cast()
        }
        Err(error) => null(number(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        let found = &*pd.cast::<Domain>();
        if !found.parent
            && let Err(error) = engine(pd).lock().device.deallocate_domain(found.domain)
        {
            return fail(number(error));
        }
        drop(Box::from_raw(pd.cast::<Domain>()));
    }
    0
}

pub unsafe extern "C" fn alloc_td(pointer: *mut ibv_context, _init: *mut c_void) -> *mut ibv_td {
    Box::into_raw(Box::new(ibv_td { context: pointer }))
}

pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: it was allocated above.
    drop(unsafe { Box::from_raw(td) });
    0
}

pub unsafe extern "C" fn alloc_parent_domain(
    pointer: *mut ibv_context,
    init: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if (*init).pd.is_null() || (*init).comp_mask & !3 != 0 {
            return null(libc::EINVAL);
        }
        let domain = domain((*init).pd);
        let base = ibv_pd { context: pointer, handle: domain.0 };
        Box::into_raw(Box::new(Domain { base, domain, parent: true })).cast()
    }
}

/// Converts access flags from C.
pub fn access(flags: c_uint) -> AccessFlags {
    let all = [
        AccessFlags::LOCAL_WRITE,
        AccessFlags::REMOTE_WRITE,
        AccessFlags::REMOTE_READ,
        AccessFlags::REMOTE_ATOMIC,
    ];
    let set = all.into_iter().filter(|flag| flags & c_uint::from(flag.bits()) != 0);
    set.fold(AccessFlags::NONE, AccessFlags::with)
}

unsafe fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_uint,
) -> Result<(u32, u32), c_int> {
    if flags & !OFFERED != 0 {
        return Err(libc::EINVAL);
    }
    // A region of all memory (implicit on-demand paging).
    let length = if address.is_null() && length == usize::MAX { u64::MAX >> 1 } else { length as u64 };
    let iova = if flags & ZERO_BASED != 0 { 0 } else { iova };
    // SAFETY: the C caller passes a valid pointer.
    let (domain, engine) = unsafe { (domain(pd), engine(pd)) };
    let region = MemoryRegion { domain, address: address as u64, iova, length, access: access(flags) };
    let registered = engine.lock().device.register_memory(region);
    registered.map(|keys| (keys.lkey, keys.rkey)).map_err(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the C caller passes valid pointers.
    match unsafe { register(pd, addr, length, iova, flags) } {
        Ok((lkey, rkey)) => {
            // SAFETY: the C caller passes a valid pointer.
            let context = unsafe { (*pd).context };
            Box::into_raw(Box::new(ibv_mr { context, pd, addr, length, handle: lkey, lkey, rkey }))
        }
        Err(number) => null(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: the C caller passes valid pointers.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, flags as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: the C caller passes valid pointers.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, flags as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        if let Err(error) = engine((*mr).pd).lock().device.deregister_memory((*mr).lkey) {
            return fail(number(error));
        }
        drop(Box::from_raw(mr));
    }
    0
}

/// `IBV_REREG_MR_CHANGE_TRANSLATION`, `_PD`, `_ACCESS`, and its errors.
const TRANSLATION: c_int = 1;
const DOMAIN: c_int = 2;
const ACCESS: c_int = 4;
const WRONG_INPUT: c_int = -1;

/// Re-registers a region: registers a new one with the changes and removes the old one. The keys change, which the
/// interface allows.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    new_access: c_int,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let translates = flags & TRANSLATION != 0;
        if flags & !(TRANSLATION | DOMAIN | ACCESS) != 0
            || flags == 0
            || translates && (addr.is_null() || length == 0)
            || flags & DOMAIN != 0 && pd.is_null()
        {
            set_input_error();
            return WRONG_INPUT;
        }
        let engine = engine((*mr).pd);
        let old = engine.lock().device.query_memory((*mr).lkey);
        let Some(mut region) = old else {
            set_input_error();
            return WRONG_INPUT;
        };
        if translates {
            (region.address, region.iova, region.length) = (addr as u64, addr as u64, length as u64);
        }
        if flags & DOMAIN != 0 {
            region.domain = domain(pd);
        }
        if flags & ACCESS != 0 {
            region.access = access(new_access as c_uint);
        }
        let mut state = engine.lock();
        let Ok(keys) = state.device.register_memory(region) else {
            set_input_error();
            return WRONG_INPUT;
        };
        let _ = state.device.deregister_memory((*mr).lkey);
        (*mr).lkey = keys.lkey;
        (*mr).rkey = keys.rkey;
        (*mr).handle = keys.lkey;
        if translates {
            (*mr).addr = addr;
            (*mr).length = length;
        }
        if flags & DOMAIN != 0 {
            (*mr).pd = pd;
        }
    }
    0
}

fn set_input_error() {
    crate::events::set_errno(libc::EINVAL);
}

/// Prefetch advice is ignored: pages are loaded when they are accessed.
pub unsafe extern "C" fn advise_mr(
    _pd: *mut ibv_pd,
    _advice: c_int,
    _flags: u32,
    _list: *mut ibv_sge,
    _count: u32,
) -> c_int {
    0
}

/// An address handle: the C structure, and the IP address of the destination.
#[repr(C)]
pub struct AddressHandle {
    base: ibv_ah,
    destination: IpAddr,
}

/// The address behind a handle from C.
///
/// # Safety
/// `handle` must come from this library and not be destroyed.
pub unsafe fn destination(handle: *mut ibv_ah) -> IpAddr {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { (*handle.cast::<AddressHandle>()).destination }
}

/// The address of a path; `None` if it has no GID and therefore is not RoCE v2.
pub fn address(attr: &ibv_ah_attr) -> Option<IpAddr> {
    (attr.is_global != 0 && attr.grh.sgid_index == 0).then(|| Gid(attr.grh.dgid).address())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let Some(destination) = address(&*attr).filter(|_| (*attr).port_num == 1) else {
            return null(libc::EINVAL);
        };
        let base = ibv_ah { context: (*pd).context, pd, handle: 0 };
        Box::into_raw(Box::new(AddressHandle { base, destination })).cast()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_ah(handle: *mut ibv_ah) -> c_int {
    // SAFETY: it was allocated above.
    drop(unsafe { Box::from_raw(handle.cast::<AddressHandle>()) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_init_ah_from_wc(
    _context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers; a datagram begins with 40 bytes, the GRH's.
    unsafe {
        if (*wc).wc_flags & 1 == 0 {
            return fail(libc::EINVAL);
        }
        let bytes: [u8; 40] = *grh.cast();
        let mut made = ibv_ah_attr { port_num: port, is_global: 1, ..ibv_ah_attr::default() };
        made.grh.hop_limit = 64;
        made.grh.dgid = if bytes[0] >> 4 == 6 {
            (*grh).sgid
        } else {
            let mut gid: ibv_gid = [0; 16];
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&bytes[32..36]);
            gid
        };
        *attr = made;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let mut attr = ibv_ah_attr::default();
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attr) != 0 {
            return ptr::null_mut();
        }
        ibv_create_ah(pd, &raw mut attr)
    }
}

/// A shared receive queue: the C structure that the program sees, and the library's data behind it.
#[repr(C)]
pub struct SharedReceiveQueue {
    base: ibv_srq,
    engine: Arc<Engine>,
    /// The device's number for the queue.
    pub number: usize,
    max_sge: u32,
    raised: Arc<Raised>,
}

/// The shared receive queue behind a pointer from C.
///
/// # Safety
/// `srq` must come from this library and not be destroyed.
pub unsafe fn shared_receive<'a>(srq: *mut ibv_srq) -> &'a SharedReceiveQueue {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { &*srq.cast::<SharedReceiveQueue>() }
}

unsafe fn create_shared(pd: *mut ibv_pd, user: *mut c_void, attr: &mut ibv_srq_attr) -> *mut ibv_srq {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let owner = context((*pd).context);
        let engine = Arc::clone(&owner.engine);
        let mut state = engine.lock();
        attr.max_sge = attr.max_sge.max(1);
        if attr.max_wr == 0 {
            return null(libc::EINVAL);
        }
        let made = state.device.create_shared_receive(domain(pd), attr.max_wr, attr.max_sge, 0);
        let number = match made {
            Ok(number) => number,
            Err(error) => return null(crate::error::number(error)),
        };
        let mut base: ibv_srq = zeroed();
        base.context = (*pd).context;
        base.srq_context = user;
        base.pd = pd;
        base.handle = number as u32;
        let raised = Arc::new(Raised::default());
        let srq = Box::into_raw(Box::new(SharedReceiveQueue {
            base,
            engine: Arc::clone(&engine),
            number,
            max_sge: attr.max_sge,
            raised: Arc::clone(&raised),
        }));
        let context = Arc::clone(&owner.events);
        state.shared.insert(number as u32, Listener { object: srq.cast(), channel: None, context, raised });
        srq.cast()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the C caller passes valid pointers.
    unsafe { create_shared(pd, (*init).srq_context, &mut (*init).attr) }
}

pub unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        // The supported fields: type and protection domain. The type must be that of a basic queue.
        let typed = (*init).comp_mask & 1 != 0;
        if (*init).comp_mask & !3 != 0 || typed && (*init).srq_type != 0 || (*init).pd.is_null() {
            return null(libc::EOPNOTSUPP);
        }
        create_shared((*init).pd, (*init).srq_context, &mut (*init).attr)
    }
}

/// `IBV_SRQ_MAX_WR` and `IBV_SRQ_LIMIT`.
const MAX_WR: c_int = 1;
const LIMIT: c_int = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    if mask & !LIMIT != 0 {
        return fail(if mask & MAX_WR != 0 { libc::EOPNOTSUPP } else { libc::EINVAL });
    }
    // SAFETY: the C caller passes valid pointers.
    let (srq, limit) = unsafe { (shared_receive(srq), (*attr).srq_limit) };
    let mut state = srq.engine.lock();
    let result = state.device.limit_shared_receive(srq.number, limit);
    srq.engine.deliver(&mut state);
    code(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let srq = shared_receive(srq);
        match srq.engine.lock().device.query_shared_receive(srq.number) {
            Ok(info) => {
                *attr = ibv_srq_attr { max_wr: info.depth, max_sge: srq.max_sge, srq_limit: info.limit };
                0
            }
            Err(error) => fail(number(error)),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(pointer: *mut ibv_srq) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        let srq = shared_receive(pointer);
        {
            let mut state = srq.engine.lock();
            if let Err(error) = state.device.destroy_shared_receive(srq.number) {
                return fail(number(error));
            }
            state.shared.remove(&(srq.number as u32));
        }
        context(srq.base.context).events.forget(pointer.cast());
        srq.raised.wait();
        drop(Box::from_raw(pointer.cast::<SharedReceiveQueue>()));
    }
    0
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    mut request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let srq = shared_receive(srq);
        let mut state = srq.engine.lock();
        while !request.is_null() {
            let list = elements((*request).sg_list, (*request).num_sge);
            if let Err(error) = state.device.post_shared_receive(srq.number, (*request).wr_id, list) {
                *bad = request;
                return fail(number(error));
            }
            request = (*request).next;
        }
    }
    0
}

/// Notes that an asynchronous event was acknowledged.
///
/// # Safety
/// `object` must be the object that the event refers to.
pub unsafe fn acknowledge(event: c_uint, object: *mut c_void) {
    // SAFETY: the kind says what the object is.
    let raised = unsafe {
        match event {
            kind::CQ_ERR => &completion_queue(object.cast()).raised,
            kind::SRQ_LIMIT_REACHED => &shared_receive(object.cast()).raised,
            kind::QP_REQ_ERR
            | kind::QP_ACCESS_ERR
            | kind::COMM_EST
            | kind::SQ_DRAINED
            | kind::QP_LAST_WQE_REACHED => &queue_pair(object.cast::<ibv_qp>()).raised,
            _ => return,
        }
    };
    raised.others.fetch_sub(1, Ordering::AcqRel);
}
