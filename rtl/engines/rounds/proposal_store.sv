// Memory for proposals, until they are released and while a peer may still fetch them.
//
// A proposal of another node is stored by its instance (modulo 16) and proposer. The node's own proposals are stored
// by a running number, because they arrive before they have an instance.
//
// Latency of a read: 1 cycle for beats, 0 for lengths. Throughput: one beat in and one out every cycle. Stalls:
// never.
module proposal_store
  import weft_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned ProposalBytes = RoundsProposalBytes
) (
  input  logic                           clk_i,
  input  logic                           write_i,
  input  proposal_place_t                write_place_i,
  input  logic            [         2:0] write_index_i,
  input  logic            [BeatBits-1:0] write_data_i,
  input  logic                           write_length_i,
  input  proposal_bytes_t                length_i,
  input  logic                           change_i,
  // Length and change flag of the proposal in slot `place_i`.
  input  proposal_place_t                place_i,
  output proposal_bytes_t                length_o,
  output logic                           change_o,
  output change_t                        content_o,       // the change that the proposal begins with
  input  logic                           read_i,
  input  proposal_place_t                read_place_i,
  input  logic            [         2:0] read_index_i,
  // Holds its value until the next read.
  output logic            [BeatBits-1:0] read_data_o
);

  localparam int unsigned Beats = (ProposalBytes + BeatBytes - 1) / BeatBytes;
  localparam int unsigned IndexBits = Beats > 1 ? $clog2(Beats) : 0;
  localparam int unsigned Depth = 1 << ($bits(proposal_place_t) + IndexBits);

  typedef logic [$clog2(Depth)-1:0] address_t;

  // The slot number above the beat index, which has as many bits as proposals need.
  function automatic address_t address(proposal_place_t place, logic [2:0] index);
    return address_t'(place) << IndexBits | (IndexBits == 0 ? '0 : address_t'(index));
  endfunction

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Depth)
  ) i_beats (
    .clk_i,
    .write_i        (write_i),
    .write_address_i(address(write_place_i, write_index_i)),
    .write_data_i   (write_data_i),
    .read_i,
    .read_address_i (address(read_place_i, read_index_i)),
    .read_data_o
  );

  (* ram_style = "distributed" *)
  logic [$bits(proposal_bytes_t):0] lengths[1<<$bits(proposal_place_t)];
  assign {change_o, length_o} = lengths[place_i];
  always_ff @(posedge clk_i) begin
    if (write_length_i) lengths[write_place_i] <= {change_i, length_i};
  end

  (* ram_style = "distributed" *)
  change_t contents[1<<$bits(proposal_place_t)];
  assign content_o = contents[place_i];
  always_ff @(posedge clk_i) begin
    if (write_i && write_index_i == '0) contents[write_place_i] <= change_t'(write_data_i[$bits(change_t)-1:0]);
  end

endmodule
