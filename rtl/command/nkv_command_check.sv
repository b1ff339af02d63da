// Judges the fields and addresses of a command before anything is read: the contract's own checkers,
// this build's limits, then every range against the window. The verdict follows the command by one
// cycle. What it does not judge: page entries, pages, and the query's numbers.

module nkv_command_check
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_ingest_pkg::*;
(
  input  logic            clk_i,
  input  logic            valid_i,
  input  engine_command_t command_i,
  output verdict_t        verdict_o
);

  // With several engines, Verilator takes functions' variables to hide signals of nkv_engine.
  // verilator lint_off VARHIDDEN
  function automatic verdict_t bad_field(logic [63:0] offset_bytes);
    return '{status: StatusBadField, detail: offset_bytes};
  endfunction

  function automatic verdict_t unsupported();
    return '{status: StatusUnsupported, detail: '0};
  endfunction

  // Whether `bytes` from `address` on lie in the window; no bytes always do.
  function automatic verdict_t in_window(address_t window, logic [63:0] address, logic [63:0] bytes);
    if (bytes == '0 || span_inside(64'(window), address, bytes)) return VerdictOk;
    return '{status: StatusAddressFault, detail: address};
  endfunction

  function automatic logic [63:0] burst_aligned(logic [63:0] bytes);
    return (bytes + 64'(BurstBytes) - 64'd1) & ~(64'(BurstBytes) - 64'd1);
  endfunction

  localparam logic [31:0] One = 32'h3F80_0000;

  // Of a binary32 number.
  function automatic logic is_normal(logic [7:0] exponent);
    return exponent != '0 && exponent != '1;
  endfunction

  function automatic verdict_t check_nop(logic [511:0] command);
    for (int unsigned i = 1; i < CommandBytes; i++) begin
      if (i != 2 && i != 3 && command[8*i+:8] != '0) return bad_field(64'(i));
    end
    return VerdictOk;
  endfunction

  function automatic verdict_t check_pages(address_t window, pages_command_t command);
    automatic check_t fields = check_pages_command(command);
    automatic logic [63:0] list_bytes = 64'(command.count) * PageEntryBytes;
    automatic logic transcodes = command.opcode == OpcodeTranscode;
    automatic logic copies = command.opcode == OpcodeCopy || transcodes;
    automatic verdict_t verdict;
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (transcodes && command.slot_bytes == '0) return bad_field(64'd12);
    if (copies && command.count > 32'(ListPages)) return bad_field(64'd8);
    if (transcodes && !BuiltCodecs[command.codec[3:0]]) return unsupported();
    verdict = in_window(window, command.source, list_bytes);
    if (verdict.status != StatusOk || !copies) return verdict;
    verdict = in_window(window, command.destination, list_bytes);
    if (verdict.status != StatusOk || !transcodes) return verdict;
    return in_window(window, command.result, 64'(command.count) * 64'd4);
  endfunction

  // Limits last: what they refuse, others may take.
  function automatic verdict_t check_append(address_t window, append_command_t command);
    automatic check_t fields = check_append_command(command);
    automatic logic has_values = command.v_form != RowFormNone;
    automatic logic is_bf16 = command.dtype == DtypeBf16;
    automatic logic [31:0] key_row = source_row_bytes(
        command.dtype, command.head_dim, command.flags[AppendFlagKeyScales]);
    automatic logic [31:0] value_row = source_row_bytes(command.dtype, command.value_dim, 1'b0);
    automatic verdict_t verdict;
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (has_values ? command.value_dim == '0 : command.value_dim > command.head_dim) begin
      return bad_field(64'd6);
    end
    if (command.dtype == DtypeFp32) return bad_field(64'd60);
    if (command.k_form == RowFormNone || (command.k_form == RowFormDelta4 && !is_bf16)) begin
      return bad_field(64'd61);
    end
    if (command.v_form == RowFormDelta4 && !is_bf16) return bad_field(64'd62);
    if (command.head_dim > 16'(Channels)) return bad_field(64'd4);
    if (command.value_dim > 16'(Channels)) return bad_field(64'd6);
    if (command.tokens > ListPages * PageTokens) return bad_field(64'd8);
    verdict = in_window(window, command.keys,
                        source_span(command.tokens, command.key_stride, key_row));
    if (verdict.status != StatusOk) return verdict;
    if (has_values) begin
      verdict = in_window(window, command.values,
                          source_span(command.tokens, command.value_stride, value_row));
      if (verdict.status != StatusOk) return verdict;
    end
    return in_window(window, command.page_list,
                     64'(command.tokens) / 64'(PageTokens) * PageEntryBytes);
  endfunction

  // READ's page list and result, and GATHER's, are judged when it is known how long they are.
  function automatic verdict_t check_read(read_command_t command);
    automatic check_t fields = check_read_command(command);
    automatic logic [63:0] tokens = 64'(command.first) + 64'(command.count);
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (command.planes != '0 && command.tensor != TensorKeys) return bad_field(64'd5);
    if (tokens > ListPages * PageTokens) return bad_field(64'd12);
    if (command.planes != '0) return unsupported();
    return VerdictOk;
  endfunction

  function automatic verdict_t check_gather(address_t window, gather_command_t command);
    automatic check_t fields = check_gather_command(command);
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (command.tokens > ListPages * PageTokens) return bad_field(64'd8);
    return in_window(window, command.ids, 64'(command.count) * 4);
  endfunction

  // Query and page list, in this order.
  function automatic verdict_t check_scan(address_t window, logic [63:0] query, logic [63:0] list,
                                          logic [7:0] group, logic [15:0] head_dim, dtype_e dtype,
                                          logic [31:0] tokens);
    automatic logic [63:0] query_bytes =
        64'(group) * 64'(head_dim) * 64'(element_bytes(dtype));
    automatic logic [63:0] entries = (64'(tokens) + 64'(PageTokens) - 64'd1) / 64'(PageTokens);
    automatic verdict_t verdict = in_window(window, query, query_bytes);
    if (verdict.status != StatusOk) return verdict;
    return in_window(window, list, entries * PageEntryBytes);
  endfunction

  function automatic verdict_t check_topk(address_t window, topk_command_t command);
    automatic check_t fields = check_topk_command(command);
    automatic logic indexer = command.mode == SelectIndexer;
    automatic logic [7:0] rows = indexer ? 8'd1 : command.group;
    automatic logic [63:0] rows_bytes = burst_aligned(64'(rows) * command.top_k * 4);
    automatic verdict_t verdict;
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (command.head_dim > 16'(Channels)) return bad_field(64'd4);
    if (command.tokens > ListPages * PageTokens) return bad_field(64'd8);
    if (command.group > 8'(Rows)) return bad_field(64'd53);
    if (!is_normal(command.scale[30:23])) return bad_field(64'd40);
    if (!(command.query_dtype inside {DtypeBf16, DtypeFp16, DtypeFp32}) &&
        !(indexer && command.query_dtype == DtypeFp8E4m3)) begin
      return bad_field(64'd54);
    end
    verdict = check_scan(window, command.query, command.page_list, command.group,
                         command.head_dim, command.query_dtype, command.tokens);
    if (verdict.status != StatusOk) return verdict;
    if (indexer) verdict = in_window(window, command.weights, 64'(command.group) * 4);
    if (verdict.status != StatusOk) return verdict;
    return in_window(window, command.result, 2 * rows_bytes + 64'(rows) * 4);
  endfunction

  function automatic verdict_t check_attend(address_t window, attend_command_t command);
    automatic check_t fields = check_attend_command(command);
    automatic logic [63:0] element =
        command.flags[AttendFlagOutputBf16] ? 64'd2 : 64'd4;
    automatic logic [63:0] output_bytes = 64'(command.group) * command.value_dim * element;
    automatic logic [63:0] numbers_bytes = 64'(command.group) * 4;
    automatic verdict_t verdict;
    if (fields.status != StatusOk) return '{status: fields.status, detail: fields.detail};
    if (command.head_dim > 16'(Channels)) return bad_field(64'd4);
    if (command.value_dim > 16'(Channels)) return bad_field(64'd6);
    if (command.tokens > ListPages * PageTokens) return bad_field(64'd8);
    if (command.group > 8'(Rows)) return bad_field(64'd53);
    if (!is_normal(command.scale[30:23])) return bad_field(64'd40);
    if (command.soft_cap[30:23] == '1 || (command.soft_cap[31] && command.soft_cap[30:0] != '0)) begin
      return bad_field(64'd44);
    end
    // A tail's logits, 32 a cycle, are not capped.
    if (command.mode != AttendModeDense && command.soft_cap[30:23] != '0) return unsupported();
    if (!(command.query_dtype inside {DtypeBf16, DtypeFp16, DtypeFp32})) return bad_field(64'd54);
    if (command.mode == AttendModeBounded && (command.error == '0 || command.error > One)) begin
      return bad_field(64'd56);
    end
    verdict = check_scan(window, command.query, command.page_list, command.group,
                         command.head_dim, command.query_dtype, command.tokens);
    if (verdict.status != StatusOk) return verdict;
    return in_window(window, command.result,
                     burst_aligned(output_bytes) + burst_aligned(numbers_bytes) + numbers_bytes);
  endfunction
  // verilator lint_on VARHIDDEN

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      unique case (opcode_e'(command_i.command[7:0]))
        OpcodeNop: verdict_o <= check_nop(command_i.command);
        OpcodeScrub, OpcodeErase, OpcodeCopy, OpcodeTranscode:
        verdict_o <= check_pages(command_i.domain.window_bytes, pages_command_t'(command_i.command));
        OpcodeAppend:
        verdict_o <= check_append(command_i.domain.window_bytes, append_command_t'(command_i.command));
        OpcodeRead: verdict_o <= check_read(read_command_t'(command_i.command));
        OpcodeGather:
        verdict_o <= check_gather(command_i.domain.window_bytes, gather_command_t'(command_i.command));
        OpcodeTopk: verdict_o <= check_topk(command_i.domain.window_bytes, topk_command_t'(command_i.command));
        OpcodeAttend:
        verdict_o <= check_attend(command_i.domain.window_bytes, attend_command_t'(command_i.command));
        default: verdict_o <= '{status: StatusBadOpcode, detail: '0};
      endcase
    end
  end

  wire unused_domain = ^{command_i.domain.window_base, command_i.domain.tenant};

endmodule
