// Services behind the card's service slot, with the registers of the driver.
//
// The transport has accepted all payload that comes from the slot, so a tap's verdict changes the state at once, and
// the card gets a judgement of each packet: marked or not.
//
// Latency of a beat: that of `services`. Throughput: a beat every cycle; packets of one beat, one every other cycle.
// Stalls: beats, while `served_ready_i` is low, while verdicts wait, and after reset until all settings are cleared.
module service_port
  import weft_pkg::*;
  import preprocess_pkg::*;
  import services_pkg::*;
#(
  // 0 leaves the preprocessing or the inspection out.
  parameter bit Preprocess = 1'b1,
  parameter bit Inspect    = 1'b1
) (
  input logic clk_i,
  input logic rst_ni,

  // Writes are ignored while `readings_o.busy` is set.
  input  service_registers_t registers_i,
  output service_readings_t  readings_o,

  // The card: see rtl/rdma/placement_services.sv.
  output logic          serve_valid_o,
  output qp_index_t     serve_qp_o,
  output logic          serve_o,
  input  logic          service_valid_i,
  output logic          service_ready_o,
  input  service_beat_t service_i,
  output logic          served_valid_o,
  input  logic          served_ready_i,
  output service_beat_t served_o,
  output logic          judged_valid_o,
  output logic          judged_marked_o,

  output logic idle_o
);

  localparam int unsigned VerdictDepth = 32;

  // Registers.

  flow_t                                           flow_q;
  setting_t                                        setting_q;
  rule_t                                           rule_q;
  logic              [ServiceEntryWords-1:0][31:0] entry_q;
  logic                                            configure_q;
  logic                                            configure_ready;
  logic                                            read_q;
  logic                                            read_ready;
  logic                                            reading_q;
  logic                                            read_done;
  logic              [                 63:0]       state;
  logic              [                 63:0]       state_q;
  logic                                            busy;
  logic                                            write;
  logic                                            entry_valid;
  preprocess_write_t                               entry;

  assign busy = configure_q || read_q || reading_q;
  assign readings_o = '{present: 1'b1, busy: busy, state: state_q};
  assign write = registers_i.valid && !busy;
  assign entry_valid = write && registers_i.index == ServiceEntry;
  assign entry = '{
          entries: preprocess_table_e'(registers_i.data[11:10]),
          address: registers_i.data[9:0],
          data: $bits(entry.data)'(entry_q)
      };

  always_ff @(posedge clk_i) begin
    if (write) begin
      unique case (registers_i.index)
        ServiceFlow: flow_q <= flow_t'(registers_i.data);
        ServiceKinds: begin
          setting_q.map <= map_e'(registers_i.data[3:0]);
          setting_q.tap <= tap_e'(registers_i.data[7:4]);
          rule_q.action <= action_e'(registers_i.data[11:8]);
        end
        ServiceValueLow: setting_q.value[31:0] <= registers_i.data;
        ServiceValueHigh: setting_q.value[63:32] <= registers_i.data;
        ServiceThreshold: rule_q.threshold <= registers_i.data;
        default: ;
      endcase
      for (int unsigned word = 0; word < ServiceEntryWords; word++) begin
        if (registers_i.index == ServiceEntry0 + 4'(word)) entry_q[word] <= registers_i.data;
      end
    end
    if (read_done) state_q <= state;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      configure_q <= 1'b0;
      read_q      <= 1'b0;
      reading_q   <= 1'b0;
    end else begin
      if (configure_ready) configure_q <= 1'b0;
      if (read_ready) read_q <= 1'b0;
      if (read_q && read_ready) reading_q <= 1'b1;
      else if (read_done) reading_q <= 1'b0;
      if (write && registers_i.index == ServiceConfigure) configure_q <= 1'b1;
      if (write && registers_i.index == ServiceRead) read_q <= 1'b1;
    end
  end

  assign serve_valid_o = configure_q && configure_ready && !flow_q.transmit;
  assign serve_qp_o = flow_q.qp;
  assign serve_o = setting_q.map != MapNone || setting_q.tap != TapNone;

  // The services. Beats enter only while there is room for the verdicts of all packets in front of them.

  logic                                  open;
  logic                                  ready;
  logic                                  verdict_valid;
  tap_verdict_t                          verdict;
  logic                                  accept_valid;
  logic                                  accept_ready;
  tap_verdict_t                          accept;
  logic         [$clog2(VerdictDepth):0] verdicts;
  logic         [$clog2(VerdictDepth):0] unjudged_q;

  assign open = verdicts + unjudged_q < ($clog2(VerdictDepth) + 1)'(VerdictDepth);
  assign service_ready_o = ready && open;

  services #(
    .Preprocess(Preprocess),
    .Inspect   (Inspect)
  ) i_services (
    .clk_i,
    .rst_ni,
    .configure_valid_i       (configure_q),
    .configure_ready_o       (configure_ready),
    .configure_flow_i        (flow_q),
    .configure_i             (setting_q),
    .configure_rule_i        (rule_q),
    .in_valid_i              (service_valid_i && open),
    .in_ready_o              (ready),
    .in_i                    (service_i),
    .out_valid_o             (served_valid_o),
    .out_ready_i             (served_ready_i),
    .out_o                   (served_o),
    .verdict_valid_o         (verdict_valid),
    .verdict_o               (verdict),
    .accept_valid_i          (accept_valid),
    .accept_ready_o          (accept_ready),
    .accept_i                (accept),
    .judged_valid_o,
    .judged_marked_o,
    .read_valid_i            (read_q),
    .read_ready_o            (read_ready),
    .read_flow_i             (flow_q),
    .read_done_o             (read_done),
    .read_state_o            (state),
    .preprocess_write_valid_i(entry_valid),
    .preprocess_write_i      (entry)
  );

  fifo #(
    .T    (tap_verdict_t),
    .Depth(VerdictDepth)
  ) i_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i (verdict_valid),
    /* verilator lint_off PINCONNECTEMPTY */  // beats wait for room
    .in_ready_o (),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i       (verdict),
    .out_valid_o(accept_valid),
    .out_ready_i(accept_ready),
    .out_o      (accept),
    .level_o    (verdicts)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) unjudged_q <= '0;
    else begin
      unjudged_q <= unjudged_q + $bits(unjudged_q)'(service_valid_i && service_ready_o && service_i.last) -
          $bits(unjudged_q)'(verdict_valid);
    end
  end

  assign idle_o = !busy && !registers_i.valid && !accept_valid && unjudged_q == '0 && !served_valid_o;

endmodule
