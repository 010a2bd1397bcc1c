// Classifies an incoming operation: which stream it concerns, and how its epoch and numbers relate to the view and to
// that stream. These are the comparisons of `call`, `replicated`, `committed`, `acknowledged`, `is_other_stream` and
// `follows` in crates/engines/kv/src/engine.rs.
//
// Latency: 1 cycle from `look_i`; `stream_o` is combinational. The result is stable until the next `look_i`.
module kv_look
  import kv_pkg::*;
  import kv_streams_pkg::*;
(
  input  logic        clk_i,
  input  logic        look_i,
  /* verilator lint_off UNUSEDSIGNAL */  // some fields are unused
  input  op_t         op_i,
  input  membership_t membership_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  stream_t     leader_i,      // leader of its key
  // Planted bug: operations of other epochs are not rejected.
  input  logic        careless_i,
  // The stream whose lengths are needed now. For a Request it is this node's own stream, because only a write that
  // this node leads needs the lengths so early.
  output stream_t     stream_o,
  input  number_t     accepted_i,
  input  number_t     committed_i,
  output look_t       look_o
);

  stream_t own;
  assign own = membership_i.node[2:0];

  always_comb begin
    unique case (op_i.kind)
      OpWrite, OpCommit: stream_o = op_i.from[2:0];
      OpTimer: stream_o = op_i.timer[4] ? own : op_i.timer[2:0];
      default: stream_o = own;
    endcase
  end

  // A Write is the next one if its number minus 1 minus the accepted length is 0. This form needs no carry chain.
  logic is_next;
  assign is_next = (op_i.number ^ ~accepted_i) == (op_i.number | ~accepted_i) << 1;

  logic older, newer, numbered, other_stream, follows;
  assign older = op_i.epoch < membership_i.epoch;
  assign newer = op_i.epoch > membership_i.epoch;
  assign numbered = op_i.version == {op_i.epoch[23:0], op_i.number};
  assign other_stream = (older || newer) && !careless_i;
  assign follows = (membership_i.role == RoleFull || membership_i.role == RoleJoining) && !op_i.from[3]
      && membership_i.full[op_i.from] && op_i.from != membership_i.node;

  // Results that need one more logic level are combined in the next cycle.
  look_t look_q;
  logic may_accept_q, passes_q;
  always_comb begin
    look_o = look_q;
    look_o.accepts = may_accept_q && !look_q.gaps;
    look_o.advances = passes_q && !look_q.empty;
  end

  always_ff @(posedge clk_i) begin
    if (look_i) begin
      look_q <= '{
          kind: op_i.kind,
          from : op_i.from,
          stream: op_i.kind == OpRequest ? leader_i : stream_o,
          leads: leader_i == own && !membership_i.node[3],
          older: older,
          newer: newer,
          other_stream: other_stream,
          follows: follows,
          repeated: op_i.number <= accepted_i,
          gaps: !is_next,
          empty: accepted_i == committed_i,
          reaches: op_i.committed >= accepted_i,
          beyond: op_i.accepted > accepted_i,
          behind: op_i.accepted < committed_i,
          default: 1'b0
      };
      may_accept_q <= op_i.kind == OpWrite && !other_stream && follows && leader_i == op_i.from[2:0]
          && (op_i.status != StatusOk || numbered);
      passes_q <= op_i.committed > committed_i;
    end
  end

endmodule
