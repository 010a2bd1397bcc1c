// Credits for payload on its way to the host, and for calls of engines (BALBOA 4.3): what finds none is dropped as if it
// had been lost, so that a slow host never stalls the wire.
//
// Latency: whether there is credit is seen in the same cycle; what is spent or returned counts from the next. Never stalls.
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
  input  logic           host_spend_i,
  input  logic           host_return_valid_i,
  input  payload_bytes_t host_return_i,
  output logic           rpc_enough_o,
  input  logic           rpc_spend_i,
  input  logic           rpc_return_i
);

  localparam int unsigned RpcBits = $clog2(RpcCredits + 1);

  logic [RpcBits-1:0] rpc_q;
  logic               rpc_full;

  assign rpc_enough_o = rpc_q != '0;
  assign rpc_full = rpc_q == RpcBits'(RpcCredits);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) rpc_q <= RpcBits'(RpcCredits);
    else if (rpc_spend_i && !rpc_return_i) rpc_q <= rpc_q - 1'b1;
    else if (rpc_return_i && !rpc_spend_i && !rpc_full) rpc_q <= rpc_q + 1'b1;
  end

  if (HostCreditBytes == 0) begin : g_unlimited
    assign host_enough_o = 1'b1;
    logic unused;
    assign unused = &{1'b0, host_bytes_i, host_spend_i, host_return_valid_i, host_return_i};
  end else begin : g_limited
    localparam int unsigned HostBits = $clog2(HostCreditBytes + 1);
    typedef logic [HostBits-1:0] credit_t;

    credit_t        host_q;
    payload_bytes_t returned_q;

    assign host_enough_o = 32'(host_q) >= 32'(host_bytes_i);

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        host_q <= credit_t'(HostCreditBytes);
        returned_q <= '0;
      end else begin
        returned_q <= host_return_valid_i ? host_return_i : '0;
        host_q <= host_q + credit_t'(returned_q) - (host_spend_i ? credit_t'(host_bytes_i) : '0);
        assert (!host_spend_i || host_enough_o)
        else $error("credit overdrawn");
        assert (64'(host_q) + 64'(returned_q) <= 64'(HostCreditBytes))
        else $error("credit returned that was not spent");
      end
    end
  end

endmodule
