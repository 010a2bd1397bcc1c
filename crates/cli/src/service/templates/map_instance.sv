
  logic [BeatBits-1:0] @name@_data;

  @name@_service i_@name@ (
    .clk_i,
    .value_i(setting.value),
    .beat_i (looked_beat_q),
    .data_o (@name@_data)
  );
