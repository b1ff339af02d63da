// The example design's CSR port (Avalon-MM, 64 bit, its own clock) to the engine's register bus. One
// access at a time crosses to the engine's clock and back, as toggles that two registers bring over,
// beside values that stand still meanwhile: about 5 cycles of each clock.
//
// Registers are read and written whole: a write of fewer than 8 bytes, or poisoned, changes nothing.
// What the engine refuses, and the configuration space (address bit 21), reads as all ones.

module nkv_agilex_csr (
  input  logic        csr_clk_i,
  input  logic        csr_rst_ni,
  input  logic [21:0] avmm_address_i,
  input  logic        avmm_read_i,        // Held, as all of it is, while waitrequest.
  input  logic        avmm_write_i,
  input  logic [63:0] avmm_writedata_i,
  input  logic [7:0]  avmm_byteenable_i,
  input  logic        avmm_poison_i,
  output logic        avmm_waitrequest_o,
  output logic [63:0] avmm_readdata_o,
  output logic        avmm_readdatavalid_o,

  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        csr_req_o,
  output logic        csr_we_o,
  output logic [31:0] csr_addr_o,
  output logic [63:0] csr_wdata_o,
  input  logic [63:0] csr_rdata_i,        // In the cycle after the request.
  input  logic        csr_error_i
);

  // ---- Host's side: ask, wait, answer ----
  logic asked_q, busy_q;                  // asked_q toggles with each access.
  logic done_toggle_q;                    // The engine's side; equal to asked_q once answered.
  logic [1:0] done_sync_q;
  logic [63:0] answer_q;
  wire asks = (avmm_read_i || avmm_write_i) && !busy_q;
  wire done = busy_q && done_sync_q[1] == asked_q;

  assign avmm_waitrequest_o = !done;

  always_ff @(posedge csr_clk_i or negedge csr_rst_ni) begin
    if (!csr_rst_ni) begin
      asked_q <= 1'b0;
      busy_q <= 1'b0;
      done_sync_q <= '0;
      avmm_readdatavalid_o <= 1'b0;
    end else begin
      done_sync_q <= {done_sync_q[0], done_toggle_q};
      if (asks) asked_q <= !asked_q;
      if (asks) busy_q <= 1'b1;
      else if (done) busy_q <= 1'b0;
      avmm_readdatavalid_o <= done && avmm_read_i;
    end
  end

  always_ff @(posedge csr_clk_i) if (done) avmm_readdata_o <= answer_q;

  // ---- Engine's side ----
  logic [1:0] asked_sync_q;
  logic served_q, answers_q, refused_q;
  wire serve = asked_sync_q[1] != served_q;
  wire whole_write = avmm_byteenable_i == '1 && !avmm_poison_i;

  assign csr_req_o = serve && !avmm_address_i[21] && (!avmm_write_i || whole_write);
  assign csr_we_o = avmm_write_i;
  assign csr_addr_o = {11'd0, avmm_address_i[20:0]};
  assign csr_wdata_o = avmm_writedata_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      asked_sync_q <= '0;
      served_q <= 1'b0;
      answers_q <= 1'b0;
      done_toggle_q <= 1'b0;
    end else begin
      asked_sync_q <= {asked_sync_q[0], asked_q};
      if (serve) served_q <= !served_q;
      answers_q <= serve;
      if (answers_q) done_toggle_q <= served_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (serve) refused_q <= !csr_req_o;
    if (answers_q) answer_q <= refused_q || csr_error_i ? '1 : csr_rdata_i;
  end

endmodule
