// Property of packet_fifo: exactly the elements of good packets leave, in order and once. Lost and bad packets leave
// no element.
//
// Elements are numbered from the end of the last packet that was kept, so a packet that is lost uses no numbers. The
// solver chooses each verdict, and the harness stores it with the packet's slots. An element that leaves must belong
// to a good packet, and one that is skipped to a bad packet. This is inductive: it holds for any number of packets.
module packet_fifo_formal #(
  parameter int unsigned Depth = 4
) (
  input logic clk_i,
  input logic in_valid_i,
  input logic in_last_i,
  input logic in_abort_i,
  input logic verdict_valid_i,
  input logic verdict_good_i,
  input logic out_ready_i
);

  localparam int unsigned IndexBits = $clog2(Depth);
  // Range: twice the number of elements that can be inside.
  typedef logic [IndexBits:0] number_t;
  typedef logic [IndexBits-1:0] index_t;

  logic    rst_n = 1'b0;
  logic    lost;
  logic    out_valid;
  logic    out_last;
  number_t out;
  number_t level;
  logic    empty;

  // Numbers of the next element to be written; of the first element of the packet that is being written; of the next
  // element to leave, skipped or taken.
  number_t put = '0;
  number_t start = '0;
  number_t gone = '0;
  // For each slot: it ends a packet; its packet has a verdict; the verdict is good.
  logic [Depth-1:0] ends;
  logic [Depth-1:0] judged;
  logic [Depth-1:0] good;
  // The number of the first element without a verdict.
  number_t verdict = '0;
  // The packet that is being written has lost an element or been aborted.
  logic    spoilt = 1'b0;

  packet_fifo #(
    .T    (number_t),
    .Depth(Depth)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .in_valid_i,
    .in_last_i,
    .in_abort_i,
    .in_i       (put),
    .in_lost_o  (lost),
    .verdict_valid_i,
    .verdict_good_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_last_o (out_last),
    .out_o      (out),
    .level_o    (level),
    .empty_o    (empty)
  );

  // The end of the oldest packet without a verdict.
  number_t verdict_end;
  always_comb begin
    verdict_end = verdict;
    for (int unsigned i = Depth; i > 0; i--) begin
      if (ends[index_t'(verdict+i-1)] && i <= 32'(number_t'(start - verdict))) verdict_end = number_t'(verdict + i);
    end
  end

  // Number of packets inside that end before `bound`.
  function automatic number_t packets(number_t bound);
    number_t count = '0;
    for (int unsigned i = 0; i < Depth; i++) begin
      if (i < 32'(number_t'(bound - gone)) && ends[index_t'(gone+i)]) count++;
    end
    return count;
  endfunction

  // The element at the front leaves in this cycle.
  logic leaves;
  assign leaves = dut.pop;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      if (in_valid_i) begin
        spoilt <= !in_last_i && (spoilt || lost);
        if (!lost) begin
          put <= put + 1'b1;
          ends[index_t'(put)] <= in_last_i;
          judged[index_t'(put)] <= 1'b0;
          if (in_last_i) start <= put + 1'b1;
        end else if (in_last_i) begin
          put <= start;
        end
      end
      if (verdict_valid_i) begin
        verdict <= verdict_end;
        for (int unsigned i = 0; i < Depth; i++) begin
          if (i < 32'(number_t'(verdict_end - verdict))) begin
            judged[index_t'(verdict+i)] <= 1'b1;
            good[index_t'(verdict+i)]   <= verdict_good_i;
          end
        end
      end
      if (leaves) gone <= gone + 1'b1;
    end
  end

  logic    stalled = 1'b0;
  logic    stalled_last;
  number_t stalled_out;
  always_ff @(posedge clk_i) begin
    stalled      <= rst_n && out_valid && !out_ready_i;
    stalled_last <= out_last;
    stalled_out  <= out;
  end

  always_comb begin
    if (rst_n) begin
      // Assumed of the user: a verdict is given only for a packet that is complete.
      assume (!verdict_valid_i || verdict != start);

      assert (level == put - gone && level <= Depth && empty == (put == gone));
      // A packet is lost exactly if one of its elements was aborted or found the FIFO full.
      if (in_valid_i) assert (lost == (spoilt || in_abort_i || level == Depth));
      if (out_valid) begin
        assert (out == gone && judged[index_t'(gone)] && good[index_t'(gone)]);
        assert (out_last == ends[index_t'(gone)]);
      end
      // An element that leaves belongs to a packet with a verdict, and was taken if the verdict is good.
      if (leaves) begin
        assert (gone != start && judged[index_t'(gone)]);
        assert (good[index_t'(gone)] == (out_valid && out_ready_i));
      end
      if (out_valid && out_ready_i) assert (leaves);
      if (stalled) assert (out_valid && out == stalled_out && out_last == stalled_last);

      // Invariants on the contents, for the induction.
      assert (number_t'(verdict - gone) <= number_t'(start - gone));
      assert (number_t'(start - gone) <= number_t'(put - gone));
      assert (dut.tail_q == put && dut.start_q == start && dut.front_q == gone && dut.lost_q == spoilt);
      assert (dut.fetch_q == number_t'(gone + number_t'(dut.loaded_q)));
      if (dut.loaded_q) assert (gone != start && out == gone && out_last == ends[index_t'(gone)]);
      if (start != gone) assert (ends[index_t'(start-1'b1)]);
      if (verdict != gone) assert (ends[index_t'(verdict-1'b1)]);
      assert (number_t'(dut.i_verdicts.level + number_t'(dut.known)) == packets(verdict));
      assert (dut.i_verdicts.level <= number_t'(Depth) && (dut.known || dut.i_verdicts.level == '0));
      assert (dut.written_q == number_t'(packets(start) - packets(verdict)));
      for (int unsigned i = 0; i < Depth; i++) begin
        number_t at;
        at = number_t'(gone + i);
        if (i < 32'(number_t'(put - gone))) begin
          assert (dut.i_elements.memory[index_t'(at)] == {ends[index_t'(at)], at});
          assert (judged[index_t'(at)] == (i < 32'(number_t'(verdict - gone))));
          if (i >= 32'(number_t'(start - gone))) assert (!ends[index_t'(at)]);
        end
        if (i < 32'(number_t'(verdict - gone))) begin
          if (packets(at) == '0)
            assert (dut.good == good[index_t'(at)]);
            else
              assert (dut.i_verdicts.i_ram.memory[index_t'(dut.i_verdicts.head_q+packets(
                  at
              )-1'b1)] == good[index_t'(at)]);
        end
      end

      cover (out_valid && out_last && gone == 3 && put == 5);
      cover (leaves && !out_valid && gone == 2);
      cover (in_valid_i && in_last_i && lost && spoilt && level == Depth);
    end else begin
      assert (put == '0 && start == '0 && gone == '0 && verdict == '0 && !spoilt);
    end
  end

endmodule
