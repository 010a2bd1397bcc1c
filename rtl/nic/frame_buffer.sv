// Stores whole frames and releases or drops each by a verdict.
//
// A frame that finds no room is dropped as a whole, or, with `Stall`, waits at the input. Each stored frame needs one
// verdict, at the earliest with its last beat; a bad verdict drops the frame.
//
// Latency: 2 cycles from a frame's last beat and its verdict to its first beat at the output. Throughput: one beat
// every cycle; a refused frame costs one cycle. Order: kept. Stalls: without `Stall` never. With it, the input stalls
// when the buffer is full; only a frame longer than the buffer is dropped, since it would block the input for ever.
module frame_buffer
  import weft_pkg::*;
#(
  // Attributes that accompany the last beat of a frame, and the verdict.
  parameter type         Info    = logic,
  parameter type         Verdict = logic,
  parameter int unsigned Beats   = 512,
  parameter int unsigned Frames  = 64,
  parameter bit          Stall   = 1'b0
) (
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   in_valid_i,
  output logic   in_ready_o,
  input  beat_t  in_i,
  // Valid with the last beat.
  input  Info    in_info_i,
  // Valid with the last beat: the frame was stored, or was dropped for lack of room.
  output logic   kept_o,
  output logic   dropped_o,
  input  logic   verdict_valid_i,
  input  logic   verdict_good_i,
  input  Verdict verdict_i,
  output logic   out_valid_o,
  input  logic   out_ready_i,
  output beat_t  out_o,
  // Valid with every beat.
  output Info    out_info_o,
  output Verdict out_verdict_o,
  output logic   idle_o
);

  localparam int unsigned Bits = $clog2(Beats);

  typedef logic [Bits:0] position_t;

  typedef struct packed {
    Info       info;
    position_t behind;  // where the next frame begins
  } end_t;

  typedef struct packed {
    Verdict verdict;
    logic   good;
  } judged_t;

  position_t head_q;
  position_t tail_q;
  // Start of the frame that is arriving.
  position_t start_q;
  logic      dropping_q;

  logic      full;
  logic      ends_ready;
  logic      room;
  logic      taken;
  logic      in_last;

  end_t      end_in;
  assign end_in = '{info: in_info_i, behind: tail_q + 1'b1};

  // Whether there is room for this beat, and for an entry for its frame.
  assign full   = (tail_q - head_q) == position_t'(Beats);
  assign room   = !full && ends_ready;

  if (Stall) begin : g_stall
    // A frame that fills the whole buffer would wait for ever, so it is not stalled but dropped.
    assign in_ready_o = dropping_q || room || (tail_q - start_q) == position_t'(Beats);
  end else begin : g_drop
    assign in_ready_o = 1'b1;
  end

  assign taken = in_valid_i && in_ready_o;
  assign in_last = taken && in_i.last;
  assign kept_o = in_last && room && !dropping_q;
  assign dropped_o = in_last && !kept_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      tail_q     <= '0;
      start_q    <= '0;
      dropping_q <= 1'b0;
    end else if (taken) begin
      if (in_i.last) begin
        dropping_q <= 1'b0;
        tail_q     <= kept_o ? tail_q + 1'b1 : start_q;
        if (kept_o) start_q <= tail_q + 1'b1;
      end else if (dropping_q || !room) begin
        dropping_q <= 1'b1;
      end else begin
        tail_q <= tail_q + 1'b1;
      end
    end
  end

  end_t    ended;
  logic    ended_valid;
  judged_t judged;
  logic    judged_valid;
  logic    verdicts_ready;
  logic    read;
  logic    skip;
  logic    out_valid_q;
  logic    out_more_q;
  logic    leave;
  beat_t   out;
  logic [1:0][$clog2(Frames):0] unused_level;

  fifo #(
    .T(end_t),
    .Depth(Frames)
  ) u_ends (
    .clk_i,
    .rst_ni,
    .in_valid_i(kept_o),
    .in_ready_o(ends_ready),
    .in_i(end_in),
    .out_valid_o(ended_valid),
    .out_ready_i(leave),
    .out_o(ended),
    .level_o(unused_level[0])
  );

  fifo #(
    .T(judged_t),
    .Depth(Frames)
  ) u_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i(verdict_valid_i),
    .in_ready_o(verdicts_ready),
    .in_i('{verdict: verdict_i, good: verdict_good_i}),
    .out_valid_o(judged_valid),
    .out_ready_i(leave),
    .out_o(judged),
    .level_o(unused_level[1])
  );

  ram #(
    .T(beat_t),
    .Depth(Beats)
  ) u_beats (
    .clk_i,
    .write_i(taken && !dropping_q && room),
    .write_address_i(tail_q[Bits-1:0]),
    .write_data_i(in_i),
    .read_i(read),
    .read_address_i(head_q[Bits-1:0]),
    .read_data_o(out)
  );

  // The oldest frame is read beat by beat. Its entry holds the attributes for the output, so it is popped with the
  // last beat; the first beat of the next frame is therefore read one cycle later.
  assign read  = ended_valid && judged_valid && judged.good && (!out_valid_q || (out_ready_i && out_more_q));
  assign skip  = ended_valid && judged_valid && !judged.good;
  assign leave = skip || (out_valid_q && out_ready_i && !out_more_q);

  always_ff @(posedge clk_i) begin
    // More beats of this frame follow the one that was read.
    if (read) out_more_q <= head_q + 1'b1 != ended.behind;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q      <= '0;
      out_valid_q <= 1'b0;
    end else begin
      if (read) begin
        head_q <= head_q + 1'b1;
      end else if (skip) begin
        head_q <= ended.behind;
      end
      if (read) begin
        out_valid_q <= 1'b1;
      end else if (out_ready_i) begin
        out_valid_q <= 1'b0;
      end
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o = out;
  assign out_info_o = ended.info;
  assign out_verdict_o = judged.verdict;
  assign idle_o = tail_q == start_q && !ended_valid && !dropping_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!verdict_valid_i || verdicts_ready)
      else $error("a verdict without a frame");
      assert (!out_valid_q || out.last == !out_more_q)
      else $error("the end of a frame is not where it was");
    end
  end

endmodule
