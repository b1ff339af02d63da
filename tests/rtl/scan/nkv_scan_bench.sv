// nkv_scan with the fields of its structs as ports.
module nkv_scan_bench
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
#(
  parameter int unsigned KeptPages = nkv_pkg::StorePages
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic        abort_i,
  input  logic        op_valid_i,
  output logic        op_ready_o,
  input  logic [2:0]  op_i,
  input  logic [3:0]  op_rows_i,
  input  logic [3:0]  op_blocks_i,
  input  logic [2:0]  op_scan_planes_i,
  input  logic        op_statistical_i,
  input  logic [7:0]  op_z_i,
  input  logic [7:0]  op_key_exponent_i,
  input  logic        op_tail_i,
  input  logic        op_no_best_i,
  input  logic [PageIndexBits:0] op_pages_i,
  input  logic [2:0]  op_planes_i,
  input  logic [13:0] op_count_i,
  input  logic        tau_known_i[Rows],
  input  logic [63:0] tau_score_i[Rows],

  input  logic         query_valid_i,
  output logic         query_ready_o,
  input  logic [2:0]   query_row_i,
  input  logic [1:0]   query_word_i,
  input  logic [767:0] query_data_i,

  input  logic         record_valid_i,
  output logic         record_ready_o,
  input  logic [PageIndexBits-1:0] record_page_i,
  input  logic [63:0]  record_tokens_i,
  input  logic [15:0]  record_step_exponent_i,
  input  logic         record_first_i,
  input  logic         burst_valid_i,
  output logic         burst_ready_o,
  input  logic [511:0] burst_data_i,
  input  logic         burst_is_plane_i,
  input  logic [2:0]   burst_plane_i,
  input  logic [3:0]   burst_quad_i,
  input  logic         burst_last_i,

  input  logic        choose_valid_i,
  output logic        choose_ready_o,
  input  logic [PageIndexBits-1:0] choose_page_i,
  input  logic [63:0] choose_tokens_i,
  output logic        chosen_valid_o,
  input  logic        chosen_ready_i,
  output logic [PageIndexBits-1:0] chosen_page_o,
  output logic [63:0] chosen_tokens_o,
  output logic        chosen_rest_o,

  output logic [11:0] threshold_o[Rows],
  output logic [15:0] tau_o[Rows],
  output logic [28:0] reference_o[Rows],
  output logic [3:0]  shift_o[Rows],

  output logic        ranged_o,
  output logic [15:0] highest_o[Rows],
  output logic [15:0] lowest_o[Rows],

  input  logic        read_i,
  output logic        read_ready_o,
  input  logic [PageIndexBits-1:0] read_page_i,
  input  logic [1:0]  read_word_i,
  output logic [15:0] midpoint_o[Rows][ScanTokens],

  output logic         spill_valid_o,
  input  logic         spill_ready_i,
  output logic [63:0]  spill_address_o,
  output logic [63:0]  spill_strobes_o,
  output logic [511:0] spill_data_o,
  input  logic         spilled_i,
  input  logic         fill_i,
  input  logic [PageIndexBits-1:0] fill_page_i,
  input  logic [3:0]   fill_quad_i,
  input  logic [511:0] fill_data_i,
  output logic         refined_o,
  output logic [PageIndexBits-1:0] refined_page_o
);

  op_t op;
  scan_page_t record;
  burst_tag_t tag;
  page_tokens_t choose, chosen;
  score_t tau_score[Rows];
  midpoint_t tau[Rows], highest[Rows], lowest[Rows];
  constant_t reference[Rows];
  midpoint_t midpoint[Rows][ScanTokens];

  always_comb begin
    op.op = op_e'(op_i);
    op.settings = '{rows: op_rows_i, blocks: op_blocks_i, planes: op_scan_planes_i,
                    statistical: op_statistical_i, z: op_z_i, key_exponent: op_key_exponent_i,
                    tail: op_tail_i, no_best: op_no_best_i};
    op.pages = op_pages_i;
    op.planes = op_planes_i;
    op.count = op_count_i;
    record = '{page: record_page_i, tokens: record_tokens_i,
               step_exponent: record_step_exponent_i, first: record_first_i};
    tag = '{kind: burst_is_plane_i ? BurstPlane : BurstDigest, plane: burst_plane_i,
            quad: burst_quad_i, last: burst_last_i};
    choose = '{page: choose_page_i, tokens: choose_tokens_i, rest: 1'b0};
    for (int r = 0; r < int'(Rows); r++) tau_score[r] = tau_score_i[r][59:0];
  end
  assign chosen_page_o = chosen.page;
  assign chosen_tokens_o = chosen.tokens;
  assign chosen_rest_o = chosen.rest;
  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    assign tau_o[r] = tau[r];
    assign highest_o[r] = highest[r];
    assign lowest_o[r] = lowest[r];
    assign reference_o[r] = reference[r];
    for (genvar t = 0; t < ScanTokens; t++) begin : gen_tokens
      assign midpoint_o[r][t] = midpoint[r][t];
    end
  end

  write_request_t spill;
  assign spill_address_o = spill.address;
  assign spill_strobes_o = spill.strobes;
  assign spill_data_o = spill.data;

  nkv_scan #(
    .KeptPages(KeptPages)
  ) u_scan (
    .spill_o(spill),
    .op_i(op),
    .tau_score_i(tau_score),
    .record_i(record),
    .burst_tag_i(tag),
    .choose_i(choose),
    .chosen_o(chosen),
    .tau_o(tau),
    .reference_o(reference),
    .midpoint_o(midpoint),
    .highest_o(highest),
    .lowest_o(lowest),
    .*
  );

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, tau_score_i[0][63:60], tau_score_i[1][63:60], tau_score_i[2][63:60],
                  tau_score_i[3][63:60], tau_score_i[4][63:60], tau_score_i[5][63:60],
                  tau_score_i[6][63:60], tau_score_i[7][63:60]};
  // verilator lint_on UNUSEDSIGNAL

endmodule
