// What TOPK keeps of the pages on chip: of each page that was scanned its visible tokens and its header's
// checksum; and one more set of tokens, first the seeds, then those alive; and what it takes to fold its
// digest again. Reads answer in the next cycle.

module nkv_page_set
  import nkv_pkg::*;
(
  input  logic               clk_i,

  input  logic               scanned_i,        // A page's body was announced.
  input  page_body_t         body_i,
  input  logic               set_i,            // Its tokens of the other set.
  input  visit_t             set_tokens_i,

  input  page_index_t        page_i,
  output token_mask_t        visible_o,
  output token_mask_t        set_o,
  output logic signed [15:0] step_exponent_o,
  input  page_index_t        any_page_i,
  output logic               any_set_o,        // The page's other set is not empty.
  input  page_index_t        crc_page_i,
  output logic [31:0]        crc_hot_o
);

  (* ram_style = "block" *) token_mask_t        visible[ListPages];
  (* ram_style = "block" *) token_mask_t        set[ListPages];
  (* ram_style = "block" *) logic               any_set[ListPages];
  (* ram_style = "block" *) logic [31:0]        crc_hot[ListPages];
  (* ram_style = "block" *) logic signed [15:0] step_exponent[ListPages];

  always_ff @(posedge clk_i) begin
    if (scanned_i) begin
      visible[body_i.page] <= body_i.tokens & ~body_i.nonfinite;
      crc_hot[body_i.page] <= body_i.crc_hot;
      step_exponent[body_i.page] <= body_i.k_step_exponent;
    end
    if (set_i) begin
      set[set_tokens_i.page] <= set_tokens_i.tokens;
      any_set[set_tokens_i.page] <= set_tokens_i.tokens != '0;
    end
    visible_o <= visible[page_i];
    set_o <= set[page_i];
    step_exponent_o <= step_exponent[page_i];
    any_set_o <= any_set[any_page_i];
    crc_hot_o <= crc_hot[crc_page_i];
  end

  wire unused = ^{body_i, set_tokens_i.sums};

endmodule
