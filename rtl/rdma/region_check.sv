// One port of `region_table`: a replica of the regions and the pipeline that checks against it.
//
// Latency: 3 cycles. Throughput: one a cycle. Never stalls. A request sees every write of earlier cycles.
module region_check
  import weft_pkg::*;
(
  input  logic            clk_i,
  // High when all regions have been invalidated after reset.
  input  logic            ready_i,
  input  logic            write_i,
  input  region_index_t   write_index_i,
  // The access rights are written by the port below, and the low bits of the keys are the index, so neither is read
  // here.
  // verilator lint_off UNUSEDSIGNAL
  input  region_t         write_data_i,
  // verilator lint_on UNUSEDSIGNAL
  // Access rights are in a RAM of their own, so they can be changed separately.
  input  logic            access_write_i,
  input  region_index_t   access_index_i,
  input  access_t         access_data_i,
  input  logic            request_valid_i,
  input  access_request_t request_i,
  output access_grant_t   grant_o
);

  localparam int unsigned IndexBits = $bits(region_index_t);

  // The fields of a region that a check needs besides the access rights.
  typedef struct packed {
    logic                valid;
    // Without the index, which is the RAM address.
    logic [31:IndexBits] lkey;
    logic [31:IndexBits] rkey;
    logic [15:0]         domain;
    address_t            base;
    logic [48:0]         length;
    target_e             target;
    logic                write_through;
    logic                rpc;
    logic [3:0]          slot;
  } entry_t;

  region_index_t index;
  entry_t        write_entry;

  assign index = request_i.key[IndexBits-1:0];
  assign write_entry = '{
          valid: write_data_i.valid,
          lkey: write_data_i.lkey[31:IndexBits],
          rkey: write_data_i.rkey[31:IndexBits],
          domain: write_data_i.domain,
          base: write_data_i.base,
          length: write_data_i.length,
          target: write_data_i.target,
          write_through: write_data_i.write_through,
          rpc: write_data_i.rpc,
          slot: write_data_i.slot
      };

  // Cycle t+1: the region has been read.
  entry_t          entry;
  access_t         access;
  access_request_t request_q;
  logic            request_valid_q;
  logic            ready_q;

  ram #(
    .T    (entry_t),
    .Depth(Regions)
  ) u_regions (
    .clk_i,
    .write_i,
    .write_address_i(write_index_i),
    .write_data_i   (write_entry),
    .read_i         (request_valid_i),
    .read_address_i (index),
    .read_data_o    (entry)
  );

  ram #(
    .T    (access_t),
    .Depth(Regions)
  ) u_access (
    .clk_i,
    .write_i        (access_write_i),
    .write_address_i(access_index_i),
    .write_data_i   (access_data_i),
    .read_i         (request_valid_i),
    .read_address_i (index),
    .read_data_o    (access)
  );

  always_ff @(posedge clk_i) begin
    request_valid_q <= request_valid_i;
    ready_q <= ready_i;
    if (request_valid_i) request_q <= request_i;
  end

  // Cycle t+2: computes the offset of the access in the region and the largest offset at which it would still fit.
  logic                 check_q;
  logic                 known_q;
  logic                 same_domain_q;
  logic                 fits_q;
  logic                 allowed_q;
  logic          [47:0] offset_q;
  logic          [48:0] latest_q;
  access_grant_t        place_q;
  logic          [48:0] offset;
  logic          [49:0] latest;

  // A set top bit of the difference means a borrow.
  assign offset = {1'b0, request_q.address[47:0]} - {1'b0, entry.base};
  assign latest = {1'b0, entry.length} - 50'(request_q.bytes);

  always_ff @(posedge clk_i) begin
    check_q <= request_valid_q;
    if (request_valid_q) begin
      known_q <= ready_q && entry.valid && request_q.key[31:IndexBits] == (request_q.remote ? entry.rkey : entry.lkey);
      same_domain_q <= request_q.domain == entry.domain;
      fits_q <= request_q.address[63:48] == '0 && !offset[48] && !latest[49];
      allowed_q <= (request_q.needs & ~access) == '0;
      offset_q <= offset[47:0];
      latest_q <= latest[48:0];
      place_q <= '{
          verdict: AccessGranted,
          target: entry.target,
          write_through: entry.write_through,
          rpc: entry.rpc,
          slot: entry.slot
      };
    end
  end

  // Cycle t+3: the verdict.
  access_verdict_e verdict;

  always_comb begin
    if (!known_q) verdict = AccessUnknownKey;
    else if (!same_domain_q) verdict = AccessWrongDomain;
    else if (!fits_q || {1'b0, offset_q} > latest_q) verdict = AccessOutOfBounds;
    else if (!allowed_q) verdict = AccessForbidden;
    else verdict = AccessGranted;
  end

  always_ff @(posedge clk_i) begin
    if (check_q) begin
      grant_o <= place_q;
      grant_o.verdict <= verdict;
    end
  end

endmodule
