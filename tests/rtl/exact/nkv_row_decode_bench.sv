// nkv_row_decode with the fields of its format as ports.
module nkv_row_decode_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
#(
  localparam int unsigned TagBits = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               clear_i,
  input  logic               values_i,
  input  exponent_t          list_exponent_i,
  input  dim_t               used_dim_i,
  input  dim_t               stored_dim_i,
  input  dtype_e             dtype_i,
  input  row_form_e          form_i,
  input  logic               exponents_valid_i,
  input  logic               exponents_bank_i,
  input  logic               exponents_burst_i,
  input  burst_t             exponents_i,
  input  logic               row_valid_i,
  output logic               row_ready_o,
  input  logic [TagBits-1:0] row_tag_i,
  input  logic               row_last_i,
  input  logic               row_bank_i,
  input  logic [2:0]         row_start_i,
  input  logic               row_shared_i,
  input  logic               burst_valid_i,
  output logic               burst_ready_o,
  input  burst_t             burst_i,
  input  logic               issue_i,
  input  logic               again_i,
  output logic               wants_o,
  output logic               issued_last_o,
  output logic               word_valid_o,
  output logic [TagBits-1:0] word_tag_o,
  output word_index_t        word_index_o,
  output logic               word_last_o,
  output logic               word_pass_last_o,
  output key_t               word_o[ExactLanes],
  output logic               idle_o
);

  row_format_t format_i;
  assign format_i = '{
    values: values_i,
    list_exponent: list_exponent_i,
    used_dim: used_dim_i,
    stored_dim: stored_dim_i,
    dtype: dtype_i,
    form: form_i
  };

  nkv_row_decode #(
    .TagBits(TagBits)
  ) u_decode (.*);

endmodule
