// skid_buffer: every element comes out once and in order, and the handshake holds.
module skid_buffer_formal (
  input logic clk_i,
  input logic in_valid_i,
  input logic out_ready_i
);

  typedef logic [3:0] number_t;

  logic    rst_n = 1'b0;
  number_t put = '0;
  number_t taken = '0;
  logic    in_ready;
  logic    out_valid;
  number_t out;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  skid_buffer #(
    .T(number_t)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_i       (put),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_o      (out)
  );

  always_ff @(posedge clk_i) begin
    if (rst_n && in_valid_i && in_ready) put <= put + 1'b1;
    if (rst_n && out_valid && out_ready_i) taken <= taken + 1'b1;
  end

  logic    stalled = 1'b0;
  number_t stalled_out;
  always_ff @(posedge clk_i) begin
    stalled     <= rst_n && out_valid && !out_ready_i;
    stalled_out <= out;
  end

  number_t held;
  assign held = put - taken;

  always_comb begin
    if (rst_n) begin
      assert (held == number_t'(dut.out_valid_q) + number_t'(dut.spare_valid_q));
      assert (!dut.spare_valid_q || dut.out_valid_q);
      assert (in_ready || held == 2);
      if (out_valid) assert (out == taken);
      if (dut.spare_valid_q) assert (dut.spare_q == number_t'(taken + 1'b1));
      if (stalled) assert (out_valid && out == stalled_out);
      cover (held == 2);
      cover (taken == 4);
    end
  end

endmodule
