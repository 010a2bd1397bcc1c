// The READs and atomics of all queue pairs that were sent and have not completed: a ring for each queue pair, whose
// entries are all read at once. Finds the request that a response belongs to, so responses may come in any order, and
// whether an earlier request of the ring writes to the same memory.
//
// Latency: 1 cycle from a read to the answers, which depend on the inputs of that cycle. Throughput: a read of either
// kind and a write each cycle. Never stalls. The occupied part of the ring is the requester's state; entries beyond it
// mean nothing.
module requester_awaited
  import weft_pkg::*;
  import requester_pkg::*;
(
  input  logic                                     clk_i,
  // PSNs and serial numbers.
  input  logic                                     read_i,
  input  qp_index_t                                read_qp_i,
  // In the next cycle: the oldest entry, the number of entries, and the PSN of a response.
  input  resource_index_t                          oldest_i,
  input  logic            [                   4:0] count_i,
  input  psn_t                                     psn_i,
  // The request with that PSN, or the last one before it; and those before that request, by their places.
  output send_serial_t                             serial_o,
  output logic            [ResponderResources-1:0] earlier_o,
  // The request behind the oldest one.
  output send_serial_t                             second_serial_o,
  output psn_t                                     second_first_o,
  // Buffers.
  input  logic                                     lines_read_i,
  input  qp_index_t                                lines_qp_i,
  // In the next cycle: a buffer, and places with which it may overlap.
  input  buffer_lines_t                            lines_i,
  input  logic            [ResponderResources-1:0] places_i,
  output logic                                     overlap_o,
  // A request is sent.
  input  logic                                     write_i,
  input  qp_index_t                                write_qp_i,
  input  resource_index_t                          write_place_i,
  input  send_serial_t                             write_serial_i,
  input  psn_t                                     write_first_i,
  input  buffer_lines_t                            write_lines_i
);

  localparam int unsigned Places = ResponderResources;

  typedef struct packed {
    send_serial_t serial;
    psn_t         first;
  } request_t;

  request_t      requests[Places];
  buffer_lines_t lines   [Places];

  for (genvar place = 0; place < Places; place++) begin : g_place
    logic write;

    assign write = write_i && write_place_i == resource_index_t'(place);

    ram #(
      .T    (request_t),
      .Depth(QueuePairs)
    ) u_requests (
      .clk_i,
      .write_i        (write),
      .write_address_i(write_qp_i),
      .write_data_i   ('{serial: write_serial_i, first: write_first_i}),
      .read_i,
      .read_address_i (read_qp_i),
      .read_data_o    (requests[place])
    );

    ram #(
      .T    (buffer_lines_t),
      .Depth(QueuePairs)
    ) u_lines (
      .clk_i,
      .write_i        (write),
      .write_address_i(write_qp_i),
      .write_data_i   (write_lines_i),
      .read_i         (lines_read_i),
      .read_address_i (lines_qp_i),
      .read_data_o    (lines[place])
    );
  end

  // Entries follow each other in the order of their PSNs, so those that begin at or before the PSN are the first ones.
  logic            [Places-1:0] reached;
  logic            [Places-1:0] found;
  resource_index_t              second;

  always_comb begin
    for (int place = 0; place < Places; place++) begin
      reached[place] = 5'(resource_index_t'(place) - oldest_i) < count_i && !psn_before(psn_i, requests[place].first);
    end
    for (int place = 0; place < Places; place++) begin
      found[place] = reached[place] && (!reached[(place+1)%Places] || resource_index_t'(place + 1) == oldest_i);
    end
    serial_o = '0;
    for (int place = 0; place < Places; place++) begin
      if (found[place]) serial_o |= requests[place].serial;
    end
  end

  assign earlier_o = reached & ~found;
  assign second = oldest_i + 1'b1;
  assign second_serial_o = requests[second].serial;
  assign second_first_o = requests[second].first;

  function automatic logic overlap(buffer_lines_t one, buffer_lines_t other);
    logic [BufferLineBits-1:0] up = other.first - one.first;
    logic [BufferLineBits-1:0] down = one.first - other.first;
    return one.wide || other.wide || up <= {1'b0, one.more} || down <= {1'b0, other.more};
  endfunction

  always_comb begin
    overlap_o = 1'b0;
    for (int place = 0; place < Places; place++) begin
      if (places_i[place] && overlap(lines[place], lines_i)) overlap_o = 1'b1;
    end
  end

endmodule
