// The hash that TorchArrow calls `sigrid_hash`, before its remainder. Twin of crates/service/src/preprocess/hash.rs.
//
// Latency: `PreprocessHashLatency` cycles, and the hash is the output of an adder behind the last register.
// Throughput: a value every cycle.
module preprocess_hash
  import preprocess_pkg::*;
(
  input  logic        clk_i,
  input  logic [31:0] value_i,
  input  logic [63:0] salt_i,
  output logic [63:0] hash_o
);

  localparam logic [63:0] Factor = 64'h9ddf_ea08_eb38_2d69;

  function automatic logic [63:0] folded(logic [63:0] value, int unsigned distance);
    return value ^ (value >> distance);
  endfunction

  // Thomas Wang's mixing function. Its last step, without a fold, is in front of the first multiplier.
  logic [63:0] value;
  logic [63:0] mixed_1_q;
  logic [63:0] mixed_2_q;
  logic [63:0] mixed_3_q;

  assign value = {{32{value_i[31]}}, value_i};

  always_ff @(posedge clk_i) begin
    mixed_1_q <= folded(~value + (value << 21), 24);
    mixed_2_q <= folded(mixed_1_q + (mixed_1_q << 3) + (mixed_1_q << 8), 14);
    mixed_3_q <= folded(mixed_2_q + (mixed_2_q << 2) + (mixed_2_q << 4), 28);
  end

  // The salt, when the first and the second multiplier need it.
  logic [63:0] salt_first;
  logic [63:0] salt_second;

  delay #(
    .T     (logic [63:0]),
    .Cycles(3)
  ) i_salt_first (
    .clk_i,
    .in_i (salt_i),
    .out_o(salt_first)
  );

  delay #(
    .T     (logic [63:0]),
    .Cycles(3)
  ) i_salt_second (
    .clk_i,
    .in_i (salt_first),
    .out_o(salt_second)
  );

  // CityHash's combination of two hashes.
  logic [63:0] first;
  logic [63:0] second;

  multiplier #(
    .Bits(64)
  ) i_first (
    .clk_i,
    .a_i      ((mixed_3_q + (mixed_3_q << 31)) ^ salt_first),
    .b_i      (Factor),
    .product_o(first)
  );

  multiplier #(
    .Bits(64)
  ) i_second (
    .clk_i,
    .a_i      (salt_second ^ folded(first, 47)),
    .b_i      (Factor),
    .product_o(second)
  );

  multiplier #(
    .Bits(64)
  ) i_third (
    .clk_i,
    .a_i      (folded(second, 47)),
    .b_i      (Factor),
    .product_o(hash_o)
  );

endmodule
