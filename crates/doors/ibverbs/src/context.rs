//! The list of devices, contexts, and queries of a device's properties.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::sync::{Arc, OnceLock};

use weft_device::{ELEMENTS_MAX, ROUTE_HEADER_BYTES};
use weft_wire::roce::Gid;

use crate::abi::{
    ABI_IS_EXTENDED, ibv_context, ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry,
    ibv_port_attr, ibv_values_ex, verbs_context, zeroed,
};
use crate::engine::{self, Engine, QUEUE_DEPTH, QUEUE_PAIRS, READS, REGIONS};
use crate::error::{fail, null};
use crate::events::{AsyncQueue, counting_descriptor, set_errno};
use crate::options::Options;
use crate::{completion_queue, extended, objects, queue_pair};

const _: () = assert!(ROUTE_HEADER_BYTES == 40);

/// Number of the device's only port.
const PORT: u32 = 1;

/// `IBV_PORT_ACTIVE`, `IBV_LINK_LAYER_ETHERNET`, `IBV_GID_TYPE_ROCE_V2`, and the kernel's number of that GID type.
const ACTIVE: c_uint = 4;
const ETHERNET: u8 = 2;
const ROCE_V2: u32 = 2;
const ROCE_V2_OF_KERNEL: c_uint = 1;

/// A device in the list. Providers of rdma-core read memory behind the C structure, and must find zeros there.
#[repr(C)]
pub struct Device {
    base: ibv_device,
    others: [u64; 64],
    options: Options,
}

/// The device of this process, with the options from its environment.
struct Listed(*mut Device);

// SAFETY: the device is made once and never changes.
unsafe impl Send for Listed {}
// SAFETY: as above.
unsafe impl Sync for Listed {}

static DEVICE: OnceLock<Listed> = OnceLock::new();

/// An open device. The C context is the last field of `verbs`.
#[repr(C)]
pub struct Context {
    verbs: verbs_context,
    /// The device that the context opened.
    pub engine: Arc<Engine>,
    /// The asynchronous events that the context's descriptor reports.
    pub events: Arc<AsyncQueue>,
}

/// The context behind a pointer from C.
///
/// # Safety
/// `context` must come from [`ibv_open_device`] and be open.
pub unsafe fn context<'a>(context: *mut ibv_context) -> &'a Context {
    // SAFETY: the caller keeps to this function's contract; the structure of C is a field of this one.
    unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast::<Context>() }
}

fn write_text(place: &mut [c_char], text: &str) {
    for (place, byte) in place.iter_mut().zip(text.bytes().chain([0])) {
        *place = byte as c_char;
    }
}

/// The device, created at the first call; an invalid environment is reported on standard error.
fn device() -> Option<*mut Device> {
    let listed = DEVICE.get_or_init(|| {
        let options = match Options::of_environment() {
            Ok(options) => options,
            Err(error) => {
                eprintln!("weft: {error}");
                return Listed(ptr::null_mut());
            }
        };
        // SAFETY: zero is a value of each of its fields.
        let mut base: ibv_device = unsafe { zeroed() };
        base.node_type = 1; // IBV_NODE_CA
        base.transport_type = 0; // IBV_TRANSPORT_IB
        write_text(&mut base.name, &options.name);
        write_text(&mut base.dev_name, "uverbs-weft");
        write_text(&mut base.dev_path, "/sys/class/infiniband_verbs/uverbs-weft");
        write_text(&mut base.ibdev_path, &format!("/sys/class/infiniband/{}", options.name));
        Listed(Box::into_raw(Box::new(Device { base, others: [0; 64], options })))
    });
    (!listed.0.is_null()).then_some(listed.0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let device = device();
    if !count.is_null() {
        // SAFETY: the C caller passes a valid pointer.
        unsafe { *count = c_int::from(device.is_some()) };
    }
    let list = [device.unwrap_or(ptr::null_mut()).cast::<ibv_device>(), ptr::null_mut()];
    // SAFETY: the memory is as large as what is copied; programs free it by `ibv_free_device_list`.
    unsafe {
        let memory = libc::calloc(2, size_of::<*mut ibv_device>()).cast::<*mut ibv_device>();
        if memory.is_null() {
            return null(libc::ENOMEM);
        }
        ptr::copy_nonoverlapping(list.as_ptr(), memory, 2);
        memory
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: it was allocated above.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: a device of the list.
    unsafe { (*device).name.as_ptr() }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    0
}

/// The GUID, in network byte order: a locally administered prefix followed by the IPv4 address.
fn guid(options: &Options) -> u64 {
    u64::from_ne_bytes({
        let [a, b, c, d] = options.address.octets();
        [0x02, b'w', b'f', 0xff, a, b, c, d]
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: a device of the list.
    guid(unsafe { &(*device.cast::<Device>()).options })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: a device of the list.
    let options = unsafe { &(*device.cast::<Device>()).options };
    let engine = match engine::acquire(options) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("weft: {}: {error}", options.name);
            return null(error.number());
        }
    };
    let fd = counting_descriptor();
    // SAFETY: zero is a value of each of its fields.
    let mut verbs: verbs_context = unsafe { zeroed() };
    verbs.size = size_of::<verbs_context>();
    verbs.query_port = Some(query_port);
    verbs.query_device_ex = Some(query_device_ex);
    verbs.query_rt_values = Some(query_rt_values);
    verbs.advise_mr = Some(objects::advise_mr);
    verbs.alloc_td = Some(objects::alloc_td);
    verbs.dealloc_td = Some(objects::dealloc_td);
    verbs.alloc_parent_domain = Some(objects::alloc_parent_domain);
    verbs.create_cq_ex = Some(extended::create_cq_ex);
    verbs.create_qp_ex = Some(queue_pair::create_qp_ex);
    verbs.create_srq_ex = Some(objects::create_srq_ex);
    let inner = &mut verbs.context;
    inner.device = device;
    inner.cmd_fd = -1;
    inner.async_fd = fd;
    inner.num_comp_vectors = 1;
    inner.abi_compat = ABI_IS_EXTENDED;
    inner.ops.poll_cq = Some(completion_queue::poll_cq);
    inner.ops.req_notify_cq = Some(completion_queue::req_notify_cq);
    inner.ops.post_send = Some(queue_pair::post_send);
    inner.ops.post_recv = Some(queue_pair::post_recv);
    inner.ops.post_srq_recv = Some(objects::post_srq_recv);
    let context = Box::new(Context { verbs, engine, events: Arc::new(AsyncQueue::new(fd)) });
    // SAFETY: the field lies in what was just allocated.
    unsafe { &raw mut (*Box::into_raw(context)).verbs.context }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: it was allocated in `ibv_open_device`, and the program does not use it any more.
    unsafe {
        let context = context.byte_sub(offset_of!(verbs_context, context)).cast::<Context>();
        libc::close((*context).verbs.context.async_fd);
        drop(Box::from_raw(context));
    }
    engine::release();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(pointer: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let options = context(pointer).engine.options();
        let mut text = zeroed::<ibv_device_attr>();
        write_text(&mut text.fw_ver, env!("CARGO_PKG_VERSION"));
        *attr = ibv_device_attr {
            node_guid: guid(options),
            sys_image_guid: guid(options),
            max_mr_size: u64::MAX >> 1,
            page_size_cap: 0xffff_f000,
            vendor_id: 0x02_7766,
            vendor_part_id: 1,
            hw_ver: 1,
            max_qp: QUEUE_PAIRS as c_int,
            max_qp_wr: QUEUE_DEPTH as c_int,
            // Flags: current state, RNR NAKs, system image GUID; no resizing of shared receive queues.
            device_cap_flags: 1 << 7 | 1 << 11 | 1 << 12,
            max_sge: ELEMENTS_MAX as c_int,
            max_sge_rd: ELEMENTS_MAX as c_int,
            max_cq: 65_536,
            max_cqe: 1 << 20,
            max_mr: REGIONS as c_int,
            max_pd: 4_096,
            max_qp_rd_atom: READS.into(),
            max_res_rd_atom: c_int::from(READS) * QUEUE_PAIRS as c_int,
            max_qp_init_rd_atom: READS.into(),
            atomic_cap: 1, // IBV_ATOMIC_HCA
            max_ah: 65_536,
            max_srq: 4_096,
            max_srq_wr: QUEUE_DEPTH as c_int,
            max_srq_sge: ELEMENTS_MAX as c_int,
            max_pkeys: 1,
            local_ca_ack_delay: 15,
            phys_port_cnt: 1,
            ..text
        };
    }
    0
}

/// `IBV_ODP_SUPPORT_*`: SEND, RECV, WRITE, READ, ATOMIC, SRQ_RECV.
const ON_DEMAND: u32 = 0x3f;

unsafe extern "C" fn query_device_ex(
    pointer: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    // SAFETY: the C caller passes valid pointers; no more than `size` bytes are written.
    unsafe {
        let mut all = zeroed::<ibv_device_attr_ex>();
        ibv_query_device(pointer, &raw mut all.orig_attr);
        // Memory is never pinned, so on-demand paging is supported for all of it.
        all.odp_general_caps = 3;
        all.odp_transport_caps = [ON_DEMAND, 0x27, 0x03];
        all.completion_timestamp_mask = u64::MAX;
        all.hca_core_clock = 1_000_000;
        all.device_cap_flags_ex = all.orig_attr.device_cap_flags.into();
        all.phys_port_cnt_ex = PORT;
        let bytes = size.min(size_of::<ibv_device_attr_ex>());
        ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), attr.cast::<u8>(), bytes);
    }
    0
}

unsafe extern "C" fn query_rt_values(_context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        (*values).comp_mask &= 1;
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut (*values).raw_clock)
    }
}

/// The properties of the port.
fn port(options: &Options) -> ibv_port_attr {
    ibv_port_attr {
        state: ACTIVE,
        max_mtu: 5,
        active_mtu: options.mtu as c_uint,
        gid_tbl_len: 1,
        // Capabilities: connection manager, and GIDs that are IP addresses.
        port_cap_flags: 1 << 16 | 1 << 26,
        max_msg_sz: 1 << 31,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width: 2,  // 4X
        active_speed: 32, // EDR: 100 Gb/s, as the gateware's
        phys_state: 5,    // LinkUp
        link_layer: ETHERNET,
        ..ibv_port_attr::default()
    }
}

unsafe extern "C" fn query_port(
    pointer: *mut ibv_context,
    number: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    if u32::from(number) != PORT {
        return fail(libc::EINVAL);
    }
    // SAFETY: the C caller passes valid pointers; no more than `size` bytes are written.
    unsafe {
        let port = port(context(pointer).engine.options());
        ptr::write_bytes(attr.cast::<u8>(), 0, size);
        let bytes = size.min(size_of::<ibv_port_attr>());
        ptr::copy_nonoverlapping((&raw const port).cast::<u8>(), attr.cast::<u8>(), bytes);
    }
    0
}

/// Programs built before `port_cap_flags2` was added have a shorter structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(
    pointer: *mut ibv_context,
    number: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe { query_port(pointer, number, attr, offset_of!(ibv_port_attr, port_cap_flags2)) }
}

/// The only GID: the device's address.
pub fn gid(options: &Options) -> ibv_gid {
    Gid::from(options.address).0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    pointer: *mut ibv_context,
    number: u8,
    index: c_int,
    out: *mut ibv_gid,
) -> c_int {
    if u32::from(number) != PORT || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe { *out = gid(context(pointer).engine.options()) };
    0
}

unsafe fn gid_entry(pointer: *mut ibv_context) -> ibv_gid_entry {
    // SAFETY: the C caller passes a valid pointer.
    let gid = unsafe { gid(context(pointer).engine.options()) };
    ibv_gid_entry { gid, gid_index: 0, port_num: PORT, gid_type: ROCE_V2, ndev_ifindex: 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    pointer: *mut ibv_context,
    number: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    if flags != 0 {
        return libc::EOPNOTSUPP;
    }
    if number != PORT || size < size_of::<ibv_gid_entry>() {
        return libc::EINVAL;
    }
    if index != 0 {
        return libc::ENODATA;
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe { *out = gid_entry(pointer) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    pointer: *mut ibv_context,
    out: *mut ibv_gid_entry,
    most: usize,
    flags: u32,
    size: usize,
) -> isize {
    if flags != 0 || size < size_of::<ibv_gid_entry>() {
        return -(libc::EOPNOTSUPP as isize);
    }
    if most == 0 {
        return 0;
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe { *out = gid_entry(pointer) };
    1
}

/// The type of a GID, which programs of rdma-core otherwise read from `/sys`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_type(
    _context: *mut ibv_context,
    number: u8,
    index: c_uint,
    out: *mut c_uint,
) -> c_int {
    if u32::from(number) != PORT || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the C caller passes a valid pointer.
    unsafe { *out = ROCE_V2_OF_KERNEL };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    number: u8,
    index: c_int,
    out: *mut u16,
) -> c_int {
    if u32::from(number) != PORT || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the C caller passes a valid pointer.
    unsafe { *out = 0xffff };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, number: u8, key: u16) -> c_int {
    if u32::from(number) == PORT && key == 0xffff {
        return 0;
    }
    set_errno(libc::EINVAL);
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(
    pointer: *mut ibv_context,
    event: *mut crate::abi::ibv_async_event,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let Some((kind, object)) = context(pointer).events.next() else { return -1 };
        (*event).element = object;
        (*event).event_type = kind;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *mut crate::abi::ibv_async_event) {
    // SAFETY: an event that `ibv_get_async_event` has returned, so its object lives.
    unsafe { objects::acknowledge((*event).event_type, (*event).element) };
}
