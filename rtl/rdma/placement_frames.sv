// Extracts payloads from frames: feeds the beats that hold payload to the realigner and drops the others.
//
// Latency: 0 cycles for a beat. Throughput: one beat every cycle, without a gap between frames. Order: that of the
// controls. Stalls: frames wait for their control; beats that hold payload stall when the realigner does.
module placement_frames
  import weft_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic        control_valid_i,
  output logic        control_ready_o,
  // The word of the verdict, if any, is sent in a beat of its own before the frame.
  input  logic        control_word_i,
  input  logic [63:0] control_value_i,
  // `frame`: this control has a frame. `move`: its beats from `first` to `last` hold payload.
  input  logic        control_frame_i,
  input  logic        control_move_i,
  input  logic        control_first_i,
  input  logic [ 6:0] control_last_i,

  input  logic                frame_valid_i,
  output logic                frame_ready_o,
  input  logic                frame_last_i,
  input  logic [BeatBits-1:0] frame_data_i,

  // To the realigner.
  output logic                out_valid_o,
  input  logic                out_ready_i,
  output logic [BeatBits-1:0] out_data_o
);

  logic       word_done_q;
  logic [6:0] index_q;
  // The last beat with payload has been forwarded.
  logic       past_q;
  logic       word;
  logic       frame;
  logic       payload;
  logic       frame_ends;

  assign word = control_valid_i && control_word_i && !word_done_q;
  assign frame = control_valid_i && control_frame_i && !word;
  assign payload = control_move_i && !past_q && (index_q != '0 || !control_first_i);
  assign frame_ready_o = frame && (!payload || out_ready_i);
  assign frame_ends = frame_valid_i && frame_ready_o && frame_last_i;
  assign control_ready_o = word ? out_ready_i && !control_frame_i : frame_ends || !control_frame_i;
  assign out_valid_o = word || (frame && payload && frame_valid_i);
  assign out_data_o = {frame_data_i[BeatBits-1:64], word ? control_value_i : frame_data_i[63:0]};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      word_done_q <= 1'b0;
      index_q     <= '0;
      past_q      <= 1'b0;
    end else begin
      if (control_valid_i && control_ready_o) word_done_q <= 1'b0;
      else if (word && out_ready_i) word_done_q <= 1'b1;
      if (frame_ends) begin
        index_q <= '0;
        past_q  <= 1'b0;
      end else if (frame_valid_i && frame_ready_o) begin
        index_q <= index_q + 1'b1;
        if (index_q == control_last_i) past_q <= 1'b1;
      end
      // The receive path has checked the lengths, so the frame is never too short.
      assert (!(frame_ends && control_move_i) || past_q || index_q == control_last_i);
      assert (!control_valid_i || control_word_i || control_frame_i);
    end
  end

endmodule
