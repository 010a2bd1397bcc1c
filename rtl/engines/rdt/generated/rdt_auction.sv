// The data type auction: users who sell, buy, and bid.
// Elements: 70 User, 70 Auction, 70 Item.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_auction
  import rdt_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [ 3:0] replica_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic        call_valid_i,
  output logic        call_ready_o,
  input  rdt_call_t   call_i,
  output logic        answer_valid_o,
  input  logic        answer_ready_i,
  output rdt_answer_t answer_o,
  output logic        idle_o
);

  // Selectors.
  localparam logic [3:0] MethodRegisterUser = 4'd0;
  localparam logic [3:0] MethodSellItem = 4'd1;
  localparam logic [3:0] MethodBuyItem = 4'd2;
  localparam logic [3:0] MethodOpenAuction = 4'd3;
  localparam logic [3:0] MethodPlaceBid = 4'd4;
  localparam logic [3:0] MethodCloseAuction = 4'd5;
  localparam logic [3:0] QueryHighestBid = 4'd0;
  localparam logic [3:0] QueryInStock = 4'd1;

  // Wide enough for every sum and difference of this type.
  typedef logic signed [65:0] number_t;

  function automatic number_t number(logic [63:0] word);
    return number_t'($signed(word));
  endfunction

  // Whether a number fits a word.
  function automatic logic fits(number_t value);
    return value == number(value[63:0]);
  endfunction

  // The state, and the state after the call in the second stage.
  // users of User
  logic [69:0] users_q, users_d;
  // auctions of Auction
  logic [69:0] auctions_q, auctions_d;
  // closed of Auction
  logic [69:0] closed_q, closed_d;
  // highest of Auction: 70 rows in RAM
  logic [0:0] highest_write;
  logic [0:0][63:0] highest_row, highest_d;
  logic highest_busy, highest_clearing;
  // items of Item
  logic [69:0] items_q, items_d;
  // stock of Item: 70 rows in RAM
  logic [0:0] stock_write;
  logic [0:0][63:0] stock_row, stock_d;
  logic stock_busy, stock_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = highest_busy || stock_busy;
  assign clearing = highest_clearing || stock_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][6:0] highest_address;
  always_comb begin
    highest_address[0] = call_i.arguments[0][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_highest (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (highest_address),
    .row_o     (highest_row),
    .write_i   (changes ? highest_write : '0),
    .row_i     (highest_d),
    .busy_o    (highest_busy),
    .clearing_o(highest_clearing)
  );

  logic [0:0][6:0] stock_address;
  always_comb begin
    stock_address[0] = call_i.arguments[0][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_stock (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (stock_address),
    .row_o     (stock_row),
    .write_i   (changes ? stock_write : '0),
    .row_i     (stock_d),
    .busy_o    (stock_busy),
    .clearing_o(stock_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    users_d = users_q;
    auctions_d = auctions_q;
    closed_d = closed_q;
    highest_d = highest_row;
    highest_write = '0;
    items_d = items_q;
    stock_d = stock_row;
    stock_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodRegisterUser}, {RdtApply, MethodRegisterUser}: begin : update_register_user
        // registerUser(user)
        automatic logic [6:0] arg_user;
        arg_user = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the name is free: not users(user)
        if (!(!users_q[arg_user])) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // users(user) becomes true
        users_d[arg_user] = 1'b1;
      end
      {RdtUpdate, MethodSellItem}, {RdtApply, MethodSellItem}: begin : update_sell_item
        // sellItem(item, seller)
        automatic logic [6:0] arg_item;
        automatic number_t new_1;
        arg_item = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // items(item) becomes true
        // stock(item) becomes stock(item) + 1
        new_1 = (number(stock_row[0]) + 66'sd1);
        if (!fits(new_1)) exact = 1'b0;
        items_d[arg_item] = 1'b1;
        stock_d[0] = new_1[63:0];
        stock_write[0] = 1'b1;
      end
      {RdtAbsorb, MethodSellItem}: begin : absorb_sell_item
        // the summary of sellItem(item, pieces)
        automatic logic [6:0] arg_item;
        automatic number_t arg_pieces;
        automatic number_t new_1;
        arg_item = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (number(call_q.summary[0]) < 66'sd0) in_range = 1'b0;
        if (number(call_q.arguments[1]) < number(call_q.summary[0])) in_range = 1'b0;
        if (number(call_q.arguments[1]) > 66'sd1152921504606846976) in_range = 1'b0;
        arg_pieces = number(call_q.arguments[1]) - number(call_q.summary[0]);
        // items(item) becomes (items(item) or 0 < pieces)
        // stock(item) becomes stock(item) + pieces
        new_1 = (number(stock_row[0]) + arg_pieces);
        if (!fits(new_1)) exact = 1'b0;
        items_d[arg_item] = (items_q[arg_item] || (66'sd0 < arg_pieces));
        stock_d[0] = new_1[63:0];
        stock_write[0] = 1'b1;
      end
      {RdtFold, MethodSellItem}: begin : fold_sell_item
        // added to the summary: sellItem(item, seller)
        automatic logic [6:0] arg_item;
        automatic number_t word_0;
        arg_item = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        answer_d.value = 64'(arg_item);
        word_0 = number(call_q.summary[0]) + 66'sd1;
        if (!fits(word_0) || word_0 > 66'sd1152921504606846976) exact = 1'b0;
        answer_d.summary[0] = word_0[63:0];
      end
      {RdtUpdate, MethodBuyItem}, {RdtApply, MethodBuyItem}: begin : update_buy_item
        // buyItem(item, buyer)
        automatic logic [6:0] arg_buyer;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_buyer = call_q.arguments[1][6:0];
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // the item is in stock: 1 <= stock(item)
        if (!(66'sd1 <= number(stock_row[0]))) permissible = 1'b0;
        // the buyer is a user: users(buyer)
        if (!users_q[arg_buyer]) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // stock(item) becomes stock(item) - 1
        new_0 = (number(stock_row[0]) - 66'sd1);
        if (!fits(new_0)) exact = 1'b0;
        stock_d[0] = new_0[63:0];
        stock_write[0] = 1'b1;
      end
      {RdtUpdate, MethodOpenAuction}, {RdtApply, MethodOpenAuction}: begin : update_open_auction
        // openAuction(auction)
        automatic logic [6:0] arg_auction;
        arg_auction = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the auction is new: not auctions(auction)
        if (!(!auctions_q[arg_auction])) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // auctions(auction) becomes true
        auctions_d[arg_auction] = 1'b1;
      end
      {RdtAbsorb, MethodOpenAuction}: begin : absorb_open_auction
        // the summary of openAuction(elements)
        automatic logic [63:0] arg_elements;
        if (call_q.arguments[0] > 64'd1) in_range = 1'b0;
        if ((call_q.summary[0] & ~call_q.arguments[1]) != '0) in_range = 1'b0;
        if (call_q.arguments[0] == 64'd1 && call_q.arguments[1][63:6] != '0) in_range = 1'b0;
        arg_elements = call_q.arguments[1];
        // its elements join auctions
        if (call_q.arguments[0] == 64'd0) auctions_d[0+:64] = auctions_d[0+:64] | arg_elements[63:0];
        if (call_q.arguments[0] == 64'd1) auctions_d[64+:6] = auctions_d[64+:6] | arg_elements[5:0];
      end
      {RdtFold, MethodOpenAuction}: begin : fold_open_auction
        // added to the summary: openAuction(auction)
        automatic logic [6:0] arg_auction;
        automatic logic [63:0] member;
        arg_auction = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        member = 64'(arg_auction);
        answer_d.value = member >> 6;
        answer_d.summary[0] = call_q.summary[0] | 64'd1 << member[5:0];
      end
      {RdtUpdate, MethodPlaceBid}, {RdtApply, MethodPlaceBid}: begin : update_place_bid
        // placeBid(auction, bid, bidder)
        automatic logic [6:0] arg_auction;
        automatic number_t arg_bid;
        automatic logic [6:0] arg_bidder;
        automatic number_t new_0;
        arg_auction = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_bid = number(call_q.arguments[1]);
        if (arg_bid < 66'sd0 || arg_bid > 66'sd4294967295) in_range = 1'b0;
        arg_bidder = call_q.arguments[2][6:0];
        if (call_q.arguments[2] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:3] != '0) in_range = 1'b0;
        // the auction was opened: auctions(auction)
        if (!auctions_q[arg_auction]) permissible = 1'b0;
        // the auction is not closed: not closed(auction)
        if (!(!closed_q[arg_auction])) permissible = 1'b0;
        // the bidder is a user: users(bidder)
        if (!users_q[arg_bidder]) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // highest(auction) becomes (bid if highest(auction) < bid, otherwise highest(auction))
        new_0 = ((number(highest_row[0]) < arg_bid) ? arg_bid : number(highest_row[0]));
        if (!fits(new_0)) exact = 1'b0;
        highest_d[0] = new_0[63:0];
        highest_write[0] = 1'b1;
      end
      {RdtUpdate, MethodCloseAuction}, {RdtApply, MethodCloseAuction}: begin : update_close_auction
        // closeAuction(auction)
        automatic logic [6:0] arg_auction;
        arg_auction = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the auction was opened: auctions(auction)
        if (!auctions_q[arg_auction]) permissible = 1'b0;
        // the auction is not closed: not closed(auction)
        if (!(!closed_q[arg_auction])) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // closed(auction) becomes true
        closed_d[arg_auction] = 1'b1;
      end
      {RdtQuery, QueryHighestBid}: begin : query_highest_bid
        // highestBid(auction)
        automatic number_t value;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        value = number(highest_row[0]);
        answer_d.value = value[63:0];
        exact = fits(value);
      end
      {RdtQuery, QueryInStock}: begin : query_in_stock
        // inStock(item)
        automatic number_t value;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        value = number(stock_row[0]);
        answer_d.value = value[63:0];
        exact = fits(value);
      end
      default: in_range = 1'b0;
    endcase
    if (!in_range) answer_d.outcome = RdtOutOfRange;
    else if (!permissible) answer_d.outcome = RdtRefused;
    else if (!exact) answer_d.outcome = RdtOverflow;
    else answer_d.outcome = RdtDone;
  end

  always_ff @(posedge clk_i) begin
    if (accept) call_q <= call_i;
    if (execute) answer_q <= answer_d;
    if (!rst_ni) begin
      valid_q <= 1'b0;
      answer_valid_q <= 1'b0;
      users_q <= '0;
      auctions_q <= '0;
      closed_q <= '0;
      items_q <= '0;
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
      if (changes) users_q <= users_d;
      if (changes) auctions_q <= auctions_d;
      if (changes) closed_q <= closed_d;
      if (changes) items_q <= items_d;
    end
  end

endmodule
