// Sweeps over all accepted and uncommitted entries: drops them, or refuses the reads that wait for them. Twin of
// `drop_undecided` and `refuse_waiting` of crates/engines/kv/src/engine.rs.
//
// A client that waits for an answer gets NotServing. A dropped entry releases its reservation and is no longer
// pending in its session.
//
// Latency: about 5 cycles for each entry, plus the time of a reply or a session request. Throughput: one sweep at a
// time; `valid_i` is held until `done_o`. Order: by stream, and within a stream by number. Stalls: when one of the
// blocks that it uses does.
module kv_sweep
  import kv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          valid_i,
  input  logic          drops_i,         // 0: refuses waiting reads
  output logic          done_o,
  // Lengths of `stream_o`.
  output stream_t       stream_o,
  input  window_count_t accepted_i,
  input  window_count_t committed_i,
  // Reads the entry `number_o` of that stream, or takes a read that waits for the entry.
  output window_count_t number_o,
  output logic          read_valid_o,
  input  logic          read_ready_i,
  input  logic          read_done_i,
  input  logic          led_i,           // valid with `read_done_i`
  input  logic          reserved_i,
  output logic          take_valid_o,
  input  logic          take_ready_i,
  input  logic          take_done_i,
  input  logic          take_some_i,
  // Releases the reservation of the entry that was read, which takes several cycles.
  output logic          release_o,
  input  logic          releasing_i,
  // The entry that was read is no longer pending in its session.
  output logic          cancel_valid_o,
  input  logic          cancel_ready_i,
  input  logic          cancel_done_i,
  // Answers the client of the entry or read.
  output logic          refuse_valid_o,
  input  logic          refuse_ready_i,
  // An entry was dropped.
  output logic          cut_o
);

  typedef enum logic [2:0] {
    Idle,
    Lengths,
    Next,
    Taken,
    Entry,
    Cancel,
    Refuse
  } state_e;

  state_e state_q, state_d;
  stream_t stream_q, stream_d;
  window_count_t number_q, number_d;  // number of the last entry that was handled
  window_count_t last_q;
  logic cancelled_q, cancelled_d;

  assign stream_o = stream_q;
  assign number_o = number_q + 1'b1;

  logic some;
  assign some = state_q == Next && number_q != last_q;
  assign done_o = state_q == Next && !some && stream_q == '1;
  assign read_valid_o = some && drops_i && !releasing_i;
  assign take_valid_o = some && !drops_i;
  assign cut_o = state_q == Entry && read_done_i;
  assign release_o = cut_o && reserved_i;
  assign cancel_valid_o = state_q == Cancel && !cancelled_q;
  assign refuse_valid_o = state_q == Refuse;

  always_comb begin
    state_d = state_q;
    stream_d = stream_q;
    number_d = number_q;
    cancelled_d = cancelled_q;
    unique case (state_q)
      Idle: begin
        stream_d = '0;
        if (valid_i) state_d = Lengths;
      end

      Lengths: begin
        number_d = committed_i;
        state_d  = Next;
      end

      Next: begin
        cancelled_d = 1'b0;
        if (!some) begin
          stream_d = stream_q + 1'b1;
          state_d  = stream_q == '1 ? Idle : Lengths;
        end else if (read_valid_o && read_ready_i) begin
          number_d = number_o;
          state_d  = Entry;
        end else if (take_valid_o && take_ready_i) begin
          state_d = Taken;
        end
      end

      // More reads may wait for the same entry.
      Taken: begin
        if (take_done_i) begin
          if (!take_some_i) number_d = number_o;
          state_d = take_some_i ? Refuse : Next;
        end
      end

      Entry: if (read_done_i) state_d = led_i ? Cancel : Next;

      Cancel: begin
        if (cancel_ready_i) cancelled_d = 1'b1;
        if (cancelled_q && cancel_done_i) state_d = Refuse;
      end

      Refuse: if (refuse_ready_i) state_d = Next;

      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    stream_q    <= stream_d;
    number_q    <= number_d;
    cancelled_q <= cancelled_d;
    if (state_q == Lengths) last_q <= accepted_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

endmodule
