// Multiplies polynomials over GF(2): bit i is the coefficient of x^i. Combinational.
//
// Above `Leaf` bits, three products of halves replace four (Karatsuba and Ofman). The recursion is unrolled level by
// level, because not every simulator handles recursive modules correctly.
module carryless_multiplier #(
  // Powers of two.
  parameter int unsigned Bits = 128,
  parameter int unsigned Leaf = 8
) (
  input  logic [  Bits-1:0] a_i,
  input  logic [  Bits-1:0] b_i,
  output logic [2*Bits-2:0] product_o
);

  localparam int unsigned Levels = Leaf < Bits ? $clog2(Bits / Leaf) : 0;

  // Product n of a level is computed from the next level's products 3 n (of the low halves), 3 n + 1 (of the high
  // halves) and 3 n + 2 (of the sums of the halves).
  for (genvar level = 0; level <= Levels; level++) begin : gen_level

    localparam int unsigned Width = Bits >> level;
    localparam int unsigned Products = 3 ** level;

    logic [Products-1:0][  Width-1:0] a;
    logic [Products-1:0][  Width-1:0] b;
    logic [Products-1:0][2*Width-2:0] value;

    if (level == 0) begin : gen_whole
      assign a = a_i;
      assign b = b_i;
      assign product_o = value;
    end else begin : gen_halves
      for (genvar n = 0; n < Products / 3; n++) begin : gen_operands
        assign a[3*n]   = gen_level[level-1].a[n][Width-1:0];
        assign b[3*n]   = gen_level[level-1].b[n][Width-1:0];
        assign a[3*n+1] = gen_level[level-1].a[n][2*Width-1:Width];
        assign b[3*n+1] = gen_level[level-1].b[n][2*Width-1:Width];
        assign a[3*n+2] = a[3*n] ^ a[3*n+1];
        assign b[3*n+2] = b[3*n] ^ b[3*n+1];
      end
    end

    for (genvar n = 0; n < Products; n++) begin : gen_product
      if (level == Levels) begin : gen_leaf
        always_comb begin
          value[n] = '0;
          for (int unsigned i = 0; i < Width; i++) begin
            if (b[n][i]) value[n] ^= (2 * Width - 1)'(a[n]) << i;
          end
        end
      end else begin : gen_sum
        logic [Width-2:0] low;
        logic [Width-2:0] high;
        logic [Width-2:0] middle;
        assign low = gen_level[level+1].value[3*n];
        assign high = gen_level[level+1].value[3*n+1];
        assign middle = gen_level[level+1].value[3*n+2] ^ low ^ high;
        assign value[n] = ((2 * Width - 1)'(high) << Width) ^ ((2 * Width - 1)'(middle) << (Width / 2))
            ^ (2 * Width - 1)'(low);
      end
    end

  end

endmodule
