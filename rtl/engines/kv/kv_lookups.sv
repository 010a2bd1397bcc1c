// Builds the results of lookups and searches from the data that returns from memory.
//
// Data returns in the order of turns. If a lookup reads several slots, the one that has its key is used; of a value,
// only as many beats are kept as its header says. A value is complete in the buffer when its result is offered, so it
// has no gaps. Its room was reserved with the request, so the read channel never waits for the consumer of results.
//
// Latency: a result is offered 2 cycles after its last beat. Throughput: a beat every cycle; a turn that reads
// nothing takes one cycle of the read channel. Order: of turns. Stalls: lookups, while `LookupsMax` are in progress.
module kv_lookups
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  // Turns that begin. Place and asker are valid for a lookup, which may begin only while `lookup_room_o` is high.
  output logic    lookup_room_o,
  input  logic    opened_valid_i,
  input  opened_t opened_i,
  input  place_t  lookup_place_i,
  input  asker_t  lookup_asker_i,

  input  logic    record_valid_i,
  output logic    record_ready_o,
  input  record_t record_i,

  output logic         room_o,
  input  logic         room_take_i,
  input  value_beats_t room_take_beats_i,

  input  logic      r_valid_i,
  output logic      r_ready_o,
  input  axi_read_t r_i,

  // For applies: the version of the next apply, which is compared with the slot's version.
  input  version_t version_i,
  input  logic     newer_only_i,
  output logic     probed_valid_o,
  output probed_t  probed_o,

  output logic       result_valid_o,
  input  logic       result_ready_i,
  output looked_up_t result_o,
  output logic       result_value_valid_o,
  input  logic       result_value_ready_i,
  output beat_t      result_value_o,

  // Number of lookups whose data has arrived, and of those whose result was taken.
  output lookup_count_t completed_o,
  output lookup_count_t taken_o,

  output logic lookups_o,
  output logic accesses_o,
  output logic hits_o,
  output logic hits_in_one_access_o,
  output logic fault_o,
  output logic idle_o
);

  typedef struct packed {
    lookup_kind_e kind;
    place_t       place;
    asker_t       asker;
  } context_t;

  typedef struct packed {
    logic         found;
    key_t         key;
    version_t     version;
    value_bytes_t value_bytes;
  } outcome_t;

  typedef logic [$clog2(ValueRoom+1)-1:0] room_t;

  logic                            opened_ready;
  logic                            opened_valid;
  logic                            opened_empty;
  opened_t                         opened;
  room_t                           available;
  logic                            record_valid;
  record_t                         record;
  logic     [$clog2(LookupsMax):0] record_level;
  logic                            context_ready;
  logic                            context_valid;
  logic                            context_empty;
  context_t                        context_out;

  logic                            step;  // a record is processed, or one beat of it
  logic                            step_ends;  // it ends the record
  logic                            closes;  // it ends the turn
  logic                            beat;
  logic                            header;
  logic                            is_lookup;
  logic                            fetches;
  logic                            reads_value;

  // Queue of the lookups and applies whose data is outstanding.
  ram_fifo #(
    .T    (opened_t),
    .Depth(2 * LookupsMax)
  ) i_opened (
    .clk_i,
    .rst_ni,
    .in_valid_i (opened_valid_i),
    .in_ready_o (opened_ready),
    .in_i       (opened_i),
    .out_valid_o(opened_valid),
    .out_ready_i(closes),
    .out_o      (opened),
    .empty_o    (opened_empty)
  );

  ram_fifo #(
    .T    (context_t),
    .Depth(LookupsMax)
  ) i_contexts (
    .clk_i,
    .rst_ni,
    .in_valid_i (opened_valid_i && !opened_i.apply),
    .in_ready_o (context_ready),
    .in_i       ({opened_i.lookup, lookup_place_i, lookup_asker_i}),
    .out_valid_o(context_valid),
    .out_ready_i(result_valid_o && result_ready_i),
    .out_o      (context_out),
    .empty_o    (context_empty)
  );

  fifo #(
    .T    (record_t),
    .Depth(LookupsMax)
  ) i_records (
    .clk_i,
    .rst_ni,
    .in_valid_i (record_valid_i),
    .in_ready_o (),
    .in_i       (record_i),
    .out_valid_o(record_valid),
    .out_ready_i(step_ends),
    .out_o      (record),
    .level_o    (record_level)
  );

  // The room is computed a cycle late, with a margin, to keep these counters out of the paths that depend on it.
  logic [$clog2(LookupsMax+1)-1:0] under_way_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      under_way_q    <= '0;
      lookup_room_o  <= 1'b0;
      record_ready_o <= 1'b0;
      room_o         <= 1'b0;
    end else begin
      under_way_q <= under_way_q + ($bits(
          under_way_q
      ))'(opened_valid_i && !opened_i.apply) - ($bits(
          under_way_q
      ))'(result_valid_o && result_ready_i);
      lookup_room_o <= under_way_q < ($bits(under_way_q))'(LookupsMax - 3);
      record_ready_o <= record_level < ($bits(record_level))'(LookupsMax - 3);
      room_o <= available >= room_t'(3 * ValueBeatsMax);
    end
  end

  // Returning data.

  version_t        r_version;
  logic     [10:0] r_length;
  key_t            r_key;
  always_comb begin
    for (int unsigned i = 0; i < 8; i++) r_version[63-8*i-:8] = r_i.data[8*(8+i)+:8];
    r_length = {r_i.data[8*16+:3], r_i.data[8*17+:8]};
    for (int unsigned i = 0; i < KeyBytes; i++) r_key[KeyBits-1-8*i-:8] = r_i.data[8*(24+i)+:8];
  end

  // State of the current turn: a slot with the key was found; a slot was read; more than one was read.
  logic               found_q;
  logic               some_q;
  logic               several_q;
  // State of the current slot: it has the key; its first beat has passed; beats of its value that are still to come.
  logic               hit_q;
  logic               inside_q;
  value_beats_t       beats_left_q;
  logic         [5:0] empty_q;
  logic               hit;
  logic               keep;
  logic               drop;

  assign r_ready_o = record_valid && opened_valid && record.burst;
  assign beat = r_valid_i && r_ready_o;
  assign step = record_valid && opened_valid && (!record.burst || r_valid_i);
  assign step_ends = step && (!record.burst || r_i.last);
  assign closes = step_ends && record.last;
  assign header = beat && record.header && !inside_q;
  assign is_lookup = !opened.apply;
  assign fetches = opened.lookup == LookupFetch;
  assign reads_value = is_lookup && opened.lookup != LookupFind;
  assign hit = header ? r_key == opened.key || (is_lookup && fetches) : hit_q;
  assign keep = beat && !header && hit_q && beats_left_q != '0 && reads_value;
  assign drop = beat && !header && !keep;

  // The result, one cycle later.
  logic     close_lookup_q;
  logic     close_apply_q;
  logic     value_q;
  outcome_t outcome_q;
  probed_t  probed_q;
  logic     outcome_ready;
  logic     outcome_valid;
  outcome_t outcome;
  logic     outcome_empty;
  logic     found_now;

  assign found_now = found_q || (header && hit) || (!record.burst && record.resolved);

  always_ff @(posedge clk_i) begin
    if (header) begin
      beats_left_q <= value_beats_t'((r_length + 11'd63) >> 6);
      empty_q      <= -r_length[5:0];
      hit_q        <= hit;
    end else if (keep) begin
      beats_left_q <= beats_left_q - 1'b1;
    end
    if (header && hit) begin
      outcome_q.version     <= r_version;
      outcome_q.value_bytes <= r_length;
    end else if (step && !found_q && (header || !record.burst)) begin
      outcome_q.version     <= '0;
      outcome_q.value_bytes <= '0;
    end
    if (header || (step && !record.burst)) begin
      outcome_q.key <= header && fetches && is_lookup ? r_key : opened.key;
    end
    if (closes) outcome_q.found <= found_now;
    if (closes) value_q <= reads_value;
    if (closes) probed_q.found <= found_now;
    if ((header && hit) || (step && !record.burst && record.resolved)) begin
      probed_q.way   <= record.way;
      probed_q.stale <= record.burst && newer_only_i && r_version >= version_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      found_q        <= 1'b0;
      some_q         <= 1'b0;
      several_q      <= 1'b0;
      inside_q       <= 1'b0;
      close_lookup_q <= 1'b0;
      close_apply_q  <= 1'b0;
      completed_o    <= '0;
      taken_o        <= '0;
    end else begin
      if (closes) found_q <= 1'b0;
      else if (header && hit) found_q <= 1'b1;
      if (closes) {some_q, several_q} <= '0;
      else if (header) {some_q, several_q} <= {1'b1, some_q};
      if (beat) inside_q <= !r_i.last;
      close_lookup_q <= closes && is_lookup;
      close_apply_q  <= closes && !is_lookup;
      if (closes && is_lookup) completed_o <= completed_o + 1'b1;
      if (result_valid_o && result_ready_i) taken_o <= taken_o + 1'b1;
    end
  end

  assign probed_valid_o = close_apply_q;
  assign probed_o = probed_q;

  ram_fifo #(
    .T     (outcome_t),
    .Depth (LookupsMax),
    .Bypass(1'b1)
  ) i_outcomes (
    .clk_i,
    .rst_ni,
    .in_valid_i (close_lookup_q),
    .in_ready_o (outcome_ready),
    .in_i       (outcome_q),
    .out_valid_o(outcome_valid),
    .out_ready_i(result_ready_i && context_valid),
    .out_o      (outcome),
    .empty_o    (outcome_empty)
  );

  assign result_valid_o = outcome_valid && context_valid;
  assign result_o = '{
          kind: context_out.kind,
          found: outcome.found,
          key: outcome.key,
          place: context_out.place,
          version: outcome.version,
          value_bytes: outcome.value_bytes,
          asker: context_out.asker
      };

  // Values.

  logic value_ready;
  logic value_valid;
  logic value_empty;
  logic value_taken;
  beat_t value;
  // Number of complete values in the buffer.
  logic [$clog2(LookupsMax)+1:0] whole_q;
  logic value_begins;
  logic drop_value;

  credit_counter #(
    .Credits  (ValueRoom),
    .CountBits(5)
  ) i_room (
    .clk_i,
    .rst_ni,
    .take_i        (room_take_i),
    .take_count_i  (room_take_beats_i),
    .return_i      (value_taken || drop_value),
    .return_count_i(5'(value_taken) + 5'(drop_value)),
    .available_o   (available)
  );

  assign drop_value = drop && reads_value;

  always_comb begin
    value.last  = beats_left_q == value_beats_t'(1);
    value.empty = value.last ? empty_q : '0;
    value.data  = r_i.data;
  end

  ram_fifo #(
    .T    (beat_t),
    .Depth(ValueRoom)
  ) i_values (
    .clk_i,
    .rst_ni,
    .in_valid_i (keep),
    .in_ready_o (value_ready),
    .in_i       (value),
    .out_valid_o(value_valid),
    .out_ready_i(result_value_ready_i && whole_q != '0),
    .out_o      (result_value_o),
    .empty_o    (value_empty)
  );

  assign result_value_valid_o = value_valid && whole_q != '0;
  assign value_taken = result_value_valid_o && result_value_ready_i;
  assign value_begins = close_lookup_q && value_q && outcome_q.found && outcome_q.value_bytes != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) whole_q <= '0;
    else begin
      whole_q <= whole_q + ($bits(whole_q))'(value_begins) - ($bits(whole_q))'(value_taken && result_value_o.last);
    end
  end

  // Counter events.

  logic reads;
  assign reads = is_lookup && opened.lookup == LookupRead;
  assign lookups_o = closes && reads;
  assign accesses_o = header && reads;
  assign hits_o = closes && reads && found_now;
  assign hits_in_one_access_o = hits_o && !several_q && (!header || !some_q);
  assign fault_o = r_valid_i && r_ready_o && r_i.response != '0;
  assign idle_o = opened_empty && context_empty && outcome_empty && value_empty && !close_lookup_q && !close_apply_q;

  // Assertions.

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!opened_valid_i || (opened_ready && context_ready))
      else $error("more turns than there is room for");
      assert (!close_lookup_q || outcome_ready)
      else $error("more results than lookups");
      assert (!keep || value_ready)
      else $error("more beats than there is room for");
      assert (!step || !record.apply || opened.apply)
      else $error("a record of another turn");
    end
  end

endmodule
