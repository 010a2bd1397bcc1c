// The entries of all windows, and for each stream an index of its unretired entries that change the table.
//
// The index hashes keys to linked lists. A list's head is the number of the entry that was pushed last, and each
// entry holds the number of the head before it. Nothing is ever removed. Instead, a link is followed only if it leads
// to an unretired entry that is older than the entry that it comes from. Links have just enough bits for this test,
// and heads are never cleared. A stale link can only lead to entries of other lists: an unretired entry of the same
// list would have replaced the head. Entries of other lists have different keys, so the search does not match them,
// and it ends because the numbers decrease from step to step. The user keeps the numbers of unretired entries within
// WindowEntries of one another.
//
// The entries are in an UltraRAM with two ports: one for finds and reader A, the other for pushes and reader B.
//
// Latency: a push 1 cycle after it is offered; a read 2 cycles; a find 2 cycles if the list's head is retired, 3 if
// the newest entry of the list decides, and 2 more for each further one. Throughput: a push every 2 cycles, a read
// every cycle at each reader, one find at a time. Order: a find sees exactly the pushes before it. Stalls: pushes,
// during a find; A, when a find reads; B, when a push writes.
module kv_pending_index
  import kv_pkg::*;
#(
  // Lists for each stream; a power of two up to 1024.
  parameter int unsigned Lists = 512
) (
  input  logic     clk_i,
  input  logic     rst_ni,
  // Entries of a stream are pushed in the order of their numbers. An entry that is not indexed cannot be found.
  input  logic     push_valid_i,
  output logic     push_ready_o,
  input  stream_t  push_stream_i,
  input  number_t  push_number_i,
  input  entry_t   push_i,
  input  logic     push_indexed_i,
  input  logic     read_a_valid_i,
  output logic     read_a_ready_o,
  input  stream_t  read_a_stream_i,
  input  number_t  read_a_number_i,
  output logic     read_a_done_o,
  output entry_t   read_a_o,               // stable until the next read at A or find
  input  logic     read_b_valid_i,
  output logic     read_b_ready_o,
  input  stream_t  read_b_stream_i,
  input  number_t  read_b_number_i,
  output logic     read_b_done_o,
  output entry_t   read_b_o,               // stable until the next read at B
  input  logic     find_valid_i,
  output logic     find_ready_o,
  input  stream_t  find_stream_i,
  input  key_t     find_key_i,
  input  place_t   find_place_i,
  input  logic     find_committed_only_i,
  input  number_t  find_committed_i,
  input  number_t  find_below_i,           // all ones: no limit
  output logic     find_done_o,
  output logic     find_hit_o,             // valid with `find_done_o`, like the next two
  output number_t  find_number_o,
  output entry_t   find_entry_o,
  input  lengths_t retired_i,
  // Drops all entries; only while `idle_o`.
  input  logic     clear_i,
  output logic     idle_o
);

  localparam int unsigned ListBits = $clog2(Lists);

  // An entry's number less 1, modulo twice the window; its low bits are its slot.
  typedef logic [$bits(window_place_t):0] link_t;
  typedef logic [ListBits-1:0] list_t;

  typedef struct packed {
    number_t number;
    link_t   previous;
    logic    indexed;
    entry_t  entry;
  } stored_t;

  typedef enum logic [2:0] {
    Idle,
    Push,   // the head of the list has been read
    Head,   // the head of the list has been read, for a find
    Match,  // an entry has been read
    Step,   // moves to the entry before it
    Done
  } state_e;

  function automatic list_t list_of(place_t place);
    return ListBits'(place.tag) ^ ListBits'(place.bucket >> ($bits(bucket_t) - ListBits));
  endfunction

  state_e state_d, state_q;
  logic push_starts;
  logic find_starts;
  logic push_writes;

  // Low bits of the number of each stream's newest entry.
  link_t [Streams-1:0] newest_q;

  // The search: links are counted relative to the first unretired entry.
  stream_t stream_q;
  key_t    key_q;
  link_t   retired_q;
  link_t   limit_q;   // only entries below this can match
  link_t   offset_q;  // the entry that is being examined
  link_t   previous_q;
  logic    hit_q;

  link_t   retired;
  link_t   limit;
  link_t   head;
  link_t   head_offset;
  link_t   previous_offset;
  logic    head_leads;
  logic    previous_leads;
  logic    match;

  // Port A of the entries' memory, and its output register.
  logic    find_reads;
  logic    fetch_a;
  link_t   find_link;
  stored_t memory_a_q;
  stored_t stored_a_q;
  logic    fetched_a_q;
  logic    read_a_done_q;
  logic    read_a_fetched_q;
  // Port B.
  logic    fetch_b;
  stored_t memory_b_q;
  logic    fetched_b_q;
  logic    read_b_done_q;
  entry_t  entry_b_q;

  assign push_starts = state_q == Idle && push_valid_i;
  assign find_ready_o = state_q == Idle && !push_valid_i;
  assign find_starts = find_ready_o && find_valid_i;
  assign push_writes = state_q == Push;
  assign push_ready_o = push_writes;
  assign find_done_o = state_q == Done;
  assign find_hit_o = hit_q;
  assign find_number_o = stored_a_q.number;
  assign find_entry_o = stored_a_q.entry;
  assign idle_o = state_q == Idle && !fetched_a_q && !fetched_b_q;

  // Heads of the lists.

  ram #(
    .T    (link_t),
    .Depth(Streams * Lists)
  ) i_heads (
    .clk_i,
    .write_i        (push_writes && push_indexed_i),
    .write_address_i({push_stream_i, list_of(push_i.place)}),
    .write_data_i   (link_t'(push_number_i - 1'b1)),
    .read_i         (push_starts || find_starts),
    .read_address_i (push_valid_i ? {push_stream_i, list_of(push_i.place)} : {find_stream_i, list_of(find_place_i)}),
    .read_data_o    (head)
  );

  // Bounds of a find. All are relative to the first unretired entry, so that modular differences equal differences of
  // numbers.

  assign retired = link_t'(retired_i[find_stream_i]);

  always_comb begin
    limit = newest_q[find_stream_i] - retired;
    if (find_committed_only_i) limit = link_t'(find_committed_i) - retired;
  end

  logic    limited_q;  // `below_q` limits the search
  // With one more bit: negative if no entry is below the limit.
  logic [$bits(link_t):0] below_q;
  link_t   live_q;     // number of unretired entries
  link_t   bound;

  assign bound = !limited_q ? limit_q : below_q[$bits(
      link_t
  )] ? '0 : below_q[$bits(
      link_t
  )-1:0] < limit_q ? below_q[$bits(
      link_t
  )-1:0] : limit_q;

  assign head_offset = head - retired_q;
  assign head_leads = head_offset < live_q;
  assign previous_offset = memory_a_q.previous - retired_q;
  assign previous_leads = previous_offset < offset_q;
  assign match = memory_a_q.indexed && memory_a_q.entry.key == key_q && offset_q < limit_q;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: begin
        if (push_valid_i) state_d = Push;
        else if (find_valid_i) state_d = Head;
      end
      Push: state_d = Idle;
      Head: state_d = head_leads ? Match : Done;
      Match: state_d = match || !previous_leads ? Done : Step;
      Step: state_d = Match;
      Done: state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (find_starts) begin
      stream_q <= find_stream_i;
      key_q <= find_key_i;
      retired_q <= retired;
      live_q <= newest_q[find_stream_i] - retired;
      limit_q <= limit;
      limited_q <= find_below_i != '1;
      below_q <= ($bits(link_t) + 1)'(find_below_i) - ($bits(link_t) + 1)'(retired_i[find_stream_i]) - 1'b1;
    end
    if (state_q == Head) begin
      limit_q  <= bound;
      offset_q <= head_offset;
    end
    if (state_q == Match) previous_q <= memory_a_q.previous;
    if (state_q == Step) offset_q <= previous_q - retired_q;
    hit_q <= state_q == Match && match;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      newest_q <= '0;
    end else begin
      state_q <= state_d;
      if (push_writes) newest_q[push_stream_i] <= link_t'(push_number_i);
      if (clear_i) newest_q <= '0;
    end
  end

  // Storage of the entries.

  localparam int unsigned Depth = Streams * WindowEntries;
  typedef logic [$clog2(Depth)-1:0] address_t;

  (* ram_style = "ultra" *)
  stored_t  memory      [Depth];
  address_t address_a;
  address_t address_b;
  link_t    read_a_link;
  link_t    read_b_link;
  link_t    push_link;

  assign read_a_link = link_t'(read_a_number_i - 1'b1);
  assign read_b_link = link_t'(read_b_number_i - 1'b1);
  assign push_link = link_t'(push_number_i - 1'b1);

  assign find_reads = state_q == Head || state_q == Step;
  assign find_link = state_q == Head ? head : previous_q;
  assign read_a_ready_o = !find_reads;
  assign fetch_a = find_reads || read_a_valid_i;
  assign address_a = find_reads ? {stream_q, window_place_t'(find_link)} :
                     {read_a_stream_i, window_place_t'(read_a_link)};
  assign read_b_ready_o = !push_writes;
  assign fetch_b = read_b_valid_i && !push_writes;
  assign address_b = push_writes ? {push_stream_i, window_place_t'(push_link)} :
                     {read_b_stream_i, window_place_t'(read_b_link)};

  assign read_a_done_o = read_a_done_q;
  assign read_a_o = stored_a_q.entry;
  assign read_b_done_o = read_b_done_q;
  assign read_b_o = entry_b_q;

  always_ff @(posedge clk_i) begin
    if (fetch_a) memory_a_q <= memory[address_a];
    if (fetched_a_q) stored_a_q <= memory_a_q;
  end

  always_ff @(posedge clk_i) begin
    if (push_writes) memory[address_b] <= '{push_number_i, head, push_indexed_i, push_i};
    else if (fetch_b) memory_b_q <= memory[address_b];
  end

  always_ff @(posedge clk_i) begin
    if (fetched_b_q) entry_b_q <= memory_b_q.entry;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      fetched_a_q <= 1'b0;
      fetched_b_q <= 1'b0;
      read_a_fetched_q <= 1'b0;
      read_a_done_q <= 1'b0;
      read_b_done_q <= 1'b0;
    end else begin
      fetched_a_q <= fetch_a;
      fetched_b_q <= fetch_b;
      read_a_fetched_q <= read_a_valid_i && read_a_ready_o;
      read_a_done_q <= read_a_fetched_q;
      read_b_done_q <= fetched_b_q;
    end
  end

  // Assertions.

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!push_writes || push_valid_i)
      else $error("a push was taken back");
      assert (!push_writes || push_link == newest_q[push_stream_i])
      else $error("numbers are not pushed in their order");
      assert (!push_writes || push_link - link_t'(retired_i[push_stream_i]) < link_t'(WindowEntries))
      else $error("more unretired entries than a window holds");
      assert (!find_starts || newest_q[find_stream_i] - retired <= link_t'(WindowEntries))
      else $error("entries are retired that were not pushed");
      assert (!find_starts || !find_committed_only_i || limit <= newest_q[find_stream_i] - retired)
      else $error("what is committed is retired, or was not pushed");
      assert (!clear_i || state_q == Idle)
      else $error("cleared during a push or find");
    end
  end

endmodule
