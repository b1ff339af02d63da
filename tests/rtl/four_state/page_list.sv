// nkv_page_list: lists that begin anywhere, and then each of their entries.
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
  logic [4:0] entries_q;
  logic [12:0] bursts_q;                // That are still to come.
  page_index_t page_q;
  logic loads_q, loaded, poisoned, request_valid, beat_valid, looked_q;
  read_request_t request;
  read_beat_t beat;
  page_entry_t entry;
  logic [7:0] k_exponent, v_exponent;
  assign beat_valid = bursts_q != '0 && random_i[0];
  assign beat = '{
      fault: 1'b0, poison: random_i[12:8] == '0, first: 1'b0, last: bursts_q == 13'd1, tag: '0,
      data: {4{random_i}}
  };

  nkv_page_list u_dut (
    .clk_i,
    .rst_ni,
    .load_i         (loads_q),
    .address_i      ({58'd0, random_i[18:16], 3'd0}),
    .entries_i      ((PageIndexBits + 1)'(entries_q)),
    .loaded_o       (loaded),
    .poisoned_o     (poisoned),
    .request_valid_o(request_valid),
    .request_ready_i(random_i[1]),
    .request_o      (request),
    .beat_valid_i   (beat_valid),
    .beat_i         (beat),
    .page_i         (page_q),
    .entry_o        (entry),
    .k_exponent_o   (k_exponent),
    .v_exponent_o   (v_exponent)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {entries_q, bursts_q, page_q, looked_q} <= '0;
      loads_q <= 1'b0;
    end else begin
      loads_q <= !loads_q && loaded && page_q == page_index_t'(entries_q);
      if (!loads_q && loaded && page_q == page_index_t'(entries_q)) entries_q <= random_i[28:24];
      if (loads_q) page_q <= '0;
      else if (loaded && page_q != page_index_t'(entries_q)) page_q <= page_q + 1'b1;
      looked_q <= loaded && !loads_q && page_q < page_index_t'(entries_q);
      if (request_valid && random_i[1]) bursts_q <= 13'(request.bursts);
      else if (beat_valid) bursts_q <= bursts_q - 1'b1;
    end
  end
  assign control_o = 64'({loaded, poisoned, request_valid, k_exponent, v_exponent});
  assign data_valid_o = looked_q;
  assign data_o = 1024'(entry);
endmodule
