// Judges the header of each visited page in the order of the contract's statuses: is it there, are its
// checksums right, is it what its entry names and this tenant's, can it serve the command, and does
// all of it lie in the window. Headers come in the order of `pending`; a record follows each by about
// ten cycles (the checksums' latency and the layout's). The next one is judged while a record waits.

module nkv_page_accept
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,       // Before each command: what the first page was is forgotten.

  input  domain_t      domain_i,
  input  demand_t      demand_i,
  input  list_index_t  first_index_i, // Index in the command's list of the first page on chip.

  input  logic         pending_valid_i,
  output logic         pending_ready_o,
  input  visit_t       pending_visit_i,
  input  page_entry_t  pending_entry_i,

  // What was scanned must be what is read now: the checksum that the header's first half had then.
  input  logic         was_scanned_i,
  output page_index_t  scanned_page_o,
  input  logic [31:0]  scanned_crc_i,  // Of `scanned_page_o`, some cycles later.

  input  logic         beat_valid_i,  // Beats for SinkHeader.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output logic         record_valid_o,
  input  logic         record_ready_i,
  output page_record_t record_o
);

  localparam int unsigned CheckedBytes = 60;  // Each half of a header ends with its checksum.

  typedef enum logic [2:0] {
    StHot,     // Waits for the first half.
    StCold,    // Waits for the second.
    StSums,    // Waits for checksums.
    StLayout,
    StJudge    // Until the record before it has been taken.
  } state_e;

  state_e       state_q;
  page_header_t header_q;
  logic         fault_q, poison_q, hot_intact_q, cold_intact_q;
  logic         sums_due_q;  // A second checksum is still to come.
  logic         record_valid_q;
  wire judges = state_q == StJudge && (!record_valid_q || record_ready_i);

  // ---- Checksums of both halves ----
  wire take = beat_valid_i && beat_ready_o;
  logic        sum_valid;
  logic [31:0] sum;
  nkv_crc32c u_crc (
    .clk_i,
    .rst_ni,
    .valid_i(take && !beat_i.fault),
    .first_i(1'b1),
    .last_i (1'b1),
    .data_i (beat_i.data),
    .bytes_i(7'(CheckedBytes)),
    .valid_o(sum_valid),
    .crc_o  (sum)
  );

  assign beat_ready_o = state_q == StHot ? pending_valid_i : state_q == StCold;
  assign pending_ready_o = judges;

  // ---- What a header must say, whatever the command ----
  function automatic logic is_channel_count(logic [15:0] dim);
    return dim <= 16'(MaxHeadDim) && dim % 16'd16 == '0;
  endfunction

  // Whether APPEND could have written such a shape.
  // Which flags there are is judged elsewhere.
  // verilator lint_off UNUSEDSIGNAL
  function automatic logic is_possible(page_shape_t shape);
  // verilator lint_on UNUSEDSIGNAL
    automatic logic is_bf16 = shape.dtype == DtypeBf16;
    automatic logic key_form = shape.k_form == RowFormRaw ||
        (shape.k_form == RowFormDelta4 && is_bf16);
    automatic logic value_form;
    unique case (shape.v_form)
      RowFormRaw: value_form = shape.value_dim != '0;
      RowFormDelta4: value_form = is_bf16 && shape.value_dim != '0;
      RowFormNone: value_form = shape.value_dim <= shape.head_dim;
      default: value_form = 1'b0;
    endcase
    return shape.dtype <= DtypeInt8 && shape.dtype != DtypeFp32 && key_form && value_form &&
        is_channel_count(shape.head_dim) && shape.head_dim != '0 &&
        is_channel_count(shape.value_dim);
  endfunction

  wire page_shape_t shape = '{
      value_dim: header_q.value_dim,
      head_dim: header_q.head_dim,
      flags: header_q.flags,
      dtype: header_q.dtype,
      v_form: header_q.v_form,
      k_form: header_q.k_form
  };

  wire known_fields = header_q.magic == PageMagic && header_q.version == PageVersion &&
      header_q.tokens == 16'(PageTokens) && header_q.codec <= CodecFp8 &&
      (header_q.flags & ~PageFlagAll) == '0 && is_possible(shape) &&
      header_q.k_exceptions <= 8'(Exceptions) && header_q.v_exceptions <= 8'(Exceptions);

  // ---- Layout, one cycle after the header ----
  page_layout_t layout_q;
  logic [31:0]  compressed_bytes_q;
  wire [31:0]   total_bytes =
      header_q.codec == CodecNone ? layout_q.total_bytes : compressed_bytes_q;
  wire compressed_overflows = header_q.codec != CodecNone &&
      header_q.payload_bytes > 32'hffff_ff00 - 32'(PageHeaderBytes);

  wire [63:0] window_bytes = 64'(domain_i.window_bytes);
  wire [63:0] address = 64'(pending_entry_i.page) * 64'(PageGrainBytes);
  wire list_index_t index = first_index_i + list_index_t'(pending_visit_i.page);

  // ---- Values: all pages of a command store them, or none does ----
  logic any_before_q, stores_values_q;
  wire stores_values = header_q.v_form != RowFormNone;

  // ---- Sizes: those of the first page, which this build must be able to take ----
  typedef struct packed {
    dtype_e      dtype;
    logic [15:0] head_dim;
    logic [15:0] value_dim;
  } sizes_t;
  sizes_t first_sizes_q;
  wire sizes_t sizes = '{
      dtype: header_q.dtype,
      head_dim: header_q.head_dim,
      value_dim: header_q.value_dim
  };

  status_e status;
  always_comb begin
    status = StatusOk;
    if (fault_q || !span_inside(window_bytes, address, 64'(PageHeaderBytes))) begin
      status = StatusAddressFault;
    end else if (poison_q) begin
      status = StatusPoison;
    end else if (header_q.magic == '0) begin
      status = StatusStalePage;
    end else if (!hot_intact_q || !cold_intact_q) begin
      status = StatusCorrupt;
    end else if (header_q.generation != pending_entry_i.generation ||
                 header_q.state != PageStateClosed) begin
      status = StatusStalePage;
    end else if (header_q.tenant != domain_i.tenant || !known_fields ||
                 header_q.k_exponent != pending_entry_i.k_exponent ||
                 header_q.v_exponent != pending_entry_i.v_exponent ||
                 header_q.reserved != '0) begin
      status = StatusBadPage;
    end else if (header_q.codec != CodecNone && !demand_i.any_codec) begin
      status = StatusColdPage;
    end else if (compressed_overflows ||
                 !span_inside(window_bytes, address, 64'(total_bytes))) begin
      status = StatusAddressFault;
    end else if ((demand_i.keys && header_q.head_dim != demand_i.head_dim) ||
                 (demand_i.values && header_q.value_dim != demand_i.value_dim) ||
                 (demand_i.raw_keys && header_q.k_form != RowFormRaw) ||
                 (demand_i.values && any_before_q && stores_values != stores_values_q)) begin
      status = StatusBadPage;
    end else if ((demand_i.alike && any_before_q && sizes != first_sizes_q) ||
                 (demand_i.any_values && header_q.value_dim == '0)) begin
      status = StatusBadPage;
    end else if (demand_i.alike &&
                 (header_q.head_dim > 16'(Channels) || header_q.value_dim > 16'(Channels))) begin
      status = StatusUnsupported;
    end else if (was_scanned_i && header_q.crc_hot != scanned_crc_i) begin
      status = StatusStalePage;
    end
  end

  assign scanned_page_o = pending_visit_i.page;
  page_record_t record_q;
  assign record_o = record_q;
  assign record_valid_o = record_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StHot;
      fault_q <= 1'b0;
      poison_q <= 1'b0;
      hot_intact_q <= 1'b0;
      cold_intact_q <= 1'b0;
      sums_due_q <= 1'b0;
      record_valid_q <= 1'b0;
      any_before_q <= 1'b0;
      stores_values_q <= 1'b0;
      first_sizes_q <= '0;
    end else if (clear_i) begin
      state_q <= StHot;
      record_valid_q <= 1'b0;
      any_before_q <= 1'b0;
    end else begin
      if (judges) record_valid_q <= 1'b1;
      else if (record_ready_i) record_valid_q <= 1'b0;
      if (sum_valid) begin
        // The first half's sum is in the shift between the two beats, at the latest.
        sums_due_q <= 1'b0;
        if (sums_due_q) hot_intact_q <= sum == header_q.crc_hot;
        else if (demand_i.whole_header) cold_intact_q <= sum == header_q.crc_cold;
        else hot_intact_q <= sum == header_q.crc_hot;
      end
      unique case (state_q)
        StHot: begin
          sums_due_q <= demand_i.whole_header;
          cold_intact_q <= !demand_i.whole_header;
          if (take) begin
            fault_q <= beat_i.fault;
            poison_q <= beat_i.poison;
            if (beat_i.fault) state_q <= StJudge;
            else state_q <= demand_i.whole_header ? StCold : StSums;
          end
        end
        StCold: begin
          if (take) begin
            poison_q <= poison_q || beat_i.poison;
            state_q <= StSums;
          end
        end
        StSums: if (sum_valid && !sums_due_q) state_q <= StLayout;
        StLayout: state_q <= StJudge;
        StJudge: begin
          if (judges) begin
            state_q <= StHot;
            if (status == StatusOk) begin
              any_before_q <= 1'b1;
              if (!any_before_q) begin
                stores_values_q <= stores_values;
                first_sizes_q <= sizes;
              end
            end
          end
        end
        default: state_q <= StHot;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (take && state_q == StHot) header_q <= page_header_t'({BurstBits'(0), beat_i.data});
    if (take && state_q == StCold) header_q[2*BurstBits-1:BurstBits] <= beat_i.data;
    if (state_q == StLayout) begin
      layout_q <= page_layout(shape);
      compressed_bytes_q <= compressed_page_bytes(header_q.payload_bytes);
    end
    if (judges) begin
      record_q <= '{
          visit: pending_visit_i,
          verdict: '{status: status, detail: 64'(index)},
          address: address,
          header: header_q,
          total_bytes: total_bytes,
          offset: layout_q.offset,
          bytes: layout_q.bytes
      };
    end
  end

  wire unused_domain = ^domain_i.window_base;
  wire unused_beat = ^{beat_i.first, beat_i.last, beat_i.tag};

endmodule
