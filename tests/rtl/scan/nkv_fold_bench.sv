// nkv_fold with the fields of its terms as ports.
module nkv_fold_bench
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic [7:0]   key_exponent_i,
  input  logic [2:0]   words_i,
  input  logic         query_valid_i,
  output logic         query_ready_o,
  input  row_t         query_row_i,
  input  logic [1:0]   query_word_i,
  input  logic [767:0] query_data_i,
  input  logic         digest_valid_i,
  output logic         digest_ready_o,
  input  burst_t       digest_data_i,
  input  logic         page_valid_i,
  output logic         page_ready_o,
  input  slot_t        page_slot_i,
  input  logic [15:0]  page_step_exponent_i,
  input  logic         half_room_i,
  output logic         half_begins_o,
  output logic         weight_valid_o,
  output logic         weight_half_o,
  output slot_t        weight_slot_o,
  output logic [1:0]   weight_word_o,
  output logic [1:0]   weight_step_o,
  output logic         weight_last_o,
  output logic [11:0]  weight_o[HalfRows][FoldLanes],
  output logic         terms_valid_o,
  output slot_t        slot_o,
  output row_t         row_o,
  output logic [28:0]  constant_o,
  output logic [18:0]  sum_o,
  output logic [17:0]  norm_o,
  output logic [28:0]  squares_o,
  output logic [15:0]  slack_o
);

  row_terms_t terms;
  weight_t weight[HalfRows][FoldLanes];
  assign {slot_o, row_o, constant_o, sum_o, norm_o, squares_o, slack_o} = terms;
  for (genvar r = 0; r < HalfRows; r++) begin : gen_rows
    for (genvar k = 0; k < FoldLanes; k++) begin : gen_lanes
      assign weight_o[r][k] = weight[r][k];
    end
  end

  nkv_fold u_fold (
    .terms_o(terms),
    .weight_o(weight),
    .*
  );

endmodule
