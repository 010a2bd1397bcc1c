// Merges several sources of writes to the memories of the regions: commands round-robin, data in the order of the
// commands.
//
// Each source sends its data behind its commands, and gets a pulse when each of its writes is visible, in their
// order.
//
// Latency: 0 cycles for a command, for a pulse, and for a beat that arrives a cycle or more after its command.
// Throughput: a command and a beat every cycle. Order: kept for each source. Stalls: a source, during another one's
// turn; data, until the data of all earlier commands has passed; commands, while the data of 16 commands or the
// pulses of 512 are outstanding.
module write_merge
  import weft_pkg::*;
#(
  parameter int unsigned N = 2
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic           [N-1:0] in_valid_i,
  output logic           [N-1:0] in_ready_o,
  input  write_command_t [N-1:0] in_i,
  input  logic           [N-1:0] in_data_valid_i,
  output logic           [N-1:0] in_data_ready_o,
  input  write_beat_t    [N-1:0] in_data_i,
  output logic           [N-1:0] in_written_o,
  output logic                   out_valid_o,
  input  logic                   out_ready_i,
  output write_command_t         out_o,
  output logic                   out_data_valid_o,
  input  logic                   out_data_ready_i,
  output write_beat_t            out_data_o,
  input  logic                   out_written_i,
  output logic                   idle_o
);

  typedef logic [$clog2(N)-1:0] source_t;

  logic    merged_valid;
  logic    room;
  logic    take;
  source_t source;
  logic    data_room;
  logic    data_known_q;
  source_t data_source_q;
  logic    written_room;
  logic    written_known;
  source_t written_source;

  assign room = data_room && written_room;
  assign out_valid_o = merged_valid && room;
  assign take = out_valid_o && out_ready_i;

  arbiter #(
    .T(write_command_t),
    .N(N)
  ) i_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_i,
    .in_last_i  ('1),
    .out_valid_o(merged_valid),
    .out_ready_i(out_ready_i && room),
    .out_o      (out_o),
    .out_last_o (),
    .grant_o    (source)
  );

  // The source whose data is next, and the source of the next pulse. The former is held in a register, because the
  // data's frames are accepted by it in the same cycle.
  logic    queued_valid;
  source_t queued_source;
  logic    data_free;

  assign data_free = !data_known_q || (out_data_valid_o && out_data_ready_i && out_data_o.last);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) data_known_q <= 1'b0;
    else if (data_free) data_known_q <= queued_valid || take;
    if (data_free) data_source_q <= queued_valid ? queued_source : source;
  end

  fifo #(
    .T    (source_t),
    .Depth(16)
  ) i_data_sources (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && (queued_valid || !data_free)),
    .in_ready_o (data_room),
    .in_i       (source),
    .out_valid_o(queued_valid),
    .out_ready_i(data_free),
    .out_o      (queued_source),
    .level_o    ()
  );

  fifo #(
    .T    (source_t),
    .Depth(512)
  ) i_written_sources (
    .clk_i,
    .rst_ni,
    .in_valid_i (take),
    .in_ready_o (written_room),
    .in_i       (source),
    .out_valid_o(written_known),
    .out_ready_i(out_written_i),
    .out_o      (written_source),
    .level_o    ()
  );

  assign out_data_valid_o = data_known_q && in_data_valid_i[data_source_q];
  assign out_data_o = in_data_i[data_source_q];

  always_comb begin
    in_data_ready_o = '0;
    in_data_ready_o[data_source_q] = data_known_q && out_data_ready_i;
    in_written_o = '0;
    in_written_o[written_source] = out_written_i;
  end

  assign idle_o = !written_known;

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!out_written_i || written_known)
      else $error("an answer without a write");
  end

endmodule
