// All data types that ship, side by side, for a simulator. Calls go to type `type_i`, in the order of `weft
// rdt list`; it changes only while the type is idle. The states are those of `Object::words`, one type
// after the other, each in whole windows of 16 words.
// Written by the generator; do not edit.
module rdt_types
  import rdt_pkg::*;
#(
  localparam int unsigned Types = 32'd13,
  localparam int unsigned Windows = 32'd62,
  localparam int unsigned Words = 32'd16
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic        [ 3:0]      replica_i,
  input  logic        [ 3:0]      type_i,
  input  logic                    call_valid_i,
  output logic                    call_ready_o,
  input  rdt_call_t               call_i,
  output logic                    answer_valid_o,
  input  logic                    answer_ready_i,
  output rdt_answer_t             answer_o,
  output logic                    idle_o,
  input  logic        [ 7:0]      window_i,
  output logic [Words-1:0][63:0]  state_o
);

  logic [Types-1:0] selected, call_ready, answer_valid, idle;
  rdt_answer_t [Types-1:0] answer;
  logic [Windows-1:0][Words-1:0][63:0] states;

  assign selected = Types'(1) << type_i;
  assign call_ready_o = call_ready[type_i];
  assign answer_valid_o = answer_valid[type_i];
  assign answer_o = answer[type_i];
  assign idle_o = idle[type_i];
  assign state_o = states[window_i];

  rdt_g_counter i_g_counter (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[0]),
    .call_ready_o  (call_ready[0]),
    .call_i,
    .answer_valid_o(answer_valid[0]),
    .answer_ready_i(answer_ready_i && selected[0]),
    .answer_o      (answer[0]),
    .idle_o        (idle[0])
  );
  assign states[0][0] = 64'(i_g_counter.count_q[0+:64]);
  assign states[0][1] = '0;
  assign states[0][2] = '0;
  assign states[0][3] = '0;
  assign states[0][4] = '0;
  assign states[0][5] = '0;
  assign states[0][6] = '0;
  assign states[0][7] = '0;
  assign states[0][8] = '0;
  assign states[0][9] = '0;
  assign states[0][10] = '0;
  assign states[0][11] = '0;
  assign states[0][12] = '0;
  assign states[0][13] = '0;
  assign states[0][14] = '0;
  assign states[0][15] = '0;

  rdt_pn_counter i_pn_counter (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[1]),
    .call_ready_o  (call_ready[1]),
    .call_i,
    .answer_valid_o(answer_valid[1]),
    .answer_ready_i(answer_ready_i && selected[1]),
    .answer_o      (answer[1]),
    .idle_o        (idle[1])
  );
  assign states[1][0] = 64'(i_pn_counter.count_q[0+:64]);
  assign states[1][1] = '0;
  assign states[1][2] = '0;
  assign states[1][3] = '0;
  assign states[1][4] = '0;
  assign states[1][5] = '0;
  assign states[1][6] = '0;
  assign states[1][7] = '0;
  assign states[1][8] = '0;
  assign states[1][9] = '0;
  assign states[1][10] = '0;
  assign states[1][11] = '0;
  assign states[1][12] = '0;
  assign states[1][13] = '0;
  assign states[1][14] = '0;
  assign states[1][15] = '0;

  rdt_lww_register i_lww_register (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[2]),
    .call_ready_o  (call_ready[2]),
    .call_i,
    .answer_valid_o(answer_valid[2]),
    .answer_ready_i(answer_ready_i && selected[2]),
    .answer_o      (answer[2]),
    .idle_o        (idle[2])
  );
  assign states[2][0] = 64'(i_lww_register.value_q[0+:64]);
  assign states[2][1] = 64'(i_lww_register.written_q[0+:64]);
  assign states[2][2] = '0;
  assign states[2][3] = '0;
  assign states[2][4] = '0;
  assign states[2][5] = '0;
  assign states[2][6] = '0;
  assign states[2][7] = '0;
  assign states[2][8] = '0;
  assign states[2][9] = '0;
  assign states[2][10] = '0;
  assign states[2][11] = '0;
  assign states[2][12] = '0;
  assign states[2][13] = '0;
  assign states[2][14] = '0;
  assign states[2][15] = '0;

  rdt_g_set i_g_set (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[3]),
    .call_ready_o  (call_ready[3]),
    .call_i,
    .answer_valid_o(answer_valid[3]),
    .answer_ready_i(answer_ready_i && selected[3]),
    .answer_o      (answer[3]),
    .idle_o        (idle[3])
  );
  assign states[3][0] = 64'(i_g_set.i_items.gen_port[0].memory[0][0+:64]);
  assign states[3][1] = 64'(i_g_set.i_items.gen_port[0].memory[1][0+:64]);
  assign states[3][2] = 64'(i_g_set.i_items.gen_port[0].memory[2][0+:64]);
  assign states[3][3] = 64'(i_g_set.i_items.gen_port[0].memory[3][0+:64]);
  assign states[3][4] = 64'(i_g_set.i_items.gen_port[0].memory[4][0+:64]);
  assign states[3][5] = 64'(i_g_set.i_items.gen_port[0].memory[5][0+:64]);
  assign states[3][6] = 64'(i_g_set.i_items.gen_port[0].memory[6][0+:64]);
  assign states[3][7] = 64'(i_g_set.i_items.gen_port[0].memory[7][0+:64]);
  assign states[3][8] = 64'(i_g_set.i_items.gen_port[0].memory[8][0+:64]);
  assign states[3][9] = 64'(i_g_set.i_items.gen_port[0].memory[9][0+:64]);
  assign states[3][10] = 64'(i_g_set.i_items.gen_port[0].memory[10][0+:64]);
  assign states[3][11] = 64'(i_g_set.i_items.gen_port[0].memory[11][0+:64]);
  assign states[3][12] = 64'(i_g_set.i_items.gen_port[0].memory[12][0+:64]);
  assign states[3][13] = 64'(i_g_set.i_items.gen_port[0].memory[13][0+:64]);
  assign states[3][14] = 64'(i_g_set.i_items.gen_port[0].memory[14][0+:64]);
  assign states[3][15] = 64'(i_g_set.i_items.gen_port[0].memory[15][0+:64]);
  assign states[4][0] = 64'(i_g_set.i_items.gen_port[0].memory[16][0+:64]);
  assign states[4][1] = 64'(i_g_set.i_items.gen_port[0].memory[17][0+:64]);
  assign states[4][2] = 64'(i_g_set.i_items.gen_port[0].memory[18][0+:64]);
  assign states[4][3] = 64'(i_g_set.i_items.gen_port[0].memory[19][0+:64]);
  assign states[4][4] = 64'(i_g_set.i_items.gen_port[0].memory[20][0+:64]);
  assign states[4][5] = 64'(i_g_set.i_items.gen_port[0].memory[21][0+:64]);
  assign states[4][6] = 64'(i_g_set.i_items.gen_port[0].memory[22][0+:64]);
  assign states[4][7] = 64'(i_g_set.i_items.gen_port[0].memory[23][0+:64]);
  assign states[4][8] = 64'(i_g_set.i_items.gen_port[0].memory[24][0+:64]);
  assign states[4][9] = 64'(i_g_set.i_items.gen_port[0].memory[25][0+:64]);
  assign states[4][10] = 64'(i_g_set.i_items.gen_port[0].memory[26][0+:64]);
  assign states[4][11] = 64'(i_g_set.i_items.gen_port[0].memory[27][0+:64]);
  assign states[4][12] = 64'(i_g_set.i_items.gen_port[0].memory[28][0+:64]);
  assign states[4][13] = 64'(i_g_set.i_items.gen_port[0].memory[29][0+:64]);
  assign states[4][14] = 64'(i_g_set.i_items.gen_port[0].memory[30][0+:64]);
  assign states[4][15] = 64'(i_g_set.i_items.gen_port[0].memory[31][0+:64]);

  rdt_pn_set i_pn_set (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[4]),
    .call_ready_o  (call_ready[4]),
    .call_i,
    .answer_valid_o(answer_valid[4]),
    .answer_ready_i(answer_ready_i && selected[4]),
    .answer_o      (answer[4]),
    .idle_o        (idle[4])
  );
  assign states[5][0] = 64'(i_pn_set.i_count.gen_port[0].memory[0][0+:64]);
  assign states[5][1] = 64'(i_pn_set.i_count.gen_port[0].memory[1][0+:64]);
  assign states[5][2] = 64'(i_pn_set.i_count.gen_port[0].memory[2][0+:64]);
  assign states[5][3] = 64'(i_pn_set.i_count.gen_port[0].memory[3][0+:64]);
  assign states[5][4] = 64'(i_pn_set.i_count.gen_port[0].memory[4][0+:64]);
  assign states[5][5] = 64'(i_pn_set.i_count.gen_port[0].memory[5][0+:64]);
  assign states[5][6] = 64'(i_pn_set.i_count.gen_port[0].memory[6][0+:64]);
  assign states[5][7] = 64'(i_pn_set.i_count.gen_port[0].memory[7][0+:64]);
  assign states[5][8] = 64'(i_pn_set.i_count.gen_port[0].memory[8][0+:64]);
  assign states[5][9] = 64'(i_pn_set.i_count.gen_port[0].memory[9][0+:64]);
  assign states[5][10] = 64'(i_pn_set.i_count.gen_port[0].memory[10][0+:64]);
  assign states[5][11] = 64'(i_pn_set.i_count.gen_port[0].memory[11][0+:64]);
  assign states[5][12] = 64'(i_pn_set.i_count.gen_port[0].memory[12][0+:64]);
  assign states[5][13] = 64'(i_pn_set.i_count.gen_port[0].memory[13][0+:64]);
  assign states[5][14] = 64'(i_pn_set.i_count.gen_port[0].memory[14][0+:64]);
  assign states[5][15] = 64'(i_pn_set.i_count.gen_port[0].memory[15][0+:64]);
  assign states[6][0] = 64'(i_pn_set.i_count.gen_port[0].memory[16][0+:64]);
  assign states[6][1] = 64'(i_pn_set.i_count.gen_port[0].memory[17][0+:64]);
  assign states[6][2] = 64'(i_pn_set.i_count.gen_port[0].memory[18][0+:64]);
  assign states[6][3] = 64'(i_pn_set.i_count.gen_port[0].memory[19][0+:64]);
  assign states[6][4] = 64'(i_pn_set.i_count.gen_port[0].memory[20][0+:64]);
  assign states[6][5] = 64'(i_pn_set.i_count.gen_port[0].memory[21][0+:64]);
  assign states[6][6] = 64'(i_pn_set.i_count.gen_port[0].memory[22][0+:64]);
  assign states[6][7] = 64'(i_pn_set.i_count.gen_port[0].memory[23][0+:64]);
  assign states[6][8] = 64'(i_pn_set.i_count.gen_port[0].memory[24][0+:64]);
  assign states[6][9] = 64'(i_pn_set.i_count.gen_port[0].memory[25][0+:64]);
  assign states[6][10] = 64'(i_pn_set.i_count.gen_port[0].memory[26][0+:64]);
  assign states[6][11] = 64'(i_pn_set.i_count.gen_port[0].memory[27][0+:64]);
  assign states[6][12] = 64'(i_pn_set.i_count.gen_port[0].memory[28][0+:64]);
  assign states[6][13] = 64'(i_pn_set.i_count.gen_port[0].memory[29][0+:64]);
  assign states[6][14] = 64'(i_pn_set.i_count.gen_port[0].memory[30][0+:64]);
  assign states[6][15] = 64'(i_pn_set.i_count.gen_port[0].memory[31][0+:64]);
  assign states[7][0] = 64'(i_pn_set.i_count.gen_port[0].memory[32][0+:64]);
  assign states[7][1] = 64'(i_pn_set.i_count.gen_port[0].memory[33][0+:64]);
  assign states[7][2] = 64'(i_pn_set.i_count.gen_port[0].memory[34][0+:64]);
  assign states[7][3] = 64'(i_pn_set.i_count.gen_port[0].memory[35][0+:64]);
  assign states[7][4] = 64'(i_pn_set.i_count.gen_port[0].memory[36][0+:64]);
  assign states[7][5] = 64'(i_pn_set.i_count.gen_port[0].memory[37][0+:64]);
  assign states[7][6] = 64'(i_pn_set.i_count.gen_port[0].memory[38][0+:64]);
  assign states[7][7] = 64'(i_pn_set.i_count.gen_port[0].memory[39][0+:64]);
  assign states[7][8] = 64'(i_pn_set.i_count.gen_port[0].memory[40][0+:64]);
  assign states[7][9] = 64'(i_pn_set.i_count.gen_port[0].memory[41][0+:64]);
  assign states[7][10] = 64'(i_pn_set.i_count.gen_port[0].memory[42][0+:64]);
  assign states[7][11] = 64'(i_pn_set.i_count.gen_port[0].memory[43][0+:64]);
  assign states[7][12] = 64'(i_pn_set.i_count.gen_port[0].memory[44][0+:64]);
  assign states[7][13] = 64'(i_pn_set.i_count.gen_port[0].memory[45][0+:64]);
  assign states[7][14] = 64'(i_pn_set.i_count.gen_port[0].memory[46][0+:64]);
  assign states[7][15] = 64'(i_pn_set.i_count.gen_port[0].memory[47][0+:64]);
  assign states[8][0] = 64'(i_pn_set.i_count.gen_port[0].memory[48][0+:64]);
  assign states[8][1] = 64'(i_pn_set.i_count.gen_port[0].memory[49][0+:64]);
  assign states[8][2] = 64'(i_pn_set.i_count.gen_port[0].memory[50][0+:64]);
  assign states[8][3] = 64'(i_pn_set.i_count.gen_port[0].memory[51][0+:64]);
  assign states[8][4] = 64'(i_pn_set.i_count.gen_port[0].memory[52][0+:64]);
  assign states[8][5] = 64'(i_pn_set.i_count.gen_port[0].memory[53][0+:64]);
  assign states[8][6] = 64'(i_pn_set.i_count.gen_port[0].memory[54][0+:64]);
  assign states[8][7] = 64'(i_pn_set.i_count.gen_port[0].memory[55][0+:64]);
  assign states[8][8] = 64'(i_pn_set.i_count.gen_port[0].memory[56][0+:64]);
  assign states[8][9] = 64'(i_pn_set.i_count.gen_port[0].memory[57][0+:64]);
  assign states[8][10] = 64'(i_pn_set.i_count.gen_port[0].memory[58][0+:64]);
  assign states[8][11] = 64'(i_pn_set.i_count.gen_port[0].memory[59][0+:64]);
  assign states[8][12] = 64'(i_pn_set.i_count.gen_port[0].memory[60][0+:64]);
  assign states[8][13] = 64'(i_pn_set.i_count.gen_port[0].memory[61][0+:64]);
  assign states[8][14] = 64'(i_pn_set.i_count.gen_port[0].memory[62][0+:64]);
  assign states[8][15] = 64'(i_pn_set.i_count.gen_port[0].memory[63][0+:64]);
  assign states[9][0] = 64'(i_pn_set.i_count.gen_port[0].memory[64][0+:64]);
  assign states[9][1] = 64'(i_pn_set.i_count.gen_port[0].memory[65][0+:64]);
  assign states[9][2] = 64'(i_pn_set.i_count.gen_port[0].memory[66][0+:64]);
  assign states[9][3] = 64'(i_pn_set.i_count.gen_port[0].memory[67][0+:64]);
  assign states[9][4] = 64'(i_pn_set.i_count.gen_port[0].memory[68][0+:64]);
  assign states[9][5] = 64'(i_pn_set.i_count.gen_port[0].memory[69][0+:64]);
  assign states[9][6] = '0;
  assign states[9][7] = '0;
  assign states[9][8] = '0;
  assign states[9][9] = '0;
  assign states[9][10] = '0;
  assign states[9][11] = '0;
  assign states[9][12] = '0;
  assign states[9][13] = '0;
  assign states[9][14] = '0;
  assign states[9][15] = '0;

  rdt_2p_set i_2p_set (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[5]),
    .call_ready_o  (call_ready[5]),
    .call_i,
    .answer_valid_o(answer_valid[5]),
    .answer_ready_i(answer_ready_i && selected[5]),
    .answer_o      (answer[5]),
    .idle_o        (idle[5])
  );
  assign states[10][0] = 64'(i_2p_set.i_added.gen_port[0].memory[0][0+:64]);
  assign states[10][1] = 64'(i_2p_set.i_added.gen_port[0].memory[1][0+:64]);
  assign states[10][2] = 64'(i_2p_set.i_added.gen_port[0].memory[2][0+:64]);
  assign states[10][3] = 64'(i_2p_set.i_added.gen_port[0].memory[3][0+:64]);
  assign states[10][4] = 64'(i_2p_set.i_added.gen_port[0].memory[4][0+:64]);
  assign states[10][5] = 64'(i_2p_set.i_added.gen_port[0].memory[5][0+:64]);
  assign states[10][6] = 64'(i_2p_set.i_added.gen_port[0].memory[6][0+:64]);
  assign states[10][7] = 64'(i_2p_set.i_added.gen_port[0].memory[7][0+:64]);
  assign states[10][8] = 64'(i_2p_set.i_added.gen_port[0].memory[8][0+:64]);
  assign states[10][9] = 64'(i_2p_set.i_added.gen_port[0].memory[9][0+:64]);
  assign states[10][10] = 64'(i_2p_set.i_added.gen_port[0].memory[10][0+:64]);
  assign states[10][11] = 64'(i_2p_set.i_added.gen_port[0].memory[11][0+:64]);
  assign states[10][12] = 64'(i_2p_set.i_added.gen_port[0].memory[12][0+:64]);
  assign states[10][13] = 64'(i_2p_set.i_added.gen_port[0].memory[13][0+:64]);
  assign states[10][14] = 64'(i_2p_set.i_added.gen_port[0].memory[14][0+:64]);
  assign states[10][15] = 64'(i_2p_set.i_added.gen_port[0].memory[15][0+:64]);
  assign states[11][0] = 64'(i_2p_set.i_added.gen_port[0].memory[16][0+:64]);
  assign states[11][1] = 64'(i_2p_set.i_added.gen_port[0].memory[17][0+:64]);
  assign states[11][2] = 64'(i_2p_set.i_added.gen_port[0].memory[18][0+:64]);
  assign states[11][3] = 64'(i_2p_set.i_added.gen_port[0].memory[19][0+:64]);
  assign states[11][4] = 64'(i_2p_set.i_added.gen_port[0].memory[20][0+:64]);
  assign states[11][5] = 64'(i_2p_set.i_added.gen_port[0].memory[21][0+:64]);
  assign states[11][6] = 64'(i_2p_set.i_added.gen_port[0].memory[22][0+:64]);
  assign states[11][7] = 64'(i_2p_set.i_added.gen_port[0].memory[23][0+:64]);
  assign states[11][8] = 64'(i_2p_set.i_added.gen_port[0].memory[24][0+:64]);
  assign states[11][9] = 64'(i_2p_set.i_added.gen_port[0].memory[25][0+:64]);
  assign states[11][10] = 64'(i_2p_set.i_added.gen_port[0].memory[26][0+:64]);
  assign states[11][11] = 64'(i_2p_set.i_added.gen_port[0].memory[27][0+:64]);
  assign states[11][12] = 64'(i_2p_set.i_added.gen_port[0].memory[28][0+:64]);
  assign states[11][13] = 64'(i_2p_set.i_added.gen_port[0].memory[29][0+:64]);
  assign states[11][14] = 64'(i_2p_set.i_added.gen_port[0].memory[30][0+:64]);
  assign states[11][15] = 64'(i_2p_set.i_added.gen_port[0].memory[31][0+:64]);
  assign states[12][0] = 64'(i_2p_set.i_removed.gen_port[0].memory[0][0+:64]);
  assign states[12][1] = 64'(i_2p_set.i_removed.gen_port[0].memory[1][0+:64]);
  assign states[12][2] = 64'(i_2p_set.i_removed.gen_port[0].memory[2][0+:64]);
  assign states[12][3] = 64'(i_2p_set.i_removed.gen_port[0].memory[3][0+:64]);
  assign states[12][4] = 64'(i_2p_set.i_removed.gen_port[0].memory[4][0+:64]);
  assign states[12][5] = 64'(i_2p_set.i_removed.gen_port[0].memory[5][0+:64]);
  assign states[12][6] = 64'(i_2p_set.i_removed.gen_port[0].memory[6][0+:64]);
  assign states[12][7] = 64'(i_2p_set.i_removed.gen_port[0].memory[7][0+:64]);
  assign states[12][8] = 64'(i_2p_set.i_removed.gen_port[0].memory[8][0+:64]);
  assign states[12][9] = 64'(i_2p_set.i_removed.gen_port[0].memory[9][0+:64]);
  assign states[12][10] = 64'(i_2p_set.i_removed.gen_port[0].memory[10][0+:64]);
  assign states[12][11] = 64'(i_2p_set.i_removed.gen_port[0].memory[11][0+:64]);
  assign states[12][12] = 64'(i_2p_set.i_removed.gen_port[0].memory[12][0+:64]);
  assign states[12][13] = 64'(i_2p_set.i_removed.gen_port[0].memory[13][0+:64]);
  assign states[12][14] = 64'(i_2p_set.i_removed.gen_port[0].memory[14][0+:64]);
  assign states[12][15] = 64'(i_2p_set.i_removed.gen_port[0].memory[15][0+:64]);
  assign states[13][0] = 64'(i_2p_set.i_removed.gen_port[0].memory[16][0+:64]);
  assign states[13][1] = 64'(i_2p_set.i_removed.gen_port[0].memory[17][0+:64]);
  assign states[13][2] = 64'(i_2p_set.i_removed.gen_port[0].memory[18][0+:64]);
  assign states[13][3] = 64'(i_2p_set.i_removed.gen_port[0].memory[19][0+:64]);
  assign states[13][4] = 64'(i_2p_set.i_removed.gen_port[0].memory[20][0+:64]);
  assign states[13][5] = 64'(i_2p_set.i_removed.gen_port[0].memory[21][0+:64]);
  assign states[13][6] = 64'(i_2p_set.i_removed.gen_port[0].memory[22][0+:64]);
  assign states[13][7] = 64'(i_2p_set.i_removed.gen_port[0].memory[23][0+:64]);
  assign states[13][8] = 64'(i_2p_set.i_removed.gen_port[0].memory[24][0+:64]);
  assign states[13][9] = 64'(i_2p_set.i_removed.gen_port[0].memory[25][0+:64]);
  assign states[13][10] = 64'(i_2p_set.i_removed.gen_port[0].memory[26][0+:64]);
  assign states[13][11] = 64'(i_2p_set.i_removed.gen_port[0].memory[27][0+:64]);
  assign states[13][12] = 64'(i_2p_set.i_removed.gen_port[0].memory[28][0+:64]);
  assign states[13][13] = 64'(i_2p_set.i_removed.gen_port[0].memory[29][0+:64]);
  assign states[13][14] = 64'(i_2p_set.i_removed.gen_port[0].memory[30][0+:64]);
  assign states[13][15] = 64'(i_2p_set.i_removed.gen_port[0].memory[31][0+:64]);

  rdt_account i_account (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[6]),
    .call_ready_o  (call_ready[6]),
    .call_i,
    .answer_valid_o(answer_valid[6]),
    .answer_ready_i(answer_ready_i && selected[6]),
    .answer_o      (answer[6]),
    .idle_o        (idle[6])
  );
  assign states[14][0] = 64'(i_account.balance_q[0+:64]);
  assign states[14][1] = '0;
  assign states[14][2] = '0;
  assign states[14][3] = '0;
  assign states[14][4] = '0;
  assign states[14][5] = '0;
  assign states[14][6] = '0;
  assign states[14][7] = '0;
  assign states[14][8] = '0;
  assign states[14][9] = '0;
  assign states[14][10] = '0;
  assign states[14][11] = '0;
  assign states[14][12] = '0;
  assign states[14][13] = '0;
  assign states[14][14] = '0;
  assign states[14][15] = '0;

  rdt_courseware i_courseware (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[7]),
    .call_ready_o  (call_ready[7]),
    .call_i,
    .answer_valid_o(answer_valid[7]),
    .answer_ready_i(answer_ready_i && selected[7]),
    .answer_o      (answer[7]),
    .idle_o        (idle[7])
  );
  assign states[15][0] = 64'(i_courseware.students_q[0+:64]);
  assign states[15][1] = 64'(i_courseware.students_q[64+:6]);
  assign states[15][2] = 64'(i_courseware.courses_q[0+:64]);
  assign states[15][3] = 64'(i_courseware.courses_q[64+:6]);
  assign states[15][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[0][0+:64]);
  assign states[15][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[0][64+:6]);
  assign states[15][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[1][0+:64]);
  assign states[15][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[1][64+:6]);
  assign states[15][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[2][0+:64]);
  assign states[15][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[2][64+:6]);
  assign states[15][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[3][0+:64]);
  assign states[15][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[3][64+:6]);
  assign states[15][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[4][0+:64]);
  assign states[15][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[4][64+:6]);
  assign states[15][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[5][0+:64]);
  assign states[15][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[5][64+:6]);
  assign states[16][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[6][0+:64]);
  assign states[16][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[6][64+:6]);
  assign states[16][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[7][0+:64]);
  assign states[16][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[7][64+:6]);
  assign states[16][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[8][0+:64]);
  assign states[16][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[8][64+:6]);
  assign states[16][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[9][0+:64]);
  assign states[16][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[9][64+:6]);
  assign states[16][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[10][0+:64]);
  assign states[16][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[10][64+:6]);
  assign states[16][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[11][0+:64]);
  assign states[16][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[11][64+:6]);
  assign states[16][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[12][0+:64]);
  assign states[16][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[12][64+:6]);
  assign states[16][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[13][0+:64]);
  assign states[16][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[13][64+:6]);
  assign states[17][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[14][0+:64]);
  assign states[17][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[14][64+:6]);
  assign states[17][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[15][0+:64]);
  assign states[17][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[15][64+:6]);
  assign states[17][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[16][0+:64]);
  assign states[17][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[16][64+:6]);
  assign states[17][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[17][0+:64]);
  assign states[17][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[17][64+:6]);
  assign states[17][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[18][0+:64]);
  assign states[17][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[18][64+:6]);
  assign states[17][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[19][0+:64]);
  assign states[17][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[19][64+:6]);
  assign states[17][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[20][0+:64]);
  assign states[17][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[20][64+:6]);
  assign states[17][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[21][0+:64]);
  assign states[17][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[21][64+:6]);
  assign states[18][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[22][0+:64]);
  assign states[18][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[22][64+:6]);
  assign states[18][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[23][0+:64]);
  assign states[18][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[23][64+:6]);
  assign states[18][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[24][0+:64]);
  assign states[18][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[24][64+:6]);
  assign states[18][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[25][0+:64]);
  assign states[18][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[25][64+:6]);
  assign states[18][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[26][0+:64]);
  assign states[18][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[26][64+:6]);
  assign states[18][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[27][0+:64]);
  assign states[18][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[27][64+:6]);
  assign states[18][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[28][0+:64]);
  assign states[18][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[28][64+:6]);
  assign states[18][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[29][0+:64]);
  assign states[18][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[29][64+:6]);
  assign states[19][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[30][0+:64]);
  assign states[19][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[30][64+:6]);
  assign states[19][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[31][0+:64]);
  assign states[19][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[31][64+:6]);
  assign states[19][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[32][0+:64]);
  assign states[19][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[32][64+:6]);
  assign states[19][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[33][0+:64]);
  assign states[19][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[33][64+:6]);
  assign states[19][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[34][0+:64]);
  assign states[19][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[34][64+:6]);
  assign states[19][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[35][0+:64]);
  assign states[19][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[35][64+:6]);
  assign states[19][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[36][0+:64]);
  assign states[19][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[36][64+:6]);
  assign states[19][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[37][0+:64]);
  assign states[19][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[37][64+:6]);
  assign states[20][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[38][0+:64]);
  assign states[20][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[38][64+:6]);
  assign states[20][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[39][0+:64]);
  assign states[20][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[39][64+:6]);
  assign states[20][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[40][0+:64]);
  assign states[20][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[40][64+:6]);
  assign states[20][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[41][0+:64]);
  assign states[20][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[41][64+:6]);
  assign states[20][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[42][0+:64]);
  assign states[20][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[42][64+:6]);
  assign states[20][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[43][0+:64]);
  assign states[20][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[43][64+:6]);
  assign states[20][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[44][0+:64]);
  assign states[20][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[44][64+:6]);
  assign states[20][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[45][0+:64]);
  assign states[20][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[45][64+:6]);
  assign states[21][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[46][0+:64]);
  assign states[21][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[46][64+:6]);
  assign states[21][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[47][0+:64]);
  assign states[21][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[47][64+:6]);
  assign states[21][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[48][0+:64]);
  assign states[21][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[48][64+:6]);
  assign states[21][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[49][0+:64]);
  assign states[21][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[49][64+:6]);
  assign states[21][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[50][0+:64]);
  assign states[21][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[50][64+:6]);
  assign states[21][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[51][0+:64]);
  assign states[21][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[51][64+:6]);
  assign states[21][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[52][0+:64]);
  assign states[21][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[52][64+:6]);
  assign states[21][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[53][0+:64]);
  assign states[21][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[53][64+:6]);
  assign states[22][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[54][0+:64]);
  assign states[22][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[54][64+:6]);
  assign states[22][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[55][0+:64]);
  assign states[22][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[55][64+:6]);
  assign states[22][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[56][0+:64]);
  assign states[22][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[56][64+:6]);
  assign states[22][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[57][0+:64]);
  assign states[22][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[57][64+:6]);
  assign states[22][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[58][0+:64]);
  assign states[22][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[58][64+:6]);
  assign states[22][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[59][0+:64]);
  assign states[22][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[59][64+:6]);
  assign states[22][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[60][0+:64]);
  assign states[22][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[60][64+:6]);
  assign states[22][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[61][0+:64]);
  assign states[22][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[61][64+:6]);
  assign states[23][0] = 64'(i_courseware.i_enrolments.gen_port[0].memory[62][0+:64]);
  assign states[23][1] = 64'(i_courseware.i_enrolments.gen_port[0].memory[62][64+:6]);
  assign states[23][2] = 64'(i_courseware.i_enrolments.gen_port[0].memory[63][0+:64]);
  assign states[23][3] = 64'(i_courseware.i_enrolments.gen_port[0].memory[63][64+:6]);
  assign states[23][4] = 64'(i_courseware.i_enrolments.gen_port[0].memory[64][0+:64]);
  assign states[23][5] = 64'(i_courseware.i_enrolments.gen_port[0].memory[64][64+:6]);
  assign states[23][6] = 64'(i_courseware.i_enrolments.gen_port[0].memory[65][0+:64]);
  assign states[23][7] = 64'(i_courseware.i_enrolments.gen_port[0].memory[65][64+:6]);
  assign states[23][8] = 64'(i_courseware.i_enrolments.gen_port[0].memory[66][0+:64]);
  assign states[23][9] = 64'(i_courseware.i_enrolments.gen_port[0].memory[66][64+:6]);
  assign states[23][10] = 64'(i_courseware.i_enrolments.gen_port[0].memory[67][0+:64]);
  assign states[23][11] = 64'(i_courseware.i_enrolments.gen_port[0].memory[67][64+:6]);
  assign states[23][12] = 64'(i_courseware.i_enrolments.gen_port[0].memory[68][0+:64]);
  assign states[23][13] = 64'(i_courseware.i_enrolments.gen_port[0].memory[68][64+:6]);
  assign states[23][14] = 64'(i_courseware.i_enrolments.gen_port[0].memory[69][0+:64]);
  assign states[23][15] = 64'(i_courseware.i_enrolments.gen_port[0].memory[69][64+:6]);

  rdt_project i_project (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[8]),
    .call_ready_o  (call_ready[8]),
    .call_i,
    .answer_valid_o(answer_valid[8]),
    .answer_ready_i(answer_ready_i && selected[8]),
    .answer_o      (answer[8]),
    .idle_o        (idle[8])
  );
  assign states[24][0] = 64'(i_project.employees_q[0+:64]);
  assign states[24][1] = 64'(i_project.employees_q[64+:6]);
  assign states[24][2] = 64'(i_project.projects_q[0+:64]);
  assign states[24][3] = 64'(i_project.projects_q[64+:6]);
  assign states[24][4] = 64'(i_project.i_assignments.gen_port[0].memory[0][0+:64]);
  assign states[24][5] = 64'(i_project.i_assignments.gen_port[0].memory[0][64+:6]);
  assign states[24][6] = 64'(i_project.i_assignments.gen_port[0].memory[1][0+:64]);
  assign states[24][7] = 64'(i_project.i_assignments.gen_port[0].memory[1][64+:6]);
  assign states[24][8] = 64'(i_project.i_assignments.gen_port[0].memory[2][0+:64]);
  assign states[24][9] = 64'(i_project.i_assignments.gen_port[0].memory[2][64+:6]);
  assign states[24][10] = 64'(i_project.i_assignments.gen_port[0].memory[3][0+:64]);
  assign states[24][11] = 64'(i_project.i_assignments.gen_port[0].memory[3][64+:6]);
  assign states[24][12] = 64'(i_project.i_assignments.gen_port[0].memory[4][0+:64]);
  assign states[24][13] = 64'(i_project.i_assignments.gen_port[0].memory[4][64+:6]);
  assign states[24][14] = 64'(i_project.i_assignments.gen_port[0].memory[5][0+:64]);
  assign states[24][15] = 64'(i_project.i_assignments.gen_port[0].memory[5][64+:6]);
  assign states[25][0] = 64'(i_project.i_assignments.gen_port[0].memory[6][0+:64]);
  assign states[25][1] = 64'(i_project.i_assignments.gen_port[0].memory[6][64+:6]);
  assign states[25][2] = 64'(i_project.i_assignments.gen_port[0].memory[7][0+:64]);
  assign states[25][3] = 64'(i_project.i_assignments.gen_port[0].memory[7][64+:6]);
  assign states[25][4] = 64'(i_project.i_assignments.gen_port[0].memory[8][0+:64]);
  assign states[25][5] = 64'(i_project.i_assignments.gen_port[0].memory[8][64+:6]);
  assign states[25][6] = 64'(i_project.i_assignments.gen_port[0].memory[9][0+:64]);
  assign states[25][7] = 64'(i_project.i_assignments.gen_port[0].memory[9][64+:6]);
  assign states[25][8] = 64'(i_project.i_assignments.gen_port[0].memory[10][0+:64]);
  assign states[25][9] = 64'(i_project.i_assignments.gen_port[0].memory[10][64+:6]);
  assign states[25][10] = 64'(i_project.i_assignments.gen_port[0].memory[11][0+:64]);
  assign states[25][11] = 64'(i_project.i_assignments.gen_port[0].memory[11][64+:6]);
  assign states[25][12] = 64'(i_project.i_assignments.gen_port[0].memory[12][0+:64]);
  assign states[25][13] = 64'(i_project.i_assignments.gen_port[0].memory[12][64+:6]);
  assign states[25][14] = 64'(i_project.i_assignments.gen_port[0].memory[13][0+:64]);
  assign states[25][15] = 64'(i_project.i_assignments.gen_port[0].memory[13][64+:6]);
  assign states[26][0] = 64'(i_project.i_assignments.gen_port[0].memory[14][0+:64]);
  assign states[26][1] = 64'(i_project.i_assignments.gen_port[0].memory[14][64+:6]);
  assign states[26][2] = 64'(i_project.i_assignments.gen_port[0].memory[15][0+:64]);
  assign states[26][3] = 64'(i_project.i_assignments.gen_port[0].memory[15][64+:6]);
  assign states[26][4] = 64'(i_project.i_assignments.gen_port[0].memory[16][0+:64]);
  assign states[26][5] = 64'(i_project.i_assignments.gen_port[0].memory[16][64+:6]);
  assign states[26][6] = 64'(i_project.i_assignments.gen_port[0].memory[17][0+:64]);
  assign states[26][7] = 64'(i_project.i_assignments.gen_port[0].memory[17][64+:6]);
  assign states[26][8] = 64'(i_project.i_assignments.gen_port[0].memory[18][0+:64]);
  assign states[26][9] = 64'(i_project.i_assignments.gen_port[0].memory[18][64+:6]);
  assign states[26][10] = 64'(i_project.i_assignments.gen_port[0].memory[19][0+:64]);
  assign states[26][11] = 64'(i_project.i_assignments.gen_port[0].memory[19][64+:6]);
  assign states[26][12] = 64'(i_project.i_assignments.gen_port[0].memory[20][0+:64]);
  assign states[26][13] = 64'(i_project.i_assignments.gen_port[0].memory[20][64+:6]);
  assign states[26][14] = 64'(i_project.i_assignments.gen_port[0].memory[21][0+:64]);
  assign states[26][15] = 64'(i_project.i_assignments.gen_port[0].memory[21][64+:6]);
  assign states[27][0] = 64'(i_project.i_assignments.gen_port[0].memory[22][0+:64]);
  assign states[27][1] = 64'(i_project.i_assignments.gen_port[0].memory[22][64+:6]);
  assign states[27][2] = 64'(i_project.i_assignments.gen_port[0].memory[23][0+:64]);
  assign states[27][3] = 64'(i_project.i_assignments.gen_port[0].memory[23][64+:6]);
  assign states[27][4] = 64'(i_project.i_assignments.gen_port[0].memory[24][0+:64]);
  assign states[27][5] = 64'(i_project.i_assignments.gen_port[0].memory[24][64+:6]);
  assign states[27][6] = 64'(i_project.i_assignments.gen_port[0].memory[25][0+:64]);
  assign states[27][7] = 64'(i_project.i_assignments.gen_port[0].memory[25][64+:6]);
  assign states[27][8] = 64'(i_project.i_assignments.gen_port[0].memory[26][0+:64]);
  assign states[27][9] = 64'(i_project.i_assignments.gen_port[0].memory[26][64+:6]);
  assign states[27][10] = 64'(i_project.i_assignments.gen_port[0].memory[27][0+:64]);
  assign states[27][11] = 64'(i_project.i_assignments.gen_port[0].memory[27][64+:6]);
  assign states[27][12] = 64'(i_project.i_assignments.gen_port[0].memory[28][0+:64]);
  assign states[27][13] = 64'(i_project.i_assignments.gen_port[0].memory[28][64+:6]);
  assign states[27][14] = 64'(i_project.i_assignments.gen_port[0].memory[29][0+:64]);
  assign states[27][15] = 64'(i_project.i_assignments.gen_port[0].memory[29][64+:6]);
  assign states[28][0] = 64'(i_project.i_assignments.gen_port[0].memory[30][0+:64]);
  assign states[28][1] = 64'(i_project.i_assignments.gen_port[0].memory[30][64+:6]);
  assign states[28][2] = 64'(i_project.i_assignments.gen_port[0].memory[31][0+:64]);
  assign states[28][3] = 64'(i_project.i_assignments.gen_port[0].memory[31][64+:6]);
  assign states[28][4] = 64'(i_project.i_assignments.gen_port[0].memory[32][0+:64]);
  assign states[28][5] = 64'(i_project.i_assignments.gen_port[0].memory[32][64+:6]);
  assign states[28][6] = 64'(i_project.i_assignments.gen_port[0].memory[33][0+:64]);
  assign states[28][7] = 64'(i_project.i_assignments.gen_port[0].memory[33][64+:6]);
  assign states[28][8] = 64'(i_project.i_assignments.gen_port[0].memory[34][0+:64]);
  assign states[28][9] = 64'(i_project.i_assignments.gen_port[0].memory[34][64+:6]);
  assign states[28][10] = 64'(i_project.i_assignments.gen_port[0].memory[35][0+:64]);
  assign states[28][11] = 64'(i_project.i_assignments.gen_port[0].memory[35][64+:6]);
  assign states[28][12] = 64'(i_project.i_assignments.gen_port[0].memory[36][0+:64]);
  assign states[28][13] = 64'(i_project.i_assignments.gen_port[0].memory[36][64+:6]);
  assign states[28][14] = 64'(i_project.i_assignments.gen_port[0].memory[37][0+:64]);
  assign states[28][15] = 64'(i_project.i_assignments.gen_port[0].memory[37][64+:6]);
  assign states[29][0] = 64'(i_project.i_assignments.gen_port[0].memory[38][0+:64]);
  assign states[29][1] = 64'(i_project.i_assignments.gen_port[0].memory[38][64+:6]);
  assign states[29][2] = 64'(i_project.i_assignments.gen_port[0].memory[39][0+:64]);
  assign states[29][3] = 64'(i_project.i_assignments.gen_port[0].memory[39][64+:6]);
  assign states[29][4] = 64'(i_project.i_assignments.gen_port[0].memory[40][0+:64]);
  assign states[29][5] = 64'(i_project.i_assignments.gen_port[0].memory[40][64+:6]);
  assign states[29][6] = 64'(i_project.i_assignments.gen_port[0].memory[41][0+:64]);
  assign states[29][7] = 64'(i_project.i_assignments.gen_port[0].memory[41][64+:6]);
  assign states[29][8] = 64'(i_project.i_assignments.gen_port[0].memory[42][0+:64]);
  assign states[29][9] = 64'(i_project.i_assignments.gen_port[0].memory[42][64+:6]);
  assign states[29][10] = 64'(i_project.i_assignments.gen_port[0].memory[43][0+:64]);
  assign states[29][11] = 64'(i_project.i_assignments.gen_port[0].memory[43][64+:6]);
  assign states[29][12] = 64'(i_project.i_assignments.gen_port[0].memory[44][0+:64]);
  assign states[29][13] = 64'(i_project.i_assignments.gen_port[0].memory[44][64+:6]);
  assign states[29][14] = 64'(i_project.i_assignments.gen_port[0].memory[45][0+:64]);
  assign states[29][15] = 64'(i_project.i_assignments.gen_port[0].memory[45][64+:6]);
  assign states[30][0] = 64'(i_project.i_assignments.gen_port[0].memory[46][0+:64]);
  assign states[30][1] = 64'(i_project.i_assignments.gen_port[0].memory[46][64+:6]);
  assign states[30][2] = 64'(i_project.i_assignments.gen_port[0].memory[47][0+:64]);
  assign states[30][3] = 64'(i_project.i_assignments.gen_port[0].memory[47][64+:6]);
  assign states[30][4] = 64'(i_project.i_assignments.gen_port[0].memory[48][0+:64]);
  assign states[30][5] = 64'(i_project.i_assignments.gen_port[0].memory[48][64+:6]);
  assign states[30][6] = 64'(i_project.i_assignments.gen_port[0].memory[49][0+:64]);
  assign states[30][7] = 64'(i_project.i_assignments.gen_port[0].memory[49][64+:6]);
  assign states[30][8] = 64'(i_project.i_assignments.gen_port[0].memory[50][0+:64]);
  assign states[30][9] = 64'(i_project.i_assignments.gen_port[0].memory[50][64+:6]);
  assign states[30][10] = 64'(i_project.i_assignments.gen_port[0].memory[51][0+:64]);
  assign states[30][11] = 64'(i_project.i_assignments.gen_port[0].memory[51][64+:6]);
  assign states[30][12] = 64'(i_project.i_assignments.gen_port[0].memory[52][0+:64]);
  assign states[30][13] = 64'(i_project.i_assignments.gen_port[0].memory[52][64+:6]);
  assign states[30][14] = 64'(i_project.i_assignments.gen_port[0].memory[53][0+:64]);
  assign states[30][15] = 64'(i_project.i_assignments.gen_port[0].memory[53][64+:6]);
  assign states[31][0] = 64'(i_project.i_assignments.gen_port[0].memory[54][0+:64]);
  assign states[31][1] = 64'(i_project.i_assignments.gen_port[0].memory[54][64+:6]);
  assign states[31][2] = 64'(i_project.i_assignments.gen_port[0].memory[55][0+:64]);
  assign states[31][3] = 64'(i_project.i_assignments.gen_port[0].memory[55][64+:6]);
  assign states[31][4] = 64'(i_project.i_assignments.gen_port[0].memory[56][0+:64]);
  assign states[31][5] = 64'(i_project.i_assignments.gen_port[0].memory[56][64+:6]);
  assign states[31][6] = 64'(i_project.i_assignments.gen_port[0].memory[57][0+:64]);
  assign states[31][7] = 64'(i_project.i_assignments.gen_port[0].memory[57][64+:6]);
  assign states[31][8] = 64'(i_project.i_assignments.gen_port[0].memory[58][0+:64]);
  assign states[31][9] = 64'(i_project.i_assignments.gen_port[0].memory[58][64+:6]);
  assign states[31][10] = 64'(i_project.i_assignments.gen_port[0].memory[59][0+:64]);
  assign states[31][11] = 64'(i_project.i_assignments.gen_port[0].memory[59][64+:6]);
  assign states[31][12] = 64'(i_project.i_assignments.gen_port[0].memory[60][0+:64]);
  assign states[31][13] = 64'(i_project.i_assignments.gen_port[0].memory[60][64+:6]);
  assign states[31][14] = 64'(i_project.i_assignments.gen_port[0].memory[61][0+:64]);
  assign states[31][15] = 64'(i_project.i_assignments.gen_port[0].memory[61][64+:6]);
  assign states[32][0] = 64'(i_project.i_assignments.gen_port[0].memory[62][0+:64]);
  assign states[32][1] = 64'(i_project.i_assignments.gen_port[0].memory[62][64+:6]);
  assign states[32][2] = 64'(i_project.i_assignments.gen_port[0].memory[63][0+:64]);
  assign states[32][3] = 64'(i_project.i_assignments.gen_port[0].memory[63][64+:6]);
  assign states[32][4] = 64'(i_project.i_assignments.gen_port[0].memory[64][0+:64]);
  assign states[32][5] = 64'(i_project.i_assignments.gen_port[0].memory[64][64+:6]);
  assign states[32][6] = 64'(i_project.i_assignments.gen_port[0].memory[65][0+:64]);
  assign states[32][7] = 64'(i_project.i_assignments.gen_port[0].memory[65][64+:6]);
  assign states[32][8] = 64'(i_project.i_assignments.gen_port[0].memory[66][0+:64]);
  assign states[32][9] = 64'(i_project.i_assignments.gen_port[0].memory[66][64+:6]);
  assign states[32][10] = 64'(i_project.i_assignments.gen_port[0].memory[67][0+:64]);
  assign states[32][11] = 64'(i_project.i_assignments.gen_port[0].memory[67][64+:6]);
  assign states[32][12] = 64'(i_project.i_assignments.gen_port[0].memory[68][0+:64]);
  assign states[32][13] = 64'(i_project.i_assignments.gen_port[0].memory[68][64+:6]);
  assign states[32][14] = 64'(i_project.i_assignments.gen_port[0].memory[69][0+:64]);
  assign states[32][15] = 64'(i_project.i_assignments.gen_port[0].memory[69][64+:6]);

  rdt_movie i_movie (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[9]),
    .call_ready_o  (call_ready[9]),
    .call_i,
    .answer_valid_o(answer_valid[9]),
    .answer_ready_i(answer_ready_i && selected[9]),
    .answer_o      (answer[9]),
    .idle_o        (idle[9])
  );
  assign states[33][0] = 64'(i_movie.customers_q[0+:64]);
  assign states[33][1] = 64'(i_movie.customers_q[64+:6]);
  assign states[33][2] = 64'(i_movie.movies_q[0+:64]);
  assign states[33][3] = 64'(i_movie.movies_q[64+:6]);
  assign states[33][4] = '0;
  assign states[33][5] = '0;
  assign states[33][6] = '0;
  assign states[33][7] = '0;
  assign states[33][8] = '0;
  assign states[33][9] = '0;
  assign states[33][10] = '0;
  assign states[33][11] = '0;
  assign states[33][12] = '0;
  assign states[33][13] = '0;
  assign states[33][14] = '0;
  assign states[33][15] = '0;

  rdt_auction i_auction (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[10]),
    .call_ready_o  (call_ready[10]),
    .call_i,
    .answer_valid_o(answer_valid[10]),
    .answer_ready_i(answer_ready_i && selected[10]),
    .answer_o      (answer[10]),
    .idle_o        (idle[10])
  );
  assign states[34][0] = 64'(i_auction.users_q[0+:64]);
  assign states[34][1] = 64'(i_auction.users_q[64+:6]);
  assign states[34][2] = 64'(i_auction.auctions_q[0+:64]);
  assign states[34][3] = 64'(i_auction.auctions_q[64+:6]);
  assign states[34][4] = 64'(i_auction.closed_q[0+:64]);
  assign states[34][5] = 64'(i_auction.closed_q[64+:6]);
  assign states[34][6] = 64'(i_auction.i_highest.gen_port[0].memory[0][0+:64]);
  assign states[34][7] = 64'(i_auction.i_highest.gen_port[0].memory[1][0+:64]);
  assign states[34][8] = 64'(i_auction.i_highest.gen_port[0].memory[2][0+:64]);
  assign states[34][9] = 64'(i_auction.i_highest.gen_port[0].memory[3][0+:64]);
  assign states[34][10] = 64'(i_auction.i_highest.gen_port[0].memory[4][0+:64]);
  assign states[34][11] = 64'(i_auction.i_highest.gen_port[0].memory[5][0+:64]);
  assign states[34][12] = 64'(i_auction.i_highest.gen_port[0].memory[6][0+:64]);
  assign states[34][13] = 64'(i_auction.i_highest.gen_port[0].memory[7][0+:64]);
  assign states[34][14] = 64'(i_auction.i_highest.gen_port[0].memory[8][0+:64]);
  assign states[34][15] = 64'(i_auction.i_highest.gen_port[0].memory[9][0+:64]);
  assign states[35][0] = 64'(i_auction.i_highest.gen_port[0].memory[10][0+:64]);
  assign states[35][1] = 64'(i_auction.i_highest.gen_port[0].memory[11][0+:64]);
  assign states[35][2] = 64'(i_auction.i_highest.gen_port[0].memory[12][0+:64]);
  assign states[35][3] = 64'(i_auction.i_highest.gen_port[0].memory[13][0+:64]);
  assign states[35][4] = 64'(i_auction.i_highest.gen_port[0].memory[14][0+:64]);
  assign states[35][5] = 64'(i_auction.i_highest.gen_port[0].memory[15][0+:64]);
  assign states[35][6] = 64'(i_auction.i_highest.gen_port[0].memory[16][0+:64]);
  assign states[35][7] = 64'(i_auction.i_highest.gen_port[0].memory[17][0+:64]);
  assign states[35][8] = 64'(i_auction.i_highest.gen_port[0].memory[18][0+:64]);
  assign states[35][9] = 64'(i_auction.i_highest.gen_port[0].memory[19][0+:64]);
  assign states[35][10] = 64'(i_auction.i_highest.gen_port[0].memory[20][0+:64]);
  assign states[35][11] = 64'(i_auction.i_highest.gen_port[0].memory[21][0+:64]);
  assign states[35][12] = 64'(i_auction.i_highest.gen_port[0].memory[22][0+:64]);
  assign states[35][13] = 64'(i_auction.i_highest.gen_port[0].memory[23][0+:64]);
  assign states[35][14] = 64'(i_auction.i_highest.gen_port[0].memory[24][0+:64]);
  assign states[35][15] = 64'(i_auction.i_highest.gen_port[0].memory[25][0+:64]);
  assign states[36][0] = 64'(i_auction.i_highest.gen_port[0].memory[26][0+:64]);
  assign states[36][1] = 64'(i_auction.i_highest.gen_port[0].memory[27][0+:64]);
  assign states[36][2] = 64'(i_auction.i_highest.gen_port[0].memory[28][0+:64]);
  assign states[36][3] = 64'(i_auction.i_highest.gen_port[0].memory[29][0+:64]);
  assign states[36][4] = 64'(i_auction.i_highest.gen_port[0].memory[30][0+:64]);
  assign states[36][5] = 64'(i_auction.i_highest.gen_port[0].memory[31][0+:64]);
  assign states[36][6] = 64'(i_auction.i_highest.gen_port[0].memory[32][0+:64]);
  assign states[36][7] = 64'(i_auction.i_highest.gen_port[0].memory[33][0+:64]);
  assign states[36][8] = 64'(i_auction.i_highest.gen_port[0].memory[34][0+:64]);
  assign states[36][9] = 64'(i_auction.i_highest.gen_port[0].memory[35][0+:64]);
  assign states[36][10] = 64'(i_auction.i_highest.gen_port[0].memory[36][0+:64]);
  assign states[36][11] = 64'(i_auction.i_highest.gen_port[0].memory[37][0+:64]);
  assign states[36][12] = 64'(i_auction.i_highest.gen_port[0].memory[38][0+:64]);
  assign states[36][13] = 64'(i_auction.i_highest.gen_port[0].memory[39][0+:64]);
  assign states[36][14] = 64'(i_auction.i_highest.gen_port[0].memory[40][0+:64]);
  assign states[36][15] = 64'(i_auction.i_highest.gen_port[0].memory[41][0+:64]);
  assign states[37][0] = 64'(i_auction.i_highest.gen_port[0].memory[42][0+:64]);
  assign states[37][1] = 64'(i_auction.i_highest.gen_port[0].memory[43][0+:64]);
  assign states[37][2] = 64'(i_auction.i_highest.gen_port[0].memory[44][0+:64]);
  assign states[37][3] = 64'(i_auction.i_highest.gen_port[0].memory[45][0+:64]);
  assign states[37][4] = 64'(i_auction.i_highest.gen_port[0].memory[46][0+:64]);
  assign states[37][5] = 64'(i_auction.i_highest.gen_port[0].memory[47][0+:64]);
  assign states[37][6] = 64'(i_auction.i_highest.gen_port[0].memory[48][0+:64]);
  assign states[37][7] = 64'(i_auction.i_highest.gen_port[0].memory[49][0+:64]);
  assign states[37][8] = 64'(i_auction.i_highest.gen_port[0].memory[50][0+:64]);
  assign states[37][9] = 64'(i_auction.i_highest.gen_port[0].memory[51][0+:64]);
  assign states[37][10] = 64'(i_auction.i_highest.gen_port[0].memory[52][0+:64]);
  assign states[37][11] = 64'(i_auction.i_highest.gen_port[0].memory[53][0+:64]);
  assign states[37][12] = 64'(i_auction.i_highest.gen_port[0].memory[54][0+:64]);
  assign states[37][13] = 64'(i_auction.i_highest.gen_port[0].memory[55][0+:64]);
  assign states[37][14] = 64'(i_auction.i_highest.gen_port[0].memory[56][0+:64]);
  assign states[37][15] = 64'(i_auction.i_highest.gen_port[0].memory[57][0+:64]);
  assign states[38][0] = 64'(i_auction.i_highest.gen_port[0].memory[58][0+:64]);
  assign states[38][1] = 64'(i_auction.i_highest.gen_port[0].memory[59][0+:64]);
  assign states[38][2] = 64'(i_auction.i_highest.gen_port[0].memory[60][0+:64]);
  assign states[38][3] = 64'(i_auction.i_highest.gen_port[0].memory[61][0+:64]);
  assign states[38][4] = 64'(i_auction.i_highest.gen_port[0].memory[62][0+:64]);
  assign states[38][5] = 64'(i_auction.i_highest.gen_port[0].memory[63][0+:64]);
  assign states[38][6] = 64'(i_auction.i_highest.gen_port[0].memory[64][0+:64]);
  assign states[38][7] = 64'(i_auction.i_highest.gen_port[0].memory[65][0+:64]);
  assign states[38][8] = 64'(i_auction.i_highest.gen_port[0].memory[66][0+:64]);
  assign states[38][9] = 64'(i_auction.i_highest.gen_port[0].memory[67][0+:64]);
  assign states[38][10] = 64'(i_auction.i_highest.gen_port[0].memory[68][0+:64]);
  assign states[38][11] = 64'(i_auction.i_highest.gen_port[0].memory[69][0+:64]);
  assign states[38][12] = 64'(i_auction.items_q[0+:64]);
  assign states[38][13] = 64'(i_auction.items_q[64+:6]);
  assign states[38][14] = 64'(i_auction.i_stock.gen_port[0].memory[0][0+:64]);
  assign states[38][15] = 64'(i_auction.i_stock.gen_port[0].memory[1][0+:64]);
  assign states[39][0] = 64'(i_auction.i_stock.gen_port[0].memory[2][0+:64]);
  assign states[39][1] = 64'(i_auction.i_stock.gen_port[0].memory[3][0+:64]);
  assign states[39][2] = 64'(i_auction.i_stock.gen_port[0].memory[4][0+:64]);
  assign states[39][3] = 64'(i_auction.i_stock.gen_port[0].memory[5][0+:64]);
  assign states[39][4] = 64'(i_auction.i_stock.gen_port[0].memory[6][0+:64]);
  assign states[39][5] = 64'(i_auction.i_stock.gen_port[0].memory[7][0+:64]);
  assign states[39][6] = 64'(i_auction.i_stock.gen_port[0].memory[8][0+:64]);
  assign states[39][7] = 64'(i_auction.i_stock.gen_port[0].memory[9][0+:64]);
  assign states[39][8] = 64'(i_auction.i_stock.gen_port[0].memory[10][0+:64]);
  assign states[39][9] = 64'(i_auction.i_stock.gen_port[0].memory[11][0+:64]);
  assign states[39][10] = 64'(i_auction.i_stock.gen_port[0].memory[12][0+:64]);
  assign states[39][11] = 64'(i_auction.i_stock.gen_port[0].memory[13][0+:64]);
  assign states[39][12] = 64'(i_auction.i_stock.gen_port[0].memory[14][0+:64]);
  assign states[39][13] = 64'(i_auction.i_stock.gen_port[0].memory[15][0+:64]);
  assign states[39][14] = 64'(i_auction.i_stock.gen_port[0].memory[16][0+:64]);
  assign states[39][15] = 64'(i_auction.i_stock.gen_port[0].memory[17][0+:64]);
  assign states[40][0] = 64'(i_auction.i_stock.gen_port[0].memory[18][0+:64]);
  assign states[40][1] = 64'(i_auction.i_stock.gen_port[0].memory[19][0+:64]);
  assign states[40][2] = 64'(i_auction.i_stock.gen_port[0].memory[20][0+:64]);
  assign states[40][3] = 64'(i_auction.i_stock.gen_port[0].memory[21][0+:64]);
  assign states[40][4] = 64'(i_auction.i_stock.gen_port[0].memory[22][0+:64]);
  assign states[40][5] = 64'(i_auction.i_stock.gen_port[0].memory[23][0+:64]);
  assign states[40][6] = 64'(i_auction.i_stock.gen_port[0].memory[24][0+:64]);
  assign states[40][7] = 64'(i_auction.i_stock.gen_port[0].memory[25][0+:64]);
  assign states[40][8] = 64'(i_auction.i_stock.gen_port[0].memory[26][0+:64]);
  assign states[40][9] = 64'(i_auction.i_stock.gen_port[0].memory[27][0+:64]);
  assign states[40][10] = 64'(i_auction.i_stock.gen_port[0].memory[28][0+:64]);
  assign states[40][11] = 64'(i_auction.i_stock.gen_port[0].memory[29][0+:64]);
  assign states[40][12] = 64'(i_auction.i_stock.gen_port[0].memory[30][0+:64]);
  assign states[40][13] = 64'(i_auction.i_stock.gen_port[0].memory[31][0+:64]);
  assign states[40][14] = 64'(i_auction.i_stock.gen_port[0].memory[32][0+:64]);
  assign states[40][15] = 64'(i_auction.i_stock.gen_port[0].memory[33][0+:64]);
  assign states[41][0] = 64'(i_auction.i_stock.gen_port[0].memory[34][0+:64]);
  assign states[41][1] = 64'(i_auction.i_stock.gen_port[0].memory[35][0+:64]);
  assign states[41][2] = 64'(i_auction.i_stock.gen_port[0].memory[36][0+:64]);
  assign states[41][3] = 64'(i_auction.i_stock.gen_port[0].memory[37][0+:64]);
  assign states[41][4] = 64'(i_auction.i_stock.gen_port[0].memory[38][0+:64]);
  assign states[41][5] = 64'(i_auction.i_stock.gen_port[0].memory[39][0+:64]);
  assign states[41][6] = 64'(i_auction.i_stock.gen_port[0].memory[40][0+:64]);
  assign states[41][7] = 64'(i_auction.i_stock.gen_port[0].memory[41][0+:64]);
  assign states[41][8] = 64'(i_auction.i_stock.gen_port[0].memory[42][0+:64]);
  assign states[41][9] = 64'(i_auction.i_stock.gen_port[0].memory[43][0+:64]);
  assign states[41][10] = 64'(i_auction.i_stock.gen_port[0].memory[44][0+:64]);
  assign states[41][11] = 64'(i_auction.i_stock.gen_port[0].memory[45][0+:64]);
  assign states[41][12] = 64'(i_auction.i_stock.gen_port[0].memory[46][0+:64]);
  assign states[41][13] = 64'(i_auction.i_stock.gen_port[0].memory[47][0+:64]);
  assign states[41][14] = 64'(i_auction.i_stock.gen_port[0].memory[48][0+:64]);
  assign states[41][15] = 64'(i_auction.i_stock.gen_port[0].memory[49][0+:64]);
  assign states[42][0] = 64'(i_auction.i_stock.gen_port[0].memory[50][0+:64]);
  assign states[42][1] = 64'(i_auction.i_stock.gen_port[0].memory[51][0+:64]);
  assign states[42][2] = 64'(i_auction.i_stock.gen_port[0].memory[52][0+:64]);
  assign states[42][3] = 64'(i_auction.i_stock.gen_port[0].memory[53][0+:64]);
  assign states[42][4] = 64'(i_auction.i_stock.gen_port[0].memory[54][0+:64]);
  assign states[42][5] = 64'(i_auction.i_stock.gen_port[0].memory[55][0+:64]);
  assign states[42][6] = 64'(i_auction.i_stock.gen_port[0].memory[56][0+:64]);
  assign states[42][7] = 64'(i_auction.i_stock.gen_port[0].memory[57][0+:64]);
  assign states[42][8] = 64'(i_auction.i_stock.gen_port[0].memory[58][0+:64]);
  assign states[42][9] = 64'(i_auction.i_stock.gen_port[0].memory[59][0+:64]);
  assign states[42][10] = 64'(i_auction.i_stock.gen_port[0].memory[60][0+:64]);
  assign states[42][11] = 64'(i_auction.i_stock.gen_port[0].memory[61][0+:64]);
  assign states[42][12] = 64'(i_auction.i_stock.gen_port[0].memory[62][0+:64]);
  assign states[42][13] = 64'(i_auction.i_stock.gen_port[0].memory[63][0+:64]);
  assign states[42][14] = 64'(i_auction.i_stock.gen_port[0].memory[64][0+:64]);
  assign states[42][15] = 64'(i_auction.i_stock.gen_port[0].memory[65][0+:64]);
  assign states[43][0] = 64'(i_auction.i_stock.gen_port[0].memory[66][0+:64]);
  assign states[43][1] = 64'(i_auction.i_stock.gen_port[0].memory[67][0+:64]);
  assign states[43][2] = 64'(i_auction.i_stock.gen_port[0].memory[68][0+:64]);
  assign states[43][3] = 64'(i_auction.i_stock.gen_port[0].memory[69][0+:64]);
  assign states[43][4] = '0;
  assign states[43][5] = '0;
  assign states[43][6] = '0;
  assign states[43][7] = '0;
  assign states[43][8] = '0;
  assign states[43][9] = '0;
  assign states[43][10] = '0;
  assign states[43][11] = '0;
  assign states[43][12] = '0;
  assign states[43][13] = '0;
  assign states[43][14] = '0;
  assign states[43][15] = '0;

  rdt_ycsb i_ycsb (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[11]),
    .call_ready_o  (call_ready[11]),
    .call_i,
    .answer_valid_o(answer_valid[11]),
    .answer_ready_i(answer_ready_i && selected[11]),
    .answer_o      (answer[11]),
    .idle_o        (idle[11])
  );
  assign states[44][0] = 64'(i_ycsb.i_value.gen_port[0].memory[0][0+:64]);
  assign states[44][1] = 64'(i_ycsb.i_value.gen_port[0].memory[1][0+:64]);
  assign states[44][2] = 64'(i_ycsb.i_value.gen_port[0].memory[2][0+:64]);
  assign states[44][3] = 64'(i_ycsb.i_value.gen_port[0].memory[3][0+:64]);
  assign states[44][4] = 64'(i_ycsb.i_value.gen_port[0].memory[4][0+:64]);
  assign states[44][5] = 64'(i_ycsb.i_value.gen_port[0].memory[5][0+:64]);
  assign states[44][6] = 64'(i_ycsb.i_value.gen_port[0].memory[6][0+:64]);
  assign states[44][7] = 64'(i_ycsb.i_value.gen_port[0].memory[7][0+:64]);
  assign states[44][8] = 64'(i_ycsb.i_value.gen_port[0].memory[8][0+:64]);
  assign states[44][9] = 64'(i_ycsb.i_value.gen_port[0].memory[9][0+:64]);
  assign states[44][10] = 64'(i_ycsb.i_value.gen_port[0].memory[10][0+:64]);
  assign states[44][11] = 64'(i_ycsb.i_value.gen_port[0].memory[11][0+:64]);
  assign states[44][12] = 64'(i_ycsb.i_value.gen_port[0].memory[12][0+:64]);
  assign states[44][13] = 64'(i_ycsb.i_value.gen_port[0].memory[13][0+:64]);
  assign states[44][14] = 64'(i_ycsb.i_value.gen_port[0].memory[14][0+:64]);
  assign states[44][15] = 64'(i_ycsb.i_value.gen_port[0].memory[15][0+:64]);
  assign states[45][0] = 64'(i_ycsb.i_value.gen_port[0].memory[16][0+:64]);
  assign states[45][1] = 64'(i_ycsb.i_value.gen_port[0].memory[17][0+:64]);
  assign states[45][2] = 64'(i_ycsb.i_value.gen_port[0].memory[18][0+:64]);
  assign states[45][3] = 64'(i_ycsb.i_value.gen_port[0].memory[19][0+:64]);
  assign states[45][4] = 64'(i_ycsb.i_value.gen_port[0].memory[20][0+:64]);
  assign states[45][5] = 64'(i_ycsb.i_value.gen_port[0].memory[21][0+:64]);
  assign states[45][6] = 64'(i_ycsb.i_value.gen_port[0].memory[22][0+:64]);
  assign states[45][7] = 64'(i_ycsb.i_value.gen_port[0].memory[23][0+:64]);
  assign states[45][8] = 64'(i_ycsb.i_value.gen_port[0].memory[24][0+:64]);
  assign states[45][9] = 64'(i_ycsb.i_value.gen_port[0].memory[25][0+:64]);
  assign states[45][10] = 64'(i_ycsb.i_value.gen_port[0].memory[26][0+:64]);
  assign states[45][11] = 64'(i_ycsb.i_value.gen_port[0].memory[27][0+:64]);
  assign states[45][12] = 64'(i_ycsb.i_value.gen_port[0].memory[28][0+:64]);
  assign states[45][13] = 64'(i_ycsb.i_value.gen_port[0].memory[29][0+:64]);
  assign states[45][14] = 64'(i_ycsb.i_value.gen_port[0].memory[30][0+:64]);
  assign states[45][15] = 64'(i_ycsb.i_value.gen_port[0].memory[31][0+:64]);
  assign states[46][0] = 64'(i_ycsb.i_value.gen_port[0].memory[32][0+:64]);
  assign states[46][1] = 64'(i_ycsb.i_value.gen_port[0].memory[33][0+:64]);
  assign states[46][2] = 64'(i_ycsb.i_value.gen_port[0].memory[34][0+:64]);
  assign states[46][3] = 64'(i_ycsb.i_value.gen_port[0].memory[35][0+:64]);
  assign states[46][4] = 64'(i_ycsb.i_value.gen_port[0].memory[36][0+:64]);
  assign states[46][5] = 64'(i_ycsb.i_value.gen_port[0].memory[37][0+:64]);
  assign states[46][6] = 64'(i_ycsb.i_value.gen_port[0].memory[38][0+:64]);
  assign states[46][7] = 64'(i_ycsb.i_value.gen_port[0].memory[39][0+:64]);
  assign states[46][8] = 64'(i_ycsb.i_value.gen_port[0].memory[40][0+:64]);
  assign states[46][9] = 64'(i_ycsb.i_value.gen_port[0].memory[41][0+:64]);
  assign states[46][10] = 64'(i_ycsb.i_value.gen_port[0].memory[42][0+:64]);
  assign states[46][11] = 64'(i_ycsb.i_value.gen_port[0].memory[43][0+:64]);
  assign states[46][12] = 64'(i_ycsb.i_value.gen_port[0].memory[44][0+:64]);
  assign states[46][13] = 64'(i_ycsb.i_value.gen_port[0].memory[45][0+:64]);
  assign states[46][14] = 64'(i_ycsb.i_value.gen_port[0].memory[46][0+:64]);
  assign states[46][15] = 64'(i_ycsb.i_value.gen_port[0].memory[47][0+:64]);
  assign states[47][0] = 64'(i_ycsb.i_value.gen_port[0].memory[48][0+:64]);
  assign states[47][1] = 64'(i_ycsb.i_value.gen_port[0].memory[49][0+:64]);
  assign states[47][2] = 64'(i_ycsb.i_value.gen_port[0].memory[50][0+:64]);
  assign states[47][3] = 64'(i_ycsb.i_value.gen_port[0].memory[51][0+:64]);
  assign states[47][4] = 64'(i_ycsb.i_value.gen_port[0].memory[52][0+:64]);
  assign states[47][5] = 64'(i_ycsb.i_value.gen_port[0].memory[53][0+:64]);
  assign states[47][6] = 64'(i_ycsb.i_value.gen_port[0].memory[54][0+:64]);
  assign states[47][7] = 64'(i_ycsb.i_value.gen_port[0].memory[55][0+:64]);
  assign states[47][8] = 64'(i_ycsb.i_value.gen_port[0].memory[56][0+:64]);
  assign states[47][9] = 64'(i_ycsb.i_value.gen_port[0].memory[57][0+:64]);
  assign states[47][10] = 64'(i_ycsb.i_value.gen_port[0].memory[58][0+:64]);
  assign states[47][11] = 64'(i_ycsb.i_value.gen_port[0].memory[59][0+:64]);
  assign states[47][12] = 64'(i_ycsb.i_value.gen_port[0].memory[60][0+:64]);
  assign states[47][13] = 64'(i_ycsb.i_value.gen_port[0].memory[61][0+:64]);
  assign states[47][14] = 64'(i_ycsb.i_value.gen_port[0].memory[62][0+:64]);
  assign states[47][15] = 64'(i_ycsb.i_value.gen_port[0].memory[63][0+:64]);
  assign states[48][0] = 64'(i_ycsb.i_value.gen_port[0].memory[64][0+:64]);
  assign states[48][1] = 64'(i_ycsb.i_value.gen_port[0].memory[65][0+:64]);
  assign states[48][2] = 64'(i_ycsb.i_value.gen_port[0].memory[66][0+:64]);
  assign states[48][3] = 64'(i_ycsb.i_value.gen_port[0].memory[67][0+:64]);
  assign states[48][4] = 64'(i_ycsb.i_value.gen_port[0].memory[68][0+:64]);
  assign states[48][5] = 64'(i_ycsb.i_value.gen_port[0].memory[69][0+:64]);
  assign states[48][6] = 64'(i_ycsb.i_written.gen_port[0].memory[0][0+:64]);
  assign states[48][7] = 64'(i_ycsb.i_written.gen_port[0].memory[1][0+:64]);
  assign states[48][8] = 64'(i_ycsb.i_written.gen_port[0].memory[2][0+:64]);
  assign states[48][9] = 64'(i_ycsb.i_written.gen_port[0].memory[3][0+:64]);
  assign states[48][10] = 64'(i_ycsb.i_written.gen_port[0].memory[4][0+:64]);
  assign states[48][11] = 64'(i_ycsb.i_written.gen_port[0].memory[5][0+:64]);
  assign states[48][12] = 64'(i_ycsb.i_written.gen_port[0].memory[6][0+:64]);
  assign states[48][13] = 64'(i_ycsb.i_written.gen_port[0].memory[7][0+:64]);
  assign states[48][14] = 64'(i_ycsb.i_written.gen_port[0].memory[8][0+:64]);
  assign states[48][15] = 64'(i_ycsb.i_written.gen_port[0].memory[9][0+:64]);
  assign states[49][0] = 64'(i_ycsb.i_written.gen_port[0].memory[10][0+:64]);
  assign states[49][1] = 64'(i_ycsb.i_written.gen_port[0].memory[11][0+:64]);
  assign states[49][2] = 64'(i_ycsb.i_written.gen_port[0].memory[12][0+:64]);
  assign states[49][3] = 64'(i_ycsb.i_written.gen_port[0].memory[13][0+:64]);
  assign states[49][4] = 64'(i_ycsb.i_written.gen_port[0].memory[14][0+:64]);
  assign states[49][5] = 64'(i_ycsb.i_written.gen_port[0].memory[15][0+:64]);
  assign states[49][6] = 64'(i_ycsb.i_written.gen_port[0].memory[16][0+:64]);
  assign states[49][7] = 64'(i_ycsb.i_written.gen_port[0].memory[17][0+:64]);
  assign states[49][8] = 64'(i_ycsb.i_written.gen_port[0].memory[18][0+:64]);
  assign states[49][9] = 64'(i_ycsb.i_written.gen_port[0].memory[19][0+:64]);
  assign states[49][10] = 64'(i_ycsb.i_written.gen_port[0].memory[20][0+:64]);
  assign states[49][11] = 64'(i_ycsb.i_written.gen_port[0].memory[21][0+:64]);
  assign states[49][12] = 64'(i_ycsb.i_written.gen_port[0].memory[22][0+:64]);
  assign states[49][13] = 64'(i_ycsb.i_written.gen_port[0].memory[23][0+:64]);
  assign states[49][14] = 64'(i_ycsb.i_written.gen_port[0].memory[24][0+:64]);
  assign states[49][15] = 64'(i_ycsb.i_written.gen_port[0].memory[25][0+:64]);
  assign states[50][0] = 64'(i_ycsb.i_written.gen_port[0].memory[26][0+:64]);
  assign states[50][1] = 64'(i_ycsb.i_written.gen_port[0].memory[27][0+:64]);
  assign states[50][2] = 64'(i_ycsb.i_written.gen_port[0].memory[28][0+:64]);
  assign states[50][3] = 64'(i_ycsb.i_written.gen_port[0].memory[29][0+:64]);
  assign states[50][4] = 64'(i_ycsb.i_written.gen_port[0].memory[30][0+:64]);
  assign states[50][5] = 64'(i_ycsb.i_written.gen_port[0].memory[31][0+:64]);
  assign states[50][6] = 64'(i_ycsb.i_written.gen_port[0].memory[32][0+:64]);
  assign states[50][7] = 64'(i_ycsb.i_written.gen_port[0].memory[33][0+:64]);
  assign states[50][8] = 64'(i_ycsb.i_written.gen_port[0].memory[34][0+:64]);
  assign states[50][9] = 64'(i_ycsb.i_written.gen_port[0].memory[35][0+:64]);
  assign states[50][10] = 64'(i_ycsb.i_written.gen_port[0].memory[36][0+:64]);
  assign states[50][11] = 64'(i_ycsb.i_written.gen_port[0].memory[37][0+:64]);
  assign states[50][12] = 64'(i_ycsb.i_written.gen_port[0].memory[38][0+:64]);
  assign states[50][13] = 64'(i_ycsb.i_written.gen_port[0].memory[39][0+:64]);
  assign states[50][14] = 64'(i_ycsb.i_written.gen_port[0].memory[40][0+:64]);
  assign states[50][15] = 64'(i_ycsb.i_written.gen_port[0].memory[41][0+:64]);
  assign states[51][0] = 64'(i_ycsb.i_written.gen_port[0].memory[42][0+:64]);
  assign states[51][1] = 64'(i_ycsb.i_written.gen_port[0].memory[43][0+:64]);
  assign states[51][2] = 64'(i_ycsb.i_written.gen_port[0].memory[44][0+:64]);
  assign states[51][3] = 64'(i_ycsb.i_written.gen_port[0].memory[45][0+:64]);
  assign states[51][4] = 64'(i_ycsb.i_written.gen_port[0].memory[46][0+:64]);
  assign states[51][5] = 64'(i_ycsb.i_written.gen_port[0].memory[47][0+:64]);
  assign states[51][6] = 64'(i_ycsb.i_written.gen_port[0].memory[48][0+:64]);
  assign states[51][7] = 64'(i_ycsb.i_written.gen_port[0].memory[49][0+:64]);
  assign states[51][8] = 64'(i_ycsb.i_written.gen_port[0].memory[50][0+:64]);
  assign states[51][9] = 64'(i_ycsb.i_written.gen_port[0].memory[51][0+:64]);
  assign states[51][10] = 64'(i_ycsb.i_written.gen_port[0].memory[52][0+:64]);
  assign states[51][11] = 64'(i_ycsb.i_written.gen_port[0].memory[53][0+:64]);
  assign states[51][12] = 64'(i_ycsb.i_written.gen_port[0].memory[54][0+:64]);
  assign states[51][13] = 64'(i_ycsb.i_written.gen_port[0].memory[55][0+:64]);
  assign states[51][14] = 64'(i_ycsb.i_written.gen_port[0].memory[56][0+:64]);
  assign states[51][15] = 64'(i_ycsb.i_written.gen_port[0].memory[57][0+:64]);
  assign states[52][0] = 64'(i_ycsb.i_written.gen_port[0].memory[58][0+:64]);
  assign states[52][1] = 64'(i_ycsb.i_written.gen_port[0].memory[59][0+:64]);
  assign states[52][2] = 64'(i_ycsb.i_written.gen_port[0].memory[60][0+:64]);
  assign states[52][3] = 64'(i_ycsb.i_written.gen_port[0].memory[61][0+:64]);
  assign states[52][4] = 64'(i_ycsb.i_written.gen_port[0].memory[62][0+:64]);
  assign states[52][5] = 64'(i_ycsb.i_written.gen_port[0].memory[63][0+:64]);
  assign states[52][6] = 64'(i_ycsb.i_written.gen_port[0].memory[64][0+:64]);
  assign states[52][7] = 64'(i_ycsb.i_written.gen_port[0].memory[65][0+:64]);
  assign states[52][8] = 64'(i_ycsb.i_written.gen_port[0].memory[66][0+:64]);
  assign states[52][9] = 64'(i_ycsb.i_written.gen_port[0].memory[67][0+:64]);
  assign states[52][10] = 64'(i_ycsb.i_written.gen_port[0].memory[68][0+:64]);
  assign states[52][11] = 64'(i_ycsb.i_written.gen_port[0].memory[69][0+:64]);
  assign states[52][12] = '0;
  assign states[52][13] = '0;
  assign states[52][14] = '0;
  assign states[52][15] = '0;

  rdt_smallbank i_smallbank (
    .clk_i,
    .rst_ni,
    .replica_i,
    .call_valid_i  (call_valid_i && selected[12]),
    .call_ready_o  (call_ready[12]),
    .call_i,
    .answer_valid_o(answer_valid[12]),
    .answer_ready_i(answer_ready_i && selected[12]),
    .answer_o      (answer[12]),
    .idle_o        (idle[12])
  );
  assign states[53][0] = 64'(i_smallbank.i_savings.gen_port[0].memory[0][0+:64]);
  assign states[53][1] = 64'(i_smallbank.i_savings.gen_port[0].memory[1][0+:64]);
  assign states[53][2] = 64'(i_smallbank.i_savings.gen_port[0].memory[2][0+:64]);
  assign states[53][3] = 64'(i_smallbank.i_savings.gen_port[0].memory[3][0+:64]);
  assign states[53][4] = 64'(i_smallbank.i_savings.gen_port[0].memory[4][0+:64]);
  assign states[53][5] = 64'(i_smallbank.i_savings.gen_port[0].memory[5][0+:64]);
  assign states[53][6] = 64'(i_smallbank.i_savings.gen_port[0].memory[6][0+:64]);
  assign states[53][7] = 64'(i_smallbank.i_savings.gen_port[0].memory[7][0+:64]);
  assign states[53][8] = 64'(i_smallbank.i_savings.gen_port[0].memory[8][0+:64]);
  assign states[53][9] = 64'(i_smallbank.i_savings.gen_port[0].memory[9][0+:64]);
  assign states[53][10] = 64'(i_smallbank.i_savings.gen_port[0].memory[10][0+:64]);
  assign states[53][11] = 64'(i_smallbank.i_savings.gen_port[0].memory[11][0+:64]);
  assign states[53][12] = 64'(i_smallbank.i_savings.gen_port[0].memory[12][0+:64]);
  assign states[53][13] = 64'(i_smallbank.i_savings.gen_port[0].memory[13][0+:64]);
  assign states[53][14] = 64'(i_smallbank.i_savings.gen_port[0].memory[14][0+:64]);
  assign states[53][15] = 64'(i_smallbank.i_savings.gen_port[0].memory[15][0+:64]);
  assign states[54][0] = 64'(i_smallbank.i_savings.gen_port[0].memory[16][0+:64]);
  assign states[54][1] = 64'(i_smallbank.i_savings.gen_port[0].memory[17][0+:64]);
  assign states[54][2] = 64'(i_smallbank.i_savings.gen_port[0].memory[18][0+:64]);
  assign states[54][3] = 64'(i_smallbank.i_savings.gen_port[0].memory[19][0+:64]);
  assign states[54][4] = 64'(i_smallbank.i_savings.gen_port[0].memory[20][0+:64]);
  assign states[54][5] = 64'(i_smallbank.i_savings.gen_port[0].memory[21][0+:64]);
  assign states[54][6] = 64'(i_smallbank.i_savings.gen_port[0].memory[22][0+:64]);
  assign states[54][7] = 64'(i_smallbank.i_savings.gen_port[0].memory[23][0+:64]);
  assign states[54][8] = 64'(i_smallbank.i_savings.gen_port[0].memory[24][0+:64]);
  assign states[54][9] = 64'(i_smallbank.i_savings.gen_port[0].memory[25][0+:64]);
  assign states[54][10] = 64'(i_smallbank.i_savings.gen_port[0].memory[26][0+:64]);
  assign states[54][11] = 64'(i_smallbank.i_savings.gen_port[0].memory[27][0+:64]);
  assign states[54][12] = 64'(i_smallbank.i_savings.gen_port[0].memory[28][0+:64]);
  assign states[54][13] = 64'(i_smallbank.i_savings.gen_port[0].memory[29][0+:64]);
  assign states[54][14] = 64'(i_smallbank.i_savings.gen_port[0].memory[30][0+:64]);
  assign states[54][15] = 64'(i_smallbank.i_savings.gen_port[0].memory[31][0+:64]);
  assign states[55][0] = 64'(i_smallbank.i_savings.gen_port[0].memory[32][0+:64]);
  assign states[55][1] = 64'(i_smallbank.i_savings.gen_port[0].memory[33][0+:64]);
  assign states[55][2] = 64'(i_smallbank.i_savings.gen_port[0].memory[34][0+:64]);
  assign states[55][3] = 64'(i_smallbank.i_savings.gen_port[0].memory[35][0+:64]);
  assign states[55][4] = 64'(i_smallbank.i_savings.gen_port[0].memory[36][0+:64]);
  assign states[55][5] = 64'(i_smallbank.i_savings.gen_port[0].memory[37][0+:64]);
  assign states[55][6] = 64'(i_smallbank.i_savings.gen_port[0].memory[38][0+:64]);
  assign states[55][7] = 64'(i_smallbank.i_savings.gen_port[0].memory[39][0+:64]);
  assign states[55][8] = 64'(i_smallbank.i_savings.gen_port[0].memory[40][0+:64]);
  assign states[55][9] = 64'(i_smallbank.i_savings.gen_port[0].memory[41][0+:64]);
  assign states[55][10] = 64'(i_smallbank.i_savings.gen_port[0].memory[42][0+:64]);
  assign states[55][11] = 64'(i_smallbank.i_savings.gen_port[0].memory[43][0+:64]);
  assign states[55][12] = 64'(i_smallbank.i_savings.gen_port[0].memory[44][0+:64]);
  assign states[55][13] = 64'(i_smallbank.i_savings.gen_port[0].memory[45][0+:64]);
  assign states[55][14] = 64'(i_smallbank.i_savings.gen_port[0].memory[46][0+:64]);
  assign states[55][15] = 64'(i_smallbank.i_savings.gen_port[0].memory[47][0+:64]);
  assign states[56][0] = 64'(i_smallbank.i_savings.gen_port[0].memory[48][0+:64]);
  assign states[56][1] = 64'(i_smallbank.i_savings.gen_port[0].memory[49][0+:64]);
  assign states[56][2] = 64'(i_smallbank.i_savings.gen_port[0].memory[50][0+:64]);
  assign states[56][3] = 64'(i_smallbank.i_savings.gen_port[0].memory[51][0+:64]);
  assign states[56][4] = 64'(i_smallbank.i_savings.gen_port[0].memory[52][0+:64]);
  assign states[56][5] = 64'(i_smallbank.i_savings.gen_port[0].memory[53][0+:64]);
  assign states[56][6] = 64'(i_smallbank.i_savings.gen_port[0].memory[54][0+:64]);
  assign states[56][7] = 64'(i_smallbank.i_savings.gen_port[0].memory[55][0+:64]);
  assign states[56][8] = 64'(i_smallbank.i_savings.gen_port[0].memory[56][0+:64]);
  assign states[56][9] = 64'(i_smallbank.i_savings.gen_port[0].memory[57][0+:64]);
  assign states[56][10] = 64'(i_smallbank.i_savings.gen_port[0].memory[58][0+:64]);
  assign states[56][11] = 64'(i_smallbank.i_savings.gen_port[0].memory[59][0+:64]);
  assign states[56][12] = 64'(i_smallbank.i_savings.gen_port[0].memory[60][0+:64]);
  assign states[56][13] = 64'(i_smallbank.i_savings.gen_port[0].memory[61][0+:64]);
  assign states[56][14] = 64'(i_smallbank.i_savings.gen_port[0].memory[62][0+:64]);
  assign states[56][15] = 64'(i_smallbank.i_savings.gen_port[0].memory[63][0+:64]);
  assign states[57][0] = 64'(i_smallbank.i_savings.gen_port[0].memory[64][0+:64]);
  assign states[57][1] = 64'(i_smallbank.i_savings.gen_port[0].memory[65][0+:64]);
  assign states[57][2] = 64'(i_smallbank.i_savings.gen_port[0].memory[66][0+:64]);
  assign states[57][3] = 64'(i_smallbank.i_savings.gen_port[0].memory[67][0+:64]);
  assign states[57][4] = 64'(i_smallbank.i_savings.gen_port[0].memory[68][0+:64]);
  assign states[57][5] = 64'(i_smallbank.i_savings.gen_port[0].memory[69][0+:64]);
  assign states[57][6] = 64'(i_smallbank.i_checking.gen_port[0].memory[0][0+:64]);
  assign states[57][7] = 64'(i_smallbank.i_checking.gen_port[0].memory[1][0+:64]);
  assign states[57][8] = 64'(i_smallbank.i_checking.gen_port[0].memory[2][0+:64]);
  assign states[57][9] = 64'(i_smallbank.i_checking.gen_port[0].memory[3][0+:64]);
  assign states[57][10] = 64'(i_smallbank.i_checking.gen_port[0].memory[4][0+:64]);
  assign states[57][11] = 64'(i_smallbank.i_checking.gen_port[0].memory[5][0+:64]);
  assign states[57][12] = 64'(i_smallbank.i_checking.gen_port[0].memory[6][0+:64]);
  assign states[57][13] = 64'(i_smallbank.i_checking.gen_port[0].memory[7][0+:64]);
  assign states[57][14] = 64'(i_smallbank.i_checking.gen_port[0].memory[8][0+:64]);
  assign states[57][15] = 64'(i_smallbank.i_checking.gen_port[0].memory[9][0+:64]);
  assign states[58][0] = 64'(i_smallbank.i_checking.gen_port[0].memory[10][0+:64]);
  assign states[58][1] = 64'(i_smallbank.i_checking.gen_port[0].memory[11][0+:64]);
  assign states[58][2] = 64'(i_smallbank.i_checking.gen_port[0].memory[12][0+:64]);
  assign states[58][3] = 64'(i_smallbank.i_checking.gen_port[0].memory[13][0+:64]);
  assign states[58][4] = 64'(i_smallbank.i_checking.gen_port[0].memory[14][0+:64]);
  assign states[58][5] = 64'(i_smallbank.i_checking.gen_port[0].memory[15][0+:64]);
  assign states[58][6] = 64'(i_smallbank.i_checking.gen_port[0].memory[16][0+:64]);
  assign states[58][7] = 64'(i_smallbank.i_checking.gen_port[0].memory[17][0+:64]);
  assign states[58][8] = 64'(i_smallbank.i_checking.gen_port[0].memory[18][0+:64]);
  assign states[58][9] = 64'(i_smallbank.i_checking.gen_port[0].memory[19][0+:64]);
  assign states[58][10] = 64'(i_smallbank.i_checking.gen_port[0].memory[20][0+:64]);
  assign states[58][11] = 64'(i_smallbank.i_checking.gen_port[0].memory[21][0+:64]);
  assign states[58][12] = 64'(i_smallbank.i_checking.gen_port[0].memory[22][0+:64]);
  assign states[58][13] = 64'(i_smallbank.i_checking.gen_port[0].memory[23][0+:64]);
  assign states[58][14] = 64'(i_smallbank.i_checking.gen_port[0].memory[24][0+:64]);
  assign states[58][15] = 64'(i_smallbank.i_checking.gen_port[0].memory[25][0+:64]);
  assign states[59][0] = 64'(i_smallbank.i_checking.gen_port[0].memory[26][0+:64]);
  assign states[59][1] = 64'(i_smallbank.i_checking.gen_port[0].memory[27][0+:64]);
  assign states[59][2] = 64'(i_smallbank.i_checking.gen_port[0].memory[28][0+:64]);
  assign states[59][3] = 64'(i_smallbank.i_checking.gen_port[0].memory[29][0+:64]);
  assign states[59][4] = 64'(i_smallbank.i_checking.gen_port[0].memory[30][0+:64]);
  assign states[59][5] = 64'(i_smallbank.i_checking.gen_port[0].memory[31][0+:64]);
  assign states[59][6] = 64'(i_smallbank.i_checking.gen_port[0].memory[32][0+:64]);
  assign states[59][7] = 64'(i_smallbank.i_checking.gen_port[0].memory[33][0+:64]);
  assign states[59][8] = 64'(i_smallbank.i_checking.gen_port[0].memory[34][0+:64]);
  assign states[59][9] = 64'(i_smallbank.i_checking.gen_port[0].memory[35][0+:64]);
  assign states[59][10] = 64'(i_smallbank.i_checking.gen_port[0].memory[36][0+:64]);
  assign states[59][11] = 64'(i_smallbank.i_checking.gen_port[0].memory[37][0+:64]);
  assign states[59][12] = 64'(i_smallbank.i_checking.gen_port[0].memory[38][0+:64]);
  assign states[59][13] = 64'(i_smallbank.i_checking.gen_port[0].memory[39][0+:64]);
  assign states[59][14] = 64'(i_smallbank.i_checking.gen_port[0].memory[40][0+:64]);
  assign states[59][15] = 64'(i_smallbank.i_checking.gen_port[0].memory[41][0+:64]);
  assign states[60][0] = 64'(i_smallbank.i_checking.gen_port[0].memory[42][0+:64]);
  assign states[60][1] = 64'(i_smallbank.i_checking.gen_port[0].memory[43][0+:64]);
  assign states[60][2] = 64'(i_smallbank.i_checking.gen_port[0].memory[44][0+:64]);
  assign states[60][3] = 64'(i_smallbank.i_checking.gen_port[0].memory[45][0+:64]);
  assign states[60][4] = 64'(i_smallbank.i_checking.gen_port[0].memory[46][0+:64]);
  assign states[60][5] = 64'(i_smallbank.i_checking.gen_port[0].memory[47][0+:64]);
  assign states[60][6] = 64'(i_smallbank.i_checking.gen_port[0].memory[48][0+:64]);
  assign states[60][7] = 64'(i_smallbank.i_checking.gen_port[0].memory[49][0+:64]);
  assign states[60][8] = 64'(i_smallbank.i_checking.gen_port[0].memory[50][0+:64]);
  assign states[60][9] = 64'(i_smallbank.i_checking.gen_port[0].memory[51][0+:64]);
  assign states[60][10] = 64'(i_smallbank.i_checking.gen_port[0].memory[52][0+:64]);
  assign states[60][11] = 64'(i_smallbank.i_checking.gen_port[0].memory[53][0+:64]);
  assign states[60][12] = 64'(i_smallbank.i_checking.gen_port[0].memory[54][0+:64]);
  assign states[60][13] = 64'(i_smallbank.i_checking.gen_port[0].memory[55][0+:64]);
  assign states[60][14] = 64'(i_smallbank.i_checking.gen_port[0].memory[56][0+:64]);
  assign states[60][15] = 64'(i_smallbank.i_checking.gen_port[0].memory[57][0+:64]);
  assign states[61][0] = 64'(i_smallbank.i_checking.gen_port[0].memory[58][0+:64]);
  assign states[61][1] = 64'(i_smallbank.i_checking.gen_port[0].memory[59][0+:64]);
  assign states[61][2] = 64'(i_smallbank.i_checking.gen_port[0].memory[60][0+:64]);
  assign states[61][3] = 64'(i_smallbank.i_checking.gen_port[0].memory[61][0+:64]);
  assign states[61][4] = 64'(i_smallbank.i_checking.gen_port[0].memory[62][0+:64]);
  assign states[61][5] = 64'(i_smallbank.i_checking.gen_port[0].memory[63][0+:64]);
  assign states[61][6] = 64'(i_smallbank.i_checking.gen_port[0].memory[64][0+:64]);
  assign states[61][7] = 64'(i_smallbank.i_checking.gen_port[0].memory[65][0+:64]);
  assign states[61][8] = 64'(i_smallbank.i_checking.gen_port[0].memory[66][0+:64]);
  assign states[61][9] = 64'(i_smallbank.i_checking.gen_port[0].memory[67][0+:64]);
  assign states[61][10] = 64'(i_smallbank.i_checking.gen_port[0].memory[68][0+:64]);
  assign states[61][11] = 64'(i_smallbank.i_checking.gen_port[0].memory[69][0+:64]);
  assign states[61][12] = '0;
  assign states[61][13] = '0;
  assign states[61][14] = '0;
  assign states[61][15] = '0;

endmodule
