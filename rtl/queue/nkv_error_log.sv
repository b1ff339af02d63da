// The last commands that ended with a status other than OK: a ring that overwrites its oldest entry,
// and counts those that software had not read. Sections "Registers" of the contract's reference:
// ERROR_STATE, ERROR_ENTRY, ERROR_DETAIL.

module nkv_error_log
  import nkv_abi_pkg::*;
  import nkv_queue_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        reset_i,

  input  logic        ended_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  ended_t      ended_i,
  input  logic [15:0] head_i,        // ERROR_HEAD

  input  csr_access_t access_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic        known_o,       // The access is to one of these registers.
  output logic [63:0] rdata_o,       // In the cycle after it.
  output logic        logged_o       // There is an entry more.
);

  localparam int unsigned IndexBits = $clog2(ErrorEntries);
  typedef logic [IndexBits-1:0] index_t;
  typedef struct packed {
    status_e     status;
    logic [7:0]  opcode;
    logic [7:0]  queue_index;
    logic [15:0] tenant;
    logic [15:0] tag;
  } entry_t;

  (* ram_style = "distributed" *) entry_t entries[ErrorEntries];
  (* ram_style = "distributed" *) logic [63:0] details[ErrorEntries];
  logic [15:0] tail_q;
  logic [31:0] lost_q;

  wire logs = ended_valid_i && ended_i.outcome.verdict.status != StatusOk;
  wire [15:0] unread = tail_q - head_i;
  wire index_t place = index_t'(tail_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tail_q <= '0;
      lost_q <= '0;
      logged_o <= 1'b0;
    end else if (reset_i) begin
      tail_q <= '0;
      lost_q <= '0;
      logged_o <= 1'b0;
    end else begin
      logged_o <= logs;
      if (logs) begin
        tail_q <= tail_q + 16'd1;
        if (unread >= 16'(ErrorEntries) && lost_q != '1) lost_q <= lost_q + 32'd1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (logs) begin
      details[place] <= ended_i.outcome.verdict.detail;
      entries[place] <= '{
          status: ended_i.outcome.verdict.status,
          opcode: ended_i.started.opcode,
          queue_index: 8'(ended_i.started.queue_index),
          tenant: ended_i.started.tenant,
          tag: ended_i.started.tag
      };
    end
  end

  // ---- Registers ----
  localparam int unsigned StrideBits = $clog2(RegErrorEntryStride);
  wire is_state = access_i.address == RegErrorState;
  wire is_entry = access_i.address[31:StrideBits+IndexBits] ==
      RegErrorEntry[31:StrideBits+IndexBits];
  wire index_t read_index = access_i.address[StrideBits+IndexBits-1:StrideBits];

  assign known_o = is_state || is_entry;
  always_ff @(posedge clk_i) begin
    if (access_i.valid && is_state) rdata_o <= 64'({lost_q, tail_q});
    else if (access_i.valid && is_entry) begin
      rdata_o <= access_i.address[3] ? details[read_index] : 64'(entries[read_index]);
    end
  end

endmodule
