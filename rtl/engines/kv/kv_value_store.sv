// Receives the value that follows the operation of a write, and stores it in its slot of the window and in the
// journal, or drops it.
//
// Latency: a beat is written in the cycle in which it is accepted. Throughput: a beat every cycle. Stalls: while the
// journal does.
module kv_value_store
  import weft_pkg::BeatBits;
  import weft_pkg::beat_t;
  import kv_pkg::*;
(
  input  logic                                      clk_i,
  input  logic                                      rst_ni,
  // Start of a value, and what to do with it. The previous value has been received completely.
  input  logic                                      begin_i,
  input  logic                                      some_i,           // there is a value
  input  logic                                      keeps_i,          // it is stored in this slot
  input  stream_t                                   stream_i,
  input  window_place_t                             place_i,
  input  logic                                      journals_i,
  input  logic                                      value_valid_i,
  output logic                                      value_ready_o,
  input  beat_t                                     value_i,
  output logic                                      write_valid_o,
  output stream_t                                   write_stream_o,
  output window_place_t                             write_place_o,
  output logic          [$clog2(ValueBeatsMax)-1:0] write_beat_o,
  output logic          [             BeatBits-1:0] write_data_o,
  output logic                                      journal_valid_o,
  input  logic                                      journal_ready_i,
  output beat_t                                     journal_o,
  // A value, or part of it, is still to arrive. `before_first_o`: no beat of it has arrived.
  output logic                                      busy_o,
  output logic                                      before_first_o
);

  logic busy_q, keeps_q, journals_q;
  stream_t stream_q;
  window_place_t place_q;
  logic [$clog2(ValueBeatsMax)-1:0] beat_q;
  logic take;

  assign busy_o = busy_q;
  assign before_first_o = busy_q && beat_q == '0;
  assign value_ready_o = busy_q && (!journals_q || journal_ready_i);
  assign take = value_valid_i && value_ready_o;

  assign write_valid_o = take && keeps_q;
  assign write_stream_o = stream_q;
  assign write_place_o = place_q;
  assign write_beat_o = beat_q;
  assign write_data_o = value_i.data;
  assign journal_valid_o = busy_q && journals_q && value_valid_i;
  assign journal_o = value_i;

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      keeps_q  <= keeps_i;
      stream_q <= stream_i;
      place_q  <= place_i;
      beat_q   <= '0;
    end else if (take) begin
      beat_q <= beat_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q     <= 1'b0;
      journals_q <= 1'b0;
    end else if (begin_i) begin
      busy_q     <= some_i;
      journals_q <= journals_i;
    end else if (take && value_i.last) begin
      busy_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!busy_q || value_valid_i)
      else $error("the beats of a value paused");
    end
  end

endmodule
