// Looks up the queue pair of each packet and computes the header fields of its frame.
//
// Latency: 2 cycles. Throughput: one packet every cycle. Order: kept. Stalls: when the output stalls.
module header_builder
  import weft_pkg::*;
  import transmit_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  // This NIC's address.
  input  ipv4_address_t address_i,
  // Requests are sent as ECN-capable.
  input  logic          rate_control_i,
  input  logic          packet_valid_i,
  output logic          packet_ready_o,
  input  packet_t       packet_i,
  // The table's data must come one cycle after the read and stay until the next.
  output logic          table_read_o,
  output qp_index_t     table_index_o,
  // Headers use only some of the attributes.
  /* verilator lint_off UNUSEDSIGNAL */
  input  queue_pair_t   table_data_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic          header_valid_o,
  input  logic          header_ready_i,
  output header_t       header_o,
  output logic          idle_o
);

  // One's complement addition, without the last end-around carry.
  function automatic logic [16:0] fold(logic [17:0] sum);
    return 17'(sum[15:0]) + 17'(sum[17:16]);
  endfunction

  // Partial checksum of the fields that are equal in all IPv4 headers: version and length, do-not-fragment, time to
  // live, protocol, and this NIC's address.
  logic [16:0] constant_q;
  always_ff @(posedge clk_i) begin
    constant_q <= fold(18'h0c511 + 18'(address_i[31:16]) + 18'(address_i[15:0]));
  end

  // First stage, during the table read: computes lengths.

  logic           lookup_valid_q;
  logic           lookup_ready;
  packet_t        lookup_packet_q;
  logic    [12:0] lookup_total_q;
  logic    [17:0] lookup_sum_q;
  logic    [12:0] total;
  logic    [ 6:0] lookup_beats_q;
  logic    [ 7:0] lookup_service_q;
  logic    [ 7:0] service;

  assign packet_ready_o = !lookup_valid_q || lookup_ready;
  assign table_read_o = packet_valid_i && packet_ready_o;
  assign table_index_o = packet_i.qp;
  assign service = type_of_service(packet_i.opcode, rate_control_i);
  assign total = {packet_i.words, 2'b00} + 13'd44;

  always_ff @(posedge clk_i) begin
    if (packet_valid_i && packet_ready_o) begin
      lookup_packet_q <= packet_i;
      lookup_total_q <= total;
      lookup_sum_q <= 18'(constant_q) + 18'(total) + 18'(service);
      lookup_service_q <= service;
      lookup_beats_q <= 7'((packet_i.words + 11'd14) >> 4);
    end
  end

  // Second stage, when the table's data has arrived.

  logic           header_valid_q;
  header_t        header_q;
  logic    [17:0] sum;

  assign lookup_ready = !header_valid_q || header_ready_i;
  // The sum is at most 3 * 65535 plus the constant's carry.
  assign sum = lookup_sum_q + 18'(table_data_i.destination[31:16]) + 18'(table_data_i.destination[15:0]);

  always_ff @(posedge clk_i) begin
    if (lookup_valid_q && lookup_ready) begin
      header_q.packet <= lookup_packet_q;
      header_q.destination_mac <= table_data_i.destination_mac;
      header_q.destination <= table_data_i.destination;
      header_q.type_of_service <= lookup_service_q;
      header_q.source_port <= table_data_i.source_port;
      header_q.destination_qp <= table_data_i.destination_qp;
      header_q.total_bytes <= lookup_total_q;
      header_q.partial_sum <= fold(sum);
      header_q.payload_first <= lookup_packet_q.has_payload && !lookup_packet_q.second;
      header_q.beats <= lookup_beats_q;
      // A frame without payload has 58 bytes and the words of its extended headers.
      header_q.empty <= {4'd1 - lookup_packet_q.words[3:0], 2'b10};
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      lookup_valid_q <= 1'b0;
      header_valid_q <= 1'b0;
    end else begin
      if (packet_ready_o) lookup_valid_q <= packet_valid_i;
      if (lookup_ready) header_valid_q <= lookup_valid_q;
    end
  end

  assign header_valid_o = header_valid_q;
  assign header_o = header_q;
  assign idle_o = !lookup_valid_q && !header_valid_q;

endmodule
