// Property of realign: byte i of an input transfer is byte i of the output transfer, at its position and with its
// strobe, and no other byte is strobed, for all offsets, lengths and timings of source and consumer.
//
// Every byte carries the number of its transfer and its own index, so loss, duplication and confusion of transfers
// are detected as well. Beats have four bytes here; in the block, only the stages of the rotator depend on the size
// of a beat. This is a bounded proof: it covers all runs of the depth that realign.sby states.
module realign_formal (
  input logic        clk_i,
  input logic        command_valid_i,
  input logic [ 1:0] from_i,
  input logic [ 1:0] to_i,
  input logic [ 3:0] bytes_i,
  input logic        in_valid_i,
  input logic [31:0] garbage_i,
  input logic        out_ready_i
);

  localparam int unsigned Beat = 4;
  localparam int unsigned Transfers = 2;
  localparam int unsigned BytesMax = 6;

  typedef struct packed {
    logic [1:0] from;
    logic [1:0] to;
    logic [3:0] bytes;
  } command_t;

  logic                          rst_n = 1'b0;
  logic                          command_ready;
  logic                          in_ready;
  logic     [     Beat-1:0][7:0] in_data;
  logic                          out_valid;
  logic     [     Beat-1:0][7:0] out_data;
  logic     [     Beat-1:0]      out_strobe;
  logic                          out_last;
  // Commands that were accepted, and the current transfer and beat on both sides.
  command_t [Transfers-1:0]      commands = '0;
  logic     [          2:0]      taken = '0;
  logic     [          2:0]      in_transfer = '0;
  logic     [          2:0]      in_beat = '0;
  logic     [          2:0]      out_transfer = '0;
  logic     [          2:0]      out_beat = '0;
  command_t                      in_command;
  command_t                      out_command;

  assign in_command  = commands[in_transfer[0]];
  assign out_command = commands[out_transfer[0]];

  always_comb begin
    for (int unsigned i = 0; i < Beat; i++) begin
      automatic logic [5:0] number = 6'(in_beat) * 6'(Beat) + 6'(i) - 6'(in_command.from);
      in_data[i] = number < 6'(in_command.bytes) ? {in_transfer[1:0], number} : garbage_i[8*i+:8];
    end
  end

  realign #(
    .BeatBytes(Beat)
  ) dut (
    .clk_i,
    .rst_ni         (rst_n),
    .command_valid_i(rst_n && command_valid_i && taken < Transfers),
    .command_ready_o(command_ready),
    .from_i,
    .to_i,
    .bytes_i        (13'(bytes_i)),
    .in_valid_i     (rst_n && in_valid_i && in_transfer < taken),
    .in_ready_o     (in_ready),
    .in_data_i      (in_data),
    .out_valid_o    (out_valid),
    .out_ready_i,
    .out_data_o     (out_data),
    .out_strobe_o   (out_strobe),
    .out_last_o     (out_last)
  );

  function automatic logic [2:0] last_beat(logic [1:0] offset, logic [3:0] bytes);
    logic [4:0] place = 5'(offset) + 5'(bytes) - 5'd1;
    return place[4:2];
  endfunction

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n && command_valid_i && taken < Transfers && command_ready) begin
      commands[taken[0]] <= {from_i, to_i, bytes_i};
      taken              <= taken + 1'b1;
    end
    if (rst_n && in_valid_i && in_transfer < taken && in_ready) begin
      if (in_beat == last_beat(in_command.from, in_command.bytes)) begin
        in_transfer <= in_transfer + 1'b1;
        in_beat     <= '0;
      end else begin
        in_beat <= in_beat + 1'b1;
      end
    end
    if (rst_n && out_valid && out_ready_i) begin
      if (out_last) begin
        out_transfer <= out_transfer + 1'b1;
        out_beat     <= '0;
      end else begin
        out_beat <= out_beat + 1'b1;
      end
    end
  end

  logic                 stalled = 1'b0;
  logic [Beat-1:0][7:0] stalled_data = '0;
  logic [Beat-1:0]      stalled_strobe = '0;
  always_ff @(posedge clk_i) begin
    stalled        <= rst_n && out_valid && !out_ready_i;
    stalled_data   <= out_data;
    stalled_strobe <= out_strobe;
  end

  always_comb begin
    assume (bytes_i >= 1 && bytes_i <= BytesMax);
    if (rst_n) begin
      if (out_valid) begin
        assert (out_transfer < taken);
        assert (out_last == (out_beat == last_beat(out_command.to, out_command.bytes)));
        for (int unsigned i = 0; i < Beat; i++) begin
          automatic logic [5:0] number = 6'(out_beat) * 6'(Beat) + 6'(i) - 6'(out_command.to);
          assert (out_strobe[i] == (number < 6'(out_command.bytes)));
          assert (out_data[i] == (out_strobe[i] ? {out_transfer[1:0], number} : 8'd0));
        end
      end
      if (stalled) assert (out_valid && out_data == stalled_data && out_strobe == stalled_strobe);
      // The depth suffices for two transfers, one of them of two beats.
      cover (out_transfer == 2 && commands[0].bytes > 4);
    end
  end

endmodule
