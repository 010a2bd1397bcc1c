// Determines the destinations of each message's frames: either all peers of a set, one after the other in ascending
// order, or a caller.
//
// Each message has exactly one route marked `final`. If that route must not be sent, it only ends the message.
//
// Latency: 3 cycles, if the MAC address is known. Throughput: one route a cycle. Order: kept. Stalls: the input,
// while 16 messages wait; all routes, during a lookup in the neighbour table.
module message_route
  import weft_pkg::*;
  import engines_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  ipv4_address_t        address_i,
  input  logic                 peer_valid_i,
  input  node_t                peer_node_i,
  input  peer_t                peer_i,
  input  logic                 learn_valid_i,
  input  node_t                learn_node_i,
  input  mac_address_t         learn_mac_i,
  input  logic                 message_valid_i,
  output logic                 message_ready_o,
  input  logic                 reply_i,
  input  node_set_t            to_i,
  input  mac_address_t         mac_i,
  input  ipv4_address_t        caller_i,
  input  logic          [15:0] port_i,
  // Length of the payload in 8-byte words.
  input  logic          [ 7:0] words_i,
  output logic                 lookup_valid_o,
  input  logic                 lookup_ready_i,
  output ipv4_address_t        lookup_o,
  input  logic                 result_valid_i,
  output logic                 result_ready_o,
  input  logic                 result_hit_i,
  input  mac_address_t         result_mac_i,
  output logic                 route_valid_o,
  input  logic                 route_ready_i,
  output logic                 send_o,
  output logic                 final_o,
  output mac_address_t         mac_o,
  output ipv4_address_t        destination_o,
  output logic          [15:0] port_o,
  output logic          [15:0] checksum_o,           // of the IPv4 header
  output logic          [ 7:0] words_o,
  output logic                 without_peer_o,
  output logic                 without_neighbour_o,
  output logic                 idle_o
);

  typedef struct packed {
    logic          reply;
    mac_address_t  mac;
    ipv4_address_t address;
    logic [15:0]   port;     // UDP port, or the set of peers
    logic [7:0]    words;
  } entry_t;

  typedef struct packed {
    logic          send;
    logic          last;
    mac_address_t  mac;
    ipv4_address_t address;
    logic [15:0]   port;
    logic [7:0]    words;
  } route_t;

  // Selects the next peer of the set.

  entry_t             entry;
  logic               entry_valid;
  logic               entry_ready;
  node_set_t          rest_q;  // peers of the set that remain, once it has been begun
  logic               begun_q;
  node_set_t          set;
  node_set_t          behind;
  node_t              node;
  peer_t              peer;
  logic               known;
  mac_address_t       mac;
  logic               asked_q;
  logic         [4:0] unused_level;

  fifo #(
    .T    (entry_t),
    .Depth(16)
  ) i_messages (
    .clk_i,
    .rst_ni,
    .in_valid_i (message_valid_i),
    .in_ready_o (message_ready_o),
    .in_i       ('{reply: reply_i, mac: mac_i, address: caller_i, port: reply_i ? port_i : to_i, words: words_i}),
    .out_valid_o(entry_valid),
    .out_ready_i(entry_ready),
    .out_o      (entry),
    .level_o    (unused_level)
  );

  assign set = begun_q ? rest_q : entry.port;
  assign behind = set & (set - 1'b1);
  always_comb begin
    node = '0;
    for (int unsigned i = NodesMax; i > 0; i--) begin
      if (set[i-1]) node = node_t'(i - 1);
    end
  end

  // The route whose MAC address may have to be looked up.
  route_t        asking_q;
  logic          asking_valid_q;
  logic          asking_known_q;
  node_t         asking_node_q;
  logic   [18:0] sum_q;
  logic          asking_done;  // the route is passed on, or dropped
  logic          asking_ready;
  logic          take;
  route_t        route_q;
  logic          route_valid_q;
  logic          told;
  logic          drop;
  logic          last;

  assign last = entry.reply || behind == '0;
  assign asking_ready = !asking_valid_q || asking_done;
  assign take = entry_valid && asking_ready;
  assign entry_ready = asking_ready && last;

  peer_stations i_stations (
    .clk_i,
    .rst_ni,
    .peer_valid_i,
    .peer_node_i,
    .peer_i,
    .learn_valid_i,
    .learn_node_i,
    .learn_mac_i,
    .told_valid_i(told && result_hit_i),
    .told_node_i (asking_node_q),
    .told_mac_i  (result_mac_i),
    .node_i      (node),
    .peer_o      (peer),
    .known_o     (known),
    .mac_o       (mac)
  );

  // Partial checksums: of the fields that are equal in all IPv4 headers, and of these and the length.
  logic [18:0] fixed_sum_q;

  always_ff @(posedge clk_i) begin
    fixed_sum_q <= 19'(16'h4500) + 19'(16'h4000) + 19'(16'h4011) + 19'(address_i[31:16]) + 19'(address_i[15:0]);
    if (take) begin
      asking_q.send    <= entry.reply || (peer.valid && set != '0);
      asking_q.last    <= last;
      asking_q.mac     <= entry.reply ? entry.mac : mac;
      asking_q.address <= entry.reply ? entry.address : peer.address;
      asking_q.port    <= entry.reply ? entry.port : DatagramPort;
      asking_q.words   <= entry.words;
      asking_known_q   <= entry.reply || known || !peer.valid || set == '0;
      asking_node_q    <= node;
      sum_q            <= fixed_sum_q + 19'({entry.words, 3'd0}) + 19'd52;
      rest_q           <= behind;
    end else if (told) begin
      asking_q.mac   <= result_mac_i;
      asking_q.send  <= result_hit_i;
      asking_known_q <= 1'b1;
    end
  end

  assign told = result_valid_i && result_ready_o;
  assign lookup_valid_o = asking_valid_q && !asking_known_q && !asked_q;
  assign lookup_o = asking_q.address;
  assign result_ready_o = asking_valid_q && !asking_known_q;
  // A route that is not sent is passed on only if it ends its message.
  assign drop = !asking_q.send && !asking_q.last;
  assign asking_done = asking_known_q && (drop || !route_valid_q || route_ready_i);

  logic [19:0] route_sum_q;
  logic [16:0] folded;

  always_ff @(posedge clk_i) begin
    if (asking_valid_q && asking_done && !drop) begin
      route_q     <= asking_q;
      route_sum_q <= 20'(sum_q) + (20'(asking_q.address[31:16]) + 20'(asking_q.address[15:0]));
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begun_q        <= 1'b0;
      asking_valid_q <= 1'b0;
      asked_q        <= 1'b0;
      route_valid_q  <= 1'b0;
    end else begin
      if (take) begun_q <= !last;
      if (asking_ready) asking_valid_q <= take;
      if (told) asked_q <= 1'b0;
      else if (lookup_valid_o && lookup_ready_i) asked_q <= 1'b1;
      if (asking_valid_q && asking_done && !drop) route_valid_q <= 1'b1;
      else if (route_ready_i) route_valid_q <= 1'b0;
    end
  end

  assign folded = 17'(route_sum_q[15:0]) + 17'(route_sum_q[19:16]);
  assign checksum_o = ~(folded[15:0] + 16'(folded[16]));
  assign route_valid_o = route_valid_q;
  assign send_o = route_q.send;
  assign final_o = route_q.last;
  assign mac_o = route_q.mac;
  assign destination_o = route_q.address;
  assign port_o = route_q.port;
  assign words_o = route_q.words;
  assign without_peer_o = take && !entry.reply && set != '0 && !peer.valid;
  assign without_neighbour_o = told && !result_hit_i;
  assign idle_o = !entry_valid && !asking_valid_q && !route_valid_q;

endmodule
