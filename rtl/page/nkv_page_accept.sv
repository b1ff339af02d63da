// Judges the header of each visited page in the order of the contract's statuses: is it there, are its
// checksums right, is it what its entry names and this tenant's, can it serve the command, and does
// all of it lie in the window. Headers come in the order of `pending`; a record follows each by thirteen
// cycles, the checksums' latency and two: all else is judged meanwhile, step by step. The next one is
// judged while a record waits.

`include "nkv_assert.svh"

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

  // What was verified before must be what is read now: the checksums that the header's halves had then, which
  // name its arrays' checksums, one combined with the other.
  input  logic         was_verified_i,
  output page_index_t  verified_page_o,
  input  logic [31:0]  verified_crc_i,  // Of `verified_page_o`, some cycles later.

  input  logic         beat_valid_i,  // Beats for SinkHeader.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output logic         record_valid_o,
  input  logic         record_ready_i,
  output page_record_t record_o
);

  localparam int unsigned CheckedBytes = 60;  // Each half of a header ends with its checksum.
  localparam logic [7:0] KnownFlags = 8'(1 << PageFlagKeyScales) | 8'(1 << PageFlagCodes);

  typedef enum logic [2:0] {
    StHot,     // Waits for the first half.
    StCold,    // Waits for the second.
    StSums,    // Waits for checksums.
    StJudge    // Until the record before it has been taken.
  } state_e;

  // Which of their parts two checksums differ in.
  typedef logic [3:0] differing_t;
  function automatic differing_t differing(logic [31:0] a, logic [31:0] b);
    automatic differing_t differs;
    for (int unsigned i = 0; i < 4; i++) differs[i] = a[8*i+:8] != b[8*i+:8];
    return differs;
  endfunction

  state_e       state_q;
  page_header_t header_q;
  logic         fault_q, poison_q;
  differing_t   hot_differs_q, cold_differs_q;
  logic         sums_due_q;  // A second checksum is still to come.
  logic         record_valid_q;
  wire judges = state_q == StJudge && (!record_valid_q || record_ready_i);

  // ---- Checksums of both halves ----
  wire take = beat_valid_i && beat_ready_o;
  logic        sum_valid, half_valid_q, half_is_cold_q;
  logic [31:0] sum;
  nkv_crc32c u_crc (
    .clk_i,
    .rst_ni,
    .valid_i(half_valid_q),
    .first_i(1'b1),
    .last_i (1'b1),
    .data_i (half_is_cold_q ? header_q[2*BurstBits-1:BurstBits] : header_q[BurstBits-1:0]),
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

  // Whether APPEND could have written such forms.
  function automatic logic is_key_form(row_form_e form, dtype_e dtype);
    return form == RowFormRaw || (form == RowFormDelta4 && dtype == DtypeBf16);
  endfunction
  function automatic logic is_value_form(row_form_e form, dtype_e dtype, logic any_values);
    unique case (form)
      RowFormRaw: return any_values;
      RowFormDelta4: return any_values && dtype == DtypeBf16;
      default: return form == RowFormNone;
    endcase
  endfunction

  wire page_shape_t shape = '{
      value_dim: header_q.value_dim,
      head_dim: header_q.head_dim,
      flags: header_q.flags,
      dtype: header_q.dtype,
      v_form: header_q.v_form,
      k_form: header_q.k_form
  };

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

  // ---- Steps while the checksums are made: what is wrong, where arrays lie, whether all of it fits ----
  // Then the end of the last array stands.
  localparam int unsigned LayoutSteps = $clog2(PageArrayCount) + 3;
  logic [LayoutSteps+2:0] step_q;
  logic        layout_done;
  logic [31:0] offset[PageArrayCount], bytes[PageArrayCount];
  logic [31:0] arrays_end;
  wire last_take = take && !beat_i.fault && state_q == StCold;

  nkv_page_layout u_layout (
    .clk_i,
    .rst_ni,
    .start_i (step_q[0]),
    .shape_i (shape),
    .done_o  (layout_done),
    .offset_o(offset),
    .bytes_o (bytes),
    .end_o   (arrays_end)
  );

  typedef struct packed {
    logic magic;
    logic version;
    logic tokens;
    logic flags;
    logic codec;
    logic dims;
    logic dtype;
    logic key_form;
    logic value_form;
    logic value_dim;    // Wider than the keys that it is of.
    logic exceptions;
    logic entry;        // The entry's exponents.
    logic tenant;
    logic reserved;
  } unknown_t;

  typedef struct packed {
    logic generation;
    logic state;
    logic head_dim;
    logic value_dim;
    logic raw_keys;
    logic stored;       // Values, where pages before had none, or the other way round.
    logic head_sizes;
    logic value_sizes;
    logic no_values;
    logic too_wide;
    logic coded;        // With codes that the command would have to make anew.
  } unlike_t;

  unknown_t    unknown_q;
  unlike_t     unlike_q;
  differing_t  changed_parts_q;
  logic        no_magic_q, compressed_q, overflows_q, header_outside_q, outside_q, changed_q;
  logic        stale_q, bad_q, unwanted_q, misfit_q;
  logic [31:0] total_bytes_q;
  logic signed [AddressBits:0] space_q;  // From the page's first byte to the window's last.
  status_e     early_q, late_q;          // What counts before the checksums, and behind them.
  wire [31:0] end_bytes = compressed_q ? header_q.payload_bytes : arrays_end;
  wire [31:0] round_bytes = 32'(PageGrainBytes - 1) + (compressed_q ? 32'(PageHeaderBytes) : 32'd0);
  wire [31:0] round_end = end_bytes + round_bytes;

  // Whether those are OK.
  logic    early_ok_q, late_ok_q;
  wire     differs = {hot_differs_q, cold_differs_q} != '0;
  wire     accepts = !fault_q && early_ok_q && late_ok_q && !differs;
  status_e early, late, status;
  always_comb begin
    early = StatusOk;
    if (header_outside_q) early = StatusAddressFault;
    else if (poison_q) early = StatusPoison;
    else if (no_magic_q) early = StatusStalePage;

    late = StatusOk;
    if (stale_q) late = StatusStalePage;
    else if (bad_q) late = StatusBadPage;
    else if (compressed_q && !demand_i.any_codec) late = StatusColdPage;
    else if (overflows_q || outside_q) late = StatusAddressFault;
    else if (unwanted_q) late = StatusBadPage;
    else if (misfit_q) late = StatusUnsupported;
    else if (changed_q) late = StatusStalePage;

    status = late_q;
    if (differs) status = StatusCorrupt;
    if (!early_ok_q) status = early_q;
    if (fault_q) status = StatusAddressFault;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) step_q <= '0;
    else if (clear_i) step_q <= '0;
    else step_q <= {step_q[LayoutSteps+1:0], last_take};
  end

  always_ff @(posedge clk_i) begin
    if (step_q[0]) begin
      no_magic_q <= header_q.magic == '0;
      compressed_q <= header_q.codec != CodecNone;
      overflows_q <= header_q.codec != CodecNone &&
          header_q.payload_bytes > 32'hffff_ff00 - 32'(PageHeaderBytes);
      space_q <= signed'({1'b0, domain_i.window_bytes}) -
          signed'({1'b0, address[AddressBits-1:0]});
      unknown_q <= '{
          magic: header_q.magic != PageMagic,
          version: header_q.version != PageVersion,
          tokens: header_q.tokens != 16'(PageTokens),
          flags: (header_q.flags & ~KnownFlags) != '0,
          codec: header_q.codec > CodecFp8,
          dims: !is_channel_count(header_q.head_dim) || header_q.head_dim == '0 ||
              !is_channel_count(header_q.value_dim),
          dtype: header_q.dtype > DtypeInt8 || header_q.dtype == DtypeFp32,
          key_form: !is_key_form(header_q.k_form, header_q.dtype),
          value_form: !is_value_form(header_q.v_form, header_q.dtype, header_q.value_dim != '0),
          value_dim: !stores_values && header_q.value_dim > header_q.head_dim,
          exceptions: header_q.k_exceptions > 8'(Exceptions) ||
              header_q.v_exceptions > 8'(Exceptions),
          entry: header_q.k_exponent != pending_entry_i.k_exponent ||
              header_q.v_exponent != pending_entry_i.v_exponent,
          tenant: header_q.tenant != domain_i.tenant,
          reserved: {header_q.reserved, header_q.reserved2, header_q.reserved3} != '0
      };
      unlike_q <= '{
          generation: header_q.generation != pending_entry_i.generation,
          state: header_q.state != PageStateClosed,
          head_dim: demand_i.keys && header_q.head_dim != demand_i.head_dim,
          value_dim: demand_i.values && header_q.value_dim != demand_i.value_dim,
          raw_keys: demand_i.raw_keys && header_q.k_form != RowFormRaw,
          stored: demand_i.values && any_before_q && stores_values != stores_values_q,
          head_sizes: demand_i.alike && any_before_q &&
              {sizes.dtype, sizes.head_dim} != {first_sizes_q.dtype, first_sizes_q.head_dim},
          value_sizes: demand_i.alike && any_before_q &&
              sizes.value_dim != first_sizes_q.value_dim,
          no_values: demand_i.any_values && header_q.value_dim == '0,
          too_wide: demand_i.alike &&
              (header_q.head_dim > 16'(Channels) || header_q.value_dim > 16'(Channels)),
          coded: demand_i.no_codes && header_q.flags[PageFlagCodes]
      };
    end
    if (step_q[1]) begin
      header_outside_q <= space_q < signed'((AddressBits + 1)'(PageHeaderBytes));
      stale_q <= unlike_q.generation || unlike_q.state;
      bad_q <= unknown_q != '0;
      unwanted_q <= {unlike_q.head_dim, unlike_q.value_dim, unlike_q.raw_keys, unlike_q.stored,
                     unlike_q.head_sizes, unlike_q.value_sizes, unlike_q.no_values} != '0;
      misfit_q <= unlike_q.too_wide || unlike_q.coded;
    end
    if (step_q[2]) begin
      early_q <= early;
      early_ok_q <= early == StatusOk;
    end
    if (step_q[LayoutSteps]) begin
      total_bytes_q <= round_end & ~32'(PageGrainBytes - 1);
      changed_parts_q <= differing(header_q.crc_hot ^ header_q.crc_cold, verified_crc_i);
    end
    if (step_q[LayoutSteps+1]) begin
      changed_q <= was_verified_i && changed_parts_q != '0;
      outside_q <= space_q < signed'((AddressBits + 1)'(total_bytes_q));
    end
    if (step_q[LayoutSteps+2]) begin
      late_q <= late;
      late_ok_q <= late == StatusOk;
    end
  end

  assign verified_page_o = pending_visit_i.page;
  page_record_t record_q;
  assign record_o = record_q;
  assign record_valid_o = record_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StHot;
      fault_q <= 1'b0;
      poison_q <= 1'b0;
      half_valid_q <= 1'b0;
      half_is_cold_q <= 1'b0;
      hot_differs_q <= '0;
      cold_differs_q <= '0;
      sums_due_q <= 1'b0;
      record_valid_q <= 1'b0;
      any_before_q <= 1'b0;
      stores_values_q <= 1'b0;
      first_sizes_q <= '0;
    end else if (clear_i) begin
      state_q <= StHot;
      record_valid_q <= 1'b0;
      any_before_q <= 1'b0;
      half_valid_q <= 1'b0;
    end else begin
      half_valid_q <= take && !beat_i.fault;
      half_is_cold_q <= state_q == StCold;
      if (judges) record_valid_q <= 1'b1;
      else if (record_ready_i) record_valid_q <= 1'b0;
      if (sum_valid) begin
        sums_due_q <= 1'b0;
        if (sums_due_q) hot_differs_q <= differing(sum, header_q.crc_hot);
        else cold_differs_q <= differing(sum, header_q.crc_cold);
      end
      unique case (state_q)
        StHot: begin
          sums_due_q <= 1'b1;
          if (take) begin
            fault_q <= beat_i.fault;
            poison_q <= beat_i.poison;
            state_q <= beat_i.fault ? StJudge : StCold;
          end
        end
        StCold: begin
          if (take) begin
            poison_q <= poison_q || beat_i.poison;
            state_q <= StSums;
          end
        end
        StSums: if (sum_valid && !sums_due_q) state_q <= StJudge;
        StJudge: begin
          if (judges) begin
            state_q <= StHot;
            if (accepts) begin
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
    if (take && state_q == StHot) header_q[BurstBits-1:0] <= beat_i.data;
    if (take && state_q == StCold) header_q[2*BurstBits-1:BurstBits] <= beat_i.data;
    if (judges) begin
      record_q.visit <= pending_visit_i;
      record_q.verdict <= '{status: status, detail: 64'(index)};
      record_q.address <= address;
      record_q.header <= header_q;
      record_q.total_bytes <= total_bytes_q;
      for (int unsigned i = 0; i < PageArrayCount; i++) begin
        record_q.offset[i] <= offset[i];
        record_q.bytes[i] <= bytes[i];
      end
    end
  end

  wire unused_domain = ^domain_i.window_base;
  wire unused_done = layout_done;
  wire unused_beat = ^{beat_i.first, beat_i.last, beat_i.tag};

  `NKV_ASSERT_STAYS(RecordStays_A, record_valid_o, record_ready_i, record_o, clear_i)

endmodule
