// The tags of the key-value table, in UltraRAM: for each bucket 32 ways of {beats, tag}, and the number of ways that
// are claimed or reserved.
//
// A turn reads its bucket's row, and leaves with its contents as a probe. A turn that may update the row (TurnDecide,
// TurnReserve, TurnRelease) writes it one cycle after the probe was accepted. Until then no other turn of the bucket
// enters, so each turn sees the updates of its predecessors. (Buckets are compared by six bits only, so a few turns
// wait without need.)
//
// After reset, on request, and when the mask changes, all buckets up to the mask are cleared, one a cycle; turns wait
// meanwhile.
//
// Latency: 3 cycles. Throughput: a turn every cycle. Order: kept. Stalls: turns, behind a probe that is not accepted,
// for a bucket that is about to be written, and while buckets are cleared.
module kv_tags
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic    clk_i,
  input logic    rst_ni,
  input bucket_t bucket_mask_i,

  input  logic   turn_valid_i,
  output logic   turn_ready_o,
  input  turn_t  turn_i,
  output logic   probe_valid_o,
  input  logic   probe_ready_i,
  output probe_t probe_o,
  // Inputs while the probe is not accepted: the ways that remain to be read, and the next one.
  input  ways_t  left_i,
  input  way_t   way_i,
  // The bucket of the next probe, one cycle before the probe.
  output logic    next_valid_o,
  output bucket_t next_bucket_o,

  // Update of the row, in the cycle after the probe was accepted.
  input logic        write_valid_i,
  input tags_write_t write_i,

  // Accepted when no turn is in progress.
  input  logic clear_valid_i,
  output logic clear_ready_o,
  output logic clear_done_o,

  output logic idle_o
);

  localparam int unsigned EntryBits = $bits(tag_entry_t);
  localparam int unsigned TagsBits = Ways * EntryBits;
  localparam int unsigned ConflictBits = 6;

  function automatic logic writes(turn_t turn);
    return turn.kind inside {TurnDecide, TurnReserve, TurnRelease};
  endfunction

  function automatic logic conflict(bucket_t one, bucket_t other);
    return one[ConflictBits-1:0] == other[ConflictBits-1:0];
  endfunction

  // The rows. Each has the tags, the first way's in the lowest bits, and behind them a byte for the count.
  (* ram_style = "ultra" *)
  logic [TagsBits+7:0] rows[BucketsMax];
  logic [TagsBits+7:0] row_q;
  logic [TagsBits+7:0] data_q;

  turn_t first_q;
  turn_t second_q;
  logic  first_valid_q;
  logic  second_valid_q;
  logic  advance;
  logic  take;

  // Clearing.
  logic    clearing_q;
  logic    asked_q;
  bucket_t clear_bucket_q;
  bucket_t mask_q;  // the mask with which the buckets were last cleared
  logic    known_q;
  logic    current;
  logic    empty;
  logic    clear;

  assign empty = !first_valid_q && !second_valid_q && !probe_valid_o && !write_valid_i;
  assign clear_ready_o = empty && !clearing_q;
  assign current = known_q && mask_q == bucket_mask_i && !clearing_q;
  assign clear = clear_ready_o && (clear_valid_i || !current);
  assign idle_o = empty && current;

  assign advance = !probe_valid_o || probe_ready_i;
  assign turn_ready_o = advance && current && !clear_valid_i && !(first_valid_q && writes(
      first_q
  ) && conflict(
      first_q.bucket, turn_i.bucket
  )) && !(second_valid_q && writes(
      second_q
  ) && conflict(
      second_q.bucket, turn_i.bucket
  )) && !(probe_valid_o && writes(
      probe_o.turn
  ) && conflict(
      probe_o.turn.bucket, turn_i.bucket
  )) && !(write_valid_i && conflict(
      write_i.bucket, turn_i.bucket
  ));
  assign take = turn_valid_i && turn_ready_o;
  assign next_valid_o = advance && second_valid_q;
  assign next_bucket_o = second_q.bucket;

  // The write port.
  logic    [     Ways-1:0] write_ways;
  bucket_t                 write_bucket;
  logic    [EntryBits-1:0] write_entry;
  used_t                   write_used;

  always_comb begin
    for (int unsigned i = 0; i < Ways; i++) begin
      write_ways[i] = clearing_q || (write_valid_i && write_i.some && write_i.way == way_t'(i));
    end
    write_bucket = clearing_q ? clear_bucket_q : write_i.bucket;
    write_entry  = clearing_q ? '0 : write_i.entry;
    write_used   = clearing_q ? '0 : write_i.used;
  end

  always_ff @(posedge clk_i) begin
    if (clearing_q || write_valid_i) begin
      for (int unsigned i = 0; i < Ways; i++) begin
        if (write_ways[i]) rows[write_bucket][EntryBits*i+:EntryBits] <= write_entry;
      end
      rows[write_bucket][TagsBits+:8] <= 8'(write_used);
    end
    if (take) row_q <= rows[turn_i.bucket];
    if (advance && first_valid_q) data_q <= row_q;
  end

  // Evaluation of the row.
  probe_t probe_d;
  logic   looks;
  logic   fetches;

  always_comb begin
    looks = second_q.kind == TurnApply
         || (second_q.kind == TurnLookup && second_q.lookup inside {LookupRead, LookupFind});
    fetches = second_q.kind == TurnLookup && second_q.lookup == LookupFetch;
    probe_d = '0;
    probe_d.turn = second_q;
    probe_d.used = used_t'(data_q[TagsBits+:8]);
    for (int unsigned i = 0; i < Ways; i++) begin
      automatic tag_entry_t entry = data_q[EntryBits*i+:EntryBits];
      probe_d.claimed[i] = entry.tag != '0;
      probe_d.matching[i] = (looks && entry.tag == second_q.tag)
                          || (fetches && second_q.way == way_t'(i) && entry.tag != '0);
      if (probe_d.matching[i]) begin
        probe_d.way |= way_t'(i);
        probe_d.beats |= entry.beats;
      end
    end
    // The maximum may be an overestimate if several ways match, so it is limited to the longest value.
    if (probe_d.beats[4]) probe_d.beats = value_beats_t'(ValueBeatsMax);
  end

  always_ff @(posedge clk_i) begin
    if (take) first_q <= turn_i;
    if (advance && first_valid_q) second_q <= first_q;
    if (next_valid_o) begin
      probe_o <= probe_d;
    end else if (probe_valid_o) begin
      probe_o.matching <= left_i;
      probe_o.way      <= way_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (clearing_q) clear_bucket_q <= clear_bucket_q + 1'b1;
    else clear_bucket_q <= '0;
    if (clear) mask_q <= bucket_mask_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
      probe_valid_o  <= 1'b0;
      clearing_q     <= 1'b0;
      known_q        <= 1'b0;
      clear_done_o   <= 1'b0;
    end else begin
      if (advance) begin
        first_valid_q  <= take;
        second_valid_q <= first_valid_q;
        probe_valid_o  <= second_valid_q;
      end
      clear_done_o <= 1'b0;
      if (clear) begin
        clearing_q <= 1'b1;
        known_q    <= 1'b1;
        asked_q    <= clear_valid_i;
      end else if (clearing_q && clear_bucket_q == mask_q) begin
        clearing_q   <= 1'b0;
        clear_done_o <= asked_q;
      end
    end
  end

endmodule
