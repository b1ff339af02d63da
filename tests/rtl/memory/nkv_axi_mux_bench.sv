// nkv_axi_mux with three users. Of what they ask only ids and addresses are ports; the rest travels
// alike.
module nkv_axi_mux_bench
  import nkv_pkg::*;
#(
  localparam int unsigned Users = 3
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic [Users-1:0] ar_valid_i,
  output logic [Users-1:0] ar_ready_o,
  input  axi_id_t          ar_id_i[Users],
  input  address_t         ar_addr_i[Users],
  output logic [Users-1:0] r_valid_o,
  output axi_id_t          r_id_o,
  input  logic [Users-1:0] w_valid_i,
  output logic [Users-1:0] w_ready_o,
  input  axi_id_t          w_id_i[Users],
  input  address_t         w_addr_i[Users],
  output logic [Users-1:0] b_valid_o,
  output axi_id_t          b_id_o,

  output logic             port_ar_valid_o,
  input  logic             port_ar_ready_i,
  output axi_id_t          port_ar_id_o,
  output address_t         port_ar_addr_o,
  input  logic             port_r_valid_i,
  output logic             port_r_ready_o,
  input  axi_id_t          port_r_id_i,
  output logic             port_w_valid_o,
  input  logic             port_w_ready_i,
  output axi_id_t          port_w_id_o,
  output address_t         port_w_addr_o,
  input  logic             port_b_valid_i,
  output logic             port_b_ready_o,
  input  axi_id_t          port_b_id_i
);

  axi_ar_t [Users-1:0] ar;
  axi_w_t  [Users-1:0] w;
  axi_ar_t port_ar;
  axi_w_t  port_w;
  axi_r_t  r;
  axi_b_t  b;

  for (genvar i = 0; i < int'(Users); i++) begin : gen_users
    assign ar[i] = '{id: ar_id_i[i], addr: ar_addr_i[i], len: '0};
    assign w[i] = '{id: w_id_i[i], addr: w_addr_i[i], default: '0};
  end

  nkv_axi_mux #(
    .Users  (Users),
    .Clients({3'd6, 3'd1, 3'd0})
  ) u_mux (
    .clk_i,
    .rst_ni,
    .ar_valid_i,
    .ar_ready_o,
    .ar_i      (ar),
    .r_valid_o,
    .r_o       (r),
    .w_valid_i,
    .w_ready_o,
    .w_i       (w),
    .b_valid_o,
    .b_o       (b),
    .ar_valid_o(port_ar_valid_o),
    .ar_ready_i(port_ar_ready_i),
    .ar_o      (port_ar),
    .r_valid_i (port_r_valid_i),
    .r_ready_o (port_r_ready_o),
    .r_i       ('{id: port_r_id_i, default: '0}),
    .w_valid_o (port_w_valid_o),
    .w_ready_i (port_w_ready_i),
    .w_o       (port_w),
    .b_valid_i (port_b_valid_i),
    .b_ready_o (port_b_ready_o),
    .b_i       ('{id: port_b_id_i, error: 1'b0})
  );

  assign port_ar_id_o = port_ar.id;
  assign port_ar_addr_o = port_ar.addr;
  assign port_w_id_o = port_w.id;
  assign port_w_addr_o = port_w.addr;
  assign r_id_o = r.id;
  assign b_id_o = b.id;

  wire unused = ^{port_ar, port_w, r, b};

endmodule
