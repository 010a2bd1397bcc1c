// The driver's registers, behind AXI4-Lite. Commands written to its mailboxes become the input streams of the tables
// and state machines.
//
// registers.rdl defines the registers. A mailbox offers its command from the cycle after the driver wrote `go`. Its
// bit in `status` is set until the command is accepted or, if the command has an answer, until the answer arrives.
// Each mailbox has at most one command in progress; while it has, `go` is ignored.
//
// Latency: 3 cycles from the address and data of a write to the command. Throughput: one access every cycle. Order:
// accesses stay in order; mailboxes are independent of each other. Stalls: a busy mailbox never stalls an access.
module register_block
  import weft_pkg::*;
  import engines_pkg::*;
  import services_pkg::*;
#(
  // Words of state that a query of a queue pair returns; at most 16.
  parameter int unsigned QueryWords = 16,
  parameter int unsigned Counters   = 128
) (
  input  logic                                      clk_i,
  input  logic                                      rst_ni,
  input  cycles_t                                   now_i,
  // AXI4-Lite.
  input  logic                                      axil_awvalid_i,
  output logic                                      axil_awready_o,
  input  logic               [                11:0] axil_awaddr_i,
  input  logic               [                 2:0] axil_awprot_i,
  input  logic                                      axil_wvalid_i,
  output logic                                      axil_wready_o,
  input  logic               [                31:0] axil_wdata_i,
  input  logic               [                 3:0] axil_wstrb_i,
  output logic                                      axil_bvalid_o,
  input  logic                                      axil_bready_i,
  output logic               [                 1:0] axil_bresp_o,
  input  logic                                      axil_arvalid_i,
  output logic                                      axil_arready_o,
  input  logic               [                11:0] axil_araddr_i,
  input  logic               [                 2:0] axil_arprot_i,
  output logic                                      axil_rvalid_o,
  input  logic                                      axil_rready_i,
  output logic               [                31:0] axil_rdata_o,
  output logic               [                 1:0] axil_rresp_o,
  // Settings of the port.
  output mac_address_t                              hardware_o,
  output ipv4_address_t                             address_o,
  output logic                                      rate_control_o,
  output logic                                      read_parts_o,
  output logic               [                 6:0] reorder_packets_o,
  output cycles_t                                   age_limit_o,
  output sniffer_config_t                           sniffer_o,
  // Attributes of queue pairs.
  output logic                                      table_write_valid_o,
  input  logic                                      table_write_ready_i,
  output queue_pair_t                               table_write_o,
  // Memory regions.
  output logic                                      region_write_valid_o,
  input  logic                                      region_write_ready_i,
  output region_index_t                             region_write_index_o,
  output region_t                                   region_write_o,
  // Control of queue pairs; `done` is a pulse that follows each operation.
  output logic                                      control_valid_o,
  input  logic                                      control_ready_i,
  output control_t                                  control_o,
  input  logic                                      control_done_i,
  output logic                                      neighbour_valid_o,
  input  logic                                      neighbour_ready_i,
  output ipv4_address_t                             neighbour_address_o,
  output mac_address_t                              neighbour_mac_o,
  output logic                                      socket_valid_o,
  input  logic                                      socket_ready_i,
  output socket_entry_t                             socket_o,
  input  logic                                      socket_done_i,
  input  logic                                      socket_refused_i,
  // State of a queue pair. The enclosing module chooses the layout of requester and responder.
  output logic                                      query_valid_o,
  input  logic                                      query_ready_i,
  output qp_index_t                                 query_qp_o,
  input  logic                                      query_done_i,
  input  logic               [   32*QueryWords-1:0] query_state_i,
  output logic                                      counter_valid_o,
  input  logic                                      counter_ready_i,
  output logic               [$clog2(Counters)-1:0] counter_index_o,
  input  logic                                      counter_done_i,
  input  logic               [                63:0] counter_value_i,
  output engine_registers_t                         engine_o,
  input  engine_readings_t                          engine_i,
  output queue_registers_t                          queues_o,
  input  queue_readings_t                           queues_i,
  output service_registers_t                        services_o,
  input  service_readings_t                         services_i,
  // All blocks are idle.
  input  logic                                      idle_i
);

  weft_registers_pkg::weft_registers__in_t  in;
  weft_registers_pkg::weft_registers__out_t out;

  weft_registers u_registers (
    .clk(clk_i),
    .rst_n(rst_ni),
    .s_axil_awready(axil_awready_o),
    .s_axil_awvalid(axil_awvalid_i),
    .s_axil_awaddr(axil_awaddr_i),
    .s_axil_awprot(axil_awprot_i),
    .s_axil_wready(axil_wready_o),
    .s_axil_wvalid(axil_wvalid_i),
    .s_axil_wdata(axil_wdata_i),
    .s_axil_wstrb(axil_wstrb_i),
    .s_axil_bready(axil_bready_i),
    .s_axil_bvalid(axil_bvalid_o),
    .s_axil_bresp(axil_bresp_o),
    .s_axil_arready(axil_arready_o),
    .s_axil_arvalid(axil_arvalid_i),
    .s_axil_araddr(axil_araddr_i),
    .s_axil_arprot(axil_arprot_i),
    .s_axil_rready(axil_rready_i),
    .s_axil_rvalid(axil_rvalid_o),
    .s_axil_rdata(axil_rdata_o),
    .s_axil_rresp(axil_rresp_o),
    .hwif_in(in),
    .hwif_out(out)
  );

  // The mailboxes. `offered` is the valid of the command's stream; `busy` stays until the answer arrives.
  typedef enum logic [2:0] {
    QueuePair,
    Region,
    Control,
    Neighbour,
    Socket,
    Query,
    Counter
  } mailbox_e;

  localparam int unsigned Mailboxes = 7;
  localparam logic [Mailboxes-1:0] Answers = 7'b111_0100;

  logic [Mailboxes-1:0] go;
  logic [Mailboxes-1:0] taken;
  logic [Mailboxes-1:0] answered;
  logic [Mailboxes-1:0] offered_q;
  logic [Mailboxes-1:0] busy_q;
  logic                 refused_q;

  always_comb begin
    go[QueuePair] = out.queue_pair.command.go.value;
    go[Region] = out.region.command.go.value;
    go[Control] = out.control.command.go.value;
    go[Neighbour] = out.neighbour.mac_high.go.value;
    go[Socket] = out.socket.go.value;
    go[Query] = out.query.command.go.value;
    go[Counter] = out.counter.command.go.value;
    taken[QueuePair] = table_write_ready_i;
    taken[Region] = region_write_ready_i;
    taken[Control] = control_ready_i;
    taken[Neighbour] = neighbour_ready_i;
    taken[Socket] = socket_ready_i;
    taken[Query] = query_ready_i;
    taken[Counter] = counter_ready_i;
    // Commands without an answer are done when they are accepted.
    answered = offered_q & taken & ~Answers;
    answered[Control] = control_done_i;
    answered[Socket] = socket_done_i;
    answered[Query] = query_done_i;
    answered[Counter] = counter_done_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      offered_q <= '0;
      busy_q    <= '0;
      refused_q <= 1'b0;
    end else begin
      offered_q <= (offered_q & ~taken) | (go & ~busy_q);
      busy_q    <= (busy_q & ~answered) | (go & ~busy_q);
      if (busy_q[Socket] && socket_done_i) refused_q <= socket_refused_i;
    end
  end

  assign table_write_valid_o = offered_q[QueuePair];
  assign table_write_o = '{
          number: out.queue_pair.own_qp.qpn.value,
          destination_qp: out.queue_pair.destination_qp.qpn.value,
          destination: out.queue_pair.destination.address.value,
          destination_mac: {
            out.queue_pair.destination_mac_high.address.value, out.queue_pair.destination_mac_low.address.value
          },
          source_port: out.queue_pair.port.source_port.value,
          domain: out.queue_pair.port.domain.value,
          path_mtu: out.queue_pair.attributes.path_mtu.value,
          max_dest_rd_atomic: out.queue_pair.attributes.max_dest_rd_atomic.value,
          max_rd_atomic: out.queue_pair.attributes.max_rd_atomic.value,
          min_rnr_timer: out.queue_pair.attributes.min_rnr_timer.value,
          timeout: out.queue_pair.attributes.timeout.value,
          retry_count: out.queue_pair.attributes.retry_count.value,
          rnr_retry: out.queue_pair.attributes.rnr_retry.value,
          engine: out.queue_pair.attributes.engine.value
      };

  assign region_write_valid_o = offered_q[Region];
  assign region_write_index_o = region_index_t'(out.region.index.index.value);
  assign region_write_o = '{
          valid: out.region.attributes.valid.value,
          lkey: out.region.lkey.key.value,
          rkey: out.region.rkey.key.value,
          domain: out.region.attributes.domain.value,
          base: {out.region.base_high.address.value, out.region.base_low.address.value},
          length: {out.region.length_high.bytes.value, out.region.length_low.bytes.value},
          access : access_t'(out.region.attributes.access.value),
          target: target_e'(out.region.attributes.target.value),
          write_through: out.region.attributes.write_through.value,
          rpc: out.region.attributes.rpc.value,
          slot: out.region.attributes.slot.value
      };

  assign control_valid_o = offered_q[Control];
  assign control_o = '{
          operation: control_e'(out.control.command.operation.value),
          qp: qp_index_t'(out.control.command.qp.value),
          argument: out.control.argument.argument.value
      };

  assign neighbour_valid_o = offered_q[Neighbour];
  assign neighbour_address_o = out.neighbour.address.address.value;
  assign neighbour_mac_o = {out.neighbour.mac_high.address.value, out.neighbour.mac_low.address.value};

  assign socket_valid_o = offered_q[Socket];
  assign socket_o = '{
          valid: out.socket.valid.value,
          port: out.socket.port.value,
          slot: out.socket.slot.value,
          socket: out.socket.socket.value
      };

  assign query_valid_o = offered_q[Query];
  assign query_qp_o = qp_index_t'(out.query.command.qp.value);
  assign counter_valid_o = offered_q[Counter];
  assign counter_index_o = ($clog2(Counters))'(out.counter.command.index.value);

  assign hardware_o = {out.hardware_high.address.value, out.hardware_low.address.value};
  assign address_o = out.ipv4.address.value;
  assign rate_control_o = out.congestion.rate_control.value;
  assign read_parts_o = out.recovery.read_parts.value;
  assign reorder_packets_o = out.recovery.reorder_packets.value;
  assign age_limit_o = {out.neighbour_age.units.value, 16'h0};
  assign sniffer_o = '{
          receive: out.sniffer.filter.receive.value,
          transmit: out.sniffer.filter.transmit.value,
          roce_only: out.sniffer.filter.roce_only.value,
          match_qp: out.sniffer.filter.match_qp.value,
          qp: out.sniffer.qp.qpn.value,
          match_address: out.sniffer.filter.match_address.value,
          address: out.sniffer.address.address.value,
          snap: out.sniffer.snap.bytes.value
      };

  // The word of an engine call is readable in the cycle after it was written.
  logic word_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) word_valid_q <= 1'b0;
    else word_valid_q <= out.call.data.word.swmod;
  end

  assign engine_o = '{
          enable: out.engine.control.enable.value,
          acknowledge_after_memory: out.engine.control.acknowledge_after_memory.value,
          planted_bug: out.engine.control.planted_bug.value,
          bucket_mask: out.engine.control.bucket_mask.value,
          retransmit: out.engine.retransmit.cycles.value,
          retransmit_max: out.engine.retransmit_max.cycles.value,
          configuration: '{
              node: out.engine.node.node.value,
              epoch: out.engine.epoch.epoch.value,
              full: out.engine.members.full.value,
              joining: out.engine.members.joining.value,
              lease_until: {out.engine.lease_high.cycles.value, out.engine.lease_low.cycles.value}
          },
          configure: out.engine.command.configure.value,
          reset: out.engine.command.reset.value,
          peer_valid: out.engine.peer.go.value,
          peer_node: out.engine.peer.node.value,
          peer: '{valid: out.engine.peer.valid.value, address: out.engine.peer_address.address.value},
          word_valid: word_valid_q,
          word: out.call.data.word.value,
          call_valid: out.call.command.go.value,
          token: out.call.token.token.value,
          kind: out.call.command.kind.value,
          bytes: message_bytes_t'(out.call.command.bytes.value),
          answer_next: out.answer.data.word.swacc,
          answer_done: out.answer.command.done.value,
          reply_base: {out.engine.reply_base_high.address.value, out.engine.reply_base_low.address.value},
          reply_lkey: out.engine.reply_lkey.key.value
      };

  assign queues_o = '{
          enable: out.queues.control.enable.value,
          interrupt_enable: out.queues.control.interrupt_enable.value,
          post_size: out.queues.control.post_size.value,
          completion_size: out.queues.control.completion_size.value,
          post_base: {out.queues.post_base_high.address.value, out.queues.post_base_low.address.value},
          completion_base: {
            out.queues.completion_base_high.address.value, out.queues.completion_base_low.address.value
          },
          post_produced: out.queues.post_produced.index.value,
          completion_consumed: out.queues.completion_consumed.index.value
      };

  assign services_o = '{
          valid: out.services.command.go.value,
          index: service_register_e'(out.services.command.index.value),
          data: out.services.data.value.value
      };

  // Answers, and what the driver reads.
  logic [15:0]       now_high_q;
  logic [63:0]       counter_q;
  logic [15:0][31:0] state_q;

  always_ff @(posedge clk_i) begin
    if (out.now_low.cycles.swacc) now_high_q <= now_i[47:32];
    if (busy_q[Counter] && counter_done_i) counter_q <= counter_value_i;
    if (busy_q[Query] && query_done_i) state_q <= 512'(query_state_i);
  end

  always_comb begin
    in.status.idle.next = idle_i && busy_q == '0;
    in.status.queue_pair_busy.next = busy_q[QueuePair];
    in.status.region_busy.next = busy_q[Region];
    in.status.control_busy.next = busy_q[Control];
    in.status.neighbour_busy.next = busy_q[Neighbour];
    in.status.socket_busy.next = busy_q[Socket];
    in.status.query_busy.next = busy_q[Query];
    in.status.counter_busy.next = busy_q[Counter];
    in.status.socket_refused.next = refused_q;
    in.tables.queue_pairs.next = 16'(QueuePairs);
    in.tables.regions.next = 16'(Regions);
    in.depths.send.next = 16'(SendQueueDepth);
    in.depths.receive.next = 16'(ReceiveQueueDepth);
    in.limits.responder_resources.next = 16'(ResponderResources);
    in.limits.window.next = 16'(WindowPackets);
    in.statistics.counters.next = 16'(Counters);
    in.statistics.query_words.next = 16'(QueryWords);
    in.now_low.cycles.next = now_i[31:0];
    in.now_high.cycles.next = now_high_q;
    in.counter.low.value.next = counter_q[31:0];
    in.counter.high.value.next = counter_q[63:32];
    for (int unsigned i = 0; i < 16; i++) in.query.state[i].value.next = state_q[i];
    in.engine.status.state.next = engine_i.status.state;
    in.engine.status.busy.next = engine_i.busy;
    in.engine.status.call_busy.next = engine_i.call_busy;
    in.engine.status.answered.next = engine_i.answered;
    in.engine.status_epoch.epoch.next = engine_i.status.epoch;
    in.answer.data.word.next = engine_i.answer_word;
    in.answer.token.token.next = engine_i.answer_token;
    in.answer.message.kind.next = engine_i.answer_kind;
    in.answer.message.bytes.next = engine_i.answer_bytes;
    in.queues.status.running.next = queues_i.running;
    in.queues.status.overrun.next = queues_i.overrun;
    in.queues.status.fault.next = queues_i.fault;
    in.queues.post_consumed.index.next = queues_i.post_consumed;
    in.queues.completion_produced.index.next = queues_i.completion_produced;
    in.services.status.busy.next = services_i.busy;
    in.services.status.present.next = services_i.present;
    in.services.state_low.value.next = services_i.state[31:0];
    in.services.state_high.value.next = services_i.state[63:32];
  end

endmodule
