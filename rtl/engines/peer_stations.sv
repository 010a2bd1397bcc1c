// The peers' addresses, and the stations that they were last heard from.
//
// A station is forgotten when its peer's address changes, which is seen at most 16 cycles later, and when asked.
//
// Latency: 0 cycles for reads; what is learned can be read in the next cycle. Stalls: never.
module peer_stations
  import weft_pkg::*;
  import engines_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_ni,
  input  peer_t        [NodesMax-1:0] peers_i,
  input  logic                        forget_i,
  input  logic                        learn_valid_i,
  input  node_t                       learn_node_i,
  input  mac_address_t                learn_mac_i,
  // What the neighbour table knows; lost if it comes together with what is heard.
  input  logic                        told_valid_i,
  input  node_t                       told_node_i,
  input  mac_address_t                told_mac_i,
  input  node_t                       node_i,
  output peer_t                       peer_o,
  output logic                        known_o,
  output mac_address_t                mac_o,
  // All peers have been looked at since the reset.
  output logic                        ready_o
);

  // The peers are copied one by one, so that a change is seen, and that there is one choice among sixteen only.
  (* ram_style = "distributed" *)
  peer_t        peers      [NodesMax];
  (* ram_style = "distributed" *)
  mac_address_t macs       [NodesMax];
  node_set_t    known_q;
  node_t        scan_q;
  logic         ready_q;
  peer_t        scanned;
  logic         changed;
  logic         write;
  node_t        write_node;

  assign scanned = peers_i[scan_q];
  assign changed = !ready_q || peers[scan_q] != scanned;
  assign write = learn_valid_i || told_valid_i;
  assign write_node = learn_valid_i ? learn_node_i : told_node_i;

  always_ff @(posedge clk_i) begin
    if (changed) peers[scan_q] <= scanned;
    if (write) macs[write_node] <= learn_valid_i ? learn_mac_i : told_mac_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      known_q <= '0;
      scan_q  <= '0;
      ready_q <= 1'b0;
    end else begin
      scan_q <= scan_q + 1'b1;
      if (scan_q == '1) ready_q <= 1'b1;
      if (write) known_q[write_node] <= 1'b1;
      if (changed) known_q[scan_q] <= 1'b0;
      if (forget_i) known_q <= '0;
    end
  end

  assign peer_o  = peers[node_i];
  assign known_o = known_q[node_i];
  assign mac_o   = macs[node_i];
  assign ready_o = ready_q;

endmodule
