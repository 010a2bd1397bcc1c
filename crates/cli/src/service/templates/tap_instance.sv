  logic [31:0] @name@_early;
  logic [31:0] @name@_verdict;
  logic [63:0] @name@_state;

  @name@_service i_@name@ (
    .clk_i,
    .rst_ni,
    .valid_i   (looked_q),
    .value_i   (setting.value),
    .beat_i    (looked_beat_q),
    .verdict_o (@name@_early),
    .state_i   (state),
    .accepted_i(accept_q.verdict),
    .state_o   (@name@_state)
  );

  if (Inspect) begin : gen_@name@
    delay #(
      .T     (logic [31:0]),
      .Cycles(TapLatency - CountLatency)
    ) i_@name@_verdict (
      .clk_i,
      .in_i (@name@_early),
      .out_o(@name@_verdict)
    );
  end else begin : gen_@name@_early
    assign @name@_verdict = @name@_early;
  end

