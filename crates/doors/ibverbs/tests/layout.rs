//! The structures have the same sizes and offsets as in the C header.

use std::mem::{offset_of, size_of};
use std::process::Command;

use weft_ibverbs::abi::*;
use weft_ibverbs::rdmacm::abi::*;

/// For each structure, the fields by their names here and in C.
macro_rules! layouts {
    ($($name:ident { $($ours:ident = $c:literal),* $(,)? })*) => {
        vec![$((
            stringify!($name),
            size_of::<$name>(),
            vec![$(($c, offset_of!($name, $ours))),*],
        )),*]
    };
}

/// A structure: its name, its size in bytes, and its fields with their offsets.
type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

fn ours() -> Vec<Layout> {
    layouts! {
        ibv_gid_entry { gid_index = "gid_index", ndev_ifindex = "ndev_ifindex" }
        ibv_device_attr {
            vendor_id = "vendor_id", max_qp = "max_qp", atomic_cap = "atomic_cap", max_srq_sge = "max_srq_sge",
            max_pkeys = "max_pkeys", phys_port_cnt = "phys_port_cnt",
        }
        ibv_device_attr_ex {
            comp_mask = "comp_mask", odp_general_caps = "odp_caps", completion_timestamp_mask = "completion_timestamp_mask",
            device_cap_flags_ex = "device_cap_flags_ex", tso_caps = "tso_caps", rss_caps = "rss_caps",
            max_wq_type_rq = "max_wq_type_rq", packet_pacing_caps = "packet_pacing_caps",
            raw_packet_caps = "raw_packet_caps", tm_caps = "tm_caps", cq_mod_caps = "cq_mod_caps",
            max_dm_size = "max_dm_size", pci_atomic_caps = "pci_atomic_caps", xrc_odp_caps = "xrc_odp_caps",
            phys_port_cnt_ex = "phys_port_cnt_ex",
        }
        ibv_port_attr { gid_tbl_len = "gid_tbl_len", lid = "lid", link_layer = "link_layer", port_cap_flags2 = "port_cap_flags2" }
        ibv_async_event { element = "element", event_type = "event_type" }
        ibv_wc {
            status = "status", opcode = "opcode", byte_len = "byte_len", imm_data = "imm_data", qp_num = "qp_num",
            src_qp = "src_qp", wc_flags = "wc_flags", slid = "slid", dlid_path_bits = "dlid_path_bits",
        }
        ibv_pd { handle = "handle" }
        ibv_mr { addr = "addr", length = "length", handle = "handle", lkey = "lkey", rkey = "rkey" }
        ibv_grh { paylen = "paylen", sgid = "sgid", dgid = "dgid" }
        ibv_ah_attr { grh = "grh", dlid = "dlid", is_global = "is_global", port_num = "port_num" }
        ibv_srq_init_attr { attr = "attr" }
        ibv_srq_init_attr_ex { comp_mask = "comp_mask", srq_type = "srq_type", pd = "pd", cq = "cq", tm_cap = "tm_cap" }
        ibv_qp_init_attr { srq = "srq", cap = "cap", qp_type = "qp_type", sq_sig_all = "sq_sig_all" }
        ibv_qp_init_attr_ex {
            comp_mask = "comp_mask", pd = "pd", create_flags = "create_flags", rwq_ind_tbl = "rwq_ind_tbl",
            rx_hash_conf = "rx_hash_conf", source_qpn = "source_qpn", send_ops_flags = "send_ops_flags",
        }
        ibv_qp_attr {
            path_mtu = "path_mtu", qkey = "qkey", dest_qp_num = "dest_qp_num", cap = "cap", ah_attr = "ah_attr",
            alt_ah_attr = "alt_ah_attr", pkey_index = "pkey_index", max_rd_atomic = "max_rd_atomic",
            timeout = "timeout", rate_limit = "rate_limit",
        }
        ibv_sge { length = "length", lkey = "lkey" }
        ibv_send_wr {
            next = "next", sg_list = "sg_list", num_sge = "num_sge", opcode = "opcode", send_flags = "send_flags",
            imm_data = "imm_data", wr = "wr", remote_srqn = "qp_type", others = "bind_mw",
        }
        ibv_recv_wr { next = "next", sg_list = "sg_list", num_sge = "num_sge" }
        ibv_data_buf { length = "length" }
        ibv_srq { pd = "pd", handle = "handle", mutex = "mutex", cond = "cond", events_completed = "events_completed" }
        ibv_qp { srq = "srq", handle = "handle", qp_num = "qp_num", state = "state", qp_type = "qp_type", mutex = "mutex" }
        ibv_qp_ex {
            comp_mask = "comp_mask", wr_id = "wr_id", wr_flags = "wr_flags", wr_atomic_cmp_swp = "wr_atomic_cmp_swp",
            wr_rdma_read = "wr_rdma_read", wr_send = "wr_send", wr_set_ud_addr = "wr_set_ud_addr",
            wr_set_sge_list = "wr_set_sge_list", wr_start = "wr_start", wr_atomic_write = "wr_atomic_write",
        }
        ibv_comp_channel { fd = "fd", refcnt = "refcnt" }
        ibv_cq { channel = "channel", cq_context = "cq_context", handle = "handle", cqe = "cqe", mutex = "mutex" }
        ibv_cq_ex {
            comp_mask = "comp_mask", status = "status", wr_id = "wr_id", start_poll = "start_poll",
            read_wc_flags = "read_wc_flags", read_completion_wallclock_ns = "read_completion_wallclock_ns",
        }
        ibv_cq_init_attr_ex { channel = "channel", wc_flags = "wc_flags", flags = "flags", parent_domain = "parent_domain" }
        rdma_addr { dst = "dst_storage", ibaddr = "addr" }
        rdma_route { path_rec = "path_rec", num_paths = "num_paths" }
        rdma_cm_id {
            context = "context", qp = "qp", route = "route", ps = "ps", port_num = "port_num", event = "event",
            send_cq = "send_cq", srq = "srq", pd = "pd", qp_type = "qp_type",
        }
        rdma_conn_param { retry_count = "retry_count", srq = "srq", qp_num = "qp_num" }
        rdma_ud_param { ah_attr = "ah_attr", qp_num = "qp_num", qkey = "qkey" }
        rdma_cm_event { listen_id = "listen_id", event = "event", status = "status", param = "param" }
        rdma_addrinfo { ai_src_len = "ai_src_len", ai_dst_addr = "ai_dst_addr", ai_route = "ai_route", ai_next = "ai_next" }
        ibv_ah { pd = "pd", handle = "handle" }
        ibv_parent_domain_init_attr { comp_mask = "comp_mask", alloc = "alloc", pd_context = "pd_context" }
        ibv_values_ex { raw_clock = "raw_clock" }
        ibv_device { node_type = "node_type", name = "name", dev_name = "dev_name", ibdev_path = "ibdev_path" }
        ibv_context_ops {
            alloc_mw = "alloc_mw", poll_cq = "poll_cq", req_notify_cq = "req_notify_cq", post_srq_recv = "post_srq_recv",
            post_send = "post_send", post_recv = "post_recv",
        }
        ibv_context { ops = "ops", cmd_fd = "cmd_fd", async_fd = "async_fd", mutex = "mutex", abi_compat = "abi_compat" }
        verbs_context {
            query_port = "query_port", advise_mr = "advise_mr", alloc_parent_domain = "alloc_parent_domain",
            alloc_td = "alloc_td", query_rt_values = "query_rt_values", create_cq_ex = "create_cq_ex",
            private = "priv", query_device_ex = "query_device_ex", open_qp = "open_qp", create_qp_ex = "create_qp_ex",
            create_srq_ex = "create_srq_ex", size = "sz", context = "context",
        }
    }
}

#[test]
fn sizes_and_offsets_are_those_of_the_header() {
    for (header, package) in [("infiniband/verbs.h", "libibverbs-dev"), ("rdma/rdma_cma.h", "librdmacm-dev")]
    {
        if !std::path::Path::new("/usr/include").join(header).exists() {
            println!("skipped: <{header}> is not installed (Debian: {package})");
            return;
        }
    }
    let mut source = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n",
    );
    let mut expected = Vec::new();
    for (name, size, fields) in ours() {
        source += &format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));\n");
        expected.push(format!("{name} {size}"));
        for (field, offset) in fields {
            source += &format!("printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));\n");
            expected.push(format!("{name}.{field} {offset}"));
        }
    }
    source += "return 0; }\n";
    let folder = std::env::temp_dir().join(format!("weft-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("layout.c"), source).unwrap();
    let built = Command::new("cc").args(["-o", "layout", "layout.c"]).current_dir(&folder).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(folder.join("layout")).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
