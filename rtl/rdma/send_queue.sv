// The send queues of all queue pairs: accepts work requests, computes their PSNs, and keeps them until they complete.
//
// A request gets its PSNs when it is posted: as many as it has packets, or as its response has. It is stored in three
// parts, since requester and completer read different parts at different times. Latency: a request is readable 3
// cycles after it is first offered, and its queue pair is activated in the same cycle. Throughput: one request in 3
// cycles. Order: of posting. Stalls: while a command is executed, or while the activation is not accepted. A request
// that can never be executed, or that finds the queue full, is dropped and counted; a correct driver posts none.
// //
// Reads take one cycle. After reset the tails are cleared, one a cycle, until `ready_o` is high.
module send_queue
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  output logic ready_o,

  input  logic          post_valid_i,
  output logic          post_ready_o,
  input  work_request_t post_i,
  // Valid with `ready`: the post is dropped.
  output logic          post_refused_o,
  output logic          table_read_o,
  output qp_index_t     table_index_o,
  // Only the path MTU and the number of READ resources are read.
  // verilator lint_off UNUSEDSIGNAL
  input  queue_pair_t   table_data_i,
  // verilator lint_on UNUSEDSIGNAL

  // Opens a queue with the next PSN (ControlSend), opens it as it is (ControlError), or closes it (ControlReset).
  input  logic     command_valid_i,
  output logic     command_ready_o,
  input  control_t command_i,

  output logic      activate_valid_o,
  input  logic      activate_ready_i,
  output qp_index_t activate_o,

  // From the completer: serial number of the oldest request of a queue that has not completed.
  input logic         head_write_i,
  input qp_index_t    head_index_i,
  input send_serial_t head_i,

  // Read ports of the requester. Head and tail of a queue:
  input  logic         ends_read_i,
  input  qp_index_t    ends_index_i,
  output send_serial_t ends_head_o,
  output send_tail_t   ends_tail_o,
  // One request:
  input  logic         plan_read_i,
  input  qp_index_t    plan_index_i,
  input  send_serial_t plan_serial_i,
  output send_plan_t   plan_o,
  input  logic         wait_read_i,
  input  send_serial_t wait_serial_i,  // on queue pair `plan_index_i`
  output send_wait_t   wait_o,
  input  logic         wire_read_i,
  input  qp_index_t    wire_index_i,
  input  send_serial_t wire_serial_i,
  output send_wire_t   wire_o,

  // Read ports of the completer.
  input  logic         tail_read_i,
  input  qp_index_t    tail_index_i,
  output send_serial_t tail_o,
  input  logic         end_read_i,
  input  qp_index_t    end_index_i,
  input  send_serial_t end_serial_i,
  output send_end_t    end_o,

  output logic rdma_sends_o,
  output logic post_overflow_o,
  output logic post_invalid_o,
  output logic post_wrong_state_o,
  output logic idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);
  localparam int unsigned Requests = QueuePairs * SendQueueDepth;
  // Limits of a message: bytes (clause 9.3.3.1), and packets (half of what is unambiguous in the space of PSNs).
  localparam logic [31:0] MessageBytesMax = 32'h8000_0000;
  localparam logic [23:0] MessagePacketsMax = 24'h40_0000;

  typedef enum logic [1:0] {
    StepRead,
    StepPlan,
    StepWrite,
    StepCommand
  } step_e;

  // Index of the next tail to clear after reset; the highest bit is set when all are cleared.
  logic         [IndexBits:0] clear_q;
  step_e                      step_q;
  step_e                      step_d;

  send_tail_t                 tail;
  send_serial_t               head;
  psn_t                       packets_q;
  logic                       overflow_q;
  logic                       invalid_q;
  logic                       activate_valid_q;
  qp_index_t                  activate_q;

  logic                       read;
  logic                       write;
  logic                       finish;
  qp_index_t                  read_index;
  psn_t                       limit;

  assign ready_o = clear_q[IndexBits];
  assign idle_o = ready_o && step_q == StepRead && !post_valid_i && !command_valid_i && !activate_valid_q;
  assign activate_valid_o = activate_valid_q;
  assign activate_o = activate_q;

  // Steps of a post: read the head and tail of the queue and its attributes; plan; write. The request stays valid at
  // the input meanwhile.

  assign read = ready_o && step_q == StepRead && (command_valid_i || post_valid_i);
  assign read_index = command_valid_i ? command_i.qp : post_i.qp;
  assign table_read_o = read;
  assign table_index_o = post_i.qp;
  assign finish = step_q == StepWrite && (!activate_valid_q || activate_ready_i);
  assign write = finish && tail.open && !overflow_q && !invalid_q;
  assign post_ready_o = finish;
  assign post_refused_o = !write;
  assign command_ready_o = step_q == StepCommand;
  assign limit = tail.next_psn + packets_q;

  always_comb begin
    step_d = step_q;
    unique case (step_q)
      StepRead: if (read) step_d = command_valid_i ? StepCommand : StepPlan;
      StepPlan: step_d = StepWrite;
      StepWrite: if (finish) step_d = StepRead;
      StepCommand: step_d = StepRead;
      default: step_d = StepRead;
    endcase
  end

  // Packets of the request: its length divided by the path MTU, rounded up, and at least one. The division drops the
  // lowest bits.
  // verilator lint_off UNUSEDSIGNAL
  logic [32:0] rounded;
  // verilator lint_on UNUSEDSIGNAL
  logic [24:0] packets;
  logic        has_response;
  logic        atomic;

  always_comb begin
    unique case (table_data_i.path_mtu)
      3'd1: rounded = {1'b0, post_i.length} + 33'd255;
      3'd2: rounded = {1'b0, post_i.length} + 33'd511;
      3'd3: rounded = {1'b0, post_i.length} + 33'd1023;
      3'd4: rounded = {1'b0, post_i.length} + 33'd2047;
      default: rounded = {1'b0, post_i.length} + 33'd4095;
    endcase
    unique case (table_data_i.path_mtu)
      3'd1: packets = rounded[32:8];
      3'd2: packets = {1'b0, rounded[32:9]};
      3'd3: packets = {2'b0, rounded[32:10]};
      3'd4: packets = {3'b0, rounded[32:11]};
      default: packets = {4'b0, rounded[32:12]};
    endcase
  end

  assign atomic = post_i.operation inside {OperationCompareSwap, OperationFetchAdd};
  assign has_response = atomic || post_i.operation == OperationRead;

  always_ff @(posedge clk_i) begin
    if (step_q == StepPlan) begin
      packets_q <= packets == '0 ? 24'd1 : packets[23:0];
      overflow_q <= tail.tail - head >= ($bits(send_serial_t))'(SendQueueDepth);
      invalid_q <= post_i.length > MessageBytesMax || packets > {1'b0, MessagePacketsMax}
          || (atomic && post_i.length != 32'd8)
          || (has_response && table_data_i.max_rd_atomic == '0);
    end
    if (finish) activate_q <= post_i.qp;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      clear_q          <= '0;
      step_q           <= StepRead;
      activate_valid_q <= 1'b0;
    end else begin
      if (!ready_o) clear_q <= clear_q + 1'b1;
      step_q <= step_d;
      if (finish) activate_valid_q <= write;
      else if (activate_ready_i) activate_valid_q <= 1'b0;
    end
  end

  assign rdma_sends_o = write && post_i.operation == OperationSend;
  assign post_wrong_state_o = finish && !tail.open;
  assign post_invalid_o = finish && tail.open && invalid_q;
  assign post_overflow_o = finish && tail.open && !invalid_q && overflow_q;

  // Heads and tails of the queues. Only this block writes tails and only the completer writes heads; each reader has
  // its own replica.

  logic       tail_write;
  qp_index_t  tail_write_index;
  send_tail_t tail_write_data;

  always_comb begin
    tail_write = write || step_q == StepCommand || !ready_o;
    tail_write_index = !ready_o ? clear_q[IndexBits-1:0] : step_q == StepCommand ? command_i.qp : post_i.qp;
    tail_write_data = tail;
    if (!ready_o) begin
      tail_write_data = '0;
    end else if (step_q == StepCommand) begin
      tail_write_data.open = command_i.operation != ControlReset;
      if (command_i.operation == ControlSend) tail_write_data.next_psn = command_i.argument;
    end else begin
      tail_write_data.tail = tail.tail + 1'b1;
      tail_write_data.next_psn = limit;
    end
  end

  ram #(
    .T    (send_tail_t),
    .Depth(QueuePairs)
  ) u_tails (
    .clk_i,
    .write_i        (tail_write),
    .write_address_i(tail_write_index),
    .write_data_i   (tail_write_data),
    .read_i         (read),
    .read_address_i (read_index),
    .read_data_o    (tail)
  );

  ram #(
    .T    (send_tail_t),
    .Depth(QueuePairs)
  ) u_tails_requester (
    .clk_i,
    .write_i        (tail_write),
    .write_address_i(tail_write_index),
    .write_data_i   (tail_write_data),
    .read_i         (ends_read_i),
    .read_address_i (ends_index_i),
    .read_data_o    (ends_tail_o)
  );

  ram #(
    .T    (send_serial_t),
    .Depth(QueuePairs)
  ) u_tails_completer (
    .clk_i,
    .write_i        (tail_write),
    .write_address_i(tail_write_index),
    .write_data_i   (tail_write_data.tail),
    .read_i         (tail_read_i),
    .read_address_i (tail_index_i),
    .read_data_o    (tail_o)
  );

  ram #(
    .T    (send_serial_t),
    .Depth(QueuePairs)
  ) u_heads (
    .clk_i,
    .write_i        (head_write_i),
    .write_address_i(head_index_i),
    .write_data_i   (head_i),
    .read_i         (read),
    .read_address_i (read_index),
    .read_data_o    (head)
  );

  ram #(
    .T    (send_serial_t),
    .Depth(QueuePairs)
  ) u_heads_requester (
    .clk_i,
    .write_i        (head_write_i),
    .write_address_i(head_index_i),
    .write_data_i   (head_i),
    .read_i         (ends_read_i),
    .read_address_i (ends_index_i),
    .read_data_o    (ends_head_o)
  );

  // Storage of the requests.

  typedef logic [$clog2(Requests)-1:0] place_t;

  // The highest bit of a serial number is not part of the index.
  // verilator lint_off UNUSEDSIGNAL
  function automatic place_t place(qp_index_t qp, send_serial_t serial);
    // verilator lint_on UNUSEDSIGNAL
    return {qp, serial[$clog2(SendQueueDepth)-1:0]};
  endfunction

  place_t     write_place;
  send_plan_t write_plan;
  send_wire_t write_wire;
  send_end_t  write_end;
  send_wait_t write_wait;

  assign write_place = place(post_i.qp, tail.tail);
  assign write_plan = '{
          operation: post_i.operation,
          signaled: post_i.signaled,
          fence: post_i.fence,
          solicited: post_i.solicited,
          has_immediate: post_i.has_immediate,
          local_address: post_i.local_address,
          length: post_i.length,
          lkey: post_i.lkey,
          first: tail.next_psn,
          limit: limit
      };
  assign write_wire = '{
          remote_address: post_i.remote_address,
          rkey: post_i.rkey,
          swap_or_add: atomic ? post_i.swap_or_add : {32'd0, post_i.immediate},
          compare: post_i.compare
      };
  assign write_end = '{
          id: post_i.id,
          operation: post_i.operation,
          signaled: post_i.signaled,
          length: post_i.length,
          limit: limit
      };
  assign write_wait = '{fence: post_i.fence, has_response: has_response};

  ram #(
    .T    (send_plan_t),
    .Depth(Requests),
    .Style("ultra")
  ) u_plans (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_place),
    .write_data_i   (write_plan),
    .read_i         (plan_read_i),
    .read_address_i (place(plan_index_i, plan_serial_i)),
    .read_data_o    (plan_o)
  );

  ram #(
    .T    (send_wire_t),
    .Depth(Requests),
    .Style("ultra")
  ) u_wires (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_place),
    .write_data_i   (write_wire),
    .read_i         (wire_read_i),
    .read_address_i (place(wire_index_i, wire_serial_i)),
    .read_data_o    (wire_o)
  );

  ram #(
    .T    (send_end_t),
    .Depth(Requests),
    .Style("ultra")
  ) u_ends (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_place),
    .write_data_i   (write_end),
    .read_i         (end_read_i),
    .read_address_i (place(end_index_i, end_serial_i)),
    .read_data_o    (end_o)
  );

  ram #(
    .T    (send_wait_t),
    .Depth(Requests)
  ) u_waits (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_place),
    .write_data_i   (write_wait),
    .read_i         (wait_read_i),
    .read_address_i (place(plan_index_i, wait_serial_i)),
    .read_data_o    (wait_o)
  );

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!command_ready_o || command_valid_i)
      else $error("a command was taken back");
      assert (!post_ready_o || post_valid_i)
      else $error("a post was taken back");
    end
  end

endmodule
