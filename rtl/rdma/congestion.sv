// The congestion window: how many packets a queue pair may have outstanding after an event. Pure logic; the
// requester's state holds the two numbers that persist.
//
// Acknowledgements clock the transport (BALBOA 4.4): a packet that is sent takes one credit of the window, and its
// acknowledgement returns the credit. With `AdditiveIncrease` the window grows by one packet for each acknowledged
// window, is halved on a congestion mark or a gap, and shrinks to one packet after a time-out. Otherwise the window
// is fixed, for lossless networks. If several happen in one event, they apply in the order mark, acknowledgement,
// loss.
//
// One event lets the window grow by at most two packets. More can only be due when the window has just shrunk; the
// excess counts with the next acknowledgement.
module congestion
  import weft_pkg::*;
#(
  parameter bit          AdditiveIncrease = 1'b0,
  // 1 to WindowPackets.
  parameter int unsigned Limit            = WindowPackets
) (
  input  logic [6:0] window_i,
  // Packets that were acknowledged since the window last changed.
  input  logic [7:0] acknowledged_i,
  input  logic       mark_i,
  input  logic [6:0] packets_i,
  input  logic       gap_i,
  input  logic       time_out_i,
  output logic [6:0] window_o,
  output logic [7:0] acknowledged_o
);

  if (AdditiveIncrease) begin : g_additive

    function automatic logic [6:0] half(logic [6:0] window);
      return window <= 7'd1 ? 7'd1 : window >> 1;
    endfunction

    always_comb begin
      logic [8:0] sum;
      window_o = mark_i ? half(window_i) : window_i;
      sum = {1'b0, mark_i ? 8'd0 : acknowledged_i} + {2'b0, packets_i};
      acknowledged_o = sum[8] ? 8'hff : sum[7:0];
      for (int step = 0; step < 2; step++) begin
        if (acknowledged_o >= {1'b0, window_o}) begin
          acknowledged_o = acknowledged_o - {1'b0, window_o};
          if (window_o < 7'(Limit)) window_o = window_o + 1'b1;
        end
      end
      if (time_out_i || gap_i) begin
        window_o = time_out_i ? 7'd1 : half(window_o);
        acknowledged_o = '0;
      end
    end

  end else begin : g_fixed

    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    assign unused = ^{window_i, acknowledged_i, mark_i, packets_i, gap_i, time_out_i};
    // verilator lint_on UNUSEDSIGNAL
    assign window_o = 7'(Limit);
    assign acknowledged_o = '0;

  end

endmodule
