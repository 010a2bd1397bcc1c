// The host's calls of an engine and their answers, transferred word by word through registers.
//
// For a call the host writes the payload, in 32-bit words with the first byte in the lowest lane, then token, kind
// and length, and then `go`. An answer stays until the host has read it. Until then the next answer waits, and with
// it all other messages of the engine. A driver that makes calls must therefore read the answers.
//
// Latency: a cycle for each beat. Throughput: that of registers; bulk data belongs on the network. Order: kept.
// Stalls: the engine, while an answer has not been read.
module host_calls
  import weft_pkg::*;
  import engines_pkg::*;
#(
  parameter int unsigned BytesMax = 2048
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  // A word of the call's payload.
  input  logic                   word_valid_i,
  input  logic            [31:0] word_i,
  // Starts the call; `busy` until the engine has accepted it.
  input  logic                   go_i,
  input  logic            [31:0] token_i,
  input  logic            [ 7:0] kind_i,
  input  message_bytes_t         bytes_i,
  output logic                   busy_o,
  output logic                   call_valid_o,
  input  logic                   call_ready_i,
  output engine_event_t          call_o,
  output logic                   call_payload_valid_o,
  input  logic                   call_payload_ready_i,
  output beat_t                  call_payload_o,
  // An answer.
  input  logic                   answer_valid_i,
  output logic                   answer_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  engine_message_t        answer_i,              // a host has no MAC address and port, so these are ignored
  // verilator lint_on UNUSEDSIGNAL
  input  logic                   answer_body_valid_i,
  output logic                   answer_body_ready_o,
  input  beat_t                  answer_body_i,
  output logic                   answered_o,
  output logic            [31:0] answer_token_o,
  output logic            [ 7:0] answer_kind_o,
  output message_bytes_t         answer_bytes_o,
  // The next word of the answer. `next` advances by a word; `done` frees the buffer for the next answer.
  output logic            [31:0] answer_word_o,
  input  logic                   answer_next_i,
  input  logic                   answer_done_i,
  output logic                   idle_o
);

  localparam int unsigned Beats = BytesMax / BeatBytes;
  localparam int unsigned BeatWords = BeatBytes / 4;
  localparam int unsigned Words = BytesMax / 4;

  typedef logic [$clog2(Beats)-1:0] beat_index_t;
  typedef logic [$clog2(Words)-1:0] word_index_t;

  // The call: words are collected in a beat. The beat is written to memory with every word, so an incomplete beat is
  // in memory as well.
  word_index_t                fill_q;
  logic        [BeatBits-1:0] gather_q;
  logic        [BeatBits-1:0] gathered;

  always_comb begin
    gathered = fill_q[$clog2(BeatWords)-1:0] == '0 ? '0 : gather_q;
    gathered[32*fill_q[$clog2(BeatWords)-1:0]+:32] = word_i;
  end

  typedef enum logic [1:0] {
    Fill,
    Offer,
    Read,
    Pass
  } state_e;

  state_e                     state_q;
  beat_index_t                out_q;
  beat_index_t                final_q;
  logic        [BeatBits-1:0] out_data;
  logic                       out_last;

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Beats)
  ) u_call (
    .clk_i,
    .write_i        (word_valid_i && state_q == Fill),
    .write_address_i(fill_q[$bits(word_index_t)-1:$clog2(BeatWords)]),
    .write_data_i   (gathered),
    .read_i         (1'b1),
    .read_address_i (state_q == Pass && call_payload_ready_i ? out_q + 1'b1 : out_q),
    .read_data_o    (out_data)
  );

  assign out_last = out_q == final_q;
  assign busy_o = state_q != Fill;
  assign call_valid_o = state_q == Offer;
  assign call_payload_valid_o = state_q == Pass;
  assign call_payload_o = '{last: out_last, empty: out_last ? 6'(-bytes_i) : '0, data: out_data};

  always_comb begin
    call_o = '0;
    call_o.kind = EventCall;
    call_o.last = 1'b1;
    call_o.caller.kind = CallerHost;
    call_o.caller.address = token_i;
    call_o.message = kind_i;
    call_o.bytes = bytes_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= Fill;
      fill_q  <= '0;
    end else begin
      unique case (state_q)
        Fill: begin
          if (word_valid_i) fill_q <= fill_q + 1'b1;
          if (go_i) state_q <= Offer;
        end
        Offer:   if (call_ready_i) state_q <= bytes_i == '0 ? Fill : Read;
        Read:    state_q <= Pass;
        default: if (call_payload_ready_i && out_last) state_q <= Fill;
      endcase
      if (state_q == Offer) fill_q <= '0;
    end
    if (word_valid_i) gather_q <= gathered;
    if (state_q == Offer) begin
      out_q   <= '0;
      final_q <= beat_index_t'((bytes_i - 1'b1) >> $clog2(BeatBytes));
    end else if (state_q == Pass && call_payload_ready_i) begin
      out_q <= out_q + 1'b1;
    end
  end

  // The answer.
  logic                       occupied_q;
  logic                       arriving_q;
  beat_index_t                in_q;
  word_index_t                word_q;
  logic        [BeatBits-1:0] answer_data;

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Beats)
  ) u_answer (
    .clk_i,
    .write_i        (answer_body_valid_i && answer_body_ready_o),
    .write_address_i(in_q),
    .write_data_i   (answer_body_i.data),
    .read_i         (1'b1),
    .read_address_i (word_q[$bits(word_index_t)-1:$clog2(BeatWords)]),
    .read_data_o    (answer_data)
  );

  assign answer_ready_o = !occupied_q;
  assign answer_body_ready_o = arriving_q || (answer_valid_i && answer_ready_o);
  assign answered_o = occupied_q && !arriving_q;
  assign answer_word_o = answer_data[32*word_q[$clog2(BeatWords)-1:0]+:32];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      occupied_q <= 1'b0;
      arriving_q <= 1'b0;
      in_q       <= '0;
      word_q     <= '0;
    end else begin
      if (answer_valid_i && answer_ready_o) begin
        occupied_q <= 1'b1;
        arriving_q <= answer_i.bytes != '0;
        word_q     <= '0;
      end
      if (answer_body_valid_i && answer_body_ready_o) begin
        in_q <= answer_body_i.last ? '0 : in_q + 1'b1;
        if (answer_body_i.last) arriving_q <= 1'b0;
      end
      if (answer_next_i) word_q <= word_q + 1'b1;
      if (answer_done_i && answered_o) occupied_q <= 1'b0;
    end
    if (answer_valid_i && answer_ready_o) begin
      answer_token_o <= answer_i.caller.address;
      answer_kind_o  <= answer_i.message;
      answer_bytes_o <= answer_i.bytes;
    end
  end

  assign idle_o = state_q == Fill && !arriving_q;

endmodule
