// The agent in the guest: creates and drives queue pairs of Linux's soft RoCE, by commands over a serial
// port.
//
// Each command is a line of words, and each answer is a line that begins with "ok" or "error". Commands may
// be sent before earlier ones are answered. Offsets are into one memory, which is a single region.
//
//   hello                                            ok DEVICE MTU-CODE KERNEL
//   memory BYTES                                     ok ADDRESS LKEY RKEY: registered, all zero
//   create                                           ok INDEX QPN
//   connect INDEX ADDRESS QPN RQ_PSN SQ_PSN MTU TIMEOUT RNR_TIMER RD_ATOMIC
//   destroy INDEX
//   fill OFFSET LENGTH SEED                          the bytes that follow from the seed
//   hash OFFSET LENGTH                               ok HASH: FNV-1a over 64-bit words, the last one padded with zeros
//   receive INDEX ID OFFSET LENGTH
//   post INDEX ID KIND OFFSET LENGTH REMOTE RKEY A B A: immediate, summand or comparand; B: what a swap stores
//   wait COUNT MILLISECONDS                          ok N ID:STATUS:OPCODE:BYTES:IMMEDIATE ...
//   counters                                         ok NAME=VALUE ...: what the device counts
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define QUEUE_PAIRS_MAX 64
#define QUEUE_DEPTH 256
#define DEVICE "rxe0"

static FILE *port;
static struct ibv_context *context;
static struct ibv_pd *domain;
static struct ibv_cq *completions;
static struct ibv_mr *region;
static struct ibv_qp *queue_pairs[QUEUE_PAIRS_MAX];
static uint8_t *memory;
static size_t memory_bytes;
static int gid_index = -1, gid_index_ipv6 = -1;

static void answer(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(port, format, arguments);
    va_end(arguments);
    fputc('\n', port);
    fflush(port);
}

static void attribute(struct nlmsghdr *message, uint16_t type, const char *text) {
    struct nlattr *attribute = (void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
    attribute->nla_type = type;
    attribute->nla_len = NLA_HDRLEN + strlen(text) + 1;
    memcpy((char *)attribute + NLA_HDRLEN, text, strlen(text) + 1);
    message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

// Does the same as `rdma link add rxe0 type rxe netdev ...`. Returns 0, or an error number.
static int add_link(const char *interface) {
    union {
        struct nlmsghdr header;
        char bytes[512];
    } request = {.header = {.nlmsg_len = NLMSG_LENGTH(0),
                            .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK),
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK}},
      reply;
    attribute(&request.header, RDMA_NLDEV_ATTR_DEV_NAME, DEVICE);
    attribute(&request.header, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
    attribute(&request.header, RDMA_NLDEV_ATTR_NDEV_NAME, interface);
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    if (netlink < 0 || send(netlink, &request, request.header.nlmsg_len, 0) < 0) return errno;
    ssize_t length = recv(netlink, &reply, sizeof reply, 0);
    close(netlink);
    if (length < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr))) return EIO;
    return -((struct nlmsgerr *)NLMSG_DATA(&reply.header))->error;
}

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; // prefix of an IPv4-mapped address

// Index of the GID table's entry with this prefix.
static int find_gid(const uint8_t *begin, size_t length) {
    union ibv_gid gid;
    for (int index = 0; index < 16; index++) {
        if (ibv_query_gid(context, 1, index, &gid) == 0 && memcmp(gid.raw, begin, length) == 0) return index;
    }
    return -1;
}

static int open_device(void) {
    int devices = 0;
    struct ibv_device **list = ibv_get_device_list(&devices);
    for (int index = 0; list && index < devices && !context; index++) {
        if (strcmp(ibv_get_device_name(list[index]), DEVICE) == 0) context = ibv_open_device(list[index]);
    }
    if (!context) return -1;
    // The GID appears after an event of the interface, which takes a moment.
    static const uint8_t unique_local[1] = {0xfd};
    for (int attempt = 0; attempt < 100 && (gid_index < 0 || gid_index_ipv6 < 0); attempt++) {
        gid_index = find_gid(mapped, sizeof mapped);
        gid_index_ipv6 = find_gid(unique_local, sizeof unique_local);
        if (gid_index < 0 || gid_index_ipv6 < 0) usleep(50000);
    }
    domain = ibv_alloc_pd(context);
    completions = ibv_create_cq(context, 8192, NULL, NULL, 0);
    return gid_index >= 0 && domain && completions ? 0 : -1;
}

static uint64_t next(uint64_t *state) { // SplitMix64
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill(uint8_t *bytes, size_t length, uint64_t seed) {
    while (length > 0) {
        uint64_t word = next(&seed);
        size_t part = length < 8 ? length : 8;
        memcpy(bytes, &word, part);
        bytes += part;
        length -= part;
    }
}

static uint64_t hash(const uint8_t *bytes, size_t length) {
    uint64_t hash = 0xcbf29ce484222325;
    while (length > 0) {
        uint64_t word = 0;
        size_t part = length < 8 ? length : 8;
        memcpy(&word, bytes, part);
        hash = (hash ^ word) * 0x100000001b3;
        bytes += part;
        length -= part;
    }
    return hash;
}

static int inside(uint64_t offset, uint64_t length) {
    return offset <= memory_bytes && length <= memory_bytes - offset;
}

static struct ibv_qp *queue_pair(unsigned index) { return index < QUEUE_PAIRS_MAX ? queue_pairs[index] : NULL; }

static void create_memory(const char *words) {
    size_t bytes;
    if (memory || sscanf(words, "%zu", &bytes) != 1) return answer("error memory: once, BYTES");
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED) return answer("error mmap: %s", strerror(errno));
    region = ibv_reg_mr(domain, mapped, bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
    if (!region) return answer("error ibv_reg_mr: %s", strerror(errno));
    memory = mapped;
    memory_bytes = bytes;
    answer("ok %" PRIu64 " %u %u", (uint64_t)(uintptr_t)memory, region->lkey, region->rkey);
}

static void create(void) {
    unsigned index = 0;
    while (index < QUEUE_PAIRS_MAX && queue_pairs[index]) index++;
    if (index == QUEUE_PAIRS_MAX) return answer("error create: all queue pairs are in use");
    struct ibv_qp_init_attr attributes = {
        .send_cq = completions,
        .recv_cq = completions,
        .cap = {.max_send_wr = QUEUE_DEPTH, .max_recv_wr = QUEUE_DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    queue_pairs[index] = ibv_create_qp(domain, &attributes);
    if (!queue_pairs[index]) return answer("error ibv_create_qp: %s", strerror(errno));
    answer("ok %u %u", index, queue_pairs[index]->qp_num);
}

static void connect_queue_pair(const char *words) {
    unsigned index, qpn, rq_psn, sq_psn, mtu, timeout, rnr_timer, rd_atomic;
    char address[64];
    if (sscanf(words, "%u %63s %u %u %u %u %u %u %u", &index, address, &qpn, &rq_psn, &sq_psn, &mtu, &timeout,
               &rnr_timer, &rd_atomic) != 9 || !queue_pair(index))
        return answer("error connect: INDEX ADDRESS QPN RQ_PSN SQ_PSN MTU TIMEOUT RNR_TIMER RD_ATOMIC");
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    };
    int error = ibv_modify_qp(queue_pairs[index], &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error) return answer("error to INIT: %s", strerror(error));
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu,
        .dest_qp_num = qpn,
        .rq_psn = rq_psn,
        .max_dest_rd_atomic = rd_atomic,
        .min_rnr_timer = rnr_timer,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}},
    };
    uint8_t *gid = attributes.ah_attr.grh.dgid.raw;
    if (inet_pton(AF_INET6, address, gid) == 1) {
        attributes.ah_attr.grh.sgid_index = gid_index_ipv6;
    } else {
        memcpy(gid, mapped, sizeof mapped);
        if (inet_pton(AF_INET, address, gid + sizeof mapped) != 1) return answer("error connect: an IP address");
    }
    // The kernel resolves the neighbour, which may take longer than its time-out.
    error = ETIMEDOUT;
    for (int attempt = 0; attempt < 20 && error == ETIMEDOUT; attempt++)
        error = ibv_modify_qp(queue_pairs[index], &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error) return answer("error to RTR: %s", strerror(error));
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = timeout,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .sq_psn = sq_psn,
        .max_rd_atomic = rd_atomic,
    };
    error = ibv_modify_qp(queue_pairs[index], &attributes,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
    if (error) return answer("error to RTS: %s", strerror(error));
    answer("ok");
}

static void destroy(const char *words) {
    unsigned index;
    if (sscanf(words, "%u", &index) != 1 || !queue_pair(index)) return answer("error destroy: INDEX");
    int error = ibv_destroy_qp(queue_pairs[index]);
    if (error) return answer("error ibv_destroy_qp: %s", strerror(error));
    queue_pairs[index] = NULL;
    answer("ok");
}

static void post_receive(const char *words) {
    unsigned index, length;
    uint64_t id, offset;
    if (sscanf(words, "%u %" SCNu64 " %" SCNu64 " %u", &index, &id, &offset, &length) != 4 || !queue_pair(index) ||
        !inside(offset, length))
        return answer("error receive: INDEX ID OFFSET LENGTH");
    struct ibv_sge element = {.addr = (uintptr_t)memory + offset, .length = length, .lkey = region->lkey};
    struct ibv_recv_wr request = {.wr_id = id, .sg_list = &element, .num_sge = 1}, *refused;
    int error = ibv_post_recv(queue_pairs[index], &request, &refused);
    if (error) return answer("error ibv_post_recv: %s", strerror(error));
    answer("ok");
}

static int opcode_of(const char *kind) {
    static const struct {
        const char *name;
        int opcode;
    } kinds[] = {
        {"WRITE", IBV_WR_RDMA_WRITE},        {"WRITE_WITH_IMMEDIATE", IBV_WR_RDMA_WRITE_WITH_IMM},
        {"SEND", IBV_WR_SEND},               {"SEND_WITH_IMMEDIATE", IBV_WR_SEND_WITH_IMM},
        {"READ", IBV_WR_RDMA_READ},          {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
        {"CMP_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP},
    };
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        if (strcmp(kinds[index].name, kind) == 0) return kinds[index].opcode;
    }
    return -1;
}

static void post(const char *words) {
    unsigned index, length, rkey;
    uint64_t id, offset, remote, a, b;
    char kind[32];
    int found = sscanf(words, "%u %" SCNu64 " %31s %" SCNu64 " %u %" SCNu64 " %u %" SCNu64 " %" SCNu64, &index, &id, kind,
                       &offset, &length, &remote, &rkey, &a, &b);
    if (found != 9 || !queue_pair(index) || !inside(offset, length) || opcode_of(kind) < 0)
        return answer("error post: INDEX ID KIND OFFSET LENGTH REMOTE RKEY A B");
    struct ibv_sge element = {.addr = (uintptr_t)memory + offset, .length = length, .lkey = region->lkey};
    struct ibv_send_wr request = {
        .wr_id = id, .sg_list = &element, .num_sge = 1, .opcode = opcode_of(kind), .imm_data = htonl(a)}, *refused;
    if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        request.wr.atomic.remote_addr = remote;
        request.wr.atomic.rkey = rkey;
        request.wr.atomic.compare_add = a;
        request.wr.atomic.swap = b;
    } else {
        request.wr.rdma.remote_addr = remote;
        request.wr.rdma.rkey = rkey;
    }
    int error = ibv_post_send(queue_pairs[index], &request, &refused);
    if (error) return answer("error ibv_post_send: %s", strerror(error));
    answer("ok");
}

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static void wait_for(const char *words) {
    static struct ibv_wc done[1024];
    unsigned count, limit, found = 0;
    if (sscanf(words, "%u %u", &count, &limit) != 2 || count > 1024) return answer("error wait: COUNT MILLISECONDS");
    uint64_t end = milliseconds() + limit;
    while (found < count) {
        int polled = ibv_poll_cq(completions, count - found, done + found);
        if (polled < 0) return answer("error ibv_poll_cq");
        found += polled;
        if (polled == 0) {
            if (milliseconds() >= end) break;
            // The device needs the processor as well.
            usleep(100);
        }
    }
    fprintf(port, "ok %u", found);
    for (unsigned index = 0; index < found; index++) {
        struct ibv_wc *wc = &done[index];
        uint32_t immediate = wc->status == IBV_WC_SUCCESS && wc->wc_flags & IBV_WC_WITH_IMM ? ntohl(wc->imm_data) : 0;
        fprintf(port, " %" PRIu64 ":%u:%u:%u:%u", wc->wr_id, wc->status, wc->opcode, wc->byte_len, immediate);
    }
    answer("");
}

static void counters(void) {
    const char *folder = "/sys/class/infiniband/" DEVICE "/ports/1/hw_counters";
    DIR *directory = opendir(folder);
    fprintf(port, "ok");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[512], value[64] = "";
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%63s", value) == 1 && strcmp(entry->d_name, "lifespan") != 0)
            fprintf(port, " %s=%s", entry->d_name, value);
        fclose(file);
    }
    if (directory) closedir(directory);
    answer("");
}

static void serve(char *line) {
    uint64_t offset, length, seed;
    char *words = strchr(line, ' ');
    if (words) *words++ = 0;
    else words = line + strlen(line);
    if (strcmp(line, "hello") == 0) {
        struct ibv_port_attr attributes;
        struct utsname system;
        uname(&system);
        ibv_query_port(context, 1, &attributes);
        answer("ok " DEVICE " %d %s", attributes.active_mtu, system.release);
    } else if (strcmp(line, "memory") == 0) create_memory(words);
    else if (strcmp(line, "create") == 0) create();
    else if (strcmp(line, "connect") == 0) connect_queue_pair(words);
    else if (strcmp(line, "destroy") == 0) destroy(words);
    else if (strcmp(line, "receive") == 0) post_receive(words);
    else if (strcmp(line, "post") == 0) post(words);
    else if (strcmp(line, "wait") == 0) wait_for(words);
    else if (strcmp(line, "counters") == 0) counters();
    else if (strcmp(line, "fill") == 0) {
        if (sscanf(words, "%" SCNu64 " %" SCNu64 " %" SCNu64, &offset, &length, &seed) != 3 || !inside(offset, length))
            return answer("error fill: OFFSET LENGTH SEED");
        fill(memory + offset, length, seed);
        answer("ok");
    } else if (strcmp(line, "hash") == 0) {
        if (sscanf(words, "%" SCNu64 " %" SCNu64, &offset, &length) != 2 || !inside(offset, length))
            return answer("error hash: OFFSET LENGTH");
        answer("ok %" PRIu64, hash(memory + offset, length));
    } else answer("error %s: no such command", line);
}

int main(int arguments, char **argument) {
    if (arguments != 3) return fprintf(stderr, "usage: agent INTERFACE PORT\n"), 2;
    int error = add_link(argument[1]);
    if (error) return fprintf(stderr, "cannot add %s: %s\n", DEVICE, strerror(error)), 1;
    if (open_device() != 0) return fprintf(stderr, "cannot open %s\n", DEVICE), 1;
    int descriptor = open(argument[2], O_RDWR);
    FILE *commands = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    port = descriptor < 0 ? NULL : fdopen(dup(descriptor), "w");
    if (!commands || !port) return fprintf(stderr, "cannot open %s: %s\n", argument[2], strerror(errno)), 1;
    answer("ready");
    char line[512];
    while (fgets(line, sizeof line, commands)) {
        line[strcspn(line, "\n")] = 0;
        serve(line);
    }
    return 0;
}
