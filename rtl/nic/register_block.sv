// The driver's registers, behind AXI4-Lite.
module register_block
  import weft_pkg::*;
#(
  // Words of state that a query of a queue pair returns.
  parameter int unsigned QueryWords = 16,
  parameter int unsigned Counters = 128
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  cycles_t                       now_i,
  // AXI4-Lite.
  input  logic                          axil_awvalid_i,
  output logic                          axil_awready_o,
  input  logic                   [11:0] axil_awaddr_i,
  input  logic                    [2:0] axil_awprot_i,
  input  logic                          axil_wvalid_i,
  output logic                          axil_wready_o,
  input  logic                   [31:0] axil_wdata_i,
  input  logic                    [3:0] axil_wstrb_i,
  output logic                          axil_bvalid_o,
  input  logic                          axil_bready_i,
  output logic                    [1:0] axil_bresp_o,
  input  logic                          axil_arvalid_i,
  output logic                          axil_arready_o,
  input  logic                   [11:0] axil_araddr_i,
  input  logic                    [2:0] axil_arprot_i,
  output logic                          axil_rvalid_o,
  input  logic                          axil_rready_i,
  output logic                   [31:0] axil_rdata_o,
  output logic                    [1:0] axil_rresp_o,
  // Of the port.
  output mac_address_t                  hardware_o,
  output ipv4_address_t                 address_o,
  output cycles_t                       age_limit_o,
  output sniffer_config_t               sniffer_o,
  // Attributes of queue pairs.
  output logic                          table_write_valid_o,
  input  logic                          table_write_ready_i,
  output queue_pair_t                   table_write_o,
  // Memory regions.
  output logic                          region_write_valid_o,
  input  logic                          region_write_ready_i,
  output region_index_t                 region_write_index_o,
  output region_t                       region_write_o,
  // Control of queue pairs; `done` is one cycle long and follows each operation.
  output logic                          control_valid_o,
  input  logic                          control_ready_i,
  output control_t                      control_o,
  input  logic                          control_done_i,
  output logic                          neighbour_valid_o,
  input  logic                          neighbour_ready_i,
  output ipv4_address_t                 neighbour_address_o,
  output mac_address_t                  neighbour_mac_o,
  output logic                          socket_valid_o,
  input  logic                          socket_ready_i,
  output socket_entry_t                 socket_o,
  input  logic                          socket_done_i,
  input  logic                          socket_refused_i,
  // State of a queue pair, requester and responder as the integration lays it out.
  output logic                          query_valid_o,
  input  logic                          query_ready_i,
  output qp_index_t                     query_qp_o,
  input  logic                          query_done_i,
  input  logic      [32*QueryWords-1:0] query_state_i,
  output logic                          counter_valid_o,
  input  logic                          counter_ready_i,
  output logic [$clog2(Counters)-1:0]   counter_index_o,
  input  logic                          counter_done_i,
  input  logic                   [63:0] counter_value_i,
  // All blocks are idle.
  input  logic                          idle_i
);

  assign axil_awready_o = 1'b1;
  assign axil_wready_o = 1'b1;
  assign axil_bvalid_o = 1'b0;
  assign axil_bresp_o = '0;
  assign axil_arready_o = 1'b1;
  assign axil_rvalid_o = 1'b0;
  assign axil_rdata_o = '0;
  assign axil_rresp_o = '0;
  assign hardware_o = '0;
  assign address_o = '0;
  assign age_limit_o = '0;
  assign sniffer_o = '0;
  assign table_write_valid_o = 1'b0;
  assign table_write_o = '0;
  assign region_write_valid_o = 1'b0;
  assign region_write_index_o = '0;
  assign region_write_o = '0;
  assign control_valid_o = 1'b0;
  assign control_o = '0;
  assign neighbour_valid_o = 1'b0;
  assign neighbour_address_o = '0;
  assign neighbour_mac_o = '0;
  assign socket_valid_o = 1'b0;
  assign socket_o = '0;
  assign query_valid_o = 1'b0;
  assign query_qp_o = '0;
  assign counter_valid_o = 1'b0;
  assign counter_index_o = '0;

endmodule
