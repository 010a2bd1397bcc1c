// The values of the entries of all windows, in UltraRAM: 16 Mibit in eight banks of eight.
//
// An UltraRAM has two ports. One is for writes, which never wait. Two readers share the other one, and A has
// priority. Reading in the gaps of the write port would need a second multiplexer of eight banks, which costs two
// LUTs for each bit, more than all other logic of the windows. A port carries 128 Gbit/s, of which A uses no more
// than the rate of the wire: at most 7 of 10 cycles, since frames have headers and gaps.
//
// Latency: 2 cycles from a request to the first beat. Throughput: one write every cycle; A one beat every cycle; B
// one every 2 cycles while A is idle. Order: kept for each reader. Stalls: writes never; A never within a value or
// between requests that wait; B while A reads, or while a beat of B is not accepted. A value must have been written
// before it is requested, and must not be overwritten until it is read.
module kv_values
  import weft_pkg::*;
  import kv_pkg::*;
(
  input  logic                                      clk_i,
  input  logic                                      rst_ni,
  input  logic                                      write_valid_i,
  input  stream_t                                   write_stream_i,
  input  window_place_t                             write_place_i,
  input  logic          [$clog2(ValueBeatsMax)-1:0] write_beat_i,
  input  logic          [             BeatBits-1:0] write_data_i,
  input  logic                                      read_a_valid_i,
  output logic                                      read_a_ready_o,
  input  stream_t                                   read_a_stream_i,
  input  window_place_t                             read_a_place_i,
  input  value_beats_t                              read_a_beats_i,   // not 0
  output logic                                      beat_a_valid_o,
  input  logic                                      beat_a_ready_i,
  output logic          [             BeatBits-1:0] beat_a_o,
  output logic                                      beat_a_last_o,
  input  logic                                      read_b_valid_i,
  output logic                                      read_b_ready_o,
  input  stream_t                                   read_b_stream_i,
  input  window_place_t                             read_b_place_i,
  input  value_beats_t                              read_b_beats_i,   // not 0
  output logic                                      beat_b_valid_o,
  input  logic                                      beat_b_ready_i,
  output logic          [             BeatBits-1:0] beat_b_o,
  output logic                                      beat_b_last_o,
  output logic                                      idle_o
);

  localparam int unsigned Depth = Streams * WindowEntries * ValueBeatsMax;

  typedef logic [$clog2(Depth)-1:0] address_t;
  typedef logic [$clog2(ValueBeatsMax)-1:0] beat_index_t;

  // Beats that remain to be read, and the address of the next; 0: the reader is free for a request.
  value_beats_t                left_a_q;
  value_beats_t                left_b_q;
  address_t                    next_a_q;
  address_t                    next_b_q;
  logic                        begins_a;
  logic                        begins_b;
  address_t                    address_a;
  address_t                    address_b;
  value_beats_t                count_a;
  value_beats_t                count_b;
  logic                        wants_a;
  logic                        issue_a;
  logic                        issue_b;
  // The beat in the banks' output registers.
  logic                        fetched_valid_q;
  logic                        fetched_b_q;  // it was fetched for B
  logic                        fetched_last_q;
  logic                        fetched_free;
  logic         [BeatBits-1:0] fetched;
  // The output registers of the readers.
  logic                        valid_a_q;
  logic                        valid_b_q;
  logic                        last_a_q;
  logic                        last_b_q;
  logic         [BeatBits-1:0] beat_a_q;
  logic         [BeatBits-1:0] beat_b_q;
  logic                        free_a;
  logic                        free_b;

  assign begins_a = left_a_q == '0;
  assign begins_b = left_b_q == '0;
  assign address_a = begins_a ? {read_a_stream_i, read_a_place_i, beat_index_t'(0)} : next_a_q;
  assign address_b = begins_b ? {read_b_stream_i, read_b_place_i, beat_index_t'(0)} : next_b_q;
  assign count_a = begins_a ? read_a_beats_i : left_a_q;
  assign count_b = begins_b ? read_b_beats_i : left_b_q;

  assign free_a = !valid_a_q || beat_a_ready_i;
  assign free_b = !valid_b_q || beat_b_ready_i;
  // B reads only when it has room for the beat, so it never stalls A.
  assign fetched_free = !fetched_valid_q || fetched_b_q || free_a;
  assign wants_a = read_a_valid_i || !begins_a;
  assign issue_a = wants_a && fetched_free;
  assign read_a_ready_o = begins_a && fetched_free;
  assign read_b_ready_o = begins_b && fetched_free && !wants_a && free_b && !(fetched_valid_q && fetched_b_q);
  assign issue_b = (read_b_valid_i || !begins_b) && fetched_free && !wants_a && free_b &&
                   !(fetched_valid_q && fetched_b_q);

  assign beat_a_valid_o = valid_a_q;
  assign beat_a_o = beat_a_q;
  assign beat_a_last_o = last_a_q;
  assign beat_b_valid_o = valid_b_q;
  assign beat_b_o = beat_b_q;
  assign beat_b_last_o = last_b_q;
  assign idle_o = begins_a && begins_b && !fetched_valid_q && !valid_a_q && !valid_b_q;

  kv_deep_ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Depth)
  ) i_values (
    .clk_i,
    .write_i        (write_valid_i),
    .write_address_i({write_stream_i, write_place_i, write_beat_i}),
    .write_data_i,
    .read_i         (issue_a || issue_b),
    .read_address_i (wants_a ? address_a : address_b),
    .read_data_o    (fetched)
  );

  always_ff @(posedge clk_i) begin
    if (issue_a) next_a_q <= address_a + 1'b1;
    if (issue_b) next_b_q <= address_b + 1'b1;
    if (issue_a || issue_b) begin
      fetched_b_q <= issue_b;
      fetched_last_q <= wants_a ? count_a == value_beats_t'(1) : count_b == value_beats_t'(1);
    end
    if (fetched_valid_q && !fetched_b_q && free_a) begin
      beat_a_q <= fetched;
      last_a_q <= fetched_last_q;
    end
    if (fetched_valid_q && fetched_b_q) begin
      beat_b_q <= fetched;
      last_b_q <= fetched_last_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      left_a_q <= '0;
      left_b_q <= '0;
      fetched_valid_q <= 1'b0;
      valid_a_q <= 1'b0;
      valid_b_q <= 1'b0;
    end else begin
      if (issue_a) left_a_q <= count_a - 1'b1;
      if (issue_b) left_b_q <= count_b - 1'b1;
      if (fetched_free) fetched_valid_q <= issue_a || issue_b;
      if (free_a) valid_a_q <= fetched_valid_q && !fetched_b_q;
      if (free_b) valid_b_q <= fetched_valid_q && fetched_b_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(issue_a && begins_a) || read_a_beats_i != '0)
      else $error("a value of no beats is read at A");
      assert (!(issue_b && begins_b) || read_b_beats_i != '0)
      else $error("a value of no beats is read at B");
      assert (!(fetched_valid_q && fetched_b_q) || free_b)
      else $error("B has no room for a beat");
    end
  end

endmodule
