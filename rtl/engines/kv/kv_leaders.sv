// The leader of each partition: partition p is led by the p-th full member, counting round-robin in ascending order.
//
// `fill_i` recomputes the map for `full_i`, in 256 cycles during which `busy_o` is high. Latency of a read: 0 cycles.
// Only nodes below `Streams` are considered.
module kv_leaders
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       fill_i,
  input  node_set_t  full_i,
  output logic       busy_o,
  input  partition_t partition_i,
  output stream_t    leader_o
);

  (* ram_style = "distributed" *)
  stream_t    leaders     [Partitions];

  logic       busy_q;
  partition_t partition_q;
  stream_t    leader_q;

  // The next leader: the lowest member above the leader of the previous partition, or else the lowest member.
  stream_t    following;
  always_comb begin
    following = '0;
    for (int unsigned i = Streams; i > 0; i--) begin
      if (full_i[i-1]) following = stream_t'(i - 1);
    end
    if (partition_q != '0) begin
      for (int unsigned i = Streams; i > 0; i--) begin
        if (full_i[i-1] && i - 1 > 32'(leader_q)) following = stream_t'(i - 1);
      end
    end
  end

  assign busy_o   = busy_q;
  assign leader_o = leaders[partition_i];

  always_ff @(posedge clk_i) begin
    if (busy_q) leaders[partition_q] <= following;
  end

  always_ff @(posedge clk_i) begin
    if (busy_q) leader_q <= following;
    if (!rst_ni) begin
      busy_q      <= 1'b0;
      partition_q <= '0;
    end else if (fill_i) begin
      busy_q      <= 1'b1;
      partition_q <= '0;
    end else if (busy_q) begin
      partition_q <= partition_q + 1'b1;
      busy_q      <= partition_q != '1;
    end
  end

endmodule
