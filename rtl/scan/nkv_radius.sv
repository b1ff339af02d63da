// Stored radii (ARITHMETIC.md, 5.1) of every page and row for plane counts L0..4.
//
// With B the bound for one plane, min(64 W, B_1), the bound for L planes is B / 2^(L-1) rounded up,
// in both modes. A row of terms takes 5 - L0 cycles, in STATISTICAL after its root (29 cycles); up
// to 8 rows wait. Reading takes one cycle.

module nkv_radius
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  settings_t  settings_i,

  input  logic       terms_valid_i,
  input  row_terms_t terms_i,
  input  page_t      terms_page_i,
  input  shift_t     shift_i[Rows],  // Of the row from 2 cycles after its first terms on
  output logic       busy_o,

  input  logic       read_i,
  input  page_t      read_page_i,
  input  planes_t    read_planes_i,
  output radius_t    radius_o[Rows]
);

  localparam int unsigned ProductBits = 45;
  localparam int unsigned BoundBits = 25;
  typedef struct packed {
    page_t  page;
    row_t   row;
    norm_t  norm;
    slack_t slack;
  } waiting_t;

  // ---- Roots, one unit a row --------------------------------------------------------------
  logic [15:0] z_square_q;
  logic [31:0] low_1;
  logic [28:0] high_1;
  logic [ProductBits-1:0] product_2;
  logic product_valid_1, product_valid_2;
  row_t product_row_1, product_row_2;
  logic [Rows-1:0] root_valid;
  logic [BoundBits-1:0] root[Rows];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      product_valid_1 <= 1'b0;
      product_valid_2 <= 1'b0;
    end else begin
      product_valid_1 <= terms_valid_i && settings_i.statistical;
      product_valid_2 <= product_valid_1;
    end
  end
  always_ff @(posedge clk_i) begin
    z_square_q <= settings_i.z * settings_i.z;
    if (terms_valid_i && settings_i.statistical) begin
      low_1 <= z_square_q * terms_i.squares[15:0];
      high_1 <= z_square_q * terms_i.squares[28:16];
      product_row_1 <= terms_i.row;
    end
    if (product_valid_1) begin
      product_2 <= {13'b0, low_1} + {high_1, 16'b0};
      product_row_2 <= product_row_1;
    end
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_roots
    nkv_radius_root u_root (
      .clk_i,
      .rst_ni,
      .valid_i(product_valid_2 && product_row_2 == row_t'(r)),
      .m_i(product_2),
      .valid_o(root_valid[r]),
      .bound_o(root[r])
    );
  end

  // Rows come one by one and each root takes the same time, so one at most ends per cycle.
  logic [BoundBits-1:0] ended_root;
  always_comb begin
    ended_root = '0;
    for (int r = 0; r < int'(Rows); r++) if (root_valid[r]) ended_root |= root[r];
  end

  // ---- What waits for a root or its turn --------------------------------------------------
  logic waiting_valid, waiting_ready, root_there, roots_ready, take;
  waiting_t waiting;
  logic [4:0] waiting_used, found_used;
  logic [BoundBits-1:0] found_root;

  nkv_fifo #(
    .T(waiting_t),
    .Depth(16)
  ) u_waiting (
    .clk_i,
    .rst_ni,
    .clear_i(1'b0),
    .in_valid_i(terms_valid_i),
    .in_ready_o(waiting_ready),
    .in_data_i('{page: terms_page_i, row: terms_i.row, norm: terms_i.norm, slack: terms_i.slack}),
    .out_valid_o(waiting_valid),
    .out_ready_i(take),
    .out_data_o(waiting),
    .used_o(waiting_used)
  );

  nkv_fifo #(
    .T(logic [BoundBits-1:0]),
    .Depth(16)
  ) u_found (
    .clk_i,
    .rst_ni,
    .clear_i(1'b0),
    .in_valid_i(|root_valid),
    .in_ready_o(roots_ready),
    .in_data_i(ended_root),
    .out_valid_o(root_there),
    .out_ready_i(take && settings_i.statistical),
    .out_data_o(found_root),
    .used_o(found_used)
  );

  // ---- The radii of a row, L = L0 first ---------------------------------------------------
  logic    looping_q;
  planes_t planes_q;
  wire     loop_ends = looping_q && planes_q == 3'd4;
  assign take = waiting_valid && (root_there || !settings_i.statistical) &&
                (!looping_q || loop_ends);

  page_t  page_q;
  row_t   row_q;
  slack_t slack_q;
  logic [BoundBits-1:0] bound_q;
  wire [BoundBits-1:0] sound = {1'b0, waiting.norm, 6'b0};

  logic valid_1, valid_2, valid_3, valid_4;
  page_t page_1, page_2, page_3, page_4;
  row_t row_1, row_2, row_3, row_4;
  planes_t planes_1, planes_2, planes_3, planes_4;
  logic [BoundBits-1:0] rounded_1;
  slack_t slack_1;
  logic [BoundBits-1:0] radius_2, radius_3;
  logic [1:0] fine_3;
  radius_t radius_4;
  wire [BoundBits-1:0] shifted_3 = radius_3 >> fine_3;
  wire [BoundBits-1:0] rounding = (BoundBits'(1) << (planes_q - 1'b1)) - 1'b1;
  wire planes_t further_3 = planes_3 - settings_i.planes;
  wire [BoundBits:0] stored_3 =
      {1'b0, shifted_3} + (BoundBits + 1)'(3'd2) + (BoundBits + 1)'(further_3);

  assign busy_o = waiting_valid || looping_q || valid_1 || valid_2 || valid_3 || valid_4;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      looping_q <= 1'b0;
      valid_1 <= 1'b0;
      valid_2 <= 1'b0;
      valid_3 <= 1'b0;
      valid_4 <= 1'b0;
    end else begin
      looping_q <= take || (looping_q && !loop_ends);
      valid_1 <= looping_q;
      valid_2 <= valid_1;
      valid_3 <= valid_2;
      valid_4 <= valid_3;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      page_q <= waiting.page;
      row_q <= waiting.row;
      slack_q <= waiting.slack;
      bound_q <= settings_i.statistical && found_root < sound ? found_root : sound;
      planes_q <= settings_i.planes;
    end else if (looping_q) begin
      planes_q <= planes_q + 1'b1;
    end
    if (looping_q) begin
      page_1 <= page_q;
      row_1 <= row_q;
      planes_1 <= planes_q;
      rounded_1 <= bound_q + rounding;
      slack_1 <= slack_q + 16'd4;
    end
    if (valid_1) begin
      page_2 <= page_1;
      row_2 <= row_1;
      planes_2 <= planes_1;
      radius_2 <= (rounded_1 >> (planes_1 - 1'b1)) + BoundBits'(slack_1);
    end
    if (valid_2) begin
      page_3 <= page_2;
      row_3 <= row_2;
      planes_3 <= planes_2;
      radius_3 <= radius_2 >> {shift_i[row_2][3:2], 2'b0};
      fine_3 <= shift_i[row_2][1:0];
    end
    if (valid_3) begin
      page_4 <= page_3;
      row_4 <= row_3;
      planes_4 <= planes_3;
      radius_4 <= |stored_3[BoundBits:16] ? '1 : stored_3[15:0];
    end
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_rows
    (* ram_style = "block" *) radius_t radii[4*ListPages];
    always_ff @(posedge clk_i) begin
      if (valid_4 && row_4 == row_t'(r)) radii[{page_4, 2'(planes_4 - 1'b1)}] <= radius_4;
    end
    always_ff @(posedge clk_i) begin
      if (read_i) radius_o[r] <= radii[{read_page_i, 2'(read_planes_i - 1'b1)}];
    end
  end

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, waiting_ready, roots_ready, waiting_used, found_used, terms_i, settings_i};
  // verilator lint_on UNUSEDSIGNAL

endmodule
