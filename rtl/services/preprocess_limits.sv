// The operators that limit a value: `fill`, `neg2zero` and `clamp`, any number of them in any order. Twin of the
// operators of these names in crates/service/src/preprocess/operator.rs.
//
// Latency: 1 cycle. Throughput: a value every cycle.
//
// Method: all of them in turn are one clamp, and one value in place of a missing one; the driver computes both.
module preprocess_limits
  import preprocess_pkg::*;
(
  input  logic        clk_i,
  input  logic [31:0] value_i,
  input  logic [31:0] missing_i,
  // Signed, the lower one first.
  input  logic [31:0] low_i,
  input  logic [31:0] high_i,
  output logic [31:0] value_o
);

  always_ff @(posedge clk_i) begin
    if (value_i == PreprocessMissing) value_o <= missing_i;
    else if ($signed(value_i) < $signed(low_i)) value_o <= low_i;
    else if ($signed(value_i) > $signed(high_i)) value_o <= high_i;
    else value_o <= value_i;
  end

endmodule
