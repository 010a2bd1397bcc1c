// One field of a replicated data type in RAM, cleared after reset. A port reads a row for a call, and may then write
// that row. What a port has read never misses an earlier write.
//
// Latency: a row is read in 1 cycle. Throughput: a read of all ports, and one written row, every cycle. Order: of two
// writes to one row in one cycle, that of the higher port stays. Stalls: `busy_o` while rows of an earlier cycle wait
// to be written, one a cycle; no port may write then. `clearing_o` for `Rows` cycles after reset; no port may read
// then.
module rdt_memory #(
  parameter int unsigned Rows = 64,
  parameter int unsigned Width = 64,
  parameter int unsigned Ports = 1,
  localparam int unsigned AddressBits = Rows > 1 ? $clog2(Rows) : 1
) (
  input  logic                              clk_i,
  input  logic                              rst_ni,
  input  logic                              read_i,
  input  logic [Ports-1:0][AddressBits-1:0] address_i,
  // The rows that were read last.
  output logic [Ports-1:0][      Width-1:0] row_o,
  // New values of the rows that were read last.
  input  logic [Ports-1:0]                  write_i,
  input  logic [Ports-1:0][      Width-1:0] row_i,
  output logic                              busy_o,
  output logic                              clearing_o
);

  logic clearing_q;
  logic [AddressBits-1:0] clear_q;
  logic [Ports-1:0] pending_q, waiting, served;
  logic [Ports-1:0][AddressBits-1:0] address_q, pending_address_q, waiting_address;
  logic [Ports-1:0][Width-1:0] pending_row_q, waiting_row;
  logic [Ports-1:0] forwards, forwards_q;
  logic [Ports-1:0][Width-1:0] forwarded, forwarded_q, stored_q;

  assign clearing_o = clearing_q;
  assign busy_o = clearing_q || pending_q != '0;

  // Of the rows that wait, one is written.
  assign waiting = pending_q | write_i;
  assign served = waiting & (~waiting + 1'b1);
  always_comb begin
    for (int unsigned port = 0; port < Ports; port++) begin
      waiting_address[port] = pending_q[port] ? pending_address_q[port] : address_q[port];
      waiting_row[port] = pending_q[port] ? pending_row_q[port] : row_i[port];
    end
  end

  logic write;
  logic [AddressBits-1:0] write_address;
  logic [Width-1:0] write_row;
  always_comb begin
    write = clearing_q || waiting != '0;
    write_address = clear_q;
    write_row = '0;
    for (int unsigned port = 0; port < Ports; port++) begin
      if (served[port] && !clearing_q) begin
        write_address = waiting_address[port];
        write_row = waiting_row[port];
      end
    end
  end

  // A read in the cycle of a write sees the row as it will be.
  always_comb begin
    for (int unsigned reader = 0; reader < Ports; reader++) begin
      forwards[reader]  = 1'b0;
      forwarded[reader] = '0;
      for (int unsigned port = 0; port < Ports; port++) begin
        if (waiting[port] && waiting_address[port] == address_i[reader]) begin
          forwards[reader]  = 1'b1;
          forwarded[reader] = waiting_row[port];
        end
      end
    end
  end

  for (genvar port = 0; port < Ports; port++) begin : gen_port
    // Each port reads a copy of its own.
    logic [Width-1:0] memory[Rows];
    always_ff @(posedge clk_i) begin
      if (write) memory[write_address] <= write_row;
      if (read_i) stored_q[port] <= memory[address_i[port]];
    end
    assign row_o[port] = forwards_q[port] ? forwarded_q[port] : stored_q[port];
  end

  always_ff @(posedge clk_i) begin
    if (read_i) begin
      address_q   <= address_i;
      forwards_q  <= forwards;
      forwarded_q <= forwarded;
    end
    pending_address_q <= waiting_address;
    pending_row_q     <= waiting_row;
    if (!rst_ni) begin
      clearing_q <= 1'b1;
      clear_q    <= '0;
      pending_q  <= '0;
    end else begin
      pending_q <= waiting & ~served;
      if (clearing_q) begin
        clear_q <= clear_q + 1'b1;
        if (clear_q == AddressBits'(Rows - 1)) clearing_q <= 1'b0;
      end
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (write_i == '0 || !busy_o)
      else $fatal(1, "a row is written while others wait");
      assert (!read_i || !clearing_q)
      else $fatal(1, "a row is read before it is cleared");
    end
  end
`endif

endmodule
