// 64-bit event counters.
//
// Each event has a small counter in front of a RAM. A scan visits one event a cycle, adds its small counter to the
// RAM and clears it. A scan of all `N` events takes `N` cycles, and a small counter can hold `N` pulses, so none is
// lost.
//
// A read waits for the scan to reach its counter, so the value includes all pulses up to then.
//
// Latency of a read: 3 to N + 2 cycles. Throughput: all events every cycle. The first scan after reset starts all
// counters at zero. A simulator may skip cycles without an event or a read.
module counters #(
  parameter int unsigned N = 128,  // at least 4
  localparam int unsigned IndexBits = $clog2(N)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  // One-cycle pulses; any number of them may coincide.
  input  logic [        N-1:0] events_i,
  // One read at a time: the next is accepted when the value has been returned.
  input  logic                 read_valid_i,
  output logic                 read_ready_o,
  input  logic [IndexBits-1:0] read_index_i,
  output logic                 value_valid_o,
  output logic [         63:0] value_o
);

  localparam int unsigned FrontBits = $clog2(N + 1);

  typedef logic [IndexBits-1:0] index_t;
  typedef logic [FrontBits-1:0] front_t;

  front_t [N-1:0] front_q;
  index_t         index_q;
  logic           fresh_q;  // first scan after reset: the RAM's words are undefined

  index_t         index_1_q;
  front_t         front_1_q;
  logic           fresh_1_q;
  logic           scan_1_q;
  index_t         index_2_q;
  logic           scan_2_q;
  logic   [ 63:0] sum_2_q;
  logic   [ 63:0] word;
  logic           reading_q;
  index_t         read_index_q;

  ram #(
    .T(logic [63:0]),
    .Depth(2 ** IndexBits)
  ) u_values (
    .clk_i,
    .write_i(scan_2_q),
    .write_address_i(index_2_q),
    .write_data_i(sum_2_q),
    .read_i(1'b1),
    .read_address_i(index_q),
    .read_data_o(word)
  );

  always_ff @(posedge clk_i) begin
    index_1_q <= index_q;
    front_1_q <= front_q[index_q];
    fresh_1_q <= fresh_q;
    index_2_q <= index_1_q;
    sum_2_q   <= (fresh_1_q ? '0 : word) + 64'(front_1_q);
    if (read_valid_i && read_ready_o) read_index_q <= read_index_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      index_q   <= '0;
      fresh_q   <= 1'b1;
      scan_1_q  <= 1'b0;
      scan_2_q  <= 1'b0;
      reading_q <= 1'b0;
      front_q   <= '0;
    end else begin
      scan_1_q <= 1'b1;
      scan_2_q <= scan_1_q;
      index_q  <= index_q == index_t'(N - 1) ? '0 : index_q + 1'b1;
      if (index_q == index_t'(N - 1)) fresh_q <= 1'b0;
      if (read_valid_i && read_ready_o) begin
        reading_q <= 1'b1;
      end else if (value_valid_o) begin
        reading_q <= 1'b0;
      end
      if (events_i != '0) begin
        for (int unsigned i = 0; i < N; i++) begin
          if (events_i[i]) front_q[i] <= front_q[i] + 1'b1;
        end
      end
      front_q[index_q] <= front_t'(events_i[index_q]);
    end
  end

  // The value must come from a scan that was made with or after the read request.
  logic asked_1_q;
  logic asked_2_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      asked_1_q <= 1'b0;
      asked_2_q <= 1'b0;
    end else begin
      asked_1_q <= reading_q && index_q == read_index_q;
      asked_2_q <= asked_1_q && reading_q;
    end
  end

  assign read_ready_o = !reading_q;
  assign value_valid_o = reading_q && asked_2_q;
  assign value_o = sum_2_q;

endmodule
