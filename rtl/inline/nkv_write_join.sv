// Address and data of writes, which AXI brings on two channels, as one. Whichever comes first waits
// for the other. One cycle; one write per cycle.

module nkv_write_join
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,

  input  logic      aw_valid_i,
  output logic      aw_ready_o,
  input  access_t   aw_i,
  input  logic      w_valid_i,
  output logic      w_ready_o,
  input  access_w_t w_i,

  output logic      valid_o,
  input  logic      ready_i,
  output axi_w_t    write_o
);

  logic aw_valid, w_valid;
  access_t aw;
  access_w_t w;

  nkv_skid_buffer #(
    .T(access_t)
  ) u_aw (
    .clk_i,
    .rst_ni,
    .in_valid_i (aw_valid_i),
    .in_ready_o (aw_ready_o),
    .in_data_i  (aw_i),
    .out_valid_o(aw_valid),
    .out_ready_i(ready_i && w_valid),
    .out_data_o (aw)
  );
  nkv_skid_buffer #(
    .T(access_w_t)
  ) u_w (
    .clk_i,
    .rst_ni,
    .in_valid_i (w_valid_i),
    .in_ready_o (w_ready_o),
    .in_data_i  (w_i),
    .out_valid_o(w_valid),
    .out_ready_i(ready_i && aw_valid),
    .out_data_o (w)
  );

  assign valid_o = aw_valid && w_valid;
  assign write_o = '{
      id: aw.id,
      addr: aw.addr,
      strb: w.strb,
      poison: w.poison,
      data: w.data
  };

endmodule
