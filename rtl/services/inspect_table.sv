// A table of the inspection, read by two lanes: a block RAM with two read ports that nobody writes.
//
// Latency: 1 cycle. Throughput: two reads every cycle.
module inspect_table
  import inspect_tables_pkg::*;
#(
  // Distance of the two bytes that are looked up: 1 to 4. The pair of neighbours has a table of its own size.
  parameter int unsigned Distance = 1,
  localparam int unsigned AddressBits = Distance == 1 ? 12 : 11
) (
  input  logic                          clk_i,
  input  logic        [AddressBits-1:0] a_i,
  input  logic        [AddressBits-1:0] b_i,
  output logic signed [            6:0] a_o,
  output logic signed [            6:0] b_o
);

  if (Distance == 1) begin : gen_pairs
    (* ram_style = "block" *)
    logic signed [6:0] memory[4096] = InspectPairs;
    always_ff @(posedge clk_i) a_o <= memory[a_i];
    always_ff @(posedge clk_i) b_o <= memory[b_i];
  end else if (Distance == 2) begin : gen_2
    (* ram_style = "block" *)
    logic signed [6:0] memory[2048] = InspectSkips2;
    always_ff @(posedge clk_i) a_o <= memory[a_i];
    always_ff @(posedge clk_i) b_o <= memory[b_i];
  end else if (Distance == 3) begin : gen_3
    (* ram_style = "block" *)
    logic signed [6:0] memory[2048] = InspectSkips3;
    always_ff @(posedge clk_i) a_o <= memory[a_i];
    always_ff @(posedge clk_i) b_o <= memory[b_i];
  end else begin : gen_4
    (* ram_style = "block" *)
    logic signed [6:0] memory[2048] = InspectSkips4;
    always_ff @(posedge clk_i) a_o <= memory[a_i];
    always_ff @(posedge clk_i) b_o <= memory[b_i];
  end

endmodule
