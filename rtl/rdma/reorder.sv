// Keeps requests that arrived behind a gap, and hands each back to the responder when it is next in turn. No byte of
// a request is in memory before its turn, and all checks are made then.
//
// All queue pairs share the places, of which each holds a whole request: its header, as the responder has read it, and
// its payload. The responder reserves a place when it sees that a packet is early, finds out whether a PSN is kept, and
// says what has become of the packet. The placement block writes the payloads and reads them again. A place that
// becomes free may get another payload at once: in the placement block, that is behind the reading of the one before.
//
// When there is no place, a clock hand (second-chance replacement) moves on by one place every `Patience` requests, and
// frees the place that it has met before. So a queue pair whose peer never fills its gap holds no place for ever. What
// is freed so is missing like any other lost request. The same frees what is never next, because a READ before it
// covers its PSN: no requester that follows the specification sends such a request.
//
// Latency: a search 1 cycle; a header 2 cycles after it is next, if its payload is here; the first beat of its payload
// 1 cycle after `frame_run_i`. Throughput: one event of the responder and one beat a cycle. Order: headers in the order
// in which they become next. Stalls: never; a header waits for the consumer, for its release, and for the end of its
// payload.
module reorder
  import weft_pkg::*;
  import responder_pkg::*;
#(
  parameter int unsigned Places   = 32,  // up to 64
  // A power of two.
  parameter int unsigned Patience = 16
) (
  input logic clk_i,
  input logic rst_ni,

  // The number of places in use is limited to this; 0: nothing is kept.
  input logic [6:0] limit_i,

  // The responder. Reserves a place for a packet, if there is room.
  input  logic             reserve_i,
  input  roce_header_t     reserve_header_i,
  output logic             room_o,
  output reorder_place_t   room_place_o,
  // Searches a packet. In the next cycle: it is kept, and so is any packet of the queue pair; and what follows for it.
  input  qp_index_t        search_qp_i,
  input  psn_t             search_psn_i,
  output logic             found_o,
  output logic             any_o,
  input  logic             command_valid_i,
  input  reorder_command_t command_i,

  // Requests that are next in turn; `release`: they may leave.
  input  logic           release_i,
  output logic           header_valid_o,
  input  logic           header_ready_i,
  output roce_header_t   header_o,
  output reorder_place_t header_place_o,
  // The request before it has left its acknowledgement to it.
  output logic           header_deferred_o,

  // The placement block. Beats of a payload to keep, aligned to byte 0.
  input  logic                          write_i,
  input  reorder_place_t                write_place_i,
  input  logic           [         5:0] write_index_i,
  input  logic                          write_last_i,
  input  logic           [BeatBits-1:0] write_data_i,
  // A payload is read while `run` is set, until its last beat is taken.
  input  logic                          frame_run_i,
  input  reorder_place_t                frame_place_i,
  input  logic           [         5:0] frame_end_i,    // index of the last beat
  output logic                          frame_valid_o,
  input  logic                          frame_ready_i,
  output logic                          frame_last_o,
  output logic           [BeatBits-1:0] frame_data_o,

  output logic idle_o
);

  localparam int unsigned Bits = $clog2(Places);

  typedef logic [Bits-1:0] index_t;
  typedef logic [Places-1:0] set_t;

  typedef struct packed {
    index_t place;
    logic   deferred;
  } next_t;

  function automatic set_t one(logic enable, index_t place);
    return set_t'(enable) << place;
  endfunction

  // The places. A place is free if it is in none of these sets.

  // For a packet whose fate is not known yet; holds a request; its payload is on its way; it is in the queue of
  // requests that are next, or with the responder.
  set_t reserved_q;
  set_t valid_q;
  set_t arriving_q;
  set_t queued_q;
  // The hand has met the place since it was filled.
  set_t met_q;
  set_t usable_q;
  set_t free;
  index_t free_place;
  qp_index_t [Places-1:0] qps_q;
  psn_t [Places-1:0] psns_q;

  assign free = usable_q & ~(reserved_q | valid_q | arriving_q | queued_q);
  assign room_o = free != '0;
  assign room_place_o = reorder_place_t'(free_place);

  always_comb begin
    free_place = '0;
    for (int place = Places - 1; place >= 0; place--) if (free[place]) free_place = index_t'(place);
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned place = 0; place < Places; place++) begin
      usable_q[place] <= limit_i > 7'(place);
      if (reserve_i && free_place == index_t'(place)) begin
        qps_q[place]  <= reserve_header_i.destination_qp[$bits(qp_index_t)-1:0];
        psns_q[place] <= reserve_header_i.psn;
      end
    end
  end

  // The search. Requests that are next already are not looked for.

  set_t   same_q;
  set_t   match_q;
  set_t   kept;
  set_t   found;
  index_t found_place;

  always_ff @(posedge clk_i) begin
    for (int unsigned place = 0; place < Places; place++) begin
      same_q[place]  <= qps_q[place] == search_qp_i;
      match_q[place] <= qps_q[place] == search_qp_i && psns_q[place] == search_psn_i;
    end
  end

  assign kept = valid_q & ~queued_q;
  assign found = match_q & kept;
  assign found_o = found != '0;
  assign any_o = (same_q & kept) != '0;

  always_comb begin
    found_place = '0;
    for (int unsigned place = 0; place < Places; place++) if (found[place]) found_place |= index_t'(place);
  end

  // The hand.

  logic   [$clog2(Patience)-1:0] refused_q;
  index_t                        hand_q;
  logic                          moves;
  set_t                          meets;
  set_t                          evicted;

  assign moves   = command_valid_i && command_i.refused && refused_q == '1;
  assign meets   = one(moves, hand_q);
  assign evicted = meets & met_q & ~queued_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      refused_q <= '0;
      hand_q    <= '0;
    end else begin
      if (command_valid_i && command_i.refused) refused_q <= refused_q + 1'b1;
      if (moves) hand_q <= hand_q == index_t'(Places - 1) ? '0 : hand_q + 1'b1;
    end
  end

  // What the responder says.

  index_t place;
  set_t   keeps;
  set_t   settles;
  set_t   returns;
  set_t   clears;
  set_t   nexts;
  set_t   arrives;
  set_t   forgotten;

  assign place   = command_i.place[Bits-1:0];
  assign settles = one(command_valid_i && command_i.reserved, place);
  assign keeps   = one(command_valid_i && command_i.keep, place);
  assign returns = one(command_valid_i && command_i.returned, place);
  assign clears  = command_valid_i && command_i.clear ? same_q : '0;
  assign nexts   = command_valid_i && command_i.next ? found : '0;
  assign arrives = one(write_i && write_last_i, write_place_i[Bits-1:0]);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reserved_q <= '0;
      valid_q    <= '0;
      arriving_q <= '0;
      queued_q   <= '0;
    end else begin
      reserved_q <= (reserved_q & ~settles) | one(reserve_i, free_place);
      valid_q    <= (valid_q & ~(returns | clears | evicted)) | keeps;
      arriving_q <= (arriving_q & ~arrives) | (command_i.payload ? keeps : '0);
      queued_q   <= (queued_q & ~(returns | forgotten)) | nexts;
      assert (!reserve_i || room_o)
      else $error("a reservation without a place");
      assert ((settles & ~reserved_q) == '0 && (arrives & ~arriving_q) == '0 && (returns & ~queued_q) == '0)
      else $error("a place in the wrong state");
      assert ((found & (found - 1'b1)) == '0)
      else $error("a request is kept twice");
    end
    met_q <= (met_q | meets) & ~keeps;
  end

  // Headers of requests that are next.

  next_t        next_in;
  next_t        next;
  next_t        out_q;
  logic         next_ready;
  logic         next_valid;
  logic         next_take;
  logic         out_valid_q;
  logic         live;
  roce_header_t header;

  assign next_in = '{place: found_place, deferred: command_i.deferred};
  assign next_take = next_valid && release_i && !out_valid_q && !arriving_q[next.place];
  // Meanwhile the queue pair may have been reset.
  assign live = valid_q[out_q.place];
  assign forgotten = one(out_valid_q && !live, out_q.place);
  assign header_valid_o = out_valid_q && live;
  assign header_place_o = reorder_place_t'(out_q.place);
  assign header_deferred_o = out_q.deferred;

  always_comb begin
    header_o = header;
    header_o.payload_offset = '0;
    // The sender was told when the packet arrived.
    header_o.marked = 1'b0;
    header_o.acknowledge_request = header.acknowledge_request || out_q.deferred;
  end

  fifo #(
    .T    (next_t),
    .Depth(1 << Bits)
  ) i_nexts (
    .clk_i,
    .rst_ni,
    .in_valid_i (nexts != '0),
    .in_ready_o (next_ready),
    .in_i       (next_in),
    .out_valid_o(next_valid),
    .out_ready_i(next_take),
    .out_o      (next),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  ram #(
    .T    (roce_header_t),
    .Depth(Places)
  ) i_headers (
    .clk_i,
    .write_i        (reserve_i),
    .write_address_i(free_place),
    .write_data_i   (reserve_header_i),
    .read_i         (next_take),
    .read_address_i (next.place),
    .read_data_o    (header)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) out_valid_q <= 1'b0;
    else if (next_take) out_valid_q <= 1'b1;
    else if (header_ready_i || !live) out_valid_q <= 1'b0;
    if (next_take) out_q <= next;
    if (rst_ni)
      assert (nexts == '0 || next_ready)
      else $error("more requests are next than there are places");
  end

  // Payloads.

  logic       read;
  logic       frame_valid_q;
  logic       last_q;
  logic [5:0] index_q;

  assign read = frame_run_i && (!frame_valid_q || (frame_ready_i && !last_q));
  assign frame_valid_o = frame_valid_q;
  assign frame_last_o = last_q;

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Places * 64),
    .Style("ultra")
  ) i_payloads (
    .clk_i,
    .write_i        (write_i),
    .write_address_i({write_place_i[Bits-1:0], write_index_i}),
    .write_data_i   (write_data_i),
    .read_i         (read),
    .read_address_i ({frame_place_i[Bits-1:0], index_q}),
    .read_data_o    (frame_data_o)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      frame_valid_q <= 1'b0;
      index_q       <= '0;
    end else begin
      if (read) index_q <= index_q == frame_end_i ? '0 : index_q + 1'b1;
      frame_valid_q <= read || (frame_valid_q && !frame_ready_i);
    end
    if (read) last_q <= index_q == frame_end_i;
  end

  assign idle_o = reserved_q == '0 && arriving_q == '0 && queued_q == '0;

endmodule
