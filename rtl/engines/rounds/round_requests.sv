// This node's own proposals: a queue of those that wait for their round, and the callers to be answered about the
// others.
//
// The bytes are in proposal_store, in a ring that has room for the queue and for all remembered instances. A round
// that begins takes the oldest proposal.
//
// Latency: 1 cycle. Throughput: one of its inputs every cycle. Order: first in, first out. Stalls: never; the user
// must check `full_o` before it adds a proposal.
module round_requests
  import engines_pkg::*;
  import rounds_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  clear_i,
  // The current round.
  input  round_t                round_i,
  output logic                  full_o,
  output proposal_place_t       put_place_o,
  input  logic                  put_i,
  input  caller_t               put_caller_i,
  // The round begins: with a change of members in slot `change_place_o`, with the oldest waiting proposal, or with
  // none.
  output logic                  waiting_o,
  output proposal_place_t       take_place_o,
  output proposal_place_t       change_place_o,
  input  logic                  begin_i,
  input  logic                  begin_change_i,
  input  logic                  begin_take_i,
  // Slot of this node's proposal in an instance, if there is one, and its caller if it has not been answered.
  input  logic            [3:0] instance_i,
  output logic                  some_o,
  output proposal_place_t       place_o,
  output logic                  asked_o,
  output caller_t               caller_o,
  input  logic                  told_i,
  // The node stops: all callers are answered, beginning with those whose instances have begun. No other input is used
  // meanwhile.
  input  logic                  drain_i,
  output logic                  drain_valid_o,
  input  logic                  drain_ready_i,
  output logic                  drain_begun_o,
  output round_t                drain_instance_o,
  output logic                  draining_o
);

  localparam int unsigned Slots = 2 * RoundsWindow;

  typedef logic [$clog2(Slots)-1:0] slot_t;

  own_place_t put_q, take_q, waiting;
  logic [Slots-1:0] asked_q;
  // For each slot: the bit of its instance above the slot number.
  logic [Slots-1:0] high_q;
  logic draining_q, begun_q;
  slot_t slot_q;
  logic [3:0] behind;
  own_place_t drain_place, caller_place;

  (* ram_style = "distributed" *)
  logic [$bits(proposal_place_t):0] places[16];
  (* ram_style = "distributed" *)
  caller_t callers[1<<$bits(own_place_t)];

  assign waiting = put_q - take_q;
  assign waiting_o = waiting != '0;
  assign full_o = waiting == own_place_t'(RoundsQueue);
  assign put_place_o = {3'b100, put_q};
  assign take_place_o = {3'b100, take_q};
  assign change_place_o = {4'b1010, round_i[3:0]};

  // Slots are reported in slot order, not in the order of instances.
  assign behind = round_i[3:0] - {high_q[slot_q], slot_q};
  assign drain_instance_o = round_i - round_t'(behind);
  assign drain_begun_o = begun_q;
  assign drain_valid_o = draining_q && (begun_q ? asked_q[slot_q] : waiting_o);
  assign draining_o = draining_q;

  assign {some_o, place_o} = places[instance_i];
  assign asked_o = asked_q[slot_t'(instance_i)] && high_q[slot_t'(instance_i)] == instance_i[3];
  assign drain_place = own_place_t'(places[{high_q[slot_q], slot_q}]);
  always_comb begin
    caller_place = own_place_t'(place_o);
    if (draining_q) caller_place = begun_q ? drain_place : take_q;
  end
  assign caller_o = callers[caller_place];

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      places[round_i[3:0]] <= {begin_change_i || begin_take_i, begin_change_i ? change_place_o : take_place_o};
    end
    if (put_i) callers[put_q] <= put_caller_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      put_q      <= '0;
      take_q     <= '0;
      asked_q    <= '0;
      draining_q <= 1'b0;
    end else begin
      if (put_i) put_q <= put_q + 1'b1;
      if (begin_i) begin
        if (begin_take_i) begin
          asked_q[slot_t'(round_i)] <= 1'b1;
          high_q[slot_t'(round_i)] <= round_i[3];
          take_q <= take_q + 1'b1;
        end
      end else if (told_i) begin
        asked_q[slot_t'(instance_i)] <= 1'b0;
      end
      if (drain_i) draining_q <= 1'b1;
      if (draining_q) begin
        if (begun_q) begin
          if (!drain_valid_o || drain_ready_i) asked_q[slot_q] <= 1'b0;
        end else if (drain_valid_o) begin
          if (drain_ready_i) take_q <= take_q + 1'b1;
        end else begin
          draining_q <= 1'b0;
        end
      end
    end
    if (drain_i) begin
      begun_q <= 1'b1;
      slot_q  <= '0;
    end else if (begun_q && (!drain_valid_o || drain_ready_i)) begin
      slot_q <= slot_q + 1'b1;
      if (slot_q == '1) begun_q <= 1'b0;
    end
  end

endmodule
