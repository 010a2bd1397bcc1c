// The attributes of all queue pairs, with one replica of the table for each reader.
//
// Latency of a read: 1 cycle; the output holds its value until the next read of the port. Throughput: one read a
// cycle and port, one write a cycle. A read in the same cycle as a write returns the old attributes; a read in the
// next cycle returns the new ones. Never stalls. An entry whose `number` is 0 is unused, and its other attributes are
// undefined. After reset all numbers are cleared, one a cycle. The table must not be read or written until `ready_o`
// is high, after `QueuePairs` cycles.
module queue_pair_table
  import weft_pkg::*;
#(
  parameter int unsigned ReadPorts = 1
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  output logic                        ready_o,
  input  logic                        write_i,
  input  qp_index_t                   write_index_i,
  input  queue_pair_t                 write_data_i,
  input  logic        [ReadPorts-1:0] read_i,
  input  qp_index_t   [ReadPorts-1:0] read_index_i,
  output queue_pair_t [ReadPorts-1:0] read_data_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);

  // The entry to clear next; the highest bit says that all are cleared.
  logic        [IndexBits:0] clear_q;
  logic                      write;
  qp_index_t                 write_index;
  queue_pair_t               write_data;

  assign ready_o = clear_q[IndexBits];
  assign write = !ready_o || write_i;
  assign write_index = ready_o ? write_index_i : clear_q[IndexBits-1:0];

  always_comb begin
    write_data = write_data_i;
    if (!ready_o) write_data.number = '0;
  end

  for (genvar p = 0; p < ReadPorts; p++) begin : g_port
    ram #(
      .T    (queue_pair_t),
      .Depth(QueuePairs)
    ) u_replica (
      .clk_i,
      .write_i        (write),
      .write_address_i(write_index),
      .write_data_i   (write_data),
      .read_i         (read_i[p]),
      .read_address_i (read_index_i[p]),
      .read_data_o    (read_data_o[p])
    );
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (ready_o || !write_i)
      else $error("write before the table is cleared");
      assert (!ready_o || !write_i || write_data_i.number == '0 || write_data_i.number[IndexBits-1:0] == write_index_i)
      else $error("a queue pair's number does not end in its index");
    end
  end

endmodule
