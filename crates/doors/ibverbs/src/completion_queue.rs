//! Completion queues and completion channels.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_device::{CompletionQueueNumber, Notify, WorkCompletion};

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_wc, zeroed};
use crate::context::context;
use crate::engine::{Engine, Listener, Raised};
use crate::error::{code, fail, null};
use crate::events::{AsyncQueue, Channel, counting_descriptor};

/// The longest completion queue, in entries.
const LONGEST: c_int = 1 << 22;

/// `IBV_WC_GRH` and `IBV_WC_WITH_IMM`.
const GRH: c_uint = 1;
const WITH_IMM: c_uint = 2;

/// A completion channel: the C structure, and the queue of events behind it.
#[repr(C)]
pub struct CompletionChannel {
    base: ibv_comp_channel,
    channel: Arc<Channel>,
}

/// A completion queue: the C structure that the program sees, and the library's data behind it.
#[repr(C)]
pub struct CompletionQueue {
    /// The C structure. It is the first field, so both have one address.
    pub base: ibv_cq_ex,
    /// The device that the queue belongs to.
    pub engine: Arc<Engine>,
    /// The device's number for the queue.
    pub number: CompletionQueueNumber,
    /// Numbers of events that the program has yet to acknowledge.
    pub raised: Arc<Raised>,
    /// The completion whose fields [`crate::extended`] reads.
    pub current: Option<WorkCompletion>,
    channel: Option<Arc<Channel>>,
    events: Arc<AsyncQueue>,
}

/// The completion queue behind a pointer from C.
///
/// # Safety
/// `queue` must come from this library and not be destroyed.
pub unsafe fn completion_queue<'a>(queue: *mut ibv_cq) -> &'a mut CompletionQueue {
    // SAFETY: the caller keeps to this function's contract.
    unsafe { &mut *queue.cast::<CompletionQueue>() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(pointer: *mut ibv_context) -> *mut ibv_comp_channel {
    let fd = counting_descriptor();
    if fd < 0 {
        return ptr::null_mut();
    }
    let base = ibv_comp_channel { context: pointer, fd, refcnt: 0 };
    let channel = CompletionChannel { base, channel: Arc::new(Channel::new(fd)) };
    Box::into_raw(Box::new(channel)).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: it was allocated above.
    unsafe {
        if (*channel).refcnt > 0 {
            return fail(libc::EBUSY);
        }
        libc::close((*channel).fd);
        drop(Box::from_raw(channel.cast::<CompletionChannel>()));
    }
    0
}

/// Creates a completion queue.
///
/// # Safety
/// The pointers come from the C caller and must be valid.
pub unsafe fn create(
    pointer: *mut ibv_context,
    cqe: c_int,
    user: *mut c_void,
    channel: *mut ibv_comp_channel,
) -> *mut CompletionQueue {
    if !(1..=LONGEST).contains(&cqe) {
        return null(libc::EINVAL);
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let owner = context(pointer);
        let engine = Arc::clone(&owner.engine);
        let mut state = engine.lock();
        let number = state.device.create_completion_queue(cqe as usize);
        let mut base: ibv_cq_ex = zeroed();
        base.base.context = pointer;
        base.base.channel = channel;
        base.base.cq_context = user;
        base.base.handle = number.0 as u32;
        base.base.cqe = cqe;
        let reports = (!channel.is_null()).then(|| {
            (*channel).refcnt += 1;
            Arc::clone(&(*channel.cast::<CompletionChannel>()).channel)
        });
        let raised = Arc::new(Raised::default());
        let queue = Box::into_raw(Box::new(CompletionQueue {
            base,
            engine: Arc::clone(&engine),
            number,
            raised: Arc::clone(&raised),
            current: None,
            channel: reports.clone(),
            events: Arc::clone(&owner.events),
        }));
        let context = Arc::clone(&owner.events);
        let listener = Listener { object: queue.cast(), channel: reports, context, raised };
        state.completion_queues.insert(number.0, listener);
        queue
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    pointer: *mut ibv_context,
    cqe: c_int,
    user: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    if vector != 0 {
        return null(libc::EINVAL);
    }
    // SAFETY: the C caller passes valid pointers.
    unsafe { create(pointer, cqe, user, channel).cast() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resize_cq(queue: *mut ibv_cq, cqe: c_int) -> c_int {
    if !(1..=LONGEST).contains(&cqe) {
        return fail(libc::EINVAL);
    }
    // SAFETY: the C caller passes a valid pointer.
    let queue = unsafe { completion_queue(queue) };
    let result = queue.engine.lock().device.resize_completion_queue(queue.number, cqe as usize);
    if result.is_ok() {
        queue.base.base.cqe = cqe;
    }
    code(result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(pointer: *mut ibv_cq) -> c_int {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        let queue = completion_queue(pointer);
        {
            let mut state = queue.engine.lock();
            if let Err(error) = state.device.destroy_completion_queue(queue.number) {
                return fail(crate::error::number(error));
            }
            state.completion_queues.remove(&queue.number.0);
        }
        queue.events.forget(pointer.cast());
        if let Some(channel) = &queue.channel {
            let forgotten = channel.forget(pointer.cast());
            queue.raised.completions.fetch_sub(forgotten, Ordering::AcqRel);
            (*queue.base.base.channel).refcnt -= 1;
        }
        queue.raised.wait();
        drop(Box::from_raw(pointer.cast::<CompletionQueue>()));
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    user: *mut *mut c_void,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let Some(found) = (*channel.cast::<CompletionChannel>()).channel.next() else { return -1 };
        let found = found.cast::<ibv_cq>();
        *queue = found;
        *user = (*found).cq_context;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(queue: *mut ibv_cq, events: c_uint) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { completion_queue(queue) }.raised.completions.fetch_sub(events.into(), Ordering::AcqRel);
}

/// `ibv_req_notify_cq`: requests an event for the next completion.
pub unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, solicited: c_int) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    let queue = unsafe { completion_queue(queue) };
    let mut state = queue.engine.lock();
    let notify = if solicited != 0 { Notify::Solicited } else { Notify::Next };
    state.device.request_notification(queue.number, notify);
    queue.engine.arm(&mut state);
    0
}

/// `ibv_poll_cq`: removes up to `most` completions and writes them to `out`.
pub unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, most: c_int, out: *mut ibv_wc) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    let queue = unsafe { completion_queue(queue) };
    let most = usize::try_from(most).unwrap_or(0);
    let mut state = queue.engine.lock();
    // If there are completions already, the port is checked only at every few polls: programs may take completions
    // one by one.
    if state.device.completions(queue.number) == 0 || state.should_look() {
        queue.engine.poll(&mut state);
    }
    let mut found = 0;
    while found < most
        && let Some(completion) = state.device.poll(queue.number)
    {
        // SAFETY: the caller has room for `most` completions.
        unsafe { *out.add(found) = of(&completion) };
        found += 1;
    }
    if found == 0 {
        if state.device.is_broken(queue.number) {
            return -1;
        }
        if Engine::should_yield(&state) {
            drop(state);
            std::thread::yield_now();
        }
    }
    found as c_int
}

/// Converts a completion to the C structure.
fn of(completion: &WorkCompletion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.id,
        status: completion.status.number().into(),
        opcode: completion.opcode as c_uint,
        vendor_err: completion.vendor_error,
        byte_len: completion.bytes,
        imm_data: completion.immediate.unwrap_or(0).to_be(),
        qp_num: completion.queue_pair,
        src_qp: completion.source.unwrap_or(0),
        wc_flags: flags(completion),
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// The value of `wc_flags`.
pub fn flags(completion: &WorkCompletion) -> c_uint {
    let grh = if completion.source.is_some() { GRH } else { 0 };
    let immediate = if completion.immediate.is_some() { WITH_IMM } else { 0 };
    grh | immediate
}
