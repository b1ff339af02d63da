// The AXI4-Lite slave of the engine as an XRT kernel: the registers of a kernel's call, and behind them a
// window onto the engine's own.
//
//   0x00         ap_ctrl_hs
//   0x10, 0x14   where the engine's memory begins
//   0x1c, 0x20   its bytes
//   Window on    the contract's registers: an access to 64 bits is one to its low half, then one to its high
//                half; the low half's read takes both, the high half's write gives both
//
// A run takes the arguments and resets the engine; it ends when the engine is ready. Nothing of what went on
// before is in flight then.

module nkv_xrt_control #(
  parameter int unsigned AddressBits = 21,
  parameter int unsigned Window = 1 << (AddressBits - 1)  // A power of two; the window is the upper half.
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic                   awvalid_i,
  output logic                   awready_o,
  input  logic [AddressBits-1:0] awaddr_i,
  input  logic                   wvalid_i,
  output logic                   wready_o,
  input  logic [31:0]            wdata_i,
  output logic                   bvalid_o,
  input  logic                   bready_i,
  input  logic                   arvalid_i,
  output logic                   arready_o,
  input  logic [AddressBits-1:0] araddr_i,
  output logic                   rvalid_o,
  input  logic                   rready_i,
  output logic [31:0]            rdata_o,

  input  logic                   is_quiet_i,       // Memory owes no answer.
  output logic [63:0]            memory_base_o,
  output logic [63:0]            memory_bytes_o,
  output logic                   engine_rst_no,
  output logic                   csr_req_o,
  output logic                   csr_we_o,
  output logic [31:0]            csr_addr_o,
  output logic [63:0]            csr_wdata_o,
  input  logic [63:0]            csr_rdata_i
);

  localparam int unsigned ResetCycles = 16;
  localparam logic [7:0] RegControl = 8'h00;
  localparam logic [7:0] RegBaseLow = 8'h10;
  localparam logic [7:0] RegBaseHigh = 8'h14;
  localparam logic [7:0] RegBytesLow = 8'h1c;
  localparam logic [7:0] RegBytesHigh = 8'h20;

  typedef logic [AddressBits-1:0] address_t;

  function automatic logic in_window(address_t address);
    return address >= address_t'(Window);
  endfunction
  function automatic logic [31:0] csr_address(address_t address);
    return {32'(address) - 32'(Window)} & ~32'd7;
  endfunction

  // ---- A run: the engine is reset, once nothing is in flight ------------------------------------
  logic [63:0] base_q, bytes_q;
  logic [$clog2(2 * ResetCycles):0] reset_q;      // Cycles that are left.
  logic start_q, done_q, running_q;

  // ---- Accesses, one at a time -------------------------------------------------------------------
  typedef enum logic [1:0] {
    Idle,
    Write,      // Its data are awaited.
    Read,       // The engine's register answers.
    Answer
  } state_e;

  state_e state_q;
  logic writes_q;
  address_t address_q;
  logic [31:0] low_q;      // Of a write to the window.
  logic [31:0] high_q;     // Of the last read there.
  logic takes_read, takes_write;

  assign takes_read = state_q == Idle && arvalid_i;
  assign takes_write = state_q == Write && wvalid_i;
  assign arready_o = state_q == Idle;
  assign awready_o = state_q == Idle && !arvalid_i;
  assign wready_o = state_q == Write;
  assign bvalid_o = state_q == Answer && writes_q;
  assign rvalid_o = state_q == Answer && !writes_q;

  assign csr_we_o = takes_write;
  assign csr_req_o = takes_write ? in_window(address_q) && address_q[2] :
      takes_read && in_window(araddr_i) && !araddr_i[2];
  assign csr_addr_o = csr_address(takes_write ? address_q : araddr_i);
  assign csr_wdata_o = {wdata_i, low_q};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      {start_q, done_q, running_q} <= '0;
      reset_q <= '0;
      engine_rst_no <= 1'b0;
      {memory_base_o, memory_bytes_o} <= '0;
    end else begin
      // Before the first run there is no memory.
      engine_rst_no <= running_q && reset_q < ($bits(reset_q))'(ResetCycles);
      unique case (state_q)
        Idle: begin
          writes_q <= !arvalid_i;
          address_q <= arvalid_i ? araddr_i : awaddr_i;
          if (arvalid_i) begin
            state_q <= Read;
          end else if (awvalid_i) begin
            state_q <= Write;
          end
        end
        Write: if (wvalid_i) state_q <= Answer;
        Read: begin
          state_q <= Answer;
          if (in_window(address_q)) begin
            rdata_o <= address_q[2] ? high_q : csr_rdata_i[31:0];
            if (!address_q[2]) high_q <= csr_rdata_i[63:32];
          end else begin
            unique case (address_q[7:0])
              RegControl:   rdata_o <= {29'd0, !start_q, done_q, start_q};
              RegBaseLow:   rdata_o <= base_q[31:0];
              RegBaseHigh:  rdata_o <= base_q[63:32];
              RegBytesLow:  rdata_o <= bytes_q[31:0];
              RegBytesHigh: rdata_o <= bytes_q[63:32];
              default:      rdata_o <= '0;
            endcase
            if (address_q[7:0] == RegControl) done_q <= 1'b0;
          end
        end
        Answer: if (writes_q ? bready_i : rready_i) state_q <= Idle;
        default: state_q <= Idle;
      endcase

      if (takes_write && in_window(address_q) && !address_q[2]) low_q <= wdata_i;
      if (takes_write && !in_window(address_q)) begin
        unique case (address_q[7:0])
          RegControl: begin
            if (wdata_i[0] && !start_q) begin
              start_q <= 1'b1;
              running_q <= 1'b0;
              reset_q <= '1;
            end
          end
          RegBaseLow:   base_q[31:0] <= wdata_i;
          RegBaseHigh:  base_q[63:32] <= wdata_i;
          RegBytesLow:  bytes_q[31:0] <= wdata_i;
          RegBytesHigh: bytes_q[63:32] <= wdata_i;
          default: ;
        endcase
      end
      if (start_q && is_quiet_i) begin
        // Not before: the engine still used those of the run before.
        if (!running_q) {memory_base_o, memory_bytes_o} <= {base_q, bytes_q};
        running_q <= 1'b1;
        reset_q <= reset_q - 1'b1;
        if (reset_q == '0) begin
          start_q <= 1'b0;
          done_q <= 1'b1;
          reset_q <= '0;
        end
      end
    end
  end

  // AXI4-Lite: single beats without ids.
`ifndef SYNTHESIS
  nkv_axi_rules #(
    .BeatBytes(4),
    .RBits(32),
    .WBits(32)
  ) u_rules (
    .clk_i,
    .rst_ni,
    .ar_valid_i(arvalid_i),
    .ar_ready_i(arready_o),
    .ar_id_i   ('0),
    .ar_addr_i (64'(araddr_i)),
    .ar_len_i  ('0),
    .r_valid_i (rvalid_o),
    .r_ready_i (rready_i),
    .r_id_i    ('0),
    .r_last_i  (1'b1),
    .r_i       (rdata_o),
    .aw_valid_i(awvalid_i),
    .aw_ready_i(awready_o),
    .aw_id_i   ('0),
    .aw_addr_i (64'(awaddr_i)),
    .aw_len_i  ('0),
    .w_valid_i (wvalid_i),
    .w_ready_i (wready_o),
    .w_last_i  (1'b1),
    .w_i       (wdata_i),
    .b_valid_i (bvalid_o),
    .b_ready_i (bready_i),
    .b_id_i    ('0),
    .b_i       ('0)
  );
`endif

endmodule
