// A built page to memory: its arrays, each with its checksum, the zeros behind them, then the
// header, whose first 8 bytes are withheld, so that the page cannot be found yet. A burst per
// cycle; some 50 cycles per page go to changing arrays and to the header.
//
// The values' arrays go first, while the keys are read; codes go last, because they take longest.

module nkv_page_send
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
#(
  localparam int unsigned BurstIndexBits = $clog2(PageTokens * 2 * Channels / BurstBytes)
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,           // A page; the next one after done_o.
  input  page_layout_t   layout_i,          // Held.
  input  logic [63:0]    address_i,         // Offset of the page into the window; held.
  input  page_header_t   header_i,          // But for checksums; known with the last array.
  output logic           values_sent_o,     // For one cycle: arrays that come of the values' rows,
  output logic           keys_sent_o,       // of the keys'.
  output logic           done_o,            // For one cycle.

  output page_array_t    array_o,           // PageArray*, whose burst is wanted now,
  output logic [BurstIndexBits-1:0] index_o,  // and the burst's place in it.
  output logic           wants_o,
  input  logic           burst_valid_i,
  output logic           burst_taken_o,
  input  burst_t         burst_i,           // What lies beyond the array's end must be zero.

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned CrcLatency = 10;
  localparam int unsigned CheckedBytes = 60;   // Each half of a header ends with its checksum.
  localparam int unsigned WithheldBytes = 8;
  localparam int unsigned Sums = PageArrayCount + 2;  // Behind the arrays': of the header's halves.
  localparam int unsigned SumBits = $clog2(Sums);
  typedef logic [SumBits-1:0] sum_index_t;
  localparam sum_index_t HotSum = sum_index_t'(PageArrayCount);
  localparam sum_index_t ColdSum = sum_index_t'(PageArrayCount + 1);

  // Of the order in which arrays go.
  typedef logic [$clog2(PageArrayCount+1)-1:0] turn_t;
  localparam page_array_t [PageArrayCount-1:0] Order = '{
      page_array_t'(PageArrayCodeSummary),
      page_array_t'(PageArrayKCodes),
      page_array_t'(PageArrayKSigns),
      page_array_t'(PageArrayVCodes),
      page_array_t'(PageArrayKGains),
      page_array_t'(PageArrayKeyScales),
      page_array_t'(PageArrayKExceptions),
      page_array_t'(PageArrayKExponents),
      page_array_t'(PageArrayKRows),
      page_array_t'(PageArrayVExceptions),
      page_array_t'(PageArrayVExponents),
      page_array_t'(PageArrayVRows)
  };
  localparam turn_t LastOfValues = turn_t'(2);
  localparam turn_t LastOfKeys = turn_t'(6);  // Codes follow, of memories of their own.

  typedef enum logic [3:0] {
    StIdle,
    StNext,        // Which array is it, and is it there?
    StArray,
    StPad,
    StSums,        // Until all arrays' checksums are known.
    StHotSum,
    StColdSum,
    StHeaderSums,
    StCold,        // The header's second half, then its first one.
    StHot,
    StLeave        // Until memory's port has taken it.
  } state_e;

  state_e      state_q;
  turn_t       turn_q;
  page_array_t array_q;
  logic [BurstIndexBits-1:0] index_q;
  logic [31:0] bytes_q, offset_q, payload_end_q;
  logic [31:0] sum_q[Sums];
  logic [3:0]  sums_due_q;

  // The layout's own size is larger.
  // verilator lint_off UNUSEDSIGNAL
  function automatic logic [31:0] payload_end(page_layout_t layout);
  // verilator lint_on UNUSEDSIGNAL
    logic [31:0] last = PageHeaderBytes;
    for (int unsigned i = 0; i < PageArrayCount; i++) begin
      if (layout.bytes[i] != '0) last = layout.offset[i] + layout.bytes[i];
    end
    return last;
  endfunction

  // ---- Header ----
  page_header_t header;
  always_comb begin
    header = header_i;
    header.payload_bytes = payload_end_q - 32'(PageHeaderBytes);
    header.crc_k_exponents = sum_q[PageArrayKExponents];
    header.crc_k_rows = sum_q[PageArrayKRows];
    header.crc_k_exceptions = sum_q[PageArrayKExceptions];
    header.crc_key_scales = sum_q[PageArrayKeyScales];
    header.crc_v_exponents = sum_q[PageArrayVExponents];
    header.crc_v_rows = sum_q[PageArrayVRows];
    header.crc_v_exceptions = sum_q[PageArrayVExceptions];
    header.crc_code_summary = sum_q[PageArrayCodeSummary];
    header.crc_k_signs = sum_q[PageArrayKSigns];
    header.crc_k_codes = sum_q[PageArrayKCodes];
    header.crc_v_codes = sum_q[PageArrayVCodes];
    header.crc_k_gains = sum_q[PageArrayKGains];
    header.crc_hot = sum_q[HotSum];
    header.crc_cold = sum_q[ColdSum];
  end
  wire burst_t hot = header[BurstBits-1:0];
  wire burst_t cold = header[2*BurstBits-1:BurstBits];

  // ---- Bursts ----
  logic           write_valid_q;
  write_request_t write_q;
  wire room = !write_valid_q || write_ready_i;
  wire last = 32'(index_q) + 32'd1 == 32'(bursts_of(bytes_q));
  wire moves = state_q == StArray && burst_valid_i && room;
  wire writes = moves || (room && state_q inside {StPad, StCold, StHot});
  wire absent = turn_q != turn_t'(PageArrayCount) && layout_i.bytes[Order[turn_q]] == '0;
  wire array_ends = (state_q == StNext && absent) || (moves && last);
  wire [31:0] pad_offset = 32'(bursts_of(payload_end_q)) << $clog2(BurstBytes);
  wire pad_ends = offset_q + 32'(BurstBytes) == layout_i.total_bytes;

  assign array_o = array_q;
  assign index_o = index_q;
  assign wants_o = state_q == StArray;
  assign burst_taken_o = moves;
  assign write_valid_o = write_valid_q;
  assign write_o = write_q;

  always_ff @(posedge clk_i) begin
    if (writes) begin
      write_q <= '{address: address_i + 64'(offset_q), strobes: '1, data: burst_i};
      if (state_q == StPad) write_q.data <= '0;
      if (state_q == StCold) begin
        write_q.address <= address_i + 64'(BurstBytes);
        write_q.data <= cold;
      end
      if (state_q == StHot) begin
        write_q.address <= address_i;
        write_q.strobes <= '1 << WithheldBytes;
        write_q.data <= hot;
      end
    end
  end

  // ---- Checksums ----
  logic        sums, sum_first, sum_last, sum_valid;
  logic [6:0]  sum_bytes;
  burst_t      sum_data;
  logic [31:0] sum;
  sum_index_t  sum_of, sum_of_late;
  wire [6:0]   tail_bytes = bytes_q[5:0] == '0 ? 7'(BurstBytes) : 7'(bytes_q[5:0]);

  always_comb begin
    sums = moves;
    sum_first = index_q == '0;
    sum_last = last;
    sum_bytes = last ? tail_bytes : 7'(BurstBytes);
    sum_data = burst_i;
    sum_of = sum_index_t'(array_q);
    if (state_q inside {StHotSum, StColdSum}) begin
      sums = 1'b1;
      sum_first = 1'b1;
      sum_last = 1'b1;
      sum_bytes = 7'(CheckedBytes);
      sum_data = state_q == StHotSum ? hot : cold;
      sum_of = state_q == StHotSum ? HotSum : ColdSum;
    end
  end

  nkv_crc32c u_crc (
    .clk_i,
    .rst_ni,
    .valid_i(sums),
    .first_i(sum_first),
    .last_i (sum_last),
    .data_i (sum_data),
    .bytes_i(sum_bytes),
    .valid_o(sum_valid),
    .crc_o  (sum)
  );
  nkv_delay #(
    .Width(SumBits),
    .Cycles(CrcLatency)
  ) u_sum_of (
    .clk_i,
    .data_i(sum_of),
    .data_o(sum_of_late)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < Sums; i++) sum_q[i] <= '0;
    end else if (start_i) begin
      for (int unsigned i = 0; i < Sums; i++) sum_q[i] <= '0;
    end else if (sum_valid) begin
      sum_q[sum_of_late] <= sum;
    end
  end

  // ---- Order of things ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, turn_q, array_q, index_q, bytes_q, offset_q, payload_end_q} <= '0;
      {sums_due_q, write_valid_q, values_sent_o, keys_sent_o, done_o} <= '0;
    end else if (clear_i) begin
      {state_q, sums_due_q, write_valid_q, values_sent_o, keys_sent_o, done_o} <= '0;
    end else begin
      values_sent_o <= array_ends && turn_q == LastOfValues;
      keys_sent_o <= array_ends && turn_q == LastOfKeys;
      done_o <= 1'b0;
      if (room) write_valid_q <= writes;
      sums_due_q <= sums_due_q + 4'(sums && sum_last) - 4'(sum_valid);
      unique case (state_q)
        StIdle: begin
          turn_q <= '0;
          sums_due_q <= '0;
          payload_end_q <= payload_end(layout_i);
          if (start_i) state_q <= StNext;
        end
        StNext: begin
          index_q <= '0;
          if (turn_q == turn_t'(PageArrayCount)) begin
            offset_q <= pad_offset;
            state_q <= pad_offset == layout_i.total_bytes ? StSums : StPad;
          end else begin
            array_q <= Order[turn_q];
            bytes_q <= layout_i.bytes[Order[turn_q]];
            offset_q <= layout_i.offset[Order[turn_q]];
            if (absent) turn_q <= turn_q + 1'b1;
            else state_q <= StArray;
          end
        end
        StArray: begin
          if (moves) begin
            index_q <= index_q + 1'b1;
            offset_q <= offset_q + 32'(BurstBytes);
          end
          if (moves && last) begin
            turn_q <= turn_q + 1'b1;
            state_q <= StNext;
          end
        end
        StPad: begin
          if (room) offset_q <= offset_q + 32'(BurstBytes);
          if (room && pad_ends) state_q <= StSums;
        end
        StSums: if (sums_due_q == '0) state_q <= StHotSum;
        StHotSum: state_q <= StColdSum;
        StColdSum: state_q <= StHeaderSums;
        StHeaderSums: if (sums_due_q == '0) state_q <= StCold;
        StCold: if (room) state_q <= StHot;
        StHot: if (room) state_q <= StLeave;
        StLeave: begin
          if (room) begin
            state_q <= StIdle;
            done_o <= 1'b1;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

endmodule
