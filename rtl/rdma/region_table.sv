// The memory regions, and the check of each access against them: key, protection domain, bounds, access rights, in
// this order (InfiniBand volume 1, clauses 10.6 and 9.7.4.1.5). The verdict is the first check that fails.
//
// Latency: a request of cycle t is answered in cycle t+3. Throughput: one check a cycle and port. Order: kept. A
// check never stalls. An address that does not fit in 48 bits is out of bounds.
//
// A change of access rights in cycle t applies to all requests from cycle t+1 on; a request in cycle t itself meets
// the old rights. The same holds for a write of a region. A region's write waits (`write_ready_o` is low) in a cycle
// with a change of access rights, because both write the rights. After reset all regions are invalidated, one a
// cycle. Until `ready_o` is high, after `Regions` cycles, access rights must not be changed, and every check fails
// with an unknown key.
module region_table
  import weft_pkg::*;
#(
  parameter int unsigned CheckPorts = 3
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  output logic                             ready_o,
  input  logic                             write_i,
  output logic                             write_ready_o,
  input  region_index_t                    write_index_i,
  input  region_t                          write_data_i,
  input  logic                             permission_i,
  input  region_index_t                    permission_index_i,
  input  access_t                          permission_access_i,
  input  logic            [CheckPorts-1:0] request_valid_i,
  input  access_request_t [CheckPorts-1:0] request_i,
  output access_grant_t   [CheckPorts-1:0] grant_o
);

  localparam int unsigned IndexBits = $bits(region_index_t);

  // Index of the next region to invalidate after reset; the highest bit is set when all are invalid.
  logic          [IndexBits:0] clear_q;
  logic                        write;
  region_index_t               write_index;
  region_t                     write_data;
  logic                        access_write;
  region_index_t               access_index;
  access_t                     access_data;

  assign ready_o = clear_q[IndexBits];
  assign write_ready_o = ready_o && !permission_i;
  assign write = !ready_o || (write_i && write_ready_o);
  assign write_index = ready_o ? write_index_i : clear_q[IndexBits-1:0];

  always_comb begin
    write_data = write_data_i;
    if (!ready_o) write_data.valid = 1'b0;
  end

  assign access_write = write || permission_i;
  assign access_index = permission_i ? permission_index_i : write_index;
  assign access_data  = permission_i ? permission_access_i : write_data.access;

  for (genvar p = 0; p < CheckPorts; p++) begin : g_port
    region_check u_check (
      .clk_i,
      .ready_i        (ready_o),
      .write_i        (write),
      .write_index_i  (write_index),
      .write_data_i   (write_data),
      .access_write_i (access_write),
      .access_index_i (access_index),
      .access_data_i  (access_data),
      .request_valid_i(request_valid_i[p]),
      .request_i      (request_i[p]),
      .grant_o        (grant_o[p])
    );
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (ready_o || !permission_i)
      else $error("change of permission before the table is cleared");
      if (ready_o && write_i && write_data_i.valid) begin
        assert (50'(write_data_i.base) + 50'(write_data_i.length) <= 50'h1_0000_0000_0000)
        else $error("a region leaves the address space");
        assert (write_data_i.lkey[IndexBits-1:0] == write_index_i && write_data_i.rkey[IndexBits-1:0] == write_index_i)
        else $error("a region's key does not end in its index");
      end
    end
  end

endmodule
