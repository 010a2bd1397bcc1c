// Counts the borders of a set that are below a value, as TorchArrow's `bucketize`. Twin of the operator of this name in
// crates/service/src/preprocess/operator.rs.
//
// Latency: `PreprocessBucketizeLatency` cycles. Throughput: a value every cycle. A set must not be in use while it is
// written.
//
// Method: a binary search in seven steps, each with a memory of the borders that only this step reads. A set has 64
// ascending borders; the largest number, which is below no value, stands for those that it lacks.
module preprocess_bucketize
  import preprocess_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     write_valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // the entry is narrower than the widest one
  input  preprocess_write_t        write_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic              [31:0] value_i,
  input  preprocess_set_t          set_i,
  output logic              [ 6:0] count_o
);

  localparam int unsigned Steps = 7;

  // In front of step s: the value, its set, and how many borders are known to be below the value.
  logic            [Steps:0][31:0] value_q;
  preprocess_set_t [Steps:0]       set_q;
  logic            [Steps:0][ 6:0] below;

  logic                            write;
  preprocess_set_t                 write_set;
  logic            [    5:0]       write_index;

  assign write = write_valid_i && write_i.entries == PreprocessTableBorders;
  assign {write_set, write_index} = write_i.address;

  assign value_q[0] = value_i;
  assign set_q[0] = set_i;
  assign below[0] = '0;

  for (genvar s = 0; s < Steps; s++) begin : gen_step

    // The step asks whether further 2^Bits borders are below the value. The last of them has as many ones at its end.
    localparam int unsigned Bits = Steps - 1 - s;
    // Each set has as many borders that this step may need, a power of two.
    localparam int unsigned PlaceBits = s < 2 ? 0 : s - 1;
    localparam int unsigned AddressBits = $bits(preprocess_set_t) + PlaceBits;

    logic                          mine;
    logic        [AddressBits-1:0] write_address;
    logic        [AddressBits-1:0] read_address;
    logic signed [           31:0] border;
    logic        [            6:0] below_q;

    if (Bits == 6) begin : gen_all
      assign mine = write_index == '1;
      assign write_address = write_set;
      assign read_address = set_q[s];
    end else begin : gen_some
      assign mine = write_index[Bits:0] == {1'b0, {Bits{1'b1}}};
      if (PlaceBits == 0) begin : gen_one
        assign write_address = write_set;
        assign read_address  = set_q[s];
      end else begin : gen_place
        assign write_address = {write_set, write_index[5:Bits+1]};
        assign read_address  = {set_q[s], below[s][5:Bits+1]};
      end
    end

    ram #(
      .T    (logic [31:0]),
      .Depth(2 ** AddressBits),
      .Style(AddressBits > 7 ? "block" : "distributed")
    ) i_borders (
      .clk_i,
      .write_i        (write && mine),
      .write_address_i(write_address),
      .write_data_i   (write_i.data[31:0]),
      .read_i         (1'b1),
      .read_address_i (read_address),
      .read_data_o    (border)
    );

    always_ff @(posedge clk_i) begin
      value_q[s+1] <= value_q[s];
      set_q[s+1]   <= set_q[s];
      below_q      <= below[s];
    end

    // If all 64 are below, there are no others.
    assign below[s+1] = below_q + (!below_q[6] && border < $signed(value_q[s+1]) ? 7'(2 ** Bits) : 7'd0);

  end

  always_ff @(posedge clk_i) count_o <= below[Steps];

endmodule
