// Lengths of the streams: accepted >= committed >= retired; and how many accepted entries are in the journal.
//
// Latency: a change is visible after 1 cycle; a read takes 0 cycles.
module kv_lengths
  import kv_pkg::*;
  import kv_streams_pkg::*;
(
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  lengths_change_t               change_i,
  // Sets all lengths to 0.
  input  logic                          clear_i,
  // One more entry of a stream is in the table's memory (or in the journal).
  input  logic                          retired_valid_i,
  input  stream_t                       retired_stream_i,
  input  logic                          journaled_valid_i,
  input  stream_t                       journaled_stream_i,
  input  stream_t                       stream_i,
  // Lengths of `stream_i`; the last is the number of accepted entries that are not in the journal yet.
  output number_t                       accepted_o,
  output number_t                       committed_o,
  output window_count_t                 unjournaled_o,
  // Lengths of all streams.
  output lengths_t                      all_committed_o,
  output window_count_t   [Streams-1:0] all_retired_o
);

  lengths_t accepted_q;
  lengths_t committed_q;
  window_count_t [Streams-1:0] retired_q;
  window_count_t [Streams-1:0] journaled_q;

  assign accepted_o = accepted_q[stream_i];
  assign committed_o = committed_q[stream_i];
  assign unjournaled_o = window_count_t'(accepted_o) - journaled_q[stream_i];
  assign all_committed_o = committed_q;
  assign all_retired_o = retired_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      accepted_q  <= '0;
      committed_q <= '0;
      retired_q   <= '0;
      journaled_q <= '0;
    end else begin
      if (change_i.accepts) accepted_q[change_i.stream] <= change_i.accepted;
      if (change_i.commits) committed_q[change_i.stream] <= change_i.committed;
      if (retired_valid_i) retired_q[retired_stream_i] <= retired_q[retired_stream_i] + 1'b1;
      if (journaled_valid_i) journaled_q[journaled_stream_i] <= journaled_q[journaled_stream_i] + 1'b1;
      if (clear_i) begin
        accepted_q  <= '0;
        committed_q <= '0;
        retired_q   <= '0;
        journaled_q <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      for (int unsigned i = 0; i < Streams; i++) begin
        assert (committed_q[i] <= accepted_q[i]
            && window_count_t'(committed_q[i]) - retired_q[i] <= window_count_t'(WindowEntries))
        else
          $error(
              "stream %0d: retired %0d, committed %0d, accepted %0d", i, retired_q[i], committed_q[i], accepted_q[i]
          );
      end
    end
  end

endmodule
