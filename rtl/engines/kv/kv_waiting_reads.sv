// Reads at a follower that wait until an accepted write is decided: a bounded pool, with one list for each entry of
// the windows. Twin of crates/engines/kv/src/waiting.rs. The most recent read is taken first.
//
// `push_i` clears an entry's list, and never stalls. Free slots of the pool are those above a mark, which were never
// used, and a list of released ones; so all reads can be dropped in one cycle.
//
// Latency: 2 cycles from a wait or take to its end. Throughput: a wait every 2 cycles, a take every 2 to 3; a push
// delays either by a cycle. Order: of arrival; of a take and a wait in the same cycle, the take is first.
module kv_waiting_reads
  import engines_pkg::*;
  import kv_pkg::*;
#(
  parameter int unsigned Reads = WaitingReads  // a power of two
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  // A new entry was accepted.
  input  logic          push_i,
  input  stream_t       push_stream_i,
  input  window_place_t push_place_i,
  input  logic          wait_valid_i,
  output logic          wait_ready_o,
  input  stream_t       wait_stream_i,
  input  window_place_t wait_place_i,
  input  asker_t        wait_i,
  output logic          wait_done_o,
  output logic          wait_full_o,    // valid with `wait_done_o`: there was no room
  input  logic          take_valid_i,
  output logic          take_ready_o,
  input  stream_t       take_stream_i,
  input  window_place_t take_place_i,
  output logic          take_done_o,
  output logic          take_some_o,    // valid with `take_done_o`: there was a read
  output asker_t        take_o,         // stable until the next take
  // Drops all reads; only while `idle_o`.
  input  logic          clear_i,
  output logic          idle_o
);

  localparam int unsigned IndexBits = $clog2(Reads);

  typedef logic [IndexBits-1:0] index_t;
  // Head of a list.
  typedef struct packed {
    logic   some;
    index_t index;
  } link_t;
  typedef logic [$bits(stream_t)+$bits(window_place_t)-1:0] list_t;

  typedef enum logic [1:0] {
    Idle,
    Wait,    // the list's head and the next free slot have been read
    Take,    // the list's head has been read
    Release  // the head's successor has been read, too
  } state_e;

  state_e state_d, state_q;
  list_t                list_q;
  // Head of the list of released slots, and the number of slots that were ever used.
  link_t                free_q;
  logic   [IndexBits:0] used_q;
  logic                 full;
  index_t               place;  // slot for the next read
  link_t                head;
  link_t                behind;
  index_t               taken_q;
  logic                 wait_done_q;
  logic                 wait_full_q;
  logic                 take_done_q;
  logic                 take_some_q;
  logic                 starts;
  logic                 waits;
  logic                 releases;

  assign full = !free_q.some && used_q[IndexBits];
  assign place = free_q.some ? free_q.index : used_q[IndexBits-1:0];
  assign starts = state_q == Idle && (take_valid_i || wait_valid_i);
  // The heads have one write port: a push has priority.
  assign waits = state_q == Wait && !full && !push_i;
  assign releases = state_q == Release && !push_i;

  assign take_ready_o = state_q == Idle;
  assign wait_ready_o = state_q == Wait && (full || !push_i);
  assign {wait_done_o, wait_full_o} = {wait_done_q, wait_full_q};
  assign {take_done_o, take_some_o} = {take_done_q, take_some_q};
  assign idle_o = state_q == Idle && !wait_done_q && !take_done_q;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: begin
        if (take_valid_i) state_d = Take;
        else if (wait_valid_i) state_d = Wait;
      end
      Wait: if (wait_ready_o) state_d = Idle;
      Take: state_d = head.some ? Release : Idle;
      Release: if (!push_i) state_d = Idle;
    endcase
  end

  ram #(
    .T    (link_t),
    .Depth(2 ** $bits(list_t))
  ) i_heads (
    .clk_i,
    .write_i        (push_i || waits || releases),
    .write_address_i(push_i ? {push_stream_i, push_place_i} : list_q),
    .write_data_i   (push_i ? '0 : waits ? {1'b1, place} : behind),
    .read_i         (starts),
    .read_address_i (take_valid_i ? {take_stream_i, take_place_i} : {wait_stream_i, wait_place_i}),
    .read_data_o    (head)
  );

  // For each slot: the next read in its list, or the next released slot.
  ram #(
    .T    (link_t),
    .Depth(Reads)
  ) i_behind (
    .clk_i,
    .write_i        (waits || releases),
    .write_address_i(waits ? place : taken_q),
    .write_data_i   (waits ? head : free_q),
    .read_i         (starts || state_q == Take),
    .read_address_i (state_q == Take ? head.index : free_q.index),
    .read_data_o    (behind)
  );

  ram #(
    .T    (asker_t),
    .Depth(Reads)
  ) i_reads (
    .clk_i,
    .write_i        (waits),
    .write_address_i(place),
    .write_data_i   (wait_i),
    .read_i         (state_q == Take && head.some),
    .read_address_i (head.index),
    .read_data_o    (take_o)
  );

  always_ff @(posedge clk_i) begin
    if (starts) list_q <= take_valid_i ? {take_stream_i, take_place_i} : {wait_stream_i, wait_place_i};
    if (state_q == Take) begin
      taken_q <= head.index;
      take_some_q <= head.some;
    end
    if (state_q == Wait) wait_full_q <= full;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= Idle;
      free_q <= '0;
      used_q <= '0;
      wait_done_q <= 1'b0;
      take_done_q <= 1'b0;
    end else begin
      state_q <= state_d;
      wait_done_q <= wait_valid_i && wait_ready_o;
      take_done_q <= state_q == Take;
      if (waits) begin
        if (free_q.some) free_q <= behind;
        else used_q <= used_q + 1'b1;
      end
      if (releases) free_q <= {1'b1, taken_q};
      if (clear_i) begin
        free_q <= '0;
        used_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!clear_i || state_q == Idle)
      else $error("cleared while a read is put or taken");
      assert (state_q != Wait || wait_valid_i)
      else $error("a request was taken back");
    end
  end

endmodule
