// Moves runs of bytes from one offset within 64-byte beats to another.
//
// A command gives the offset of a run's first byte in its first input beat (`from_i`), its offset in the first output
// beat (`to_i`), and the length in bytes. Input bytes outside the run are ignored. Output beats have the run's bytes
// under the strobe and zeros elsewhere.
//
// Latency: 3 cycles from an input beat to the output beat that it completes; a command is accepted one cycle before
// its first input beat. Throughput: a run of n input and m output beats takes max(n, m) cycles, without a gap between
// runs. Order: runs leave in the order of their commands. Stalls: only when the output does; `in_ready_o` follows
// `out_ready_i` in the same cycle.
//
// Method: every beat is rotated by `to_i - from_i`. An output beat takes its lower bytes, below the rotation, from
// one rotated beat and its upper bytes from the next. Which two these are depends on the direction: when bytes move
// up, output beat k consists of the input beats k-1 and k; when they move down, of k and k+1. The last three rotated
// beats are kept, so output beats of both directions leave from the same stage, and no run waits for a run of the
// other direction.
module realign #(
  // Bytes of a beat; a power of four, at least 4.
  parameter int unsigned BeatBytes = weft_pkg::BeatBytes
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  logic                         command_valid_i,
  output logic                         command_ready_o,
  input  logic [$clog2(BeatBytes)-1:0] from_i,
  input  logic [$clog2(BeatBytes)-1:0] to_i,
  input  logic [                 12:0] bytes_i,          // 1 to 8191
  input  logic                         in_valid_i,
  output logic                         in_ready_o,
  input  logic [      8*BeatBytes-1:0] in_data_i,
  output logic                         out_valid_o,
  input  logic                         out_ready_i,
  output logic [      8*BeatBytes-1:0] out_data_o,
  output logic [        BeatBytes-1:0] out_strobe_o,
  output logic                         out_last_o
);

  localparam int unsigned OffsetBits = $clog2(BeatBytes);
  localparam int unsigned Bits = 8 * BeatBytes;
  // Steps of a run, less one.
  localparam int unsigned CountBits = 14 - OffsetBits;

  typedef logic [OffsetBits-1:0] offset_t;
  typedef logic [Bits-1:0] data_t;
  typedef logic [1:0] select_t;

  // A run's command, converted for its beats. A run takes `max(n, m)` steps. In step k, input beat k of the run
  // enters, if there is one, and output beat k is produced, if there is one.
  typedef struct packed {
    logic    up;           // bytes keep their offset or move to higher offsets
    offset_t rotation;
    select_t sixteens;     // the digits of the rotation, to base 4
    select_t fours;
    select_t ones;
    offset_t start;        // offset of the run's first byte in its first output beat
    offset_t stop;         // offset of the run's last byte in its last output beat
    logic    input_ends;   // one output beat more than input beats
    logic    output_ends;  // one input beat more than output beats
  } run_t;

  // Attributes of a beat through the rotator.
  typedef struct packed {
    logic    last;        // the last output beat of the run
    logic    emits;       // the step produces an output beat
    logic    needs_next;  // that output beat also needs the next input beat
    logic    up;
    offset_t rotation;
    select_t fours;
    select_t ones;
    offset_t start;       // offset of the run's first byte in this output beat
    offset_t stop;
  } step_t;

  // The command: how many steps its run has.

  // Position of the last byte, counted from the start of the first beat: its offset in its beat, and above that the
  // number of beats in front of it.
  logic [         12:0] end_bytes;
  /* verilator lint_off UNUSEDSIGNAL */  // the offset in the last input beat
  logic [ OffsetBits:0] input_end;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [ OffsetBits:0] output_end;
  logic [          5:0] rotation;
  run_t                 run_d;
  run_t                 run_q;
  logic                 run_valid_q;
  logic                 first_q;
  logic [CountBits-1:0] left_q;  // steps of the run that remain after this one
  logic                 step_valid;
  logic                 step_ready;
  logic                 step_has_input;
  logic                 step_ends;

  assign rotation   = 6'(offset_t'(to_i - from_i));
  assign end_bytes  = bytes_i - 13'd1;
  assign input_end  = {1'b0, from_i} + {1'b0, end_bytes[OffsetBits-1:0]};
  assign output_end = {1'b0, to_i} + {1'b0, end_bytes[OffsetBits-1:0]};

  always_comb begin
    run_d.up = to_i >= from_i;
    run_d.rotation = OffsetBits'(rotation);
    run_d.sixteens = select_of(rotation[5:4]);
    run_d.fours = select_of(rotation[3:2]);
    run_d.ones = select_of(rotation[1:0]);
    run_d.start = to_i;
    run_d.stop = output_end[OffsetBits-1:0];
    // The two end positions differ by less than a beat, so the counts of beats differ by at most one.
    run_d.input_ends = output_end[OffsetBits] && !input_end[OffsetBits];
    run_d.output_ends = input_end[OffsetBits] && !output_end[OffsetBits];
  end

  assign step_ends = left_q == '0;
  assign step_has_input = !(step_ends && run_q.input_ends);
  assign step_valid = run_valid_q && (in_valid_i || !step_has_input);
  assign in_ready_o = run_valid_q && step_has_input && step_ready;
  assign command_ready_o = !run_valid_q || (step_valid && step_ready && step_ends);

  always_ff @(posedge clk_i) begin
    if (command_valid_i && command_ready_o) begin
      run_q   <= run_d;
      first_q <= 1'b1;
      left_q  <= CountBits'(end_bytes[12:OffsetBits]) + CountBits'(input_end[OffsetBits] || output_end[OffsetBits]);
    end else if (step_valid && step_ready) begin
      first_q <= 1'b0;
      left_q  <= left_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) run_valid_q <= 1'b0;
    else if (command_ready_o) run_valid_q <= command_valid_i;
  end

  // The rotator handles one digit of base 4 in front of each register, so that each path has one selection only. A
  // selection among four fits one LUT for each bit, unless the mapper splits it to share a part between two bits. To
  // prevent such sharing, a digit is encoded as `{digit[1] ~^ digit[0], digit[1]}`: its lower bit selects within the
  // pairs of shifts (0, 3) and (1, 2), and no two bits have such a pair in common.
  function automatic select_t select_of(logic [1:0] digit);
    return {digit[1] ~^ digit[0], digit[1]};
  endfunction

  // Bits of rotation for a digit of value one. A short beat has fewer digits: its other digits are 0, and their
  // constants are arbitrary.
  localparam int unsigned Ones = 8;
  localparam int unsigned Fours = BeatBytes > 4 ? 4 * 8 : 8;
  localparam int unsigned Sixteens = BeatBytes > 16 ? 16 * 8 : 8;

  function automatic data_t rotate_sixteens(data_t data, select_t digit);
    data_t outer = digit[0] ? {data[Bits-3*Sixteens-1:0], data[Bits-1:Bits-3*Sixteens]} : data;
    data_t inner = digit[0] ? {data[Bits-2*Sixteens-1:0], data[Bits-1:Bits-2*Sixteens]}
                            : {data[Bits-Sixteens-1:0], data[Bits-1:Bits-Sixteens]};
    return digit[1] ? outer : inner;
  endfunction

  function automatic data_t rotate_fours(data_t data, select_t digit);
    data_t outer = digit[0] ? {data[Bits-3*Fours-1:0], data[Bits-1:Bits-3*Fours]} : data;
    data_t inner = digit[0] ? {data[Bits-2*Fours-1:0], data[Bits-1:Bits-2*Fours]}
                            : {data[Bits-Fours-1:0], data[Bits-1:Bits-Fours]};
    return digit[1] ? outer : inner;
  endfunction

  function automatic data_t rotate_ones(data_t data, select_t digit);
    data_t outer = digit[0] ? {data[Bits-3*Ones-1:0], data[Bits-1:Bits-3*Ones]} : data;
    data_t inner = digit[0] ? {data[Bits-2*Ones-1:0], data[Bits-1:Bits-2*Ones]}
                            : {data[Bits-Ones-1:0], data[Bits-1:Bits-Ones]};
    return digit[1] ? outer : inner;
  endfunction

  step_t step;
  // Beats after the rotation by sixteens; by sixteens and fours; after the whole rotation; and the beat before the
  // last.
  step_t turning_q;
  /* verilator lint_off UNUSEDSIGNAL */  // digits that have been used
  step_t next_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic  turning_valid_q;
  logic  next_valid_q;
  logic  current_valid_q;
  logic  turning_ready;
  logic  next_ready;
  logic  current_ready;
  data_t turning_data_q;
  data_t next_data_q;
  data_t next_data;
  data_t current_data_q;
  data_t previous_data_q;

  always_comb begin
    step.last = step_ends;
    step.emits = 1'b1;
    step.needs_next = !run_q.up && !step_ends;
    step.up = run_q.up;
    step.rotation = run_q.rotation;
    step.fours = run_q.fours;
    step.ones = run_q.ones;
    if (run_q.output_ends) begin
      step.last  = left_q == CountBits'(1);
      step.emits = !step_ends;
    end
    step.start = first_q ? run_q.start : '0;
    step.stop  = step.last ? run_q.stop : '1;
  end

  assign step_ready = !turning_valid_q || turning_ready;
  assign turning_ready = !next_valid_q || next_ready;
  assign next_ready = !current_valid_q || current_ready;

  assign next_data = rotate_ones(next_data_q, next_q.ones);

  always_ff @(posedge clk_i) begin
    if (step_valid && step_ready) begin
      turning_q <= step;
      turning_data_q <= rotate_sixteens(in_data_i, run_q.sixteens);
    end
    if (turning_valid_q && turning_ready) begin
      next_q <= turning_q;
      next_data_q <= rotate_fours(turning_data_q, turning_q.fours);
    end
    if (next_valid_q && next_ready) begin
      current_data_q  <= next_data;
      previous_data_q <= current_data_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      turning_valid_q <= 1'b0;
      next_valid_q <= 1'b0;
      current_valid_q <= 1'b0;
    end else begin
      if (step_ready) turning_valid_q <= step_valid;
      if (turning_ready) next_valid_q <= turning_valid_q;
      if (next_ready) current_valid_q <= next_valid_q;
    end
  end

  // The output: three beats merged under masks that were computed in the previous cycle, so that each bit takes one
  // 6-input LUT.

  logic                 last_q;
  logic                 emits_q;
  logic                 needs_next_q;
  logic                 up_q;
  logic [BeatBytes-1:0] lower_q;  // bytes below the rotation
  logic [BeatBytes-1:0] strobe_q;  // all zeros while there is no beat

  always_ff @(posedge clk_i) begin
    if (next_valid_q && next_ready) begin
      last_q <= next_q.last;
      emits_q <= next_q.emits;
      needs_next_q <= next_q.needs_next;
      up_q <= next_q.up;
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        lower_q[i]  <= offset_t'(i) < next_q.rotation;
        strobe_q[i] <= offset_t'(i) >= next_q.start && offset_t'(i) <= next_q.stop;
      end
    end
    if (next_ready && !next_valid_q) strobe_q <= '0;
  end

  assign out_valid_o = current_valid_q && emits_q && (next_valid_q || !needs_next_q);
  assign current_ready = out_valid_o ? out_ready_i : !emits_q;
  assign out_strobe_o = strobe_q;
  assign out_last_o = last_q;

  always_comb begin
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      out_data_o[8*i+:8] = '0;
      if (strobe_q[i]) begin
        if (lower_q[i]) out_data_o[8*i+:8] = up_q ? previous_data_q[8*i+:8] : current_data_q[8*i+:8];
        else out_data_o[8*i+:8] = up_q ? current_data_q[8*i+:8] : next_data[8*i+:8];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && command_valid_i) assert (bytes_i != '0);
  end

endmodule
