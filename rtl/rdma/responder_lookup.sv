// Keeps the responder resources, and finds for a duplicate (clause 9.7.4.2): of a READ or atomic its own resource; of
// a SEND or WRITE the oldest READ or atomic behind it, whose PSN its acknowledgement must not reach.
//
// The resources of a queue pair are searched from the newest to the oldest; for a SEND or WRITE the search stops at
// the first resource in front of it. Latency: 1 cycle and one for each resource searched, and 3 more when the
// resource of a READ or atomic is found; at most 20. Throughput: one search at a time; one resource stored a cycle.
// The caller holds `start_i` and the inputs until `done_o`, which is a pulse.
module responder_lookup
  import weft_pkg::*;
  import responder_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input logic            save_i,
  input qp_index_t       save_qp_i,
  input resource_index_t save_resource_i,
  input saved_t          save_data_i,

  input logic                   start_i,
  input qp_index_t              qp_i,
  // One past the newest resource; how many resources the queue pair has; how many of them are in use.
  input resource_index_t        resource_i,
  input resource_count_t        resources_i,
  input resource_count_t        saved_i,
  // `expected_i`: the next new PSN. `psn_i`: the PSN of the duplicate.
  input psn_t                   expected_i,
  input logic                   response_i,   // a READ or atomic
  input psn_t                   psn_i,
  input psn_t                   distance_i,   // from `psn_i` to `expected_i`
  input logic                   atomic_i,
  input logic            [63:0] address_i,
  input logic            [31:0] rkey_i,
  input logic            [31:0] length_i,
  input logic            [ 2:0] path_mtu_i,

  output logic            done_o,
  // The duplicate requests all or a part of what the original requested.
  output logic            found_o,
  // It requests a part of a READ that ends before the READ does.
  output logic            part_o,
  output resource_index_t resource_o,
  // For a SEND or WRITE: the first PSN of the oldest READ or atomic behind it, or `expected_i` if there is none.
  output psn_t            behind_o
);

  typedef enum logic [2:0] {
    Idle,
    Search,
    Offset,
    Add,
    Compare,
    Done
  } step_e;

  step_e                  step_q;
  resource_count_t        left_q;
  resource_index_t        next;
  resource_index_t        read_q;
  saved_t                 saved;
  logic                   read;
  psn_t                   packet;
  logic                   hit;
  logic                   behind;
  logic                   last;
  psn_t                   behind_q;
  logic            [31:0] offset_q;
  logic            [63:0] address_q;
  logic            [31:0] rest_q;
  logic                   found_q;
  logic                   part_q;

  // In step Search, `saved` is the resource at index `read_q`, and `left_q` older resources are left to search.
  assign packet = psn_i - saved.first;
  assign hit = response_i && packet < saved.packets;
  // The kept request begins between `psn_i` and `expected_i`.
  assign behind = packet > distance_i;
  assign last = left_q == '0 || (!response_i && !behind);
  assign read = (step_q == Idle && start_i) || (step_q == Search && !hit && !last);

  always_comb begin
    next = (step_q == Idle ? resource_i : read_q) - 1'b1;
    if ((step_q == Idle ? resource_i : read_q) == '0) next = resource_index_t'(resources_i - 1'b1);
  end

  ram #(
    .T    (saved_t),
    .Depth(QueuePairs * ResponderResources),
    .Style("ultra")
  ) u_saved (
    .clk_i,
    .write_i        (save_i),
    .write_address_i({save_qp_i, save_resource_i}),
    .write_data_i   (save_data_i),
    .read_i         (read),
    .read_address_i ({qp_i, next}),
    .read_data_o    (saved)
  );

  assign done_o = step_q == Done;
  assign found_o = found_q;
  assign part_o = part_q;
  assign resource_o = read_q;
  assign behind_o = behind_q;

  always_ff @(posedge clk_i) begin
    if (read) read_q <= next;
    unique case (step_q)
      Idle: begin
        left_q   <= saved_i - 1'b1;
        found_q  <= 1'b0;
        behind_q <= expected_i;
      end
      Search: begin
        if (!hit && !last) left_q <= left_q - 1'b1;
        if (behind) behind_q <= saved.first;
      end
      // Path MTU code 1 means 256 bytes.
      Offset:  offset_q <= {packet, 8'h00} << (path_mtu_i - 3'd1);
      Add: begin
        address_q <= saved.address + 64'(offset_q);
        rest_q    <= saved.length - offset_q;
      end
      Compare: begin
        found_q <= saved.atomic == atomic_i
                   && (atomic_i || (saved.rkey == rkey_i && address_q == address_i && length_i <= rest_q));
        part_q <= !atomic_i && length_i < rest_q;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      step_q <= Idle;
    end else begin
      unique case (step_q)
        Idle: if (start_i) step_q <= saved_i == '0 ? Done : Search;
        Search: begin
          if (hit) step_q <= Offset;
          else if (last) step_q <= Done;
        end
        Offset: step_q <= Add;
        Add: step_q <= Compare;
        Compare: step_q <= Done;
        default: step_q <= Idle;
      endcase
      assert (!start_i || saved_i <= resource_count_t'(ResponderResources))
      else $error("more resources than there are");
      // The acknowledged PSNs lie between the duplicate and `expected_i`.
      assert (!(step_q == Done && !response_i) || psn_t'(behind_q - psn_i - 1'b1) < psn_t'(expected_i - psn_i))
      else $error("an acknowledgement that is not of what came again");
    end
  end

endmodule
