// Shares the neighbour table between two blocks: one lookup at a time, round-robin; the result goes to the block that
// made the lookup.
//
// Latency: 0 cycles. Throughput: that of the table, with one extra cycle for each lookup. Order: kept for each block.
// Stalls: a lookup while another one is in progress.
module neighbour_lookups
  import weft_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic          [1:0] lookup_valid_i,
  output logic          [1:0] lookup_ready_o,
  input  ipv4_address_t [1:0] lookup_i,
  output logic          [1:0] result_valid_o,
  input  logic          [1:0] result_ready_i,
  // Port of the table. Its result is wired to both blocks; only `valid` differs.
  output logic                lookup_valid_o,
  input  logic                lookup_ready_i,
  output ipv4_address_t       lookup_o,
  input  logic                result_valid_i,
  output logic                result_ready_o
);

  logic open_q;
  logic asker_q;
  logic asker;
  logic valid;
  logic unused_last;

  arbiter #(
    .T(ipv4_address_t),
    .N(2)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .in_valid_i (lookup_valid_i),
    .in_ready_o (lookup_ready_o),
    .in_i       (lookup_i),
    .in_last_i  ('1),
    .out_valid_o(valid),
    .out_ready_i(lookup_ready_i && !open_q),
    .out_o      (lookup_o),
    .out_last_o (unused_last),
    .grant_o    (asker)
  );

  assign lookup_valid_o = valid && !open_q;
  assign result_valid_o = {asker_q, !asker_q} & {2{result_valid_i && open_q}};
  assign result_ready_o = open_q && result_ready_i[asker_q];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) open_q <= 1'b0;
    else if (lookup_valid_o && lookup_ready_i) open_q <= 1'b1;
    else if (result_valid_i && result_ready_o) open_q <= 1'b0;
    if (lookup_valid_o && lookup_ready_i) asker_q <= asker;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!result_valid_i || open_q)
      else $error("an answer that nobody has asked for");
    end
  end

endmodule
