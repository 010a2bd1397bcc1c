// A memory of several banks, each as deep as an UltraRAM, with one write port and one read port.
//
// A bank that is not read outputs zeros, so the banks are combined by an OR, which is cheaper than a multiplexer.
//
// Latency of a read: 1 cycle. A read of the word that is written in the same cycle returns the old word. The contents
// at power-on are undefined.
module kv_deep_ram #(
  parameter type         T         = logic  [71:0],
  parameter int unsigned Depth     = 32_768,         // a power of two
  parameter int unsigned BankDepth = 4096            // a power of two
) (
  input  logic                     clk_i,
  input  logic                     write_i,
  input  logic [$clog2(Depth)-1:0] write_address_i,
  input  T                         write_data_i,
  input  logic                     read_i,
  input  logic [$clog2(Depth)-1:0] read_address_i,
  // Holds its value until the next read.
  output T                         read_data_o
);

  localparam int unsigned RowBits = $clog2(Depth > BankDepth ? BankDepth : Depth);
  localparam int unsigned Banks = Depth > BankDepth ? Depth / BankDepth : 1;

  T [Banks-1:0] data;

  for (genvar i = 0; i < Banks; i++) begin : gen_banks
    (* ram_style = "ultra" *)
    T     memory [2**RowBits];
    T     data_q;
    logic chosen;

    assign chosen = (read_address_i >> RowBits) == $clog2(Depth)'(i);

    always_ff @(posedge clk_i) begin
      if (write_i && (write_address_i >> RowBits) == $clog2(Depth)'(i)) begin
        memory[write_address_i[RowBits-1:0]] <= write_data_i;
      end
    end

    always_ff @(posedge clk_i) begin
      if (read_i && !chosen) data_q <= '0;
      else if (read_i) data_q <= memory[read_address_i[RowBits-1:0]];
    end

    assign data[i] = data_q;
  end

  always_comb begin
    read_data_o = '0;
    for (int unsigned i = 0; i < Banks; i++) read_data_o |= data[i];
  end

endmodule
