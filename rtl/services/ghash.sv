// The hash of GCM (NIST SP 800-38D, 6.4) over messages of blocks, up to four blocks a cycle.
//
// The first four powers of each hash key are write-only. Every group but a message's last one has four blocks.
//
// Latency: 3 cycles from a message's last group to its hash. Throughput: a group every cycle; messages with any keys
// may follow each other without a gap. Order: kept. Stalls: never.
//
// Method: after a group of n blocks the hash is (Y + X1) H^n + X2 H^(n-1) + ... + Xn H. Only the first product
// depends on the previous group, so it has a cycle of its own; the other three products are computed one cycle
// earlier.
module ghash
  import aes_pkg::*;
#(
  parameter int unsigned Keys = 32,
  // Leaf of the multipliers: 8 has the smallest area, 128 simulates fastest.
  parameter int unsigned Leaf = 8
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      key_write_i,
  input  logic   [$clog2(Keys)-1:0] key_index_i,
  // The exponent, less one.
  input  logic   [             1:0] key_power_i,
  input  block_t                    key_i,
  input  logic                      valid_i,
  input  logic   [$clog2(Keys)-1:0] index_i,
  input  logic                      first_i,
  input  logic                      last_i,
  input  logic   [             2:0] count_i,      // 1 to 4
  input  block_t [             3:0] blocks_i,     // blocks beyond the count are ignored
  output logic                      valid_o,
  output block_t                    hash_o
);

  // Bit i is the coefficient of x^i. A block has its lowest coefficients first, starting with the highest bit of byte
  // 0.
  typedef logic [127:0] polynomial_t;
  typedef logic [254:0] product_t;

  function automatic polynomial_t reflected(polynomial_t bits);
    polynomial_t result;
    for (int unsigned i = 0; i < 128; i++) result[i] = bits[(i&~7)|(7-(i&7))];
    return result;
  endfunction

  // Reduction modulo x^128 + x^7 + x^2 + x + 1.
  function automatic polynomial_t reduced(product_t product);
    logic [133:0] once;
    once = 134'(product[127:0]) ^ 134'(product[254:128]) ^ (134'(product[254:128]) << 1)
        ^ (134'(product[254:128]) << 2) ^ (134'(product[254:128]) << 7);
    return once[127:0] ^ 128'(once[133:128]) ^ (128'(once[133:128]) << 1) ^ (128'(once[133:128]) << 2)
        ^ (128'(once[133:128]) << 7);
  endfunction

  // First cycle: the powers are read.

  polynomial_t [3:0] powers;

  for (genvar i = 0; i < 4; i++) begin : gen_power
    block_t power;
    ram #(
      .T    (block_t),
      .Depth(Keys),
      .Style("distributed")
    ) i_powers (
      .clk_i,
      .write_i        (key_write_i && key_power_i == 2'(i)),
      .write_address_i(key_index_i),
      .write_data_i   (key_i),
      .read_i         (1'b1),
      .read_address_i (index_i),
      .read_data_o    (power)
    );
    assign powers[i] = reflected(power);
  end

  logic              group_q;
  logic              group_first_q;
  logic              group_last_q;
  logic        [2:0] group_count_q;
  polynomial_t [3:0] group_blocks_q;

  always_ff @(posedge clk_i) begin
    group_first_q <= first_i;
    group_last_q  <= last_i;
    group_count_q <= count_i;
    for (int unsigned i = 0; i < 4; i++) group_blocks_q[i] <= 3'(i) < count_i ? reflected(blocks_i[i]) : '0;
    group_q <= rst_ni && valid_i;
  end

  // Second cycle: products of all blocks but the first.

  polynomial_t [3:0] factor;
  product_t    [3:1] product;

  // Block i has exponent count - i. Blocks beyond the count are zero, so their factor does not matter.
  always_comb begin
    for (int unsigned i = 0; i < 4; i++) factor[i] = powers[2'(group_count_q-3'(i)-3'd1)];
  end

  for (genvar i = 1; i < 4; i++) begin : gen_product
    carryless_multiplier #(
      .Leaf(Leaf)
    ) i_multiplier (
      .a_i      (group_blocks_q[i]),
      .b_i      (factor[i]),
      .product_o(product[i])
    );
  end

  logic        sum_q;
  logic        sum_first_q;
  logic        sum_last_q;
  product_t    sum_others_q;
  polynomial_t sum_block_q;
  polynomial_t sum_factor_q;

  always_ff @(posedge clk_i) begin
    sum_first_q <= group_first_q;
    sum_last_q <= group_last_q;
    sum_others_q <= product[1] ^ product[2] ^ product[3];
    sum_block_q <= group_blocks_q[0];
    sum_factor_q <= factor[0];
    sum_q <= rst_ni && group_q;
  end

  // Third cycle: the first product, which includes the previous hash.

  polynomial_t hash_q;
  product_t    feedback;

  carryless_multiplier #(
    .Leaf(Leaf)
  ) i_feedback (
    .a_i      (sum_block_q ^ (sum_first_q ? '0 : hash_q)),
    .b_i      (sum_factor_q),
    .product_o(feedback)
  );

  always_ff @(posedge clk_i) begin
    if (sum_q) hash_q <= reduced(feedback ^ sum_others_q);
    valid_o <= rst_ni && sum_q && sum_last_q;
  end

  assign hash_o = reflected(hash_q);

endmodule
