// Writes the ICRC into the last four bytes of each frame, which are zero on arrival, and pads frames that are shorter
// than Ethernet's minimum.
//
// Beats wait in a small memory for a fixed time, after which the ICRC of their frame is known. So a frame that
// arrives without gaps leaves without gaps, unless the output stalls.
//
// Latency: 4 cycles; 5 for a frame whose ICRC begins in the last beat but one, because that beat has to wait for the
// last. Throughput: one beat every cycle, without a gap between frames. Order: kept. Stalls: `room_o` is low while 32
// beats are inside; 32 suffice for full throughput.
module icrc_insert
  import weft_pkg::*;
(
  input  logic  clk_i,
  input  logic  rst_ni,
  output logic  room_o,
  // Valid only while `room_o` is high.
  input  logic  beat_valid_i,
  input  beat_t beat_i,
  // `straddles_i`: the ICRC of this beat's frame begins in the last beat but one. `straddled_i`: it begins in this
  // beat.
  input  logic  straddles_i,
  input  logic  straddled_i,
  output logic  frame_valid_o,
  input  logic  frame_ready_i,
  output beat_t frame_o,
  output logic  idle_o
);

  localparam int unsigned Depth = 32;
  localparam int unsigned IndexBits = $clog2(Depth);
  typedef logic [IndexBits:0] pointer_t;

  // Ethernet's shortest frame has 60 bytes and a frame check sequence. The only shorter frame that the transport
  // sends is a SEND without payload, which lacks two bytes. The bytes behind the end of a beat are zero.
  localparam logic [5:0] EmptyShortest = 6'd4;

  typedef struct packed {
    logic  first;
    logic  straddled;
    beat_t beat;
  } stored_t;

  // The memory of waiting beats.

  (* ram_style = "distributed" *)
  stored_t  memory                                            [Depth];
  pointer_t head_q;
  pointer_t tail_q;
  pointer_t visible_q;  // behind the last beat that may leave
  logic     first_q;
  pointer_t level;
  stored_t  front;
  logic     pop;
  // Beats that arrived one, two and more cycles ago. `early` beats leave after four cycles, `late` beats after five.
  logic     early_1_q;
  logic     early_2_q;
  logic     early_3_q;
  logic     late_1_q;
  logic     late_2_q;
  logic     late_3_q;
  logic     late_4_q;

  assign level = tail_q - head_q;
  assign room_o = !level[IndexBits];
  assign idle_o = level == '0;
  assign frame_valid_o = visible_q != head_q;
  assign pop = frame_valid_o && frame_ready_i;
  assign front = memory[head_q[IndexBits-1:0]];

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) begin
      memory[tail_q[IndexBits-1:0]] <= '{first: first_q, straddled: straddled_i, beat: beat_i};
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q    <= '0;
      tail_q    <= '0;
      visible_q <= '0;
      first_q   <= 1'b1;
      early_1_q <= 1'b0;
      early_2_q <= 1'b0;
      early_3_q <= 1'b0;
      late_1_q  <= 1'b0;
      late_2_q  <= 1'b0;
      late_3_q  <= 1'b0;
      late_4_q  <= 1'b0;
    end else begin
      if (beat_valid_i) begin
        tail_q  <= tail_q + 1'b1;
        first_q <= beat_i.last;
      end
      if (pop) head_q <= head_q + 1'b1;
      early_1_q <= beat_valid_i && !straddles_i;
      early_2_q <= early_1_q;
      early_3_q <= early_2_q;
      late_1_q  <= beat_valid_i && straddles_i;
      late_2_q  <= late_1_q;
      late_3_q  <= late_2_q;
      late_4_q  <= late_3_q;
      visible_q <= visible_q + pointer_t'(early_3_q) + pointer_t'(late_4_q);
    end
  end

  // The ICRC of each frame. It is known no later than the cycle that needs it. An ICRC that is known earlier waits in
  // a FIFO.

  logic        crc_valid;
  logic [31:0] crc_new;
  logic        waiting_valid;
  logic [31:0] waiting;
  logic        waiting_ready;
  logic [31:0] crc;
  logic        take;

  icrc #(
    .Trailer (1'b0),
    .ZeroTail(1'b1)
  ) i_icrc (
    .clk_i,
    .rst_ni,
    .valid_i        (beat_valid_i),
    .beat_i         (beat_i),
    .crc_valid_o    (crc_valid),
    .crc_o          (crc_new),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .checked_valid_o(),
    .checked_good_o ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign take = pop && front.beat.last;
  assign crc  = waiting_valid ? waiting : crc_new;

  fifo #(
    .T    (logic [31:0]),
    .Depth(Depth)
  ) i_waiting (
    .clk_i,
    .rst_ni,
    // An ICRC that is used in the cycle in which it becomes known does not enter the FIFO.
    .in_valid_i (crc_valid && !(take && !waiting_valid)),
    .in_ready_o (waiting_ready),
    .in_i       (crc_new),
    .out_valid_o(waiting_valid),
    .out_ready_i(take),
    .out_o      (waiting),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // The ICRC begins in the upper half of a word and ends in the lower half of the next.

  always_comb begin
    frame_o = front.beat;
    if (front.beat.last) begin
      frame_o.data[32*(15-32'(front.beat.empty[5:2]))+:16] = crc[31:16];
      if (front.beat.empty[5:2] != 4'd15) begin
        frame_o.data[32*(14-32'(front.beat.empty[5:2]))+16+:16] = crc[15:0];
      end
      if (front.first && front.beat.empty > EmptyShortest) frame_o.empty = EmptyShortest;
    end
    if (front.straddled) frame_o.data[BeatBits-1-:16] = crc[15:0];
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!beat_valid_i || room_o)
      else $error("a beat without room");
      assert (!(frame_valid_o && (front.beat.last || front.straddled)) || waiting_valid || crc_valid)
      else $error("a frame leaves before its ICRC is known");
      assert (!crc_valid || waiting_ready)
      else $error("an ICRC too many");
    end
  end

endmodule
