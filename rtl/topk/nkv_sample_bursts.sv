// Bursts that reading chosen rows would take (ARITHMETIC.md section 9), page after page: exponents and
// rows of keys and of values, each burst once, and V_SUM where it is wanted. A page takes as many cycles
// as it has rows, 1 at least.

module nkv_sample_bursts
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
#(
  parameter int unsigned Depth = 16     // Pages that may wait.
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,          // Forgets what was counted.

  input  logic [15:0] head_dim_i,
  input  logic [15:0] value_dim_i,

  output logic        room_o,           // For half of those pages.
  input  logic        valid_i,
  input  token_mask_t tokens_i,
  input  row_form_e   k_form_i,
  input  row_form_e   v_form_i,
  input  dtype_e      dtype_i,
  input  logic        sums_i,

  output logic [31:0] bursts_o,
  output logic        idle_o            // All pages are counted.
);

  typedef struct packed {
    token_mask_t tokens;
    row_form_e   k_form;
    row_form_e   v_form;
    dtype_e      dtype;
    logic        sums;
  } page_t;

  page_t page;
  logic  page_valid, page_done, unused_ready;
  logic [$clog2(Depth):0] used;

  nkv_fifo #(
    .T(page_t),
    .Depth(Depth)
  ) u_pages (
    .clk_i,
    .rst_ni,
    .clear_i,
    .in_valid_i (valid_i),
    .in_ready_o (unused_ready),
    .in_data_i  ('{tokens: tokens_i, k_form: k_form_i, v_form: v_form_i, dtype: dtype_i, sums: sums_i}),
    .out_valid_o(page_valid),
    .out_ready_i(page_done),
    .out_data_o (page),
    .used_o     (used)
  );
  assign idle_o = !page_valid;
  assign room_o = used <= ($clog2(Depth) + 1)'(Depth / 2);

  wire [31:0] key_bytes = row_bytes(page.k_form, page.dtype, 32'(head_dim_i));
  wire [31:0] value_bytes = row_bytes(page.v_form, page.dtype, 32'(value_dim_i));
  wire has_rows = page.tokens != '0;

  // ---- Rows: those of keys, and those of values if there are any ----
  logic [1:0] ready, row_valid, ended_q;
  logic [2:0] row_bursts[2];
  wire [1:0] wanted = {value_bytes != '0, 1'b1};
  wire [1:0] ended = ended_q | ~wanted | ready;
  assign page_done = page_valid && ended == '1;

  for (genvar i = 0; i < 2; i++) begin : g_rows
    logic [$clog2(PageTokens)-1:0] unused_row;
    logic unused_last, unused_shared;
    logic [2:0] unused_start;
    logic [7:0] unused_burst;
    nkv_row_places u_places (
      .clk_i,
      .rst_ni,
      .clear_i,
      .valid_i     (page_valid && !ended_q[i] && wanted[i]),
      .ready_o     (ready[i]),
      .rows_i      (page.tokens),
      .granules_i  (i == 0 ? key_bytes[8:3] : value_bytes[8:3]),
      .row_valid_o (row_valid[i]),
      .row_ready_i (1'b1),
      .row_o       (unused_row),
      .row_last_o  (unused_last),
      .row_start_o (unused_start),
      .row_shared_o(unused_shared),
      .row_burst_o (unused_burst),
      .row_bursts_o(row_bursts[i])
    );
  end

  // ---- What a page takes besides ----
  wire [31:0] besides = (has_rows ? 32'(exponent_bursts(page.k_form, head_dim_i)) +
                                    32'(exponent_bursts(page.v_form, value_dim_i)) : '0) +
      (page.sums ? 32'(bursts_of(32'(value_dim_i) * 4)) : '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ended_q <= '0;
      bursts_o <= '0;
    end else if (clear_i) begin
      ended_q <= '0;
      bursts_o <= '0;
    end else begin
      ended_q <= page_done ? '0 : page_valid ? ended : '0;
      bursts_o <= bursts_o + (row_valid[0] ? 32'(row_bursts[0]) : '0) +
          (row_valid[1] ? 32'(row_bursts[1]) : '0) + (page_done ? besides : '0);
    end
  end

  wire unused = ^{key_bytes, value_bytes};

endmodule
