// The score of each byte of a beat, 0 for lanes without a byte. Twin of crates/service/src/inspect/scan.rs.
//
// Latency: `InspectScoresLatency` cycles: the classes of the bytes and which of them are equal; the tables; the sums.
// Throughput: a beat every cycle. The bytes before a beat are those of the same packet, which the last beat left.
module inspect_scores
  import weft_pkg::*;
  import services_pkg::*;
  import inspect_pkg::*;
  import inspect_tables_pkg::*;
(
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  logic                           valid_i,
  input  service_beat_t                  beat_i,
  output inspect_score_t [BeatBytes-1:0] scores_o
);

  localparam int unsigned History = InspectHistory;
  localparam int unsigned Window = History + BeatBytes;
  localparam int unsigned Farthest = 4;

  // The bytes of the beat behind those before it. `present` tells which of them belong to the packet.
  logic [History-1:0][7:0] before_q;
  logic [History-1:0]      before_present_q;
  logic [ Window-1:0][7:0] bytes;
  logic [ Window-1:0]      present;

  assign bytes   = {beat_i.data, before_q};
  assign present = {valid_i ? beat_i.strobe : '0, before_present_q};

  always_ff @(posedge clk_i) begin
    if (valid_i) before_q <= beat_i.data[BeatBits-1-:8*History];
    if (!rst_ni) before_present_q <= '0;
    else if (valid_i) before_present_q <= beat_i.last ? '0 : beat_i.strobe[BeatBytes-1-:History];
  end

  // Classes: for lane i they are at i + Farthest.
  logic [BeatBytes+Farthest-1:0][4:0] kinds;

  for (genvar i = 0; i < BeatBytes + Farthest; i++) begin : gen_kinds
    assign kinds[i] = InspectKind[bytes[History-Farthest+i]];
  end

  // Cycle 1: addresses, which lanes have bytes at which distances, and which bytes are equal at a distance.
  logic [                    BeatBytes-1:0][11:0] pair_q;
  logic [                    BeatBytes-1:0][10:0] skip_q [             2:Farthest];
  logic [                    BeatBytes-1:0]       there_q[             1:Farthest];
  logic [BeatBytes+InspectRepeatLength-2:0]       equal_q[1:InspectRepeatDistance];

  for (genvar i = 0; i < BeatBytes; i++) begin : gen_addresses
    localparam int unsigned At = History + i;
    always_ff @(posedge clk_i) begin
      pair_q[i] <= {InspectBefore[bytes[At-1]], InspectOwn[bytes[At]]};
      for (int unsigned d = 1; d <= Farthest; d++) there_q[d][i] <= present[At] && present[At-d];
      for (int unsigned d = 2; d <= Farthest; d++) begin
        skip_q[d][i] <= {bytes[At] == bytes[At-d], kinds[i+Farthest-d], kinds[i+Farthest]};
      end
    end
  end

  for (genvar d = 1; d <= InspectRepeatDistance; d++) begin : gen_equal
    for (genvar i = 0; i < BeatBytes + InspectRepeatLength - 1; i++) begin : gen_bytes
      localparam int unsigned At = InspectRepeatDistance + i;
      always_ff @(posedge clk_i) equal_q[d][i] <= present[At] && present[At-d] && bytes[At] == bytes[At-d];
    end
  end

  // Cycle 2: the entries of the tables, and which bytes are repeated.
  logic signed [BeatBytes-1:0][6:0] entry      [1:Farthest];
  logic        [BeatBytes-1:0]      there_2_q  [1:Farthest];
  logic        [BeatBytes-1:0]      repeated_q;

  for (genvar i = 0; i < BeatBytes; i += 2) begin : gen_tables
    inspect_table #(
      .Distance(1)
    ) i_pairs (
      .clk_i,
      .a_i(pair_q[i]),
      .b_i(pair_q[i+1]),
      .a_o(entry[1][i]),
      .b_o(entry[1][i+1])
    );
    for (genvar d = 2; d <= Farthest; d++) begin : gen_skips
      inspect_table #(
        .Distance(d)
      ) i_skips (
        .clk_i,
        .a_i(skip_q[d][i]),
        .b_i(skip_q[d][i+1]),
        .a_o(entry[d][i]),
        .b_o(entry[d][i+1])
      );
    end
  end

  always_ff @(posedge clk_i) there_2_q <= there_q;

  for (genvar i = 0; i < BeatBytes; i++) begin : gen_repeated
    logic repeated;
    always_comb begin
      repeated = 1'b0;
      for (int unsigned d = 1; d <= InspectRepeatDistance; d++) repeated |= equal_q[d][i+:InspectRepeatLength] == '1;
    end
    always_ff @(posedge clk_i) repeated_q[i] <= repeated;
  end

  // Cycle 3: the sums. A byte that has none before it scores 0, and so does a lane without a byte.
  for (genvar i = 0; i < BeatBytes; i++) begin : gen_sums
    inspect_score_t sum;
    always_comb begin
      sum = '0;
      for (int unsigned d = 1; d <= Farthest; d++) begin
        if (there_2_q[d][i]) sum += 9'(signed'(entry[d][i]));
      end
    end
    always_ff @(posedge clk_i) scores_o[i] <= repeated_q[i] ? 9'(InspectRepeated) : sum;
  end

endmodule
