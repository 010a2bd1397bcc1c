// Credits for payload in flight to the host, and for calls of engines (BALBOA 4.3). A packet without a credit is
// dropped as if it had been lost, so a slow host never stalls the wire.
//
// Latency: credit is checked in the same cycle; spending and returning take effect in the next. Never stalls.
module responder_credits
  import weft_pkg::*;
#(
  parameter int unsigned HostCreditBytes = 32768,  // 0: any number
  parameter int unsigned RpcCredits      = 16
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  payload_bytes_t host_bytes_i,
  output logic           host_enough_o,
  // At least half of the credit is available.
  output logic           host_half_o,
  input  logic           host_spend_i,
  input  logic           host_return_valid_i,
  input  payload_bytes_t host_return_i,
  output logic           rpc_enough_o,
  input  logic           rpc_spend_i,
  input  logic           rpc_return_i
);

  localparam int unsigned RpcBits = $clog2(RpcCredits + 1);

  logic [RpcBits-1:0] rpc_available;

  assign rpc_enough_o = rpc_available != '0;

  credit_counter #(
    .Credits  (RpcCredits),
    .CountBits(1)
  ) i_rpc (
    .clk_i,
    .rst_ni,
    .take_i        (rpc_spend_i),
    .take_count_i  (1'b1),
    // Engines may return a credit that they did not get; such a return is ignored.
    .return_i      (rpc_return_i && rpc_available != RpcBits'(RpcCredits)),
    .return_count_i(1'b1),
    .available_o   (rpc_available)
  );

  if (HostCreditBytes == 0) begin : g_unlimited
    assign host_enough_o = 1'b1;
    assign host_half_o   = 1'b1;
    logic unused;
    assign unused = &{1'b0, host_bytes_i, host_spend_i, host_return_valid_i, host_return_i};
  end else begin : g_limited
    logic           [$clog2(HostCreditBytes+1)-1:0] host_available;
    logic                                           returned_valid_q;
    payload_bytes_t                                 returned_q;

    assign host_enough_o = 32'(host_available) >= 32'(host_bytes_i);
    assign host_half_o   = 32'(host_available) >= HostCreditBytes / 2;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) returned_valid_q <= 1'b0;
      else returned_valid_q <= host_return_valid_i;
      returned_q <= host_return_i;
    end

    credit_counter #(
      .Credits  (HostCreditBytes),
      .CountBits($bits(payload_bytes_t))
    ) i_host (
      .clk_i,
      .rst_ni,
      .take_i        (host_spend_i),
      .take_count_i  (host_bytes_i),
      .return_i      (returned_valid_q),
      .return_count_i(returned_q),
      .available_o   (host_available)
    );
  end

endmodule
