//! Extended completion queues, which programs read field by field.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex};
use crate::completion_queue::{CompletionQueue, create, flags};
use crate::error::null;

/// The supported flags: all of `IBV_WC_STANDARD_FLAGS`, and the time of completion by two clocks.
const OFFERED: u64 = 0x7f | 1 << 7 | 1 << 11;

pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    init: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let init = &*init;
        if init.wc_flags & !OFFERED != 0 || init.comp_mask & !3 != 0 || init.comp_vector != 0 {
            return null(libc::EOPNOTSUPP);
        }
        let Ok(cqe) = c_int::try_from(init.cqe) else { return null(libc::EINVAL) };
        let queue = create(context, cqe, init.cq_context, init.channel);
        if queue.is_null() {
            return queue.cast();
        }
        let base = &mut (*queue).base;
        base.start_poll = Some(start_poll);
        base.next_poll = Some(next_poll);
        base.end_poll = Some(end_poll);
        base.read_opcode = Some(read_opcode);
        base.read_vendor_err = Some(read_vendor_err);
        base.read_byte_len = Some(read_byte_len);
        base.read_imm_data = Some(read_imm_data);
        base.read_qp_num = Some(read_qp_num);
        base.read_src_qp = Some(read_src_qp);
        base.read_wc_flags = Some(read_wc_flags);
        base.read_slid = Some(read_slid);
        base.read_sl = Some(read_sl);
        base.read_dlid_path_bits = Some(read_sl);
        base.read_completion_ts = Some(read_completion_ts);
        base.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
        queue.cast()
    }
}

unsafe fn of<'a>(queue: *mut ibv_cq_ex) -> &'a mut CompletionQueue {
    // SAFETY: a queue that `create_cq_ex` has made.
    unsafe { &mut *queue.cast::<CompletionQueue>() }
}

unsafe extern "C" fn start_poll(queue: *mut ibv_cq_ex, _attr: *mut c_void) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { take(queue, true) }
}

unsafe extern "C" fn next_poll(queue: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { take(queue, false) }
}

unsafe fn take(pointer: *mut ibv_cq_ex, look: bool) -> c_int {
    // SAFETY: the C caller passes a valid pointer.
    let queue = unsafe { of(pointer) };
    let mut state = queue.engine.lock();
    if look && state.device.completions(queue.number) == 0 {
        queue.engine.poll(&mut state);
    }
    queue.current = state.device.poll(queue.number);
    drop(state);
    match queue.current {
        Some(completion) => {
            queue.base.status = completion.status.number().into();
            queue.base.wr_id = completion.id;
            0
        }
        None => libc::ENOENT,
    }
}

unsafe extern "C" fn end_poll(queue: *mut ibv_cq_ex) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe { of(queue) }.current = None;
}

macro_rules! readers {
    ($($name:ident -> $type:ty: $read:expr;)*) => {
        $(unsafe extern "C" fn $name(queue: *mut ibv_cq_ex) -> $type {
            // SAFETY: the C caller passes a valid pointer.
            let current = unsafe { of(queue) }.current;
            let read: fn(&weft_device::WorkCompletion) -> $type = $read;
            current.as_ref().map_or(0, read)
        })*
    };
}

readers! {
    read_opcode -> c_uint: |completion| completion.opcode as c_uint;
    read_vendor_err -> u32: |completion| completion.vendor_error;
    read_byte_len -> u32: |completion| completion.bytes;
    read_imm_data -> u32: |completion| completion.immediate.unwrap_or(0).to_be();
    read_qp_num -> u32: |completion| completion.queue_pair;
    read_src_qp -> u32: |completion| completion.source.unwrap_or(0);
    read_wc_flags -> c_uint: flags;
    read_slid -> u32: |_| 0;
    read_sl -> u8: |_| 0;
    read_completion_ts -> u64: |_| now(libc::CLOCK_MONOTONIC);
    read_completion_wallclock_ns -> u64: |_| now(libc::CLOCK_REALTIME);
}

/// The time of a completion: when it is read, because the program cannot notice it earlier.
fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is this function's own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
