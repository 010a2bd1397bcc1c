// The consensus as an algorithm of rounds: a window of instances in flight, each one round older than the next.
//
// While the node is in round R, slot i holds the instance of round R - RoundsWindow + i; the areas of its messages
// have the same order. At the end of round R the instance of round R opens, with the set of members whose proposals
// have arrived, and the oldest instance leaves.
//
// Latency: areas and ends of rounds take effect in the next cycle; a round must not end in the cycle after an area.
// Throughput: an area every cycle. Stalls: never.
module consensus_window
  import rounds_pkg::*;
(
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  member_t                      node_i,
  input  logic                         clear_i,
  // A peer's message of this round.
  input  logic                         receive_i,
  input  member_t                      from_i,
  input  logic      [    AreaBits-1:0] area_i,
  // End of a round, not in the cycle after an area. `row_i`: the proposals with which the round's instance opens; and
  // its members.
  input  logic                         end_round_i,
  input  members_t                     row_i,
  input  members_t                     members_i,
  output logic      [    AreaBits-1:0] area_o,
  // The instances in the window, the oldest first.
  output instance_t [RoundsWindow-1:0] instances_o,
  // The oldest instance in its final state; invalid in the cycle after an area.
  output instance_t                    leaving_o,
  // A message contradicts what the node knows.
  output logic                         contradiction_o
);

  instance_t [RoundsWindow-1:0] ended;
  instance_t opened;
  logic [RoundsWindow-1:0] contradicts;

  always_comb begin
    opened = '0;
    if (|(members_i & only(node_i))) begin
      opened.valid = 1'b1;
      opened.members = members_i;
      opened.quorums = quorums_of(members_i);
      opened.rows[node_i] = row_i;
    end
  end

  for (genvar i = 0; i < RoundsWindow; i++) begin : g_places
    instance_t next;
    if (i + 1 < RoundsWindow) begin : g_older
      assign next = ended[i+1];
    end else begin : g_youngest
      assign next = opened;
    end

    consensus_instance #(
      .Round(RoundsWindow - 1 - i)
    ) i_instance (
      .clk_i,
      .rst_ni,
      .node_i,
      .clear_i,
      .end_round_i,
      .next_i         (next),
      .receive_i,
      .from_i,
      .record_i       (area_i[RecordBits*i+:RecordBits]),
      .state_o        (instances_o[i]),
      .record_o       (area_o[RecordBits*i+:RecordBits]),
      .ended_o        (ended[i]),
      .decides_o      (),
      .contradiction_o(contradicts[i])
    );
  end

  assign leaving_o = ended[0];

  assign contradiction_o = |contradicts;

endmodule
