// The registers by which a host manages the card: "CXL device registers" of CXL 3.1, section 8.2.8,
// with device status, the primary mailbox and the memory device's status. Behind a 64-bit bus
// without wait states: the next cycle has the answer. Offsets without a register read 0, and
// writes to them change nothing.
//
// Between the doorbell and the answer the mailbox belongs to the firmware: its payload reads 0, and
// what a host writes to it is lost.

module nkv_mailbox
  import nkv_firmware_pkg::*;
#(
  localparam int unsigned PayloadWords = MailboxBytes / 4,
  localparam int unsigned WordBits     = $clog2(PayloadWords)
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        req_i,
  input  logic        we_i,
  input  logic [11:3] addr_i,
  input  logic [7:0]  strobes_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,

  // A command stands here from doorbell to answer.
  output logic        command_valid_o,
  output logic [15:0] opcode_o,
  output logic [20:0] payload_bytes_o,   // As the host says: may be more than there is room for.
  input  logic        answer_valid_i,
  input  logic [15:0] answer_status_i,
  input  logic [20:0] answer_bytes_i,
  // Meanwhile its payload: a word a cycle, reads answer in the next one.
  input  logic                payload_write_i,
  input  logic [WordBits-1:0] payload_at_i,
  input  logic [31:0]         payload_i,
  output logic [31:0]         payload_o,

  // What the firmware shows all the time.
  input  logic        ready_i,           // It answers.
  input  logic        failed_i,          // It does not any more.
  input  logic [31:0] event_logs_i,
  input  logic        background_runs_i,
  input  logic [63:0] background_i,

  output logic        interrupt_o        // For a cycle: as CONTROL says.
);

  // The capabilities' places and lengths, and our registers in them.
  localparam logic [11:0] DeviceStatusAt = 12'h080;
  localparam logic [11:0] MemoryStatusAt = 12'h088;
  localparam logic [11:0] MailboxAt      = 12'h100;
  localparam logic [11:0] CommandAt      = MailboxAt + 12'h08;
  localparam logic [11:0] StatusAt       = MailboxAt + 12'h10;
  localparam logic [11:0] BackgroundAt   = MailboxAt + 12'h18;
  localparam logic [11:0] PayloadAt      = MailboxAt + 12'h20;
  localparam logic [31:0] MailboxLength  = 32'h20 + MailboxBytes;

  function automatic logic [63:0] capability(logic [15:0] id, logic [11:0] at);
    return {32'(at), 8'h00, 8'd1, id};
  endfunction

  // ---- Registers ----
  logic        doorbell_q, doorbell_interrupt_q, background_interrupt_q, background_ran_q;
  logic [15:0] opcode_q, status_q;
  logic [20:0] bytes_q;
  logic [63:0] rdata_q;
  logic        reads_payload_q;

  wire [11:0] at = {addr_i, 3'b0};
  wire write = req_i && we_i;
  wire in_payload = at >= PayloadAt && at < PayloadAt + 12'(MailboxBytes);
  wire rings = write && at == MailboxAt && strobes_i[4] && wdata_i[32] && !doorbell_q;

  assign command_valid_o = doorbell_q;
  assign opcode_o = opcode_q;
  assign payload_bytes_o = bytes_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      doorbell_q             <= 1'b0;
      doorbell_interrupt_q   <= 1'b0;
      background_interrupt_q <= 1'b0;
      background_ran_q       <= 1'b0;
      opcode_q               <= '0;
      bytes_q                <= '0;
      status_q               <= '0;
      interrupt_o            <= 1'b0;
    end else begin
      background_ran_q <= background_runs_i;
      interrupt_o <= doorbell_q && answer_valid_i && doorbell_interrupt_q ||
                     background_ran_q && !background_runs_i && background_interrupt_q;
      if (write && at == MailboxAt && strobes_i[4]) begin
        doorbell_interrupt_q   <= wdata_i[33];
        background_interrupt_q <= wdata_i[34];
      end
      if (rings) doorbell_q <= 1'b1;
      if (write && at == CommandAt && !doorbell_q && strobes_i[4:0] == '1) begin
        opcode_q <= wdata_i[15:0];
        bytes_q  <= wdata_i[36:16];
      end
      if (doorbell_q && answer_valid_i) begin
        doorbell_q <= 1'b0;
        status_q   <= answer_status_i;
        bytes_q    <= answer_bytes_i;
      end
    end
  end

  // ---- Reading ----
  logic [63:0] rdata;
  always_comb begin
    unique case (at)
      12'h000: rdata = {16'h0, 16'd3, 4'h0, 4'd1, 8'd1, 16'h0000};  // Three; a memory device.
      12'h010: rdata = capability(16'h0001, DeviceStatusAt);
      12'h018: rdata = 64'd8;
      12'h020: rdata = capability(16'h0002, MailboxAt);
      12'h028: rdata = 64'(MailboxLength);
      12'h030: rdata = capability(16'h4000, MemoryStatusAt);
      12'h038: rdata = 64'd8;
      DeviceStatusAt: rdata = 64'(event_logs_i);
      // Bit 0: fatal. Bits 3:2: the memory is ready. Bit 4: the mailbox is.
      MemoryStatusAt: rdata = {59'h0, ready_i, 2'b01, 1'b0, failed_i};
      // Both interrupts can be had, as message 0.
      MailboxAt:
        rdata = {29'h0, background_interrupt_q, doorbell_interrupt_q, doorbell_q,
                 25'h0, 2'b11, 5'($clog2(MailboxBytes))};
      CommandAt: rdata = {27'h0, bytes_q, opcode_q};
      StatusAt: rdata = {16'h0, status_q, 31'h0, background_runs_i};
      BackgroundAt: rdata = background_i;
      default: rdata = '0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    rdata_q         <= rdata;
    reads_payload_q <= in_payload && !doorbell_q;
  end

  // ---- Payload: two words side by side for the host, one of them for the firmware ----
  localparam int unsigned PairBits = WordBits - 1;
  logic [63:0]         pairs [PayloadWords/2];
  logic [63:0]         pair_q, pair;
  logic [PairBits-1:0] pair_at;
  logic [7:0]          pair_write;
  logic                high_q;

  always_comb begin
    pair_at    = PairBits'((at - PayloadAt) >> 3);
    pair       = wdata_i;
    pair_write = write && in_payload ? strobes_i : '0;
    if (doorbell_q) begin
      pair_at    = payload_at_i[WordBits-1:1];
      pair       = {payload_i, payload_i};
      pair_write = !payload_write_i ? '0 : payload_at_i[0] ? 8'hF0 : 8'h0F;
    end
  end

  always_ff @(posedge clk_i) begin
    pair_q <= pairs[pair_at];
    high_q <= payload_at_i[0];
    for (int b = 0; b < 8; b++) if (pair_write[b]) pairs[pair_at][8*b +: 8] <= pair[8*b +: 8];
  end

  assign payload_o = high_q ? pair_q[63:32] : pair_q[31:0];
  assign rdata_o = reads_payload_q ? pair_q : rdata_q;

endmodule
