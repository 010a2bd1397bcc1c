// Keeps what the responder needs to answer duplicate READs and atomics, and finds it again (clause 9.7.4.2).
//
// The resources of a queue pair are searched from the newest to the oldest. Latency: 1 cycle and the number of resources
// searched, and 3 more when one is found; at most 20. Throughput: one search at a time, one
// resource kept a cycle. A search holds `start_i` and its inputs until `done_o`, which is a pulse.
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
  // Behind the newest resource, and how many there are.
  input resource_index_t        resource_i,
  input resource_count_t        saved_i,
  // Of the request that came again.
  input psn_t                   psn_i,
  input logic                   atomic_i,
  input logic            [63:0] address_i,
  input logic            [31:0] rkey_i,
  input logic            [31:0] length_i,
  input logic            [ 2:0] path_mtu_i,

  output logic            done_o,
  // The request asks for (a part of) what was asked for before.
  output logic            found_o,
  output resource_index_t resource_o,
  // How many newer resources there are, and whether it begins with the same packet and has only one.
  output resource_count_t newer_o,
  output logic            same_first_o,
  output logic            single_o
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
  resource_count_t        newer_q;
  resource_index_t        resource;
  saved_t                 saved;
  logic                   read;
  psn_t                   packet;
  logic                   hit;
  logic                   last;
  logic            [31:0] offset_q;
  logic            [63:0] address_q;
  logic            [31:0] rest_q;
  logic                   found_q;

  // In step Search, `saved` is the one that has `newer_q` newer ones.
  assign packet = psn_i - saved.first;
  assign hit = packet < saved.packets;
  assign last = newer_q + 1'b1 == saved_i;
  assign read = (step_q == Idle && start_i) || (step_q == Search && !hit && !last);
  assign resource = resource_i - 1'b1 - (step_q == Idle ? '0 : newer_q[ResourceBits-1:0] + 1'b1);

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
    .read_address_i ({qp_i, resource}),
    .read_data_o    (saved)
  );

  assign done_o = step_q == Done;
  assign found_o = found_q;
  assign resource_o = resource_i - 1'b1 - newer_q[ResourceBits-1:0];
  assign newer_o = newer_q;
  assign same_first_o = packet == '0;
  assign single_o = saved.packets == psn_t'(1);

  always_ff @(posedge clk_i) begin
    unique case (step_q)
      Idle: begin
        newer_q <= '0;
        found_q <= 1'b0;
      end
      Search: if (!hit) newer_q <= newer_q + 1'b1;
      // A path MTU of code 1 is 256 bytes.
      Offset: offset_q <= {packet, 8'h00} << (path_mtu_i - 3'd1);
      Add: begin
        address_q <= saved.address + 64'(offset_q);
        rest_q    <= saved.length - offset_q;
      end
      Compare:
      found_q <= saved.atomic == atomic_i
                 && (atomic_i || (saved.rkey == rkey_i && address_q == address_i && length_i <= rest_q));
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
    end
  end

endmodule
