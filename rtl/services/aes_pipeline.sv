// Encrypts blocks with AES: several blocks in parallel, all with the same one of several keys.
//
// The round keys are write-only. A key must not be in use while it is written.
//
// Latency: `Rounds` + 1 cycles. Throughput: `Lanes` blocks every cycle, with any key in each cycle. Order: kept.
// Stalls: never.
//
// Method: each round takes one cycle and has a memory with its round key for each key index, which is read one cycle
// before.
module aes_pipeline
  import aes_pkg::*;
#(
  // 14 for keys of 256 bits, 10 for keys of 128.
  parameter int unsigned Rounds = 14,
  parameter int unsigned Lanes  = 4,
  parameter int unsigned Keys   = 32
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      key_write_i,
  input  logic   [$clog2(Keys)-1:0] key_index_i,
  // 0 is the key that is added before the first round.
  input  logic   [             3:0] key_round_i,
  input  block_t                    key_i,
  input  logic                      valid_i,
  input  logic   [$clog2(Keys)-1:0] index_i,
  input  block_t [       Lanes-1:0] blocks_i,
  output logic                      valid_o,
  output block_t [       Lanes-1:0] blocks_o
);

  // For round i: the key index of its blocks, and whether the blocks are valid.
  logic   [Rounds:0][$clog2(Keys)-1:0] index;
  logic   [Rounds:0]                   valid_q;
  block_t [Rounds:0]                   key;
  // Input of round i + 1.
  block_t [Rounds:0][       Lanes-1:0] state_q;

  assign index[0] = index_i;
  assign blocks_o = state_q[Rounds];
  assign valid_o  = valid_q[Rounds];

  always_ff @(posedge clk_i) begin
    state_q[0] <= blocks_i;
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Rounds-1:0], valid_i};
  end

  for (genvar i = 0; i <= Rounds; i++) begin : gen_round

    // Adding the first key shares a cycle with round 1.
    ram #(
      .T    (block_t),
      .Depth(Keys),
      .Style("distributed")
    ) i_keys (
      .clk_i,
      .write_i        (key_write_i && key_round_i == 4'(i)),
      .write_address_i(key_index_i),
      .write_data_i   (key_i),
      .read_i         (1'b1),
      .read_address_i (index[i==0?0 : i-1]),
      .read_data_o    (key[i])
    );

    if (i > 0) begin : gen_work
      logic [$clog2(Keys)-1:0] index_q;
      assign index[i] = index_q;
      always_ff @(posedge clk_i) index_q <= index[i-1];

      for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
        block_t operand;
        assign operand = i == 1 ? state_q[0][lane] ^ key[0] : state_q[i-1][lane];
        always_ff @(posedge clk_i) state_q[i][lane] <= round(operand, key[i], i == Rounds);
      end
    end

  end

endmodule
