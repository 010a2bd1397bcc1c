// Tracks which reply buffers of each queue pair are in use, and the incarnation of each queue pair.
//
// A queue pair has as many buffers as it may have answers in flight. A buffer is in use from the start of an answer
// to the completion of its SEND. A reset of a queue pair starts a new incarnation with all buffers free. An answer to
// a call of an earlier incarnation is stale, and so is the completion of one of its SENDs.
//
// Latency and throughput: an operation takes 2 cycles, and is accepted and answered in the second. Priority: resets,
// returns, calls, checks, requests for a buffer. After reset it takes a cycle for each queue pair.
module reply_slots
  import weft_pkg::*;
  import engines_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  // Pulse: a queue pair is reset. No other pulse may follow within 4 cycles.
  input  logic         forget_valid_i,
  input  qp_index_t    forget_qp_i,
  input  logic         give_back_valid_i,
  output logic         give_back_ready_o,
  input  reply_slot_t  give_back_i,
  // Reads the incarnation of a queue pair that makes a call.
  input  logic         call_valid_i,
  output logic         call_ready_o,
  input  qp_index_t    call_qp_i,
  output incarnation_t call_incarnation_o,
  // Checks whether a buffer's queue pair has been reset since the buffer was taken.
  input  logic         check_valid_i,
  output logic         check_ready_o,
  input  reply_slot_t  check_i,
  output logic         check_stale_o,
  // Requests a buffer for an answer to this incarnation of the queue pair. Valid with `ready`: whether there is one.
  input  logic         take_valid_i,
  output logic         take_ready_o,
  input  qp_index_t    take_qp_i,
  input  incarnation_t take_incarnation_i,
  output logic         take_stale_o,
  output logic         take_full_o,
  output reply_index_t take_index_o,
  output logic         idle_o
);

  typedef struct packed {
    incarnation_t       incarnation;
    logic [Replies-1:0] lent;
  } entry_t;

  typedef enum logic [2:0] {
    OperationClear,
    OperationNone,
    OperationForget,
    OperationGiveBack,
    OperationCall,
    OperationCheck,
    OperationTake
  } operation_e;

  operation_e   operation_q;
  operation_e   operation_d;
  qp_index_t    qp_q;
  qp_index_t    qp_d;
  logic         forget_q;
  qp_index_t    forget_qp_q;
  entry_t       entry;
  entry_t       changed;
  logic         write;
  reply_index_t free;

  always_comb begin
    operation_d = OperationNone;
    qp_d = qp_q;
    unique case (operation_q)
      OperationClear: begin
        qp_d = qp_q + 1'b1;
        if (qp_q != '1) operation_d = OperationClear;
      end
      OperationNone: begin
        if (forget_q) begin
          operation_d = OperationForget;
          qp_d = forget_qp_q;
        end else if (give_back_valid_i) begin
          operation_d = OperationGiveBack;
          qp_d = give_back_i.qp;
        end else if (call_valid_i) begin
          operation_d = OperationCall;
          qp_d = call_qp_i;
        end else if (check_valid_i) begin
          operation_d = OperationCheck;
          qp_d = check_i.qp;
        end else if (take_valid_i) begin
          operation_d = OperationTake;
          qp_d = take_qp_i;
        end
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      operation_q <= OperationClear;
      qp_q        <= '0;
      forget_q    <= 1'b0;
    end else begin
      operation_q <= operation_d;
      qp_q        <= qp_d;
      forget_q    <= forget_valid_i || (forget_q && operation_q != OperationForget);
    end
    if (forget_valid_i) forget_qp_q <= forget_qp_i;
  end

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs)
  ) i_entries (
    .clk_i,
    .write_i        (write),
    .write_address_i(qp_q),
    .write_data_i   (changed),
    .read_i         (operation_q == OperationNone),
    .read_address_i (qp_d),
    .read_data_o    (entry)
  );

  always_comb begin
    free = '0;
    for (int unsigned i = Replies; i > 0; i--) begin
      if (!entry.lent[i-1]) free = reply_index_t'(i - 1);
    end
  end

  assign check_stale_o = entry.incarnation != check_i.incarnation;
  assign take_stale_o = entry.incarnation != take_incarnation_i;
  assign take_full_o = entry.lent == '1;
  assign take_index_o = free;
  assign call_incarnation_o = entry.incarnation;

  always_comb begin
    write   = 1'b0;
    changed = entry;
    unique case (operation_q)
      OperationClear: begin
        write   = 1'b1;
        changed = '0;
      end
      OperationForget: begin
        write   = 1'b1;
        changed = '{incarnation: entry.incarnation + 1'b1, lent: '0};
      end
      OperationGiveBack: begin
        write = entry.incarnation == give_back_i.incarnation;
        changed.lent[give_back_i.index] = 1'b0;
      end
      OperationTake: begin
        write = !take_stale_o && !take_full_o;
        changed.lent[free] = 1'b1;
      end
      default: ;
    endcase
  end

  assign give_back_ready_o = operation_q == OperationGiveBack;
  assign call_ready_o = operation_q == OperationCall;
  assign check_ready_o = operation_q == OperationCheck;
  assign take_ready_o = operation_q == OperationTake;
  assign idle_o = operation_q == OperationNone && operation_d == OperationNone && !forget_q;

endmodule
