//! Endpoints: identifiers whose calls block until each step has completed; and shared receive queues of
//! identifiers.

use std::ffi::{c_int, c_uint};
use std::ptr;

use super::abi::{rdma_addrinfo, rdma_cm_event, rdma_cm_id};
use super::{
    complete, kind, of, rdma_bind_addr, rdma_create_id, rdma_create_qp, rdma_destroy_id, rdma_destroy_qp,
    rdma_migrate_id, rdma_resolve_addr, rdma_resolve_route, refuse,
};
use crate::abi::{ibv_pd, ibv_qp_init_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex};
use crate::objects::{ibv_create_srq, ibv_destroy_srq};

const PASSIVE: c_int = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_ep(
    out: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let mut pointer = ptr::null_mut();
        let space = (*info).ai_port_space as c_uint;
        if rdma_create_id(ptr::null_mut(), &raw mut pointer, ptr::null_mut(), space) != 0 {
            return -1;
        }
        let made = if (*info).ai_flags & PASSIVE != 0 {
            if !init.is_null() {
                of(pointer).template = Some((pd, ptr::read(init)));
            }
            rdma_bind_addr(pointer, (*info).ai_src_addr)
        } else {
            let address = rdma_resolve_addr(pointer, (*info).ai_src_addr, (*info).ai_dst_addr, 2_000);
            if address == 0 && rdma_resolve_route(pointer, 2_000) == 0 {
                if init.is_null() { 0 } else { rdma_create_qp(pointer, pd, init) }
            } else {
                -1
            }
        };
        if made != 0 {
            let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
            rdma_destroy_id(pointer);
            return refuse(number);
        }
        *out = pointer;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_ep(pointer: *mut rdma_cm_id) {
    // SAFETY: the C caller passes a valid pointer and no longer uses it.
    unsafe {
        rdma_destroy_qp(pointer);
        if !(*pointer).srq.is_null() {
            rdma_destroy_srq(pointer);
        }
        rdma_destroy_id(pointer);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_request(listener: *mut rdma_cm_id, out: *mut *mut rdma_cm_id) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        if !of(listener).waits {
            return refuse(libc::EINVAL);
        }
        if complete(listener) != 0 {
            return -1;
        }
        let event: *mut rdma_cm_event = (*listener).event;
        if (*event).event != kind::CONNECT_REQUEST {
            return refuse(libc::EINVAL);
        }
        let child = (*event).id;
        // The event now belongs to the child, which has pointers to its private data.
        (*listener).event = ptr::null_mut();
        if rdma_migrate_id(child, ptr::null_mut()) != 0 {
            return -1;
        }
        (*child).event = event;
        if let Some((pd, template)) = &of(listener).template {
            let mut init = ptr::read(template);
            if rdma_create_qp(child, *pd, &raw mut init) != 0 {
                return -1;
            }
        }
        *out = child;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq(
    pointer: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let pd = if pd.is_null() { super::default_domain() } else { pd };
        let srq = ibv_create_srq(pd, init);
        if srq.is_null() {
            return -1;
        }
        (*pointer).srq = srq;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq_ex(pointer: *mut rdma_cm_id, init: *mut ibv_srq_init_attr_ex) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let srq = crate::objects::create_srq_ex((*pointer).verbs, init);
        if srq.is_null() {
            return -1;
        }
        (*pointer).srq = srq;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_srq(pointer: *mut rdma_cm_id) {
    // SAFETY: the C caller passes a valid pointer.
    unsafe {
        ibv_destroy_srq((*pointer).srq);
        (*pointer).srq = ptr::null_mut();
    }
}
