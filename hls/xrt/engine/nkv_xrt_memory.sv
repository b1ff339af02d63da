// The engine's memory port as an AXI4 master: single beats of 64 bytes, from where the kernel's argument says.

module nkv_xrt_memory #(
  parameter int unsigned IdBits = 13
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic [63:0]       base_i,
  output logic              is_quiet_o,     // Nothing is in flight.

  // Of the engine. A write's address and data are taken together; answers are always taken.
  input  logic              ar_valid_i,
  output logic              ar_ready_o,
  input  logic [IdBits-1:0] ar_id_i,
  input  logic [63:0]       ar_addr_i,
  input  logic              w_valid_i,
  output logic              w_ready_o,
  input  logic [IdBits-1:0] w_id_i,
  input  logic [63:0]       w_addr_i,
  input  logic [63:0]       w_strb_i,
  input  logic [511:0]      w_data_i,

  output logic              arvalid_o,
  input  logic              arready_i,
  output logic [IdBits-1:0] arid_o,
  output logic [63:0]       araddr_o,
  output logic              awvalid_o,
  input  logic              awready_i,
  output logic [IdBits-1:0] awid_o,
  output logic [63:0]       awaddr_o,
  output logic              wvalid_o,
  input  logic              wready_i,
  output logic [63:0]       wstrb_o,
  output logic [511:0]      wdata_o,
  input  logic              r_taken_i,      // A beat of a read's answer was.
  input  logic              b_taken_i
);

  typedef struct packed {
    logic [IdBits-1:0] id;
    logic [63:0]       addr;
  } read_t;

  typedef struct packed {
    logic [IdBits-1:0] id;
    logic [63:0]       addr;
    logic [63:0]       strb;
    logic [511:0]      data;
  } write_t;

  read_t read;
  write_t write;
  logic write_valid, address_done_q, data_done_q, write_done;
  logic [10:0] in_flight_q;                 // Taken and not yet answered.
  logic [2:0] unused_reads, unused_writes;

  nkv_fifo #(
    .T(read_t),
    .Depth(4)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (ar_valid_i),
    .in_ready_o (ar_ready_o),
    .in_data_i  ('{id: ar_id_i, addr: ar_addr_i + base_i}),
    .out_valid_o(arvalid_o),
    .out_ready_i(arready_i),
    .out_data_o (read),
    .used_o     (unused_reads)
  );

  nkv_fifo #(
    .T(write_t),
    .Depth(4)
  ) u_writes (
    .clk_i,
    .rst_ni,
    .clear_i    (1'b0),
    .in_valid_i (w_valid_i),
    .in_ready_o (w_ready_o),
    .in_data_i  ('{id: w_id_i, addr: w_addr_i + base_i, strb: w_strb_i, data: w_data_i}),
    .out_valid_o(write_valid),
    .out_ready_i(write_done),
    .out_data_o (write),
    .used_o     (unused_writes)
  );

  assign arid_o = read.id;
  assign araddr_o = read.addr;
  assign awid_o = write.id;
  assign awaddr_o = write.addr;
  assign wstrb_o = write.strb;
  assign wdata_o = write.data;
  assign awvalid_o = write_valid && !address_done_q;
  assign wvalid_o = write_valid && !data_done_q;
  assign write_done = (address_done_q || awready_i) && (data_done_q || wready_i);
  assign is_quiet_o = in_flight_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {address_done_q, data_done_q} <= '0;
      in_flight_q <= '0;
    end else begin
      address_done_q <= write_valid && !write_done && (address_done_q || awready_i);
      data_done_q <= write_valid && !write_done && (data_done_q || wready_i);
      in_flight_q <= in_flight_q + 11'(ar_valid_i && ar_ready_o) + 11'(w_valid_i && w_ready_o) -
          11'(r_taken_i) - 11'(b_taken_i);
    end
  end

endmodule
