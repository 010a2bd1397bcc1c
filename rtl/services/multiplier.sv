// Multiplies integers, in parts that a multiplier of an FPGA takes: 27 bits by 18, both signed.
//
// Latency: 3 cycles, and the product is the output of an adder behind the last register. Throughput: a product every
// cycle.
//
// Method: products of all parts in the second cycle, their sum for each part of `a_i` in the third.
module multiplier #(
  parameter int unsigned ABits  = 64,
  parameter int unsigned BBits  = 64,
  // The product modulo 2^Bits.
  parameter int unsigned Bits   = ABits + BBits,
  // Whether `a_i` is signed, in two's complement; then the product is, too. `b_i` is never signed.
  parameter bit          Signed = 1'b0
) (
  input  logic             clk_i,
  input  logic [ABits-1:0] a_i,
  input  logic [BBits-1:0] b_i,
  output logic [ Bits-1:0] product_o
);

  localparam int unsigned AWidth = 26;
  localparam int unsigned BWidth = 17;
  localparam int unsigned AParts = (ABits - (Signed ? 1 : 0) + AWidth - 1) / AWidth;
  localparam int unsigned BParts = (BBits + BWidth - 1) / BWidth;
  localparam int unsigned AWhole = AParts * AWidth + 1;
  localparam int unsigned BWhole = BParts * BWidth;

  logic [AWhole-1:0]           a_q;
  logic [BWhole-1:0]           b_q;
  logic [AParts-1:0][Bits-1:0] sum_q;

  always_ff @(posedge clk_i) begin
    a_q <= {{(AWhole - ABits) {Signed && a_i[ABits-1]}}, a_i};
    b_q <= BWhole'(b_i);
  end

  for (genvar i = 0; i < AParts; i++) begin : gen_part

    localparam bit Last = i == AParts - 1;

    logic signed [AWidth:0] part;
    logic        [Bits-1:0] sum;
    logic        [Bits-1:0] products[BParts];

    // The last part has the sign.
    assign part = {Last && a_q[AWhole-1], a_q[AWidth*i+:AWidth]};

    for (genvar j = 0; j < BParts; j++) begin : gen_product
      localparam int unsigned Shift = AWidth * i + BWidth * j;
      if (Shift < Bits) begin : gen_used
        logic signed [AWidth+BWidth+1:0] product_q;
        always_ff @(posedge clk_i) product_q <= part * $signed({1'b0, b_q[BWidth*j+:BWidth]});
        assign products[j] = Bits'(product_q) << Shift;
      end else begin : gen_none
        assign products[j] = '0;
      end
    end

    always_comb begin
      sum = '0;
      for (int unsigned j = 0; j < BParts; j++) sum += products[j];
    end

    always_ff @(posedge clk_i) sum_q[i] <= sum;

  end

  always_comb begin
    product_o = '0;
    for (int unsigned i = 0; i < AParts; i++) product_o += sum_q[i];
  end

endmodule
