// nkv_radius with the fields of its structs as ports.
module nkv_radius_bench
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [2:0]  planes_i,
  input  logic        statistical_i,
  input  logic [7:0]  z_i,
  input  logic        terms_valid_i,
  input  row_t        row_i,
  input  logic [17:0] norm_i,
  input  logic [28:0] squares_i,
  input  logic [15:0] slack_i,
  input  page_t       page_i,
  input  shift_t      shift_i[Rows],
  output logic        busy_o,
  input  logic        read_i,
  input  page_t       read_page_i,
  input  logic [2:0]  read_planes_i,
  output radius_t     radius_o[Rows]
);

  settings_t settings;
  row_terms_t terms;
  always_comb begin
    settings = '0;
    settings.planes = planes_i;
    settings.statistical = statistical_i;
    settings.z = z_i;
    terms = '0;
    terms.row = row_i;
    terms.norm = norm_i;
    terms.squares = squares_i;
    terms.slack = slack_i;
  end

  nkv_radius u_radius (
    .settings_i(settings),
    .terms_i(terms),
    .terms_page_i(page_i),
    .*
  );

endmodule
