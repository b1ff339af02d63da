// c[i] = a[i] + b[i]: an RTL kernel as Vitis has them, with an AXI4-Lite slave and two AXI4 masters, one
// that reads and one that writes. Blocks of 16 words at multiples of 64 bytes; the last may be shorter.

module vadd #(
  parameter bit Chain = 1'b0            // ap_ctrl_chain instead of ap_ctrl_hs.
) (
  input  logic        ap_clk,
  input  logic        ap_rst_n,
  output logic        interrupt,

  input  logic        s_axi_control_awvalid,
  output logic        s_axi_control_awready,
  input  logic [5:0]  s_axi_control_awaddr,
  input  logic        s_axi_control_wvalid,
  output logic        s_axi_control_wready,
  input  logic [31:0] s_axi_control_wdata,
  input  logic [3:0]  s_axi_control_wstrb,
  output logic        s_axi_control_bvalid,
  input  logic        s_axi_control_bready,
  output logic [1:0]  s_axi_control_bresp,
  input  logic        s_axi_control_arvalid,
  output logic        s_axi_control_arready,
  input  logic [5:0]  s_axi_control_araddr,
  output logic        s_axi_control_rvalid,
  input  logic        s_axi_control_rready,
  output logic [31:0] s_axi_control_rdata,
  output logic [1:0]  s_axi_control_rresp,

  output logic        m_axi_gmem0_arvalid,
  input  logic        m_axi_gmem0_arready,
  output logic [63:0] m_axi_gmem0_araddr,
  output logic [7:0]  m_axi_gmem0_arlen,
  output logic [2:0]  m_axi_gmem0_arsize,
  output logic [1:0]  m_axi_gmem0_arburst,
  input  logic        m_axi_gmem0_rvalid,
  output logic        m_axi_gmem0_rready,
  input  logic [31:0] m_axi_gmem0_rdata,
  input  logic [1:0]  m_axi_gmem0_rresp,
  input  logic        m_axi_gmem0_rlast,

  output logic        m_axi_gmem1_awvalid,
  input  logic        m_axi_gmem1_awready,
  output logic [63:0] m_axi_gmem1_awaddr,
  output logic [7:0]  m_axi_gmem1_awlen,
  output logic [2:0]  m_axi_gmem1_awsize,
  output logic [1:0]  m_axi_gmem1_awburst,
  output logic        m_axi_gmem1_wvalid,
  input  logic        m_axi_gmem1_wready,
  output logic [31:0] m_axi_gmem1_wdata,
  output logic [3:0]  m_axi_gmem1_wstrb,
  output logic        m_axi_gmem1_wlast,
  input  logic        m_axi_gmem1_bvalid,
  output logic        m_axi_gmem1_bready,
  input  logic [1:0]  m_axi_gmem1_bresp
);

  localparam int unsigned BlockWords = 16;
  localparam int unsigned BlockBytes = 64;

  typedef enum logic [2:0] {
    Idle,
    AskA,
    GetA,
    AskB,
    GetB,
    AskC,
    PutC,
    Await
  } state_e;

  state_e state_q;
  // ---- Control registers --------------------------------------------------------------------
  typedef enum logic [5:0] {
    RegControl   = 6'h00,
    RegGlobal    = 6'h04,
    RegEnable    = 6'h08,
    RegStatus    = 6'h0c,
    RegALow      = 6'h10,
    RegAHigh     = 6'h14,
    RegBLow      = 6'h1c,
    RegBHigh     = 6'h20,
    RegCLow      = 6'h28,
    RegCHigh     = 6'h2c,
    RegWords     = 6'h34
  } register_e;

  logic [63:0] a_q, b_q, c_q;
  logic [31:0] words_q;
  logic        start_q, done_q, global_q, enable_q, status_q;
  logic        begins, ends, writes, reads, may_start;
  logic [5:0]  write_address_q;
  logic        write_address_valid_q;

  assign s_axi_control_awready = !write_address_valid_q;
  assign s_axi_control_wready = write_address_valid_q && !s_axi_control_bvalid;
  assign s_axi_control_arready = !s_axi_control_rvalid;
  assign s_axi_control_bresp = '0;
  assign s_axi_control_rresp = '0;
  assign writes = s_axi_control_wvalid && s_axi_control_wready && s_axi_control_wstrb[0];
  assign reads = s_axi_control_arvalid && s_axi_control_arready;
  assign interrupt = global_q && status_q;
  // A chained kernel waits with its next run until the host has seen the last one's end.
  assign may_start = !(Chain && done_q);

  always_ff @(posedge ap_clk) begin
    if (s_axi_control_awvalid && s_axi_control_awready) begin
      write_address_q <= s_axi_control_awaddr;
      write_address_valid_q <= 1'b1;
    end
    if (s_axi_control_wvalid && s_axi_control_wready) s_axi_control_bvalid <= 1'b1;
    if (s_axi_control_bvalid && s_axi_control_bready) begin
      s_axi_control_bvalid <= 1'b0;
      write_address_valid_q <= 1'b0;
    end
    if (s_axi_control_rvalid && s_axi_control_rready) s_axi_control_rvalid <= 1'b0;
    if (reads) begin
      s_axi_control_rvalid <= 1'b1;
      unique case (s_axi_control_araddr)
        RegControl: s_axi_control_rdata <= {29'd0, !start_q && state_q == Idle, done_q, start_q};
        RegGlobal:  s_axi_control_rdata <= 32'(global_q);
        RegEnable:  s_axi_control_rdata <= 32'(enable_q);
        RegStatus:  s_axi_control_rdata <= 32'(status_q);
        RegALow:    s_axi_control_rdata <= a_q[31:0];
        RegAHigh:   s_axi_control_rdata <= a_q[63:32];
        RegBLow:    s_axi_control_rdata <= b_q[31:0];
        RegBHigh:   s_axi_control_rdata <= b_q[63:32];
        RegCLow:    s_axi_control_rdata <= c_q[31:0];
        RegCHigh:   s_axi_control_rdata <= c_q[63:32];
        RegWords:   s_axi_control_rdata <= words_q;
        default:    s_axi_control_rdata <= '0;
      endcase
      if (!Chain && s_axi_control_araddr == RegControl) done_q <= 1'b0;
    end
    if (writes) begin
      unique case (write_address_q)
        RegControl: begin
          if (s_axi_control_wdata[0]) start_q <= 1'b1;
          if (Chain && s_axi_control_wdata[4]) done_q <= 1'b0;
        end
        RegGlobal:  global_q <= s_axi_control_wdata[0];
        RegEnable:  enable_q <= s_axi_control_wdata[0];
        RegStatus:  status_q <= status_q ^ s_axi_control_wdata[0];
        RegALow:    a_q[31:0] <= s_axi_control_wdata;
        RegAHigh:   a_q[63:32] <= s_axi_control_wdata;
        RegBLow:    b_q[31:0] <= s_axi_control_wdata;
        RegBHigh:   b_q[63:32] <= s_axi_control_wdata;
        RegCLow:    c_q[31:0] <= s_axi_control_wdata;
        RegCHigh:   c_q[63:32] <= s_axi_control_wdata;
        RegWords:   words_q <= s_axi_control_wdata;
        default:    ;
      endcase
    end
    if (ends) begin
      done_q <= 1'b1;
      start_q <= 1'b0;
      if (enable_q) status_q <= 1'b1;
    end
    if (!ap_rst_n) begin
      {start_q, done_q, global_q, enable_q, status_q, write_address_valid_q} <= '0;
      {s_axi_control_bvalid, s_axi_control_rvalid} <= '0;
    end
  end

  // ---- The sum, block by block ----------------------------------------------------------------
  logic [31:0] sum_q[BlockWords];
  logic [31:0] left_q;                 // Words.
  logic [63:0] offset_q;               // Bytes.
  logic [3:0]  word_q;
  logic [3:0]  last_word;              // Of this block.

  assign last_word = left_q >= BlockWords ? 4'(BlockWords - 1) : 4'(left_q - 32'd1);
  assign begins = state_q == Idle && start_q && may_start;
  // With nothing left after an answer; a run of no words asks for none.
  assign ends = (state_q == Await && m_axi_gmem1_bvalid && left_q == '0) || (begins && words_q == '0);

  assign m_axi_gmem0_arvalid = state_q inside {AskA, AskB};
  assign m_axi_gmem0_araddr = (state_q == AskA ? a_q : b_q) + offset_q;
  assign m_axi_gmem0_arlen = 8'(last_word);
  assign m_axi_gmem0_arsize = 3'd2;
  assign m_axi_gmem0_arburst = 2'b01;
  assign m_axi_gmem0_rready = state_q inside {GetA, GetB};

  assign m_axi_gmem1_awvalid = state_q == AskC;
  assign m_axi_gmem1_awaddr = c_q + offset_q;
  assign m_axi_gmem1_awlen = 8'(last_word);
  assign m_axi_gmem1_awsize = 3'd2;
  assign m_axi_gmem1_awburst = 2'b01;
  assign m_axi_gmem1_wvalid = state_q == PutC;
  assign m_axi_gmem1_wdata = sum_q[word_q];
  assign m_axi_gmem1_wstrb = '1;
  assign m_axi_gmem1_wlast = word_q == last_word;
  assign m_axi_gmem1_bready = 1'b1;

  always_ff @(posedge ap_clk) begin
    unique case (state_q)
      Idle: begin
        word_q <= '0;
        offset_q <= '0;
        left_q <= words_q;
        if (begins && words_q != '0) state_q <= AskA;
      end
      AskA: if (m_axi_gmem0_arready) state_q <= GetA;
      AskB: if (m_axi_gmem0_arready) state_q <= GetB;
      GetA, GetB: begin
        if (m_axi_gmem0_rvalid) begin
          sum_q[word_q] <= (state_q == GetA ? '0 : sum_q[word_q]) + m_axi_gmem0_rdata;
          word_q <= m_axi_gmem0_rlast ? '0 : word_q + 4'd1;
          if (m_axi_gmem0_rlast) state_q <= state_q == GetA ? AskB : AskC;
        end
      end
      AskC: if (m_axi_gmem1_awready) state_q <= PutC;
      PutC: begin
        if (m_axi_gmem1_wready) begin
          word_q <= word_q + 4'd1;
          if (m_axi_gmem1_wlast) begin
            word_q <= '0;
            left_q <= left_q - (32'(last_word) + 32'd1);
            state_q <= Await;
          end
        end
      end
      Await: begin
        if (m_axi_gmem1_bvalid) begin
          offset_q <= offset_q + 64'(BlockBytes);
          state_q <= left_q == '0 ? Idle : AskA;
        end
      end
      default: state_q <= Idle;
    endcase
    if (!ap_rst_n) state_q <= Idle;
  end

  logic unused;
  assign unused = ^{s_axi_control_wstrb[3:1], m_axi_gmem0_rresp, m_axi_gmem1_bresp};

endmodule
