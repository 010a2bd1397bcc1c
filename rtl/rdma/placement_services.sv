// Sends the payload of requests through the services, if their queue pair has any.
//
// A payload is aligned to its offset in the message for the services, and leaves aligned like that. All other payloads
// leave as they have entered. The order is kept: while payloads are with the services, the requests of other queue
// pairs go the same way and are not changed there, so no request waits for another. Words and the responses of READs
// never go there; they wait until no payload is with the services.
//
// Latency: 0 cycles for a beat that does not go through the services; 3 cycles and those of the services for one that
// does. Throughput: one beat every cycle, without a gap between payloads; the shortest payloads that go through the
// services as many as the depth of `RunDepth` allows. Stalls: beats, when the services or the consumer do.
module placement_services
  import weft_pkg::*;
  import services_pkg::*;
#(
  // Payloads on their way, at least those that the services hold.
  parameter int unsigned RunDepth = 64
) (
  input logic clk_i,
  input logic rst_ni,

  // Whether requests of a queue pair are processed. The queue pair must have no packet in flight.
  input logic      serve_valid_i,
  input qp_index_t serve_qp_i,
  input logic      serve_i,

  // A payload to come, and from which offset in a beat the consumer will get it.
  input  logic                  run_valid_i,
  output logic                  run_ready_o,
  // The payload of a SEND or WRITE.
  input  logic                  run_request_i,
  input  qp_index_t             run_qp_i,
  input  logic           [31:0] run_message_offset_i,
  input  logic           [ 5:0] run_from_i,
  input  payload_bytes_t        run_bytes_i,
  output logic           [ 5:0] run_from_o,
  // It goes through the services.
  output logic                  run_served_o,

  // Beats of the payloads, in the same order.
  input  logic                in_valid_i,
  output logic                in_ready_o,
  input  logic [BeatBits-1:0] in_data_i,

  // The services.
  output logic          service_valid_o,
  input  logic          service_ready_i,
  output service_beat_t service_o,
  input  logic          served_valid_i,
  output logic          served_ready_o,
  input  service_beat_t served_i,

  output logic                out_valid_o,
  input  logic                out_ready_i,
  output logic [BeatBits-1:0] out_data_o,

  output logic idle_o
);

  localparam int unsigned QueueDepth = 16;

  typedef struct packed {
    logic       served;
    logic [6:0] last;    // index of the last beat
  } enter_t;

  typedef struct packed {
    logic [5:0] from;
    logic [5:0]       to;
    payload_bytes_t   bytes;
  } align_t;

  typedef struct packed {
    qp_index_t   qp;
    logic [25:0] word;  // of the first beat
  } place_t;

  // Which way a payload goes.

  logic [          QueuePairs-1:0] serves_q;
  // Payloads with the services.
  logic [$clog2(RunDepth + 1)-1:0] inside_q;
  logic                            served;
  logic                            take;
  logic                            enters_ready;
  logic                            aligns_ready;
  logic                            places_ready;
  logic                            leaves_ready;
  logic                            served_ends;
  logic [    $clog2(QueueDepth):0] enters_level;

  assign served = run_request_i && (serves_q[run_qp_i] || inside_q != '0);
  assign run_from_o = served ? run_message_offset_i[5:0] : run_from_i;
  assign run_served_o = served;
  assign run_ready_o = enters_ready && aligns_ready && places_ready && leaves_ready;
  assign take = run_valid_i && run_ready_o;
  assign served_ends = served_valid_i && served_ready_o && served_i.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      serves_q <= '0;
      inside_q <= '0;
    end else begin
      if (serve_valid_i) serves_q[serve_qp_i] <= serve_i;
      inside_q <= inside_q + $bits(inside_q)'(take && served) - $bits(inside_q)'(served_ends);
      assert (!served_ends || inside_q != '0);
    end
  end

  /* verilator lint_off UNUSEDSIGNAL */  // the last byte's position within its beat
  logic [12:0] last_byte;
  /* verilator lint_on UNUSEDSIGNAL */
  logic enter_valid;
  logic enter_ready;
  enter_t enter;

  assign last_byte = 13'(run_from_i) + run_bytes_i - 13'd1;

  fifo #(
    .T    (enter_t),
    .Depth(QueueDepth)
  ) i_enters (
    .clk_i,
    .rst_ni,
    .in_valid_i (take),
    .in_ready_o (enters_ready),
    .in_i       ({served, last_byte[12:6]}),
    .out_valid_o(enter_valid),
    .out_ready_i(enter_ready),
    .out_o      (enter),
    .level_o    (enters_level)
  );

  // To the services.

  logic                   align_valid;
  logic                   align_ready;
  align_t                 align;
  logic                   align_in_ready;
  logic                   place_valid;
  place_t                 place;
  logic   [          6:0] place_index_q;
  logic                   aligned_valid;
  logic   [ BeatBits-1:0] aligned_data;
  logic   [BeatBytes-1:0] aligned_strobe;
  logic                   aligned_last;

  fifo #(
    .T    (align_t),
    .Depth(QueueDepth)
  ) i_aligns (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && served),
    .in_ready_o (aligns_ready),
    .in_i       ({run_from_i, run_message_offset_i[5:0], run_bytes_i}),
    .out_valid_o(align_valid),
    .out_ready_i(align_ready),
    .out_o      (align),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  realign i_realign (
    .clk_i,
    .rst_ni,
    .command_valid_i(align_valid),
    .command_ready_o(align_ready),
    .from_i         (align.from),
    .to_i           (align.to),
    .bytes_i        (align.bytes),
    .in_valid_i     (in_valid_i && enter_valid && enter.served),
    .in_ready_o     (align_in_ready),
    .in_data_i,
    .out_valid_o    (aligned_valid),
    .out_ready_i    (service_ready_i),
    .out_data_o     (aligned_data),
    .out_strobe_o   (aligned_strobe),
    .out_last_o     (aligned_last)
  );

  fifo #(
    .T    (place_t),
    .Depth(QueueDepth)
  ) i_places (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && served),
    .in_ready_o (places_ready),
    .in_i       ({run_qp_i, run_message_offset_i[31:6]}),
    .out_valid_o(place_valid),
    .out_ready_i(service_valid_o && service_ready_i && aligned_last),
    .out_o      (place),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign service_valid_o = aligned_valid;
  assign service_o = '{
          flow : '{qp: place.qp, transmit: 1'b0},
          word: 58'(place.word) + 58'(place_index_q),
          last: aligned_last,
          strobe: aligned_strobe,
          data: aligned_data
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni) place_index_q <= '0;
    else if (service_valid_o && service_ready_i) place_index_q <= aligned_last ? '0 : place_index_q + 1'b1;
    if (rst_ni) assert (!aligned_valid || place_valid);
  end

  // To the consumer. A payload at the head of both queues that does not go through the services is the same one in
  // both, because it leaves them at the same time.

  logic                      leave_valid;
  logic                      leave_served;
  logic                      direct;
  logic [               6:0] index_q;
  logic                      in_ends;
  logic [$clog2(RunDepth):0] leaves_level;

  fifo #(
    .T    (logic),
    .Depth(RunDepth)
  ) i_leaves (
    .clk_i,
    .rst_ni,
    .in_valid_i (take),
    .in_ready_o (leaves_ready),
    .in_i       (served),
    .out_valid_o(leave_valid),
    .out_ready_i(out_valid_o && out_ready_i && (leave_served ? served_i.last : index_q == enter.last)),
    .out_o      (leave_served),
    .level_o    (leaves_level)
  );

  assign direct = enter_valid && !enter.served && leave_valid && !leave_served;
  assign in_ready_o = enter_valid && (enter.served ? align_in_ready : direct && out_ready_i);
  assign in_ends = in_valid_i && in_ready_o && index_q == enter.last;
  assign enter_ready = in_ends;
  assign served_ready_o = leave_valid && leave_served && out_ready_i;
  assign out_valid_o = leave_served ? leave_valid && served_valid_i : direct && in_valid_i;
  assign out_data_o = leave_served ? served_i.data : in_data_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) index_q <= '0;
    else if (in_valid_i && in_ready_o) index_q <= in_ends ? '0 : index_q + 1'b1;
  end

  assign idle_o = enters_level == '0 && leaves_level == '0;

endmodule
