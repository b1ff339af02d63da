// Judges the ranges of a command against the window, one a cycle, in the order in which their faults
// count. A command whose fields are wrong may be judged in any way. READ's page list and result, and
// GATHER's, are judged when it is known how long they are.

module nkv_command_ranges
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_command_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         start_i,    // Command and window stand from now on.
  input  address_t     window_i,
  input  logic [511:0] command_i,
  output logic         busy_o,     // From the next cycle on, if there is a range at all.
  output logic         fault_o,    // A range does not lie in the window:
  output logic [63:0]  address_o   // the first one, from here on.
);

  if (4 * Rows >= BurstBytes) $error("A number per row does not fit into a burst");

  typedef enum logic [3:0] {
    RangeNone,
    RangeSource,       // Of a command on pages,
    RangeDestination,
    RangeSizes,
    RangeKeys,         // of APPEND,
    RangeValues,
    RangePages,
    RangeIds,          // of GATHER,
    RangeQuery,        // of TOPK and ATTEND.
    RangeList,
    RangeWeights,
    RangeRanks,
    RangeOutput
  } range_e;

  // Units that lie one after the other. Either what is left behind them counts to the byte, or they end
  // with their burst, may come twice, and a rest follows.
  typedef struct packed {
    logic [63:0] address;
    logic        in_bursts;
    logic        twice;
    logic [5:0]  rest_bytes;
  } span_t;
  // Of a list's tokens, one fewer than there may be; or of anything in 16 bits.
  localparam int unsigned UnitBits = ListTokensLog2 > 16 ? ListTokensLog2 : 16;
  typedef logic [UnitBits-1:0] units_t;
  typedef struct packed {
    units_t      units;
    logic [31:0] unit_bytes;
    logic [9:0]  more_bytes;
  } product_t;

  // Of several layouts, a field each.
  // verilator lint_off UNUSEDSIGNAL
  wire pages_command_t  pages = pages_command_t'(command_i);
  wire append_command_t append = append_command_t'(command_i);
  wire gather_command_t gather = gather_command_t'(command_i);
  wire topk_command_t   topk = topk_command_t'(command_i);
  wire attend_command_t attend = attend_command_t'(command_i);
  // verilator lint_on UNUSEDSIGNAL

  // ---- Which ranges there are, one after the other ----
  range_e turn_q, next;
  logic   copies_q, transcodes_q, has_values_q, attends_q, indexes_q;
  always_comb begin
    next = RangeNone;
    if (start_i) begin
      unique case (kind_of(opcode_e'(command_i[7:0])))
        KindPages: next = RangeSource;
        KindAppend: next = RangeKeys;
        KindGather: next = RangeIds;
        KindTopk, KindAttend: next = RangeQuery;
        default: next = RangeNone;
      endcase
    end else begin
      unique case (turn_q)
        RangeSource: if (copies_q) next = RangeDestination;
        RangeDestination: if (transcodes_q) next = RangeSizes;
        RangeKeys: next = has_values_q ? RangeValues : RangePages;
        RangeValues: next = RangePages;
        RangeQuery: next = RangeList;
        RangeList: next = attends_q ? RangeOutput : indexes_q ? RangeWeights : RangeRanks;
        RangeWeights: next = RangeRanks;
        default: next = RangeNone;
      endcase
    end
  end

  // ---- What their sizes are made of ----
  // Bytes of an element as a power of two; fields have been judged elsewhere.
  function automatic logic [1:0] element_log2(dtype_e dtype);
    unique case (dtype)
      DtypeFp32: return 2'd2;
      DtypeBf16, DtypeFp16: return 2'd1;
      default: return 2'd0;
    endcase
  endfunction

  units_t      tokens_less_q;
  logic [PageIndexBits:0] entries_q;
  logic [9:0]  key_row_q, value_row_q, query_row_q, gains_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      copies_q <= pages.opcode inside {OpcodeCopy, OpcodeTranscode};
      transcodes_q <= pages.opcode == OpcodeTranscode;
      has_values_q <= append.v_form != RowFormNone;
      attends_q <= attend.opcode == OpcodeAttend;
      indexes_q <= topk.mode == SelectIndexer;
      tokens_less_q <= append.tokens[UnitBits-1:0] - 1'b1;
      entries_q <= (PageIndexBits + 1)'((topk.tokens + 32'(PageTokens - 1)) >> $clog2(PageTokens));
      // Rows are of whole 16 elements.
      key_row_q <= (10'(append.head_dim) << element_log2(append.dtype)) |
          {7'b0, append.flags[AppendFlagKeyScales], 2'b0};
      gains_q <= append.flags[AppendFlagCodes] ? 10'(append.head_dim) : '0;
      value_row_q <= 10'(append.value_dim) << element_log2(append.dtype);
      query_row_q <= 10'(topk.head_dim) << element_log2(topk.query_dtype);
    end
  end

  wire [15:0] rows = 16'(topk.group);  // ATTEND's stands in the same place.
  wire [15:0] ranked_rows = indexes_q ? 16'd1 : rows;
  span_t    span;
  product_t product;
  always_comb begin
    span = '0;
    product = '0;
    unique case (turn_q)
      RangeSource: begin
        span.address = pages.source;
        product.units = units_t'(PageEntryBytes);
        product.unit_bytes = pages.count;
      end
      RangeDestination: begin
        span.address = pages.destination;
        product.units = units_t'(PageEntryBytes);
        product.unit_bytes = pages.count;
      end
      RangeSizes: begin
        span.address = pages.result;
        product.units = units_t'(4);
        product.unit_bytes = pages.count;
      end
      RangeKeys: begin
        span.address = append.keys;
        product.units = tokens_less_q;
        product.unit_bytes = append.key_stride;
        product.more_bytes = key_row_q;
      end
      RangeValues: begin
        span.address = append.values;
        product.units = tokens_less_q;
        product.unit_bytes = append.value_stride;
        product.more_bytes = value_row_q;
      end
      RangePages: begin
        span.address = append.page_list;  // Entries, and gains behind them.
        product.units = units_t'(PageEntryBytes);
        product.unit_bytes = append.tokens / PageTokens;
        product.more_bytes = gains_q;
      end
      RangeIds: begin
        span.address = gather.ids;
        product.units = units_t'(4);
        product.unit_bytes = gather.count;
      end
      RangeQuery: begin
        span.address = topk.query;
        product.units = units_t'(rows);
        product.unit_bytes = 32'(query_row_q);
      end
      RangeList: begin
        span.address = topk.page_list;
        product.units = units_t'(PageEntryBytes);
        product.unit_bytes = 32'(entries_q);
      end
      RangeWeights: begin
        span.address = topk.weights;
        product.units = units_t'(rows);
        product.unit_bytes = 32'd4;
      end
      RangeRanks: begin
        // Ids and scores, then counts.
        span.address = topk.result;
        product.units = units_t'(ranked_rows);
        product.unit_bytes = {14'b0, topk.top_k, 2'b0};
        product.more_bytes = 10'(BurstBytes - 1);
        span.in_bursts = 1'b1;
        span.twice = 1'b1;
        span.rest_bytes = {ranked_rows[3:0], 2'b0};
      end
      RangeOutput: begin
        // Output rows, a burst of numbers, then numbers.
        span.address = attend.result;
        product.units = units_t'(rows);
        product.unit_bytes = attend.flags[AttendFlagOutputBf16] ? {15'b0, attend.value_dim, 1'b0}
            : {14'b0, attend.value_dim, 2'b0};
        product.more_bytes = 10'(2 * BurstBytes - 1);
        span.in_bursts = 1'b1;
        span.rest_bytes = {rows[3:0], 2'b0};
      end
      default: ;
    endcase
  end

  // ---- Sizes, in a cycle each: products, their sum, what the window leaves, whether it suffices ----
  // Any product, and what is added to it: (2^UnitBits - 1) (2^32 - 1) + 1023 at the most.
  localparam int unsigned SizeBits = UnitBits + 32;
  if (SizeBits > AddressBits) $error("A size of more bits than the window's would wrap");
  localparam int unsigned BurstLog2 = $clog2(BurstBytes);
  typedef logic [SizeBits-1:0] size_t;

  logic [3:0]  step_q;
  span_t       span_q, product_span_q, sum_span_q;
  product_t    product_q;
  logic [UnitBits+15:0] high_q;
  logic [UnitBits+16:0] low_q;
  size_t       sum_q;
  logic [63:0] left_address_q;
  logic        is_nothing_q;
  logic signed [AddressBits:0] left_q;  // Negative: more than there is.

  wire size_t bursts_size =
      {sum_q[SizeBits-2:BurstLog2], 1'b0, BurstLog2'(0)} >> !sum_span_q.twice;
  wire size_t size = sum_span_q.in_bursts ? bursts_size | size_t'(sum_span_q.rest_bytes) : sum_q;
  wire is_inside = left_address_q <= 64'(left_q[AddressBits-1:0]) && !left_q[AddressBits];

  assign busy_o = turn_q != RangeNone || step_q != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      turn_q <= RangeNone;
      step_q <= '0;
      fault_o <= 1'b0;
    end else if (start_i) begin
      turn_q <= next;
      step_q <= '0;
      fault_o <= 1'b0;
    end else if (busy_o) begin
      turn_q <= next;
      step_q <= {step_q[2:0], turn_q != RangeNone};
      if (step_q[3] && !is_inside && !is_nothing_q) fault_o <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (turn_q != RangeNone) begin
      span_q <= span;
      product_q <= product;
    end
    if (step_q[0]) begin
      low_q <= (UnitBits + 17)'(product_q.units * (UnitBits + 16)'(product_q.unit_bytes[15:0])) +
          (UnitBits + 17)'(product_q.more_bytes);
      high_q <= product_q.units * (UnitBits + 16)'(product_q.unit_bytes[31:16]);
      product_span_q <= span_q;
    end
    if (step_q[1]) begin
      sum_q <= (size_t'(high_q) << 16) + size_t'(low_q);
      sum_span_q <= product_span_q;
    end
    if (step_q[2]) begin
      left_q <= signed'({1'b0, window_i}) - signed'({1'b0, AddressBits'(size)});
      is_nothing_q <= sum_q == '0;
      left_address_q <= sum_span_q.address;
    end
    if (step_q[3] && !fault_o) address_o <= left_address_q;
  end

endmodule
