// Types and sizes of the inspection. The tables are generated: generated/inspect_tables_pkg.sv.
package inspect_pkg;

  // Latencies in cycles: of the scores of a beat, of the segment of a beat's scores, and from a packet's last beat to
  // its verdict.
  localparam int unsigned InspectScoresLatency = 3;
  localparam int unsigned InspectSegmentLatency = 6;
  localparam int unsigned InspectLatency = InspectScoresLatency + InspectSegmentLatency + 1;

  // A byte is repeated if it and those before it, `InspectRepeatLength` in all, are equal to the bytes at a distance up
  // to `InspectRepeatDistance`.
  localparam int unsigned InspectRepeatLength = 3;
  localparam int unsigned InspectRepeatDistance = 16;
  // Bytes before a beat that matter for its scores.
  localparam int unsigned InspectHistory = InspectRepeatDistance + InspectRepeatLength - 1;

  // The score of a byte is the sum of at most four entries from -63 to 63. The best run of 4,096 bytes has less than
  // 2^20.
  typedef logic signed [8:0] inspect_score_t;
  typedef logic [19:0] inspect_sum_t;

  // Lowest first: the score of the best run, whether the packet begins a message, and whether it is flagged.
  typedef struct packed {
    logic flagged;
    logic begins;
    logic [29:0] score;
  } inspect_verdict_t;

  // State of a flow: its flagged packets, and the highest score of a packet of the current message.
  typedef struct packed {
    logic [31:0] flagged;
    logic [31:0] message_score;
  } inspect_state_t;

endpackage
