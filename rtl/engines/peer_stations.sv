// The peers' addresses, and the MAC address that each peer last used. Configuring a peer, even with the same values,
// clears its MAC address.
//
// Latency: 0 cycles for reads; what is written can be read in the next cycle. Stalls: never.
module peer_stations
  import weft_pkg::*;
  import engines_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         peer_valid_i,
  input  node_t        peer_node_i,
  input  peer_t        peer_i,
  input  logic         learn_valid_i,
  input  node_t        learn_node_i,
  input  mac_address_t learn_mac_i,
  // Result of a lookup in the neighbour table. It is dropped if a learned address arrives in the same cycle.
  input  logic         told_valid_i,
  input  node_t        told_node_i,
  input  mac_address_t told_mac_i,
  input  node_t        node_i,
  output peer_t        peer_o,
  output logic         known_o,
  output mac_address_t mac_o
);

  (* ram_style = "distributed" *)
  ipv4_address_t addresses  [NodesMax];
  (* ram_style = "distributed" *)
  mac_address_t  macs       [NodesMax];
  node_set_t     peers_q;
  node_set_t     known_q;
  logic          write;
  node_t         write_node;

  assign write = learn_valid_i || told_valid_i;
  assign write_node = learn_valid_i ? learn_node_i : told_node_i;

  always_ff @(posedge clk_i) begin
    if (peer_valid_i) addresses[peer_node_i] <= peer_i.address;
    if (write) macs[write_node] <= learn_valid_i ? learn_mac_i : told_mac_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      peers_q <= '0;
      known_q <= '0;
    end else begin
      if (write) known_q[write_node] <= 1'b1;
      if (peer_valid_i) begin
        peers_q[peer_node_i] <= peer_i.valid;
        known_q[peer_node_i] <= 1'b0;
      end
    end
  end

  assign peer_o  = '{valid: peers_q[node_i], address: addresses[node_i]};
  assign known_o = known_q[node_i];
  assign mac_o   = macs[node_i];

endmodule
