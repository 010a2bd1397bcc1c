// Address resolution (RFC 826): answers requests for the port's address, and keeps the neighbour table.
//
// The table is a 4-way hash table in block RAM; the four entries of a set are compared at once. Only stations that
// this card asked for, or that ask for this port, get an entry, so an unsolicited claim cannot redirect a neighbour's
// traffic. In a full set entries are replaced in turn; a static entry is replaced only by another static entry. A
// lookup of an unknown neighbour sends a request, and a lookup after `RequestInterval` sends another.
//
// Latency of a lookup: 4 cycles. Throughput: one lookup, frame or entry in 4 cycles; priority: entries, frames,
// lookups. Order: kept for each of the three. Stalls: the inputs while busy, while four packets wait to be sent, or
// while a result is not accepted; and for a cycle per set after reset, while the table is cleared.
module arp
  import weft_pkg::*;
#(
  parameter int unsigned Entries = 512,
  // Shortest time between two requests for the same neighbour: 1 ms.
  parameter int unsigned RequestInterval = 250_000
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  cycles_t       now_i,
  input  mac_address_t  hardware_i,
  input  ipv4_address_t address_i,
  // A learned entry expires after this many cycles; 0: never.
  input  cycles_t       age_limit_i,
  // ARP frames.
  input  logic          frame_valid_i,
  output logic          frame_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  beat_t         frame_i,          // an ARP packet is in the first beat, whatever the frame's length
  // verilator lint_on UNUSEDSIGNAL
  // Requests and replies to send.
  output logic          out_valid_o,
  input  logic          out_ready_i,
  output beat_t         out_o,
  input  logic          lookup_valid_i,
  output logic          lookup_ready_o,
  input  ipv4_address_t lookup_i,
  output logic          result_valid_o,
  input  logic          result_ready_i,
  output logic          result_hit_o,
  output mac_address_t  result_mac_o,
  // Static entries from the driver. They do not age, and only static entries replace them.
  input  logic          entry_valid_i,
  output logic          entry_ready_o,
  input  ipv4_address_t entry_address_i,
  input  mac_address_t  entry_mac_i,
  output arp_events_t   events_o,
  output logic          idle_o
);

  localparam int unsigned Ways = 4;
  localparam int unsigned Sets = Entries / Ways;
  localparam int unsigned SetBits = $clog2(Sets);

  typedef logic [SetBits-1:0] set_index_t;
  typedef logic [$clog2(Ways)-1:0] way_t;

  typedef struct packed {
    logic          valid;
    logic          by_hand;
    logic          known;    // 0: requested, and not answered yet
    ipv4_address_t address;
    mac_address_t  mac;
    cycles_t       since;    // when it was requested or learned
  } entry_t;

  typedef entry_t [Ways-1:0] set_t;

  typedef struct packed {
    logic          reply;
    mac_address_t  mac;
    ipv4_address_t address;
  } packet_t;

  typedef enum logic [2:0] {
    Clear,
    Idle,
    Match,
    Age,
    Act
  } state_e;

  typedef enum logic [1:0] {
    Enter,
    Learn,
    Look
  } job_e;

  // Neighbours of one network differ in their low address bits, so the hash uses these.
  function automatic set_index_t set_of(ipv4_address_t address);
    return set_index_t'(address) ^ set_index_t'(address >> SetBits) ^ set_index_t'(address >> 16);
  endfunction

  function automatic logic [15:0] half(logic [BeatBits-1:0] data, int unsigned at);
    return {data[8*at+:8], data[8*at+8+:8]};
  endfunction

  function automatic logic [31:0] word(logic [BeatBits-1:0] data, int unsigned at);
    return {half(data, at), half(data, at + 2)};
  endfunction

  state_e              state_q;
  job_e                job_q;
  set_index_t          index_q;
  ipv4_address_t       address_q;
  mac_address_t        mac_q;
  logic                request_q;
  way_t                way_q;
  logic                hit_q;
  // verilator lint_off UNUSEDSIGNAL
  entry_t              found_q;  // its address has been compared already
  // verilator lint_on UNUSEDSIGNAL
  cycles_t             elapsed_q;
  way_t                victim_q;
  logic                result_valid_q;
  logic                result_hit_q;
  mac_address_t        result_mac_q;
  // ARP fits in one beat; further beats of a frame are ignored.
  logic                rest_q;

  logic                packet_ready;
  logic                packet_valid;
  packet_t             packet;
  packet_t             packet_out;
  logic                free;
  logic                frame_ours;
  logic          [2:0] unused_level;

  // Selects the next job.
  assign free = state_q == Idle && packet_ready;
  assign entry_ready_o = free;
  assign frame_ready_o = rest_q || (free && !entry_valid_i);
  assign lookup_ready_o = free && !entry_valid_i && !(frame_valid_i && !rest_q) && (!result_valid_q || result_ready_i);
  assign frame_ours = half(
      frame_i.data, 12
  ) == 16'h0806 && word(
      frame_i.data, 14
  ) == 32'h0001_0800 && half(
      frame_i.data, 18
  ) == 16'h0604 && word(
      frame_i.data, 38
  ) == address_i && (half(
      frame_i.data, 20
  ) == 16'd1 || half(
      frame_i.data, 20
  ) == 16'd2);

  logic          start;
  job_e          job;
  ipv4_address_t job_address;
  mac_address_t  job_mac;

  always_comb begin
    job = Look;
    job_address = lookup_i;
    job_mac = entry_mac_i;
    start = lookup_valid_i && lookup_ready_o;
    if (free && entry_valid_i) begin
      job = Enter;
      job_address = entry_address_i;
      start = 1'b1;
    end else if (free && frame_valid_i && !rest_q) begin
      job = Learn;
      job_address = word(frame_i.data, 28);
      job_mac = {half(frame_i.data, 22), word(frame_i.data, 24)};
      start = frame_ours;
    end
  end

  // The table.
  set_t       read_set;
  set_t       write_set;
  logic       write;
  set_index_t write_index;

  ram #(
    .T(set_t),
    .Depth(Sets)
  ) u_table (
    .clk_i,
    .write_i(write),
    .write_address_i(write_index),
    .write_data_i(write_set),
    .read_i(start),
    .read_address_i(set_of(job_address)),
    .read_data_o(read_set)
  );

  // The entry that holds the address; otherwise the slot to use: an empty one, or the next in turn that is not
  // static.
  logic match_hit;
  way_t match_way;
  way_t turn;

  always_comb begin
    match_hit = 1'b0;
    match_way = victim_q;
    for (int unsigned i = Ways; i > 0; i--) begin
      turn = victim_q + way_t'(i - 1);
      if (!read_set[turn].by_hand) match_way = turn;
    end
    for (int unsigned i = Ways; i > 0; i--) begin
      if (!read_set[i-1].valid) match_way = way_t'(i - 1);
    end
    for (int unsigned i = 0; i < Ways; i++) begin
      if (read_set[i].valid && read_set[i].address == address_q) begin
        match_hit = 1'b1;
        match_way = way_t'(i);
      end
    end
  end

  // Update of the entry.
  entry_t entry;
  logic   known;
  logic   ask;
  logic   store;

  assign known = hit_q && found_q.known && (found_q.by_hand || age_limit_i == '0 || elapsed_q <= age_limit_i);
  assign ask   = !known && (!hit_q || found_q.known || elapsed_q >= cycles_t'(RequestInterval));

  always_comb begin
    entry = '{
        valid: 1'b1,
        by_hand: job_q == Enter,
        known: job_q != Look,
        address: address_q,
        mac: mac_q,
        since: now_i
    };
    unique case (job_q)
      Enter:   store = 1'b1;
      // A static entry is permanent; a set full of static entries has no room for a learned one.
      Learn:   store = (request_q || hit_q) && !found_q.by_hand;
      default: store = ask && !found_q.by_hand;
    endcase
    write_set = read_set;
    write_set[way_q] = entry;
    write_index = index_q;
    write = state_q == Act && store;
    if (state_q == Clear) begin
      write_set = '0;
      write = 1'b1;
    end
  end

  assign packet_valid = state_q == Act && ((job_q == Learn && request_q) || (job_q == Look && ask));
  assign packet = '{reply: job_q == Learn, mac: mac_q, address: address_q};

  always_ff @(posedge clk_i) begin
    if (start) begin
      job_q     <= job;
      address_q <= job_address;
      mac_q     <= job_mac;
      request_q <= half(frame_i.data, 20) == 16'd1;
    end
    if (state_q == Match) begin
      way_q   <= match_way;
      hit_q   <= match_hit;
      found_q <= read_set[match_way];
    end
    if (state_q == Age) elapsed_q <= now_i - found_q.since;
    if (state_q == Act && job_q == Look) begin
      result_hit_q <= known;
      result_mac_q <= found_q.mac;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q        <= Clear;
      index_q        <= '0;
      victim_q       <= '0;
      result_valid_q <= 1'b0;
      rest_q         <= 1'b0;
    end else begin
      if (frame_valid_i && frame_ready_o) rest_q <= !frame_i.last;
      if (result_ready_i) result_valid_q <= 1'b0;
      unique case (state_q)
        Clear: begin
          index_q <= index_q + 1'b1;
          if (index_q == set_index_t'(Sets - 1)) state_q <= Idle;
        end
        Idle:
        if (start) begin
          index_q <= set_of(job_address);
          state_q <= Match;
        end
        Match: state_q <= Age;
        Age: state_q <= Act;
        Act: begin
          state_q <= Idle;
          if (store && !hit_q) victim_q <= victim_q + 1'b1;
          if (job_q == Look) result_valid_q <= 1'b1;
        end
        default: state_q <= Idle;
      endcase
    end
  end

  assign result_valid_o = result_valid_q;
  assign result_hit_o   = result_hit_q;
  assign result_mac_o   = result_mac_q;

  // Packets to send.

  fifo #(
    .T(packet_t),
    .Depth(4)
  ) u_packets (
    .clk_i,
    .rst_ni,
    .in_valid_i(packet_valid),
    .in_ready_o(packet_ready),
    .in_i(packet),
    .out_valid_o,
    .out_ready_i,
    .out_o(packet_out),
    .level_o(unused_level)
  );

  // The frame, first byte on the left: 42 bytes, padded to 60.
  logic [479:0] frame;
  assign frame = {
    packet_out.reply ? packet_out.mac : 48'hffff_ffff_ffff,
    hardware_i,
    16'h0806,
    64'h0001_0800_0604_0001 + 64'(packet_out.reply),
    hardware_i,
    address_i,
    packet_out.reply ? packet_out.mac : 48'h0,
    packet_out.address,
    144'h0
  };

  always_comb begin
    out_o = '{last: 1'b1, empty: 6'd4, data: '0};
    for (int unsigned i = 0; i < 60; i++) out_o.data[8*i+:8] = frame[8*(59-i)+:8];
  end

  assign events_o = '{arp_replies: packet_valid && job_q == Learn, arp_requests: packet_valid && job_q == Look};
  assign idle_o = state_q == Idle && !out_valid_o && !result_valid_q && !frame_valid_i && !lookup_valid_i
      && !entry_valid_i;

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!packet_valid || packet_ready)
      else $error("a packet without a place");
  end

endmodule
