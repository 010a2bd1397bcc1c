// The slots of sessions: a list of the used slots in the order of their last activity, and a list of the free ones.
//
// The used slots are a doubly linked list. Released slots are a list through the same links. Slots above a mark were
// never used, so all slots can be freed in one cycle by lowering the mark.
//
// Latency: 1 cycle from a read to the links; every command acts in its cycle. At most one command may be given in a
// cycle. The slot that a command unlinks or takes must be the last one that was read. Stalls: never.
module kv_session_order #(
  parameter int unsigned Capacity = 2048  // a power of two
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  // Reads the links of a slot.
  input  logic                        read_i,
  input  logic [$clog2(Capacity)-1:0] read_index_i,
  output logic [$clog2(Capacity)-1:0] newer_o,       // stable until the next read
  // The slot to which all commands but `clear_i` apply.
  input  logic [$clog2(Capacity)-1:0] index_i,
  input  logic                        unlink_i,
  input  logic                        link_i,        // links it as the newest
  input  logic                        give_i,        // releases it, after it was unlinked
  input  logic                        take_i,        // takes `spare_o` into use; it is linked next
  input  logic                        clear_i,
  output logic [$clog2(Capacity)-1:0] newest_o,
  output logic [$clog2(Capacity)-1:0] oldest_o,
  output logic [$clog2(Capacity)-1:0] spare_o,
  output logic [  $clog2(Capacity):0] count_o,
  // Places from this one on were never used.
  output logic [  $clog2(Capacity):0] mark_o
);

  typedef logic [$clog2(Capacity)-1:0] index_t;
  typedef logic [$clog2(Capacity):0] count_t;

  index_t newest_q;
  index_t oldest_q;
  // No slot is linked.
  logic   empty_q;
  index_t free_q;
  count_t count_q;
  count_t mark_q;
  logic   gives_back;  // a slot was released before
  index_t newer;
  index_t older;
  logic   is_newest;
  logic   is_oldest;

  assign newer_o = newer;
  assign newest_o = newest_q;
  assign oldest_o = oldest_q;
  assign count_o = count_q;
  assign mark_o = mark_q;
  assign gives_back = mark_q != count_q;
  assign spare_o = gives_back ? free_q : index_t'(mark_q);
  assign is_newest = index_i == newest_q;
  assign is_oldest = index_i == oldest_q;

  ram #(
    .T    (index_t),
    .Depth(Capacity)
  ) i_newer (
    .clk_i,
    .write_i        ((unlink_i && !is_oldest) || link_i),
    .write_address_i(link_i ? newest_q : older),
    .write_data_i   (link_i ? index_i : newer),
    .read_i,
    .read_address_i (read_index_i),
    .read_data_o    (newer)
  );

  ram #(
    .T    (index_t),
    .Depth(Capacity)
  ) i_older (
    .clk_i,
    .write_i        ((unlink_i && !is_newest) || link_i || give_i),
    .write_address_i(unlink_i ? newer : index_i),
    .write_data_i   (unlink_i ? older : link_i ? newest_q : free_q),
    .read_i,
    .read_address_i (read_index_i),
    .read_data_o    (older)
  );

  always_ff @(posedge clk_i) begin
    if (unlink_i && is_newest) newest_q <= older;
    if (unlink_i && is_oldest) oldest_q <= newer;
    if (link_i) newest_q <= index_i;
    if (link_i && empty_q) oldest_q <= index_i;
    if (give_i) free_q <= index_i;
    if (take_i && gives_back) free_q <= older;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      empty_q <= 1'b1;
      count_q <= '0;
      mark_q  <= '0;
    end else begin
      if (unlink_i && is_newest && is_oldest) empty_q <= 1'b1;
      if (link_i) empty_q <= 1'b0;
      if (give_i) count_q <= count_q - 1'b1;
      if (take_i) count_q <= count_q + 1'b1;
      if (take_i && !gives_back) mark_q <= mark_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert ($onehot0({unlink_i, link_i, give_i, take_i, clear_i}))
      else $error("two commands at once");
      assert (!take_i || count_q != count_t'(Capacity))
      else $error("no place is free");
      assert (!unlink_i || !empty_q)
      else $error("nothing is linked");
    end
  end

endmodule
