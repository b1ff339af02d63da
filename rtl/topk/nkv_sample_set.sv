// What BOUNDED keeps of each page besides its visible tokens: what this round drew, and in what form its
// rows are. Adds up what a dense read of the pages would take. Reads answer in the next cycle.

module nkv_sample_set
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,          // Before each command.

  input  logic [15:0] head_dim_i,
  input  logic [15:0] value_dim_i,
  input  logic        scanned_i,        // A page's body was announced.
  input  page_body_t  body_i,
  output logic [31:0] dense_bursts_o,   // Two cycles later.

  input  logic        set_i,
  input  page_index_t set_page_i,
  input  token_mask_t set_drawn_i,

  input  page_index_t page_i,
  output token_mask_t drawn_o,
  output row_form_e   k_form_o,
  output row_form_e   v_form_o,
  output dtype_e      dtype_o,
  input  page_index_t other_page_i,
  output token_mask_t other_drawn_o
);

  localparam int unsigned HeaderBursts = PageHeaderBytes / BurstBytes;

  typedef struct packed {
    row_form_e k_form;
    row_form_e v_form;
    dtype_e    dtype;
  } form_t;

  (* ram_style = "block" *) token_mask_t drawn[ListPages];
  (* ram_style = "block" *) token_mask_t other_drawn[ListPages];
  (* ram_style = "block" *) form_t       forms[ListPages];
  form_t form_q;

  always_ff @(posedge clk_i) begin
    if (scanned_i) begin
      forms[body_i.page] <= '{k_form: body_i.k_form, v_form: body_i.v_form, dtype: body_i.dtype};
    end
    if (set_i) begin
      drawn[set_page_i] <= set_drawn_i;
      other_drawn[set_page_i] <= set_drawn_i;
    end
    form_q <= forms[page_i];
    drawn_o <= drawn[page_i];
    other_drawn_o <= other_drawn[other_page_i];
  end
  assign k_form_o = form_q.k_form;
  assign v_form_o = form_q.v_form;
  assign dtype_o = form_q.dtype;

  // ---- 64 rows take as many bursts as one has bytes ----
  function automatic logic [15:0] tensor_bursts(row_form_e form, dtype_e dtype, logic [15:0] dim);
    return 16'(row_bytes(form, dtype, 32'(dim))) + 16'(exponent_bursts(form, dim));
  endfunction

  logic        scanned_q;
  logic [15:0] key_q, value_q;
  always_ff @(posedge clk_i) begin
    key_q <= tensor_bursts(body_i.k_form, body_i.dtype, head_dim_i);
    value_q <= tensor_bursts(body_i.v_form, body_i.dtype, value_dim_i);
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      scanned_q <= 1'b0;
      dense_bursts_o <= '0;
    end else if (clear_i) begin
      scanned_q <= 1'b0;
      dense_bursts_o <= '0;
    end else begin
      scanned_q <= scanned_i;
      if (scanned_q) begin
        dense_bursts_o <= dense_bursts_o + 32'(HeaderBursts) + 32'(key_q) + 32'(value_q);
      end
    end
  end

  wire unused = ^body_i;

endmodule
