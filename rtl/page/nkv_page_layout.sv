// Where the arrays of a page lie, by its shape: sizes, then places as sums of the sizes before them, in
// stages of one addition each. A shape that no page has gives some layout.

module nkv_page_layout
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        start_i,  // The shape stands from now on.
  input  page_shape_t shape_i,

  output logic        done_o,   // For one cycle, Stages + 3 after start_i: from now on these stand.
  output logic [31:0] offset_o[PageArrayCount],
  output logic [31:0] bytes_o[PageArrayCount],
  output logic [31:0] end_o     // Of the last array.
);

  localparam int unsigned SizeBits = $clog2(PageTokens * 2 * MaxHeadDim + 1);
  localparam int unsigned BurstLog2 = $clog2(BurstBytes);
  localparam int unsigned Stages = $clog2(PageArrayCount);
  typedef logic [SizeBits-1:0] size_t;
  typedef logic [$clog2(MaxHeadDim + 1)-1:0] dim_t;
  typedef logic [15:0] bursts_t;

  // ---- Sizes ----
  // A tensor's row, by its form. An element's bytes are a power of two.
  typedef struct packed {
    logic       raw;
    logic       delta4;
    logic [2:0] element;
  } row_t;
  function automatic row_t row_of(row_form_e form, dtype_e dtype);
    return '{raw: form == RowFormRaw, delta4: form == RowFormDelta4,
             element: 3'(element_bytes(dtype))};
  endfunction
  function automatic size_t rows_size(row_t row, dim_t dim);
    automatic size_t bytes = '0;
    if (row.raw && row.element[0]) bytes |= size_t'(dim);
    if (row.raw && row.element[1]) bytes |= size_t'(dim) << 1;
    if (row.raw && row.element[2]) bytes |= size_t'(dim) << 2;
    if (row.delta4) bytes |= size_t'(row_bytes(RowFormDelta4, DtypeBf16, 32'(dim)));
    return size_t'(bytes * PageTokens);
  endfunction

  logic [Stages+2:0] step_q;
  row_t         key_row_q, value_row_q;
  page_shape_t  narrow;  // So that no more is added up than pages can have.
  page_layout_t layout;
  always_comb begin
    narrow = shape_i;
    narrow.head_dim = 16'(dim_t'(shape_i.head_dim));
    narrow.value_dim = 16'(dim_t'(shape_i.value_dim));
    layout = '0;
    if (step_q[0]) layout = page_layout(narrow);
  end

  size_t   size_q[PageArrayCount];
  bursts_t bursts_q[PageArrayCount];  // Of the array, and more and more of those before it.

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) step_q <= '0;
    else step_q <= {step_q[Stages+1:0], start_i};
  end
  assign done_o = step_q[Stages+2];

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      key_row_q <= row_of(shape_i.k_form, shape_i.dtype);
      value_row_q <= row_of(shape_i.v_form, shape_i.dtype);
    end
    if (step_q[0]) begin
      for (int unsigned i = 0; i < PageArrayCount; i++) size_q[i] <= size_t'(layout.bytes[i]);
      size_q[PageArrayKRows] <= rows_size(key_row_q, dim_t'(shape_i.head_dim));
      size_q[PageArrayVRows] <= rows_size(value_row_q, dim_t'(shape_i.value_dim));
    end
    if (step_q[1]) begin
      for (int unsigned i = 0; i < PageArrayCount; i++) begin
        bursts_q[i] <= bursts_t'((32'(size_q[i]) + BurstBytes - 1) >> BurstLog2);
      end
      bursts_q[0] <= bursts_t'((32'(size_q[0]) + PageHeaderBytes + BurstBytes - 1) >> BurstLog2);
    end
    // Sums of 2, 4 and all arrays.
    for (int unsigned s = 0; s < Stages; s++) begin
      if (step_q[s+2]) begin
        for (int unsigned i = 0; i < PageArrayCount; i++) begin
          if (1'(i >> s)) bursts_q[i] <= bursts_q[i] + bursts_q[(i >> s << s) - 1];
        end
      end
    end
  end

  always_comb begin
    offset_o[0] = 32'(PageHeaderBytes);
    for (int unsigned i = 1; i < PageArrayCount; i++) offset_o[i] = 32'(bursts_q[i-1]) << BurstLog2;
    for (int unsigned i = 0; i < PageArrayCount; i++) bytes_o[i] = 32'(size_q[i]);
    end_o = 32'(bursts_q[PageArrayCount-1]) << BurstLog2;
  end

  wire unused = ^{layout, narrow};

endmodule
