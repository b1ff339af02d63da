// nkv_places_apart over one set of places after the other, most of which are out of order.
module harness (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic [127:0]  random_i,
  output logic [63:0]   control_o,
  output logic          data_valid_o,
  output logic [1023:0] data_o
);
  logic [4:0] left_q;
  logic begun_q, apart;
  logic put;
  logic [9:0] unused_place, unused_extent;
  assign put = begun_q && left_q != '0 && random_i[0];

  nkv_places_apart #(
    .Places(16),
    .PlaceBits(10)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .clear_i (!begun_q),
    .extent_i(10'd2),
    .put_i   (put),
    .place_i (random_i[25:16]),
    .judge_i (begun_q && left_q == '0),
    .done_o  (data_valid_o),
    .apart_o (apart),
    .look_i  ('0),
    .place_o (unused_place),
    .extent_o(unused_extent)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {begun_q, left_q} <= '0;
    end else begin
      begun_q <= !data_valid_o && random_i[14:8] != '0;
      if (!begun_q) left_q <= 5'(random_i[35:32]) + 5'd1;
      else if (put) left_q <= left_q - 1'b1;
    end
  end
  assign control_o = '0;
  assign data_o = 1024'(apart);
endmodule
