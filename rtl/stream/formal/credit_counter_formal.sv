// Property of credit_counter: available and outstanding credits add up to all credits, and neither overflows.
module credit_counter_formal #(
  parameter int unsigned Credits   = 13,
  parameter int unsigned CountBits = 3
) (
  input logic                 clk_i,
  input logic                 take_i,
  input logic [CountBits-1:0] take_count_i,
  input logic                 return_i,
  input logic [CountBits-1:0] return_count_i
);

  localparam int unsigned Bits = $clog2(Credits + 1);

  logic            rst_n = 1'b0;
  logic [Bits-1:0] available;
  logic [Bits-1:0] outstanding = '0;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      outstanding <= outstanding + (take_i ? Bits'(take_count_i) : '0) - (return_i ? Bits'(return_count_i) : '0);
    end
  end

  credit_counter #(
    .Credits  (Credits),
    .CountBits(CountBits)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .take_i     (rst_n && take_i),
    .take_count_i,
    .return_i   (rst_n && return_i),
    .return_count_i,
    .available_o(available)
  );

  always_comb begin
    if (rst_n) begin
      // Assumed of the users: they take no more than is available, and return no more than is outstanding.
      assume (!take_i || Bits'(take_count_i) <= available);
      assume (!return_i || Bits'(return_count_i) <= outstanding);
      assert (available <= Credits);
      assert (outstanding <= Credits);
      assert (available + outstanding == Bits'(Credits));
      cover (available == 0);
    end
  end

endmodule
