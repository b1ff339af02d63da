// Several users of one memory port. Reads and writes take turns; answers find their way back by the
// upper three bits of their ids, which are a user's `Client` number: user i has Clients[i].

`include "nkv_assert.svh"

module nkv_axi_mux
  import nkv_pkg::*;
#(
  parameter int unsigned Users = 2,
  parameter logic [Users-1:0][2:0] Clients = '0
) (
  input  logic              clk_i,
  input  logic              rst_ni,

  input  logic    [Users-1:0] ar_valid_i,
  output logic    [Users-1:0] ar_ready_o,
  input  axi_ar_t [Users-1:0] ar_i,
  output logic    [Users-1:0] r_valid_o,   // Users take answers at once.
  output axi_r_t              r_o,
  input  logic    [Users-1:0] w_valid_i,
  output logic    [Users-1:0] w_ready_o,
  input  axi_w_t  [Users-1:0] w_i,
  output logic    [Users-1:0] b_valid_o,
  output axi_b_t              b_o,

  output logic              ar_valid_o,
  input  logic              ar_ready_i,
  output axi_ar_t           ar_o,
  input  logic              r_valid_i,
  output logic              r_ready_o,
  input  axi_r_t            r_i,
  output logic              w_valid_o,
  input  logic              w_ready_i,
  output axi_w_t            w_o,
  input  logic              b_valid_i,
  output logic              b_ready_o,
  input  axi_b_t            b_i
);

  localparam int unsigned UserBits = $clog2(Users);
  logic [UserBits-1:0] reader, writer;
  logic [Users-1:0] read_grant, write_grant;

  nkv_round_robin #(
    .Requests(Users)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .request_i(ar_valid_i),
    .valid_o  (ar_valid_o),
    .ready_i  (ar_ready_i),
    .grant_o  (read_grant),
    .index_o  (reader)
  );
  assign ar_o = ar_i[reader];
  assign ar_ready_o = read_grant & {Users{ar_ready_i}};

  nkv_round_robin #(
    .Requests(Users)
  ) u_writes (
    .clk_i,
    .rst_ni,
    .request_i(w_valid_i),
    .valid_o  (w_valid_o),
    .ready_i  (w_ready_i),
    .grant_o  (write_grant),
    .index_o  (writer)
  );
  assign w_o = w_i[writer];
  assign w_ready_o = write_grant & {Users{w_ready_i}};

  assign r_o = r_i;
  assign b_o = b_i;
  assign r_ready_o = 1'b1;
  assign b_ready_o = 1'b1;
  always_comb begin
    for (int unsigned i = 0; i < Users; i++) begin
      r_valid_o[i] = r_valid_i && r_i.id[AxiIdBits-1-:3] == Clients[i];
      b_valid_o[i] = b_valid_i && b_i.id[AxiIdBits-1-:3] == Clients[i];
    end
  end

  `NKV_ASSERT(RHasUser_A, !r_valid_i || r_valid_o != '0)
  `NKV_ASSERT(BHasUser_A, !b_valid_i || b_valid_o != '0)

endmodule
