// Merges the read data of all memories in the order of the commands, and copies first transmissions to the
// retransmission buffer.
//
// Commands are issued to all memories without waiting for each other; each memory holds its data until the command's
// turn. A read of the retransmission buffer waits until the last earlier copy into the same slot is stored. It does
// not wait for copies into other slots, because retransmissions and new packets often alternate. Slots that share an
// entry of the table wait for each other.
//
// Latency: a command reaches its memory after 1 cycle; a beat of a memory leaves after 1 cycle.
// Throughput: a beat every cycle, a command every cycle, up to 512 in flight. Order: of the commands.
// Stalls: commands, while the memory that they address has 32 waiting; beats, while the copy cannot be written.
module memory_read
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144,
  localparam int unsigned RowBits = $clog2(OnChipBytes / BeatBytes)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic          read_valid_i,
  output logic          read_ready_o,
  input  read_command_t read_i,
  output logic          data_valid_o,
  input  logic          data_ready_i,
  output beat_t         data_o,

  output logic                local_command_valid_o,
  input  logic                local_command_ready_i,
  output logic                local_command_outside_o,
  output logic                local_command_on_chip_o,
  output logic [ RowBits-1:0] local_command_row_o,
  output logic [         6:0] local_command_beats_o,
  input  logic                local_beat_valid_i,
  output logic                local_beat_ready_o,
  input  logic [BeatBits-1:0] local_beat_i,

  output logic                hbm_command_valid_o,
  input  logic                hbm_command_ready_i,
  output logic [        41:0] hbm_command_word_o,
  output logic [         6:0] hbm_command_beats_o,
  input  logic                hbm_beat_valid_i,
  output logic                hbm_beat_ready_o,
  input  logic [BeatBits-1:0] hbm_beat_i,

  output logic                host_command_valid_o,
  input  logic                host_command_ready_i,
  output logic [        41:0] host_command_word_o,
  output logic [         6:0] host_command_beats_o,
  input  logic                host_beat_valid_i,
  output logic                host_beat_ready_o,
  input  logic [BeatBits-1:0] host_beat_i,

  output logic                retransmission_command_valid_o,
  input  logic                retransmission_command_ready_i,
  output logic [        41:0] retransmission_command_word_o,
  output logic [         6:0] retransmission_command_beats_o,
  input  logic                retransmission_beat_valid_i,
  output logic                retransmission_beat_ready_o,
  input  logic [BeatBits-1:0] retransmission_beat_i,

  // Copies, to the writer of the retransmission buffer.
  output logic               copy_command_valid_o,
  input  logic               copy_command_ready_i,
  output logic        [41:0] copy_command_word_o,
  output logic        [ 6:0] copy_command_beats_o,
  output logic               copy_valid_o,
  input  logic               copy_ready_i,
  output write_beat_t        copy_o,
  output logic        [ 5:0] copy_word_o,
  input  logic               copy_done_i,

  output logic fault_o,
  output logic idle_o
);

  localparam int unsigned CommandDepth = 32;
  localparam int unsigned SlotBits = $clog2(RetransmissionSlotBytes);

  typedef enum logic [1:0] {
    SourceLocal,
    SourceHbm,
    SourceHost,
    SourceRetransmission
  } source_e;

  typedef struct packed {
    source_e              source;
    logic [6:0]           beats;
    logic                 keep;
    logic [47-SlotBits:0] slot;
  } order_t;

  typedef struct packed {
    logic               outside;
    logic               on_chip;
    logic [RowBits-1:0] row;
    logic [6:0]         beats;
  } local_command_t;

  typedef struct packed {
    logic [41:0] word;
    logic [6:0]  beats;
  } command_t;

  // Number of copies begun before a command, modulo the type's range. Two counts in use differ by at most the number
  // of commands in flight.
  typedef logic [10:0] copies_t;

  // Index of the table: 64 slots of 64 queue pairs.
  typedef logic [11:0] slot_t;

  typedef struct packed {
    command_t command;
    // Copies begun before this command.
    copies_t  copies;
  } retransmission_command_t;

  // Commands.

  source_e                            source;
  logic                               outside;
  logic                    [6:0]      beats;
  command_t                           command;
  logic                               source_ready;
  logic                               take;
  logic                               local_ready;
  logic                               hbm_ready;
  logic                               host_ready;
  logic                               retransmission_ready;
  logic                    [3:0][5:0] levels;
  local_command_t                     local_command;
  command_t                           hbm_command;
  command_t                           host_command;
  retransmission_command_t            retransmission_command;
  logic                               retransmission_valid;
  logic                               copied;
  copies_t                            copies_begun_q;
  copies_t                            copies_done_q;
  copies_t                            copies_ahead;
  copies_t                            copies_before;
  copies_t                            copies_next;
  slot_t                              keep_slot;
  slot_t                              again_slot;
  copies_t                            own_read;
  copies_t                            own;
  logic                               own_valid;
  logic                               own_pending_q;

  order_t                             order;
  logic                               order_in_ready;
  logic                               order_valid;
  logic                               order_ready;
  logic                               order_empty;

  memory_bounds #(
    .OnChipBytes(OnChipBytes)
  ) i_bounds (
    .target_i  (read_i.source.target),
    .transfer_i(read_i.transfer),
    .outside_o (outside),
    .beats_o   (beats)
  );

  always_comb begin
    if (read_i.source.retransmission) source = SourceRetransmission;
    else if (read_i.source.target == TargetHbm) source = SourceHbm;
    else if (read_i.source.target == TargetHost) source = SourceHost;
    else source = SourceLocal;
  end

  always_comb begin
    unique case (source)
      SourceLocal: source_ready = local_ready;
      SourceHbm: source_ready = hbm_ready;
      SourceHost: source_ready = host_ready;
      default: source_ready = retransmission_ready;
    endcase
  end

  assign read_ready_o = order_in_ready && source_ready;
  assign take = read_valid_i && read_ready_o;
  assign fault_o = take && source == SourceLocal && outside;
  assign command = '{word: read_i.transfer.address[47:6], beats: beats};

  ram_fifo #(
    .T    (order_t),
    .Depth(512)
  ) i_order (
    .clk_i,
    .rst_ni,
    .in_valid_i (take),
    .in_ready_o (order_in_ready),
    .in_i       ({source, beats, read_i.keep, read_i.keep_address[47:SlotBits]}),
    .out_valid_o(order_valid),
    .out_ready_i(order_ready),
    .out_o      (order),
    .empty_o    (order_empty)
  );

  fifo #(
    .T    (local_command_t),
    .Depth(CommandDepth)
  ) i_local_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && source == SourceLocal),
    .in_ready_o (local_ready),
    .in_i       ({outside, read_i.source.target == TargetOnChip, command.word[RowBits-1:0], beats}),
    .out_valid_o(local_command_valid_o),
    .out_ready_i(local_command_ready_i),
    .out_o      (local_command),
    .level_o    (levels[0])
  );
  assign local_command_outside_o = local_command.outside;
  assign local_command_on_chip_o = local_command.on_chip;
  assign local_command_row_o = local_command.row;
  assign local_command_beats_o = local_command.beats;

  fifo #(
    .T    (command_t),
    .Depth(CommandDepth)
  ) i_hbm_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && source == SourceHbm),
    .in_ready_o (hbm_ready),
    .in_i       (command),
    .out_valid_o(hbm_command_valid_o),
    .out_ready_i(hbm_command_ready_i),
    .out_o      (hbm_command),
    .level_o    (levels[1])
  );
  assign hbm_command_word_o  = hbm_command.word;
  assign hbm_command_beats_o = hbm_command.beats;

  fifo #(
    .T    (command_t),
    .Depth(CommandDepth)
  ) i_host_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && source == SourceHost),
    .in_ready_o (host_ready),
    .in_i       (command),
    .out_valid_o(host_command_valid_o),
    .out_ready_i(host_command_ready_i),
    .out_o      (host_command),
    .level_o    (levels[2])
  );
  assign host_command_word_o  = host_command.word;
  assign host_command_beats_o = host_command.beats;

  fifo #(
    .T    (retransmission_command_t),
    .Depth(CommandDepth)
  ) i_retransmission_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && source == SourceRetransmission),
    .in_ready_o (retransmission_ready),
    .in_i       ({command, copies_begun_q}),
    .out_valid_o(retransmission_valid),
    .out_ready_i(retransmission_command_ready_i && own_valid && copied),
    .out_o      (retransmission_command),
    .level_o    (levels[3])
  );
  assign retransmission_command_valid_o = retransmission_valid && own_valid && copied;
  assign retransmission_command_word_o = retransmission_command.command.word;
  assign retransmission_command_beats_o = retransmission_command.command.beats;

  // For each slot: the number of the last copy into it.
  assign copies_next = copies_begun_q + 1'b1;
  assign keep_slot = read_i.keep_address[SlotBits+:$bits(slot_t)];
  assign again_slot = read_i.transfer.address[SlotBits+:$bits(slot_t)];

  ram #(
    .T    (copies_t),
    .Depth(1 << $bits(slot_t))
  ) i_slots (
    .clk_i,
    .write_i        (take && read_i.keep),
    .write_address_i(keep_slot),
    .write_data_i   (copies_next),
    .read_i         (take && source == SourceRetransmission),
    .read_address_i (again_slot),
    .read_data_o    (own_read)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) own_pending_q <= 1'b0;
    else own_pending_q <= take && source == SourceRetransmission;
  end

  fifo #(
    .T    (copies_t),
    .Depth(CommandDepth)
  ) i_own (
    .clk_i,
    .rst_ni,
    .in_valid_i (own_pending_q),
    /* verilator lint_off PINCONNECTEMPTY */  // never full, since each entry has its command in the other queue
    .in_ready_o (),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i       (own_read),
    .out_valid_o(own_valid),
    .out_ready_i(retransmission_valid && retransmission_command_ready_i && copied),
    .out_o      (own),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // `copies_before`: copies that were begun before the command and are not stored yet. `copies_ahead`: how many of
  // these end with the last copy into the command's slot. If it is outside their range, that last copy was stored
  // long ago.
  assign copies_before = retransmission_command.copies - copies_done_q;
  assign copies_ahead = own - copies_done_q;
  assign copied = copies_before == '0 || copies_before[$bits(
      copies_t
  )-1] || copies_ahead == '0 || copies_ahead > copies_before;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      copies_begun_q <= '0;
      copies_done_q  <= '0;
    end else begin
      if (take && read_i.keep) copies_begun_q <= copies_begun_q + 1'b1;
      if (copy_done_i) copies_done_q <= copies_done_q + 1'b1;
    end
  end

  // Read data.

  logic [         6:0] index_q;
  logic                first;
  logic                last;
  logic                source_valid;
  logic [BeatBits-1:0] source_beat;
  logic                free;
  logic                load;
  // The beat at the output, for the reader and for the copy.
  logic                data_pending_q;
  logic                copy_pending_q;
  logic                last_q;
  logic [         5:0] copy_word_q;
  logic [BeatBits-1:0] beat_q;

  always_comb begin
    unique case (order.source)
      SourceLocal: begin
        source_valid = local_beat_valid_i;
        source_beat  = local_beat_i;
      end
      SourceHbm: begin
        source_valid = hbm_beat_valid_i;
        source_beat  = hbm_beat_i;
      end
      SourceHost: begin
        source_valid = host_beat_valid_i;
        source_beat  = host_beat_i;
      end
      default: begin
        source_valid = retransmission_beat_valid_i;
        source_beat  = retransmission_beat_i;
      end
    endcase
  end

  assign first = index_q == '0;
  assign last = index_q == order.beats;
  assign free = (!data_pending_q || data_ready_i) && (!copy_pending_q || copy_ready_i);
  assign load = free && order_valid && source_valid && (!order.keep || !first || copy_command_ready_i);
  assign order_ready = load && last;
  assign local_beat_ready_o = load && order.source == SourceLocal;
  assign hbm_beat_ready_o = load && order.source == SourceHbm;
  assign host_beat_ready_o = load && order.source == SourceHost;
  assign retransmission_beat_ready_o = load && order.source == SourceRetransmission;

  // A slot is a multiple of 4 KiB, so its first word starts a page. All bytes of the words are copied: the slot has
  // room for the bytes around the transfer, and a partial write would cost the memory a read.
  assign copy_command_valid_o = load && first && order.keep;
  assign copy_command_word_o = {order.slot, (SlotBits - 6)'(0)};
  assign copy_command_beats_o = order.beats;
  assign copy_valid_o = copy_pending_q;
  assign copy_o = '{last: last_q, strobe: '1, data: beat_q};
  assign copy_word_o = copy_word_q;

  assign data_valid_o = data_pending_q;
  assign data_o = '{last: last_q, empty: '0, data: beat_q};

  always_ff @(posedge clk_i) begin
    if (load) begin
      beat_q      <= source_beat;
      last_q      <= last;
      copy_word_q <= index_q[5:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      index_q        <= '0;
      data_pending_q <= 1'b0;
      copy_pending_q <= 1'b0;
    end else begin
      if (load) begin
        index_q        <= last ? '0 : index_q + 1'b1;
        data_pending_q <= 1'b1;
        copy_pending_q <= order.keep;
      end else begin
        if (data_ready_i) data_pending_q <= 1'b0;
        if (copy_ready_i) copy_pending_q <= 1'b0;
      end
    end
  end

  assign idle_o = !read_valid_i && order_empty && !data_pending_q && !copy_pending_q
      && levels == '0 && copies_begun_q == copies_done_q;

endmodule
