// nkv_reader before a memory that answers in order, with reads outside the window and clearings.
module harness
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic [127:0]  random_i,
  output logic [63:0]   control_o,
  output logic          data_valid_o,
  output logic [1023:0] data_o
);
  logic quiet, request_ready, ar_valid, ar_ready, r_ready, r_valid, asked_valid, answered;
  logic [6:0] used;
  logic [9:0] beat_q;
  axi_ar_t ar, asked;
  axi_r_t r;
  read_beat_t beat;
  read_request_t request;
  assign request = '{
      tag: '{
          last_bytes: 7'd64,
          page: random_i[127-:PageIndexBits],
          keys_too: 1'b0,
          whole: random_i[2],
          array: '0,
          sink: SinkArray
      },
      bursts: burst_count_t'(random_i[36:32]) + burst_count_t'(1),
      address: {48'd0, random_i[49:40], 6'd0}
  };
  assign r_valid = asked_valid && random_i[3];
  assign answered = r_valid && r_ready && beat_q == asked.len;
  assign r = '{
      id: asked.id, error: 1'b0, poison: random_i[4], last: beat_q == asked.len, data: {4{random_i}}
  };

  nkv_reader #(
    .Slots(32)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .clear_i        (random_i[17:9] == '0),
    .forfeit_i      (1'b0),
    .quiet_o        (quiet),
    .request_valid_i(random_i[0]),
    .request_ready_o(request_ready),
    .request_i      (request),
    .fault_i        (random_i[22:20] == '0),
    .address_i      (address_t'(request.address)),
    .beat_valid_o   (data_valid_o),
    .beat_ready_i   (random_i[1]),
    .beat_o         (beat),
    .ar_valid_o     (ar_valid),
    .ar_ready_i     (ar_ready),
    .ar_o           (ar),
    .r_valid_i      (r_valid),
    .r_ready_o      (r_ready),
    .r_i            (r)
  );
  nkv_fifo #(
    .T(axi_ar_t),
    .Depth(64)
  ) u_asked (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (ar_valid),
    .in_ready_o (ar_ready),
    .in_data_i  (ar),
    .out_valid_o(asked_valid),
    .out_ready_i(answered),
    .out_data_o (asked),
    .used_o     (used)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) beat_q <= '0;
    else if (r_valid && r_ready) beat_q <= answered ? '0 : beat_q + 1'b1;
  end
  // The sum of an address is unknown where one of its bits is.
  assign control_o = 64'({quiet, request_ready, ar_valid, r_ready, used, ar_valid && ^ar});
  assign data_o = 1024'(beat);
endmodule
