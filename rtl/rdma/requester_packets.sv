// Queues the requester's packets and decides where their payload is read from.
//
// On the first transmission, payload from the host's memory is also copied to the retransmission buffer; a
// retransmission reads the copy (BALBOA 4.2). Payload in memory on the card is read again from its place. Latency: 1
// cycle. Throughput: one a cycle. Order: kept. Never stalls: the producer must check the level for room before it
// pushes.
module requester_packets
  import weft_pkg::*;
#(
  parameter int unsigned Depth = 32
) (
  input  logic                                clk_i,
  input  logic                                rst_ni,
  input  logic                                push_i,
  input  requester_packet_t                   push_data_i,
  output logic              [$clog2(Depth):0] level_o,
  output logic                                transmit_valid_o,
  input  logic                                transmit_ready_i,
  output transmit_t                           transmit_o
);

  requester_packet_t outgoing_out;

  fifo #(
    .T(requester_packet_t),
    .Depth(Depth)
  ) u_outgoing (
    .clk_i,
    .rst_ni,
    .in_valid_i (push_i),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (push_data_i),
    .out_valid_o(transmit_valid_o),
    .out_ready_i(transmit_ready_i),
    .out_o      (outgoing_out),
    .level_o    (level_o)
  );

  logic     from_host;
  address_t slot;

  assign from_host = outgoing_out.bytes != '0 && outgoing_out.target == TargetHost;
  assign slot = 48'({outgoing_out.qp, outgoing_out.psn[$clog2(WindowPackets)-1:0]}) << $clog2(RetransmissionSlotBytes);

  always_comb begin
    transmit_o = '0;
    transmit_o.qp = outgoing_out.qp;
    transmit_o.opcode = outgoing_out.opcode;
    transmit_o.psn = outgoing_out.psn;
    transmit_o.acknowledge_request = outgoing_out.request;
    transmit_o.solicited = outgoing_out.solicited;
    transmit_o.remote_address = outgoing_out.remote_address;
    transmit_o.rkey = outgoing_out.rkey;
    transmit_o.length = outgoing_out.length;
    transmit_o.swap_or_add = outgoing_out.swap_or_add;
    transmit_o.compare = outgoing_out.compare;
    transmit_o.immediate = outgoing_out.swap_or_add[31:0];
    transmit_o.bytes = outgoing_out.bytes;
    transmit_o.source.retransmission = from_host && outgoing_out.again;
    transmit_o.source.target = outgoing_out.target;
    transmit_o.source_address = from_host && outgoing_out.again ?
        slot | 48'(outgoing_out.address[$clog2(BeatBytes)-1:0]) : outgoing_out.address;
    transmit_o.keep = from_host && !outgoing_out.again;
    transmit_o.keep_address = slot;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!(push_i && level_o[$clog2(Depth)]))
      else $error("no room for what is pushed");
  end

endmodule
