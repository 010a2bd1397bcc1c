// Moves runs of bytes from one offset within 64-byte beats to another.
//
// A command says where the first byte of a run lies in its first input beat (`from_i`), where it shall lie in its first
// output beat (`to_i`), and how many bytes the run has. Its input beats are raw: what lies outside the run is ignored.
// Its output beats have the run's bytes under the strobe and zeros elsewhere.
//
// Latency: 3 cycles from an input beat to the output beat that it completes; a command is taken one cycle before its
// first input beat. Throughput: a run of n input and m output beats takes max(n, m) cycles, with none between runs. Order:
// runs leave in the order of their commands. Stalls: only when the output does; `in_ready_o` follows `out_ready_i` in the
// same cycle, and no register between them fills up: put a skid buffer where that path is too long.
//
// How: every beat is rotated by `to_i - from_i`, and an output beat takes its lower bytes, below the rotation, from one
// rotated beat and its upper ones from the next. Which two these are depends on the direction. When bytes move up, output
// beat k is made of the input beats k-1 and k; when they move down, of k and k+1. The last three rotated beats are kept,
// so that both kinds leave at the same place and no run has to wait for one of the other kind.
module realign (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         command_valid_i,
  output logic         command_ready_o,
  input  logic [5:0]   from_i,
  input  logic [5:0]   to_i,
  input  logic [12:0]  bytes_i,  // 1 to 8191
  input  logic         in_valid_i,
  output logic         in_ready_o,
  input  logic [511:0] in_data_i,
  output logic         out_valid_o,
  input  logic         out_ready_i,
  output logic [511:0] out_data_o,
  output logic [63:0]  out_strobe_o,
  output logic         out_last_o
);

  // A run's command, as its beats need it. A run goes through in `max(n, m)` steps. In step k the run's input beat k, if
  // there is one, enters, and leads to output beat k, if there is one.
  typedef struct packed {
    logic       up;          // bytes keep their place or move to higher offsets
    logic [5:0] rotation;
    logic [5:0] start;       // of the run in its first output beat
    logic [5:0] stop;        // of the run in its last output beat: the last byte's place
    logic       input_ends;  // one output beat more than input beats
    logic       output_ends; // one input beat more than output beats
  } run_t;

  // What accompanies a beat through the rotator.
  typedef struct packed {
    logic       first;
    logic       last;       // of the output beats
    logic       emits;      // there is an output beat
    logic       needs_next; // which cannot leave before the next input beat has come
    logic       up;
    logic [5:0] rotation;
    logic [5:0] start;
    logic [5:0] stop;
  } step_t;

  // The command: how many steps its run has.

  // Where the last byte lies, counted from the first beat on.
  /* verilator lint_off UNUSEDSIGNAL */  // the place in the last input beat
  logic [13:0] input_span;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [13:0] output_span;
  run_t        run_d;
  run_t        run_q;
  logic        run_valid_q;
  logic        first_q;
  logic [7:0]  left_q;  // steps behind this one
  logic        step_valid;
  logic        step_ready;
  logic        step_has_input;
  logic        step_ends;

  assign input_span = 14'(from_i) + 14'(bytes_i) - 14'd1;
  assign output_span = 14'(to_i) + 14'(bytes_i) - 14'd1;

  always_comb begin
    run_d.up = to_i >= from_i;
    run_d.rotation = to_i - from_i;
    run_d.start = to_i;
    run_d.stop = output_span[5:0];
    // The spans differ by less than a beat, so the counts of beats differ by one at most.
    run_d.input_ends = run_d.up && input_span[6] != output_span[6];
    run_d.output_ends = !run_d.up && input_span[6] != output_span[6];
  end

  assign step_ends = left_q == '0;
  assign step_has_input = !(step_ends && run_q.input_ends);
  assign step_valid = run_valid_q && (in_valid_i || !step_has_input);
  assign in_ready_o = run_valid_q && step_has_input && step_ready;
  assign command_ready_o = !run_valid_q || (step_valid && step_ready && step_ends);

  always_ff @(posedge clk_i) begin
    if (command_valid_i && command_ready_o) begin
      run_q <= run_d;
      first_q <= 1'b1;
      left_q <= run_d.up ? output_span[13:6] : input_span[13:6];
    end else if (step_valid && step_ready) begin
      first_q <= 1'b0;
      left_q <= left_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) run_valid_q <= 1'b0;
    else if (command_ready_o) run_valid_q <= command_valid_i;
  end

  // The rotator: by multiples of 4 bytes on the way into the first register, by the rest on the way into the second.

  function automatic logic [511:0] rotate_by_words(logic [511:0] data, logic [3:0] words);
    logic [511:0] coarse;
    unique case (words[3:2])
      2'd0: coarse = data;
      2'd1: coarse = {data[383:0], data[511:384]};
      2'd2: coarse = {data[255:0], data[511:256]};
      2'd3: coarse = {data[127:0], data[511:128]};
    endcase
    unique case (words[1:0])
      2'd0: return coarse;
      2'd1: return {coarse[479:0], coarse[511:480]};
      2'd2: return {coarse[447:0], coarse[511:448]};
      2'd3: return {coarse[415:0], coarse[511:416]};
    endcase
  endfunction

  function automatic logic [511:0] rotate_by_bytes(logic [511:0] data, logic [1:0] bytes);
    unique case (bytes)
      2'd0: return data;
      2'd1: return {data[503:0], data[511:504]};
      2'd2: return {data[495:0], data[511:496]};
      2'd3: return {data[487:0], data[511:488]};
    endcase
  endfunction

  step_t        step;
  // Rotated by words; by words and bytes; and the two before.
  step_t        turning_q;
  step_t        next_q;
  logic         turning_valid_q;
  logic         next_valid_q;
  logic         current_valid_q;
  logic         turning_ready;
  logic         next_ready;
  logic         current_ready;
  logic [511:0] turning_data_q;
  logic [511:0] next_data_q;
  logic [511:0] current_data_q;
  logic [511:0] previous_data_q;

  always_comb begin
    step.first = first_q;
    step.last = step_ends;
    step.emits = 1'b1;
    step.needs_next = !run_q.up && !step_ends;
    step.up = run_q.up;
    step.rotation = run_q.rotation;
    step.start = run_q.start;
    step.stop = run_q.stop;
    if (run_q.output_ends) begin
      step.last = left_q == 8'd1;
      step.emits = !step_ends;
    end
  end

  assign step_ready = !turning_valid_q || turning_ready;
  assign turning_ready = !next_valid_q || next_ready;
  assign next_ready = !current_valid_q || current_ready;

  always_ff @(posedge clk_i) begin
    if (step_valid && step_ready) begin
      turning_q <= step;
      turning_data_q <= rotate_by_words(in_data_i, run_q.rotation[5:2]);
    end
    if (turning_valid_q && turning_ready) begin
      next_q <= turning_q;
      next_data_q <= rotate_by_bytes(turning_data_q, turning_q.rotation[1:0]);
    end
    if (next_valid_q && next_ready) begin
      current_data_q <= next_data_q;
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

  // The output: three beats merged under masks that were made one cycle before.

  logic        last_q;
  logic        emits_q;
  logic        needs_next_q;
  logic        up_q;
  logic [63:0] lower_q;   // bytes below the rotation
  logic [63:0] strobe_q;
  logic [63:0] lower;
  logic [63:0] strobe;

  always_comb begin
    lower = ~(64'hffff_ffff_ffff_ffff << next_q.rotation);
    strobe = 64'hffff_ffff_ffff_ffff;
    if (next_q.first) strobe &= 64'hffff_ffff_ffff_ffff << next_q.start;
    if (next_q.last) strobe &= 64'hffff_ffff_ffff_ffff >> (6'd63 - next_q.stop);
  end

  always_ff @(posedge clk_i) begin
    if (next_valid_q && next_ready) begin
      last_q <= next_q.last;
      emits_q <= next_q.emits;
      needs_next_q <= next_q.needs_next;
      up_q <= next_q.up;
      lower_q <= lower;
      strobe_q <= strobe;
    end
  end

  assign out_valid_o = current_valid_q && emits_q && (next_valid_q || !needs_next_q);
  assign current_ready = out_valid_o ? out_ready_i : !emits_q;
  assign out_strobe_o = strobe_q;
  assign out_last_o = last_q;

  always_comb begin
    out_data_o = '0;
    if (current_valid_q) begin
      for (int unsigned i = 0; i < 64; i++) begin
        if (strobe_q[i]) begin
          if (lower_q[i]) out_data_o[8*i+:8] = up_q ? previous_data_q[8*i+:8] : current_data_q[8*i+:8];
          else out_data_o[8*i+:8] = up_q ? current_data_q[8*i+:8] : next_data_q[8*i+:8];
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && command_valid_i) assert (bytes_i != '0);
    // The beat that a step waits for is of the same run.
    if (rst_ni && out_valid_o && needs_next_q) assert (!next_q.first);
  end

endmodule
