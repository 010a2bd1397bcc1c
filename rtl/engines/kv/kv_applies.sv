// The applies (changes of the table) in progress, in a ring. Each passes, in order, through these steps:
//
//   accepted  it waits for its turn to look for its slot; meanwhile its value arrives
//   probed    the search has a result, and the apply waits for its turn to be decided
//   decided   its slot is claimed, kept or freed; from now on lookups of the slot wait if it is to be written
//   cleared   lookups whose turn was before the decision have all their data: the slot may be written
//   written   the write was handed to memory
//   answered  memory has answered: lookups may read the slot
//   retired   the results of lookups whose turn was before the decision were taken, too
//
// An apply is accepted only when no other apply of its bucket is between acceptance and decision, so each sees what
// its predecessor claimed or freed. (Buckets are compared by eight bits only, so a few applies wait without need.) If
// several writes to one slot are in progress, the latest one determines the slot's key, since memory answers in
// order.
//
// A retirement waits for results so that each result is consistent with the pending writes: every write retired by
// the time a result is offered was visible to its lookup. Therefore the consumer of results must not wait for
// retirements.
//
// Latency: an apply is offered for its turn 1 cycle after it is offered to this block. Throughput: one apply every 2
// cycles; a beat of values every cycle. Order: all in order. Stalls: while `AppliesMax` are in progress, and as
// above.
module kv_applies
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic    apply_valid_i,
  output logic    apply_ready_o,
  input  apply_t  apply_i,
  input  logic    value_valid_i,
  output logic    value_ready_o,
  input  beat_t   value_i,
  output logic    retired_valid_o,
  output stream_t retired_stream_o,

  // The turn in which the slot of `apply_i` is searched.
  output logic look_valid_o,
  input  logic look_ready_i,

  // Result of the search. Its version is compared with these.
  output version_t version_o,
  output logic     newer_only_o,
  input  logic     probed_valid_i,
  input  probed_t  probed_i,

  // The turn in which the apply is decided.
  output logic  decide_valid_o,
  input  logic  decide_ready_i,
  output turn_t decide_o,

  // Inputs of the decision, and its result a cycle later.
  output logic         deletes_o,
  output logic         reserved_o,
  output value_beats_t beats_o,
  input  logic         decide_taken_i,
  input  logic         decided_valid_i,
  input  decided_t     decided_i,

  // Lookup of slots that are being written: the bucket of the next probe, one cycle ahead, then a way of it.
  input  logic         next_valid_i,
  input  bucket_t      next_bucket_i,
  input  way_t         written_way_i,
  output logic         written_hit_o,
  output apply_index_t written_index_o,
  // Whether the apply that searches for its slot has the same key as that apply.
  input  apply_index_t same_index_i,
  output logic         same_o,
  input  logic         look_taken_i,

  input lookup_count_t issued_i,
  input lookup_count_t completed_i,
  input lookup_count_t taken_i,

  // A slot to write. Its beats can be read with a latency of one cycle.
  output logic                       write_valid_o,
  input  logic                       write_ready_i,
  output slot_write_t                write_o,
  input  logic                       beat_read_i,
  input  logic        [         3:0] beat_index_i,
  output logic        [BeatBits-1:0] beat_o,
  // Pulse: memory has answered the oldest outstanding write.
  input  logic                       answered_i,

  output logic idle_o
);

  localparam int unsigned ConflictBits = 8;

  typedef struct packed {
    logic         deletes;
    logic         reserved;
    value_bytes_t value_bytes;
  } kind_t;

  typedef struct packed {
    logic    counts;
    stream_t stream;
  } owner_t;

  // For each step, the next apply to pass it. All steps but `filled_q` and `fetched_q` follow one another in this
  // order.
  apply_pointer_t accepted_q;
  apply_pointer_t filled_q;  // its value has arrived
  apply_pointer_t looked_q;
  apply_pointer_t probed_q;
  apply_pointer_t due_q;  // its decision was offered
  apply_pointer_t deciding_q;
  apply_pointer_t decided_q;
  apply_pointer_t cleared_q;
  apply_pointer_t fetched_q;  // the results of earlier lookups were taken
  apply_pointer_t written_q;
  apply_pointer_t answered_q;
  apply_pointer_t retired_q;

  function automatic apply_index_t index(apply_pointer_t pointer);
    return pointer[$bits(apply_index_t)-1:0];
  endfunction

  // Fields of each apply.
  (* ram_style = "distributed" *)
  key_t keys[AppliesMax];
  (* ram_style = "distributed" *)
  version_t versions[AppliesMax];
  (* ram_style = "distributed" *)
  logic newer_only[AppliesMax];
  (* ram_style = "distributed" *)
  kind_t kinds[AppliesMax];
  (* ram_style = "distributed" *)
  owner_t owners[AppliesMax];
  (* ram_style = "distributed" *)
  place_t places[AppliesMax];
  (* ram_style = "distributed" *)
  decided_t decisions[AppliesMax];
  (* ram_style = "distributed" *)
  lookup_count_t tickets[AppliesMax];

  // Acceptance.

  logic [AppliesMax-1:0] undecided_q;
  bucket_t [AppliesMax-1:0] buckets_q;
  logic checked_q;
  logic held;
  apply_pointer_t under_way;

  assign under_way = accepted_q - retired_q;
  assign look_valid_o = apply_valid_i && checked_q;
  assign apply_ready_o = checked_q && look_ready_i;

  always_comb begin
    held = 1'b0;
    for (int unsigned i = 0; i < AppliesMax; i++) begin
      if (undecided_q[i] && buckets_q[i][ConflictBits-1:0] == apply_i.place.bucket[ConflictBits-1:0]) held = 1'b1;
    end
    if (under_way[$bits(apply_index_t)]) held = 1'b1;
  end

  logic accept;
  assign accept = apply_valid_i && apply_ready_o;

  always_ff @(posedge clk_i) begin
    if (accept) begin
      keys[index(accepted_q)] <= apply_i.key;
      versions[index(accepted_q)] <= apply_i.version;
      newer_only[index(accepted_q)] <= apply_i.newer_only;
      kinds[index(accepted_q)] <= {apply_i.deletes, apply_i.reserved, apply_i.deletes ? '0 : apply_i.value_bytes};
      owners[index(accepted_q)] <= {apply_i.counts, apply_i.stream};
      places[index(accepted_q)] <= apply_i.place;
      buckets_q[index(accepted_q)] <= apply_i.place.bucket;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      accepted_q  <= '0;
      undecided_q <= '0;
      checked_q   <= 1'b0;
    end else begin
      checked_q <= apply_valid_i && !accept && !held;
      if (decide_taken_i) undecided_q[index(deciding_q)] <= 1'b0;
      if (accept) begin
        accepted_q <= accepted_q + 1'b1;
        undecided_q[index(accepted_q)] <= 1'b1;
      end
    end
  end

  // Values, each stored with its apply.

  logic       filling;
  logic       fills;
  logic [3:0] fill_beat_q;
  logic       fill_value;

  assign filling = filled_q != accepted_q;
  assign fill_value = kinds[index(filled_q)].value_bytes != '0;
  assign value_ready_o = filling && fill_value;
  assign fills = value_valid_i && value_ready_o;

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(AppliesMax * ValueBeatsMax)
  ) i_values (
    .clk_i,
    .write_i        (fills),
    .write_address_i({index(filled_q), fill_beat_q}),
    .write_data_i   (value_i.data),
    .read_i         (beat_read_i),
    .read_address_i ({index(written_q), beat_index_i}),
    .read_data_o    (beat_o)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      filled_q    <= '0;
      fill_beat_q <= '0;
    end else begin
      if (fills) fill_beat_q <= value_i.last ? '0 : fill_beat_q + 1'b1;
      if (filling && (fill_value ? fills && value_i.last : 1'b1)) filled_q <= filled_q + 1'b1;
    end
  end

  // Results of searches, and decisions.

  (* ram_style = "distributed" *)
  probed_t probes[AppliesMax];
  probed_t probed;

  // A result is reported a cycle after it is known, and in that cycle the data of the next search may already arrive.
  apply_pointer_t probing;
  assign probing = probed_q + apply_pointer_t'(probed_valid_i);
  assign version_o = versions[index(probing)];
  assign newer_only_o = newer_only[index(probing)];
  assign same_o = keys[same_index_i] == keys[index(looked_q)];
  assign decide_valid_o = due_q != probed_q;
  assign probed = probes[index(due_q)];

  always_ff @(posedge clk_i) begin
    if (probed_valid_i) probes[index(probed_q)] <= probed_i;
  end

  place_t due_place;
  assign due_place = places[index(due_q)];
  assign decide_o = '{
          kind: TurnDecide,
          lookup: LookupPass,
          bucket: due_place.bucket,
          way: due_place.way,
          tag: due_place.tag,
          newer_only: 1'b0,
          found: probed.found,
          found_way: probed.way,
          stale: probed.stale
      };

  kind_t deciding;
  assign deciding = kinds[index(deciding_q)];
  assign deletes_o = deciding.deletes;
  assign reserved_o = deciding.reserved;
  assign beats_o = value_beats_t'((deciding.value_bytes + 11'd63) >> 6);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      looked_q   <= '0;
      probed_q   <= '0;
      due_q      <= '0;
      deciding_q <= '0;
      decided_q  <= '0;
    end else begin
      if (look_taken_i) looked_q <= looked_q + 1'b1;
      if (probed_valid_i) probed_q <= probed_q + 1'b1;
      if (decide_valid_o && decide_ready_i) due_q <= due_q + 1'b1;
      if (decide_taken_i) deciding_q <= deciding_q + 1'b1;
      if (decided_valid_i) decided_q <= decided_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (decided_valid_i) begin
      decisions[index(decided_q)] <= decided_i;
      tickets[index(decided_q)]   <= issued_i;
    end
  end

  // Slots that are being written.

  // An apply's bucket is known long before its decision, and no decision is made while a probe waits. So the probe's
  // bucket is compared one cycle ahead, and only the way is left to compare.

  logic [AppliesMax-1:0] latest_q;
  way_t [AppliesMax-1:0] ways_q;
  logic [AppliesMax-1:0] probe_bucket_q;
  logic [AppliesMax-1:0] decided_bucket_q;
  logic [AppliesMax-1:0] hits;
  logic                  answer;

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < AppliesMax; i++) begin
      if (next_valid_i) probe_bucket_q[i] <= buckets_q[i] == next_bucket_i;
    end
    if (decide_taken_i) decided_bucket_q <= probe_bucket_q;
    if (decided_valid_i) ways_q[index(decided_q)] <= decided_i.way;
  end

  always_comb begin
    written_index_o = '0;
    for (int unsigned i = 0; i < AppliesMax; i++) begin
      hits[i] = latest_q[i] && probe_bucket_q[i] && ways_q[i] == written_way_i;
      // At most one bit is set.
      if (hits[i]) written_index_o |= apply_index_t'(i);
    end
  end

  assign written_hit_o = hits != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      latest_q <= '0;
    end else begin
      if (answer) latest_q[index(answered_q)] <= 1'b0;
      if (decided_valid_i && decided_i.writes) begin
        for (int unsigned i = 0; i < AppliesMax; i++) begin
          if (decided_bucket_q[i] && ways_q[i] == decided_i.way) latest_q[i] <= 1'b0;
        end
        latest_q[index(decided_q)] <= 1'b1;
      end
    end
  end

  // Earlier lookups. Both conditions are checked from the decision on, whatever else the apply waits for, so that the
  // lookup counters cannot wrap past the apply's ticket.

  logic reached_cleared;
  logic reached_fetched;
  lookup_count_t cleared_ahead;
  lookup_count_t fetched_ahead;
  assign cleared_ahead   = completed_i - tickets[index(cleared_q)];
  assign fetched_ahead   = taken_i - tickets[index(fetched_q)];
  assign reached_cleared = cleared_q != decided_q && !cleared_ahead[$bits(lookup_count_t)-1];
  assign reached_fetched = fetched_q != decided_q && !fetched_ahead[$bits(lookup_count_t)-1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      cleared_q <= '0;
      fetched_q <= '0;
    end else begin
      if (reached_cleared) cleared_q <= cleared_q + 1'b1;
      if (reached_fetched) fetched_q <= fetched_q + 1'b1;
    end
  end

  // Writes, answers, retirement.

  decided_t writing;
  place_t   writing_place;
  kind_t    writing_kind;
  logic     writable;
  assign writing = decisions[index(written_q)];
  assign writing_place = places[index(written_q)];
  assign writing_kind = kinds[index(written_q)];
  assign writable = written_q != cleared_q && written_q != filled_q;
  assign write_valid_o = writable && writing.writes;
  assign write_o = '{
          slot: '{bucket: writing_place.bucket, way: writing.way},
          key: keys[index(written_q)],
          version: versions[index(written_q)],
          value_bytes: writing_kind.value_bytes
      };

  // Number of answers that have arrived and have not been used.
  logic [$bits(apply_index_t):0] answers_q;
  logic answer_writes;
  assign answer_writes = decisions[index(answered_q)].writes;
  assign answer = answered_q != written_q && (!answer_writes || answers_q != '0);

  logic   retire;
  owner_t owner;
  assign retire = retired_q != answered_q && retired_q != fetched_q;
  assign owner = owners[index(retired_q)];
  assign retired_valid_o = retire && owner.counts;
  assign retired_stream_o = owner.stream;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      written_q  <= '0;
      answered_q <= '0;
      retired_q  <= '0;
      answers_q  <= '0;
    end else begin
      if (writable && (!writing.writes || write_ready_i)) written_q <= written_q + 1'b1;
      if (answer) answered_q <= answered_q + 1'b1;
      answers_q <= answers_q + ($bits(answers_q))'(answered_i) - ($bits(answers_q))'(answer && answer_writes);
      if (retire) retired_q <= retired_q + 1'b1;
    end
  end

  assign idle_o = under_way == '0;

endmodule
