// Routes each received packet to its state machine: responses, acknowledgements and congestion notifications to the
// requester, requests to the responder. Requests that were kept, and are next in turn, go first. It reports the order
// of the packets to the placement block.
//
// Latency: none. Throughput: one packet every cycle. Order: kept on each side, and for the requests that were kept.
// Stalls: when the requester, the responder (whichever the packet is for) or the placement block has no room.
module dispatch
  import weft_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         header_valid_i,
  output logic         header_ready_o,
  input  roce_header_t header_i,
  // Requests that were kept.
  input  logic         kept_valid_i,
  output logic         kept_ready_o,
  input  roce_header_t kept_i,
  output logic         request_valid_o,
  input  logic         request_ready_i,
  output logic         response_valid_o,
  input  logic         response_ready_i,
  output roce_header_t header_o,
  // One bit for each packet: set if the packet goes to the requester.
  output logic         order_valid_o,
  input  logic         order_ready_i,
  output logic         order_requester_o
);

  logic is_response;
  logic order_ready;
  logic taken;

  assign is_response = !kept_valid_i && ((header_i.opcode >= ReadResponseFirst && header_i.opcode <= AtomicAcknowledge)
                     || header_i.opcode == CongestionNotification);
  assign header_o = kept_valid_i ? kept_i : header_i;
  assign request_valid_o = (kept_valid_i || header_valid_i) && order_ready && !is_response;
  assign response_valid_o = header_valid_i && order_ready && is_response;
  assign kept_ready_o = order_ready && request_ready_i;
  assign header_ready_o = order_ready && !kept_valid_i && (is_response ? response_ready_i : request_ready_i);
  assign taken = (header_valid_i && header_ready_o) || (kept_valid_i && kept_ready_o);

  fifo #(
    .T    (logic),
    .Depth(64)
  ) u_order (
    .clk_i,
    .rst_ni,
    .in_valid_i (taken),
    .in_ready_o (order_ready),
    .in_i       (is_response),
    .out_valid_o(order_valid_o),
    .out_ready_i(order_ready_i),
    .out_o      (order_requester_o),
    .level_o    ()
  );

endmodule
