// Counts, for each queue pair, the READs and atomics whose first response has been completed.
//
// Latency: a read sees a pulse from the second cycle after it on; a read takes 1 cycle. Throughput: one pulse and one
// read a cycle. Never stalls. Counts wrap around: only differences are meaningful. After reset the responder clears
// them, one a cycle, while there are no pulses.
module responder_answered
  import weft_pkg::*;
  import responder_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,
  input  qp_index_t       clear_qp_i,
  input  logic            pulse_i,
  input  qp_index_t       pulse_qp_i,
  input  logic            read_i,
  input  qp_index_t       read_qp_i,
  output resource_count_t read_data_o
);

  logic            pulse_q;
  qp_index_t       qp_q;
  resource_count_t held;
  resource_count_t old;
  resource_count_t after;
  // The last value written. A read in the same cycle as the write did not see it in the RAM.
  logic            last_q;
  qp_index_t       last_qp_q;
  resource_count_t last_after_q;

  assign old   = last_q && last_qp_q == qp_q ? last_after_q : held;
  assign after = old + 1'b1;

  ram #(
    .T    (resource_count_t),
    .Depth(QueuePairs)
  ) u_count (
    .clk_i,
    .write_i        (clear_i || pulse_q),
    .write_address_i(clear_i ? clear_qp_i : qp_q),
    .write_data_i   (clear_i ? '0 : after),
    .read_i         (pulse_i),
    .read_address_i (pulse_qp_i),
    .read_data_o    (held)
  );

  ram #(
    .T    (resource_count_t),
    .Depth(QueuePairs)
  ) u_copy (
    .clk_i,
    .write_i        (clear_i || pulse_q),
    .write_address_i(clear_i ? clear_qp_i : qp_q),
    .write_data_i   (clear_i ? '0 : after),
    .read_i         (read_i),
    .read_address_i (read_qp_i),
    .read_data_o
  );

  always_ff @(posedge clk_i) begin
    qp_q <= pulse_qp_i;
    last_qp_q <= qp_q;
    last_after_q <= after;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      pulse_q <= 1'b0;
      last_q  <= 1'b0;
    end else begin
      pulse_q <= pulse_i;
      last_q  <= pulse_q;
    end
  end

endmodule
