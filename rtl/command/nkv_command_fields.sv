// Judges the fields of a command: the contract's own rules, by their places, then this build's limits,
// which others may not have. All rules are looked at side by side, and the first that is broken is
// found behind a register.

module nkv_command_fields
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_command_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,    // What was begun is not wanted any more.
  input  logic         start_i,    // The command stands from now on,
  input  kind_e        kind_i,     // its kind from the next cycle on.
  input  logic [511:0] command_i,
  output logic         done_o,     // Five cycles later, for one:
  output verdict_t     verdict_o   // stands until the next start.
);

  // ---- This build's limits, in the order in which they count ----
  typedef enum logic [3:0] {
    LimitSlotBytes,
    LimitReadPlanes,
    LimitValues,       // Values as the forms want them.
    LimitDtype,
    LimitKeyForm,
    LimitValueForm,
    LimitHeadDim,
    LimitValueDim,
    LimitTokens,       // Or pages.
    LimitReadEnd,
    LimitGroup,
    LimitScale,
    LimitSoftCap,
    LimitUnsupported,
    LimitQueryDtype
  } limit_e;
  localparam int unsigned Limits = 15;
  typedef logic [Limits-1:0] limits_t;

  // The byte offset that each of them tells, and at last what a command tells that may run.
  localparam logic [5:0] Places[Limits+1] = '{
      6'd12, 6'd5, 6'd6, 6'd60, 6'd61, 6'd62, 6'd4, 6'd6, 6'd8, 6'd12, 6'd53, 6'd40, 6'd44, 6'd0,
      6'd54, 6'd0
  };

  // With several engines, Verilator takes functions' variables to hide signals of nkv_engine.
  // verilator lint_off VARHIDDEN
  // Of a command, limits look at some fields.
  // verilator lint_off UNUSEDSIGNAL

  // Of a binary32 number.
  function automatic logic is_normal(logic [7:0] exponent);
    return exponent != '0 && exponent != '1;
  endfunction

  function automatic logic is_query_dtype(dtype_e dtype);
    return dtype inside {DtypeBf16, DtypeFp16, DtypeFp32};
  endfunction

  function automatic logic is_too_long(logic [31:0] tokens);
    return tokens[31:ListTokensLog2+1] != '0 ||
        (tokens[ListTokensLog2] && tokens[ListTokensLog2-1:0] != '0);
  endfunction

  function automatic limits_t beyond_pages(pages_command_t command);
    automatic logic transcodes = command.opcode == OpcodeTranscode;
    automatic limits_t beyond = '0;
    beyond[LimitSlotBytes] = transcodes && command.slot_bytes == '0;
    beyond[LimitTokens] =
        (transcodes || command.opcode == OpcodeCopy) && command.count > 32'(ListPages);
    beyond[LimitUnsupported] = transcodes && !BuiltCodecs[command.codec[3:0]];
    return beyond;
  endfunction

  function automatic limits_t beyond_append(append_command_t command);
    automatic logic is_bf16 = command.dtype == DtypeBf16;
    automatic limits_t beyond = '0;
    beyond[LimitValues] = command.v_form != RowFormNone ? command.value_dim == '0
        : command.value_dim > command.head_dim;
    beyond[LimitDtype] = command.dtype == DtypeFp32;
    beyond[LimitKeyForm] = command.k_form == RowFormNone ||
        (command.k_form == RowFormDelta4 && !is_bf16);
    beyond[LimitValueForm] = command.v_form == RowFormDelta4 && !is_bf16;
    beyond[LimitHeadDim] = command.head_dim > 16'(Channels);
    beyond[LimitValueDim] = command.value_dim > 16'(Channels);
    beyond[LimitTokens] = is_too_long(command.tokens);
    return beyond;
  endfunction

  function automatic limits_t beyond_read(read_command_t command);
    automatic limits_t beyond = '0;
    beyond[LimitReadPlanes] = command.flags[ReadFlagCodes] != (command.planes != '0);
    beyond[LimitUnsupported] = command.flags[ReadFlagCodes];
    // Each is at most MaxTokens.
    beyond[LimitReadEnd] = is_too_long(32'(command.first[21:0]) + 32'(command.count[21:0]));
    return beyond;
  endfunction

  function automatic limits_t beyond_gather(gather_command_t command);
    automatic limits_t beyond = '0;
    beyond[LimitTokens] = is_too_long(command.tokens);
    return beyond;
  endfunction

  function automatic limits_t beyond_topk(topk_command_t command);
    automatic limits_t beyond = '0;
    beyond[LimitHeadDim] = command.head_dim > 16'(Channels);
    beyond[LimitTokens] = is_too_long(command.tokens);
    beyond[LimitGroup] = command.group > 8'(Rows);
    beyond[LimitScale] = !is_normal(command.scale[30:23]);
    beyond[LimitUnsupported] = !(command.mode inside {SelectFull, SelectIndexer});
    beyond[LimitQueryDtype] = !is_query_dtype(command.query_dtype) &&
        !(command.mode == SelectIndexer && command.query_dtype == DtypeFp8E4m3);
    return beyond;
  endfunction

  function automatic limits_t beyond_attend(attend_command_t command);
    automatic limits_t beyond = '0;
    beyond[LimitHeadDim] = command.head_dim > 16'(Channels);
    beyond[LimitValueDim] = command.value_dim > 16'(Channels);
    beyond[LimitTokens] = is_too_long(command.tokens);
    beyond[LimitGroup] = command.group > 8'(Rows);
    beyond[LimitScale] = !is_normal(command.scale[30:23]);
    beyond[LimitSoftCap] = command.soft_cap[30:23] == '1 ||
        (command.soft_cap[31] && command.soft_cap[30:0] != '0);
    beyond[LimitUnsupported] = command.mode != AttendModeDense;
    beyond[LimitQueryDtype] = !is_query_dtype(command.query_dtype);
    return beyond;
  endfunction

  function automatic fields_t broken_nop(logic [511:0] command);
    automatic fields_t broken = '0;
    for (int unsigned i = 1; i < CommandBytes; i++) begin
      broken[i] = i != 2 && i != 3 && command[8*i+:8] != '0;
    end
    return broken;
  endfunction
  // verilator lint_on UNUSEDSIGNAL
  // verilator lint_on VARHIDDEN

  // ---- The broken ones of each kind, the first of this kind, what that says ----
  // Behind them one that is always broken: that the command may run. Byte 0, the opcode, has made the
  // kind.
  localparam int unsigned RuleCount = CommandBytes + Limits + 1;
  localparam int unsigned RuleUnsupported = CommandBytes + 32'(LimitUnsupported);
  typedef logic [RuleCount-1:0] rules_t;
  logic [3:0] step_q;
  rules_t rules_q[8];  // By kind.
  rules_t of_kind_q, first_q;

  // Of each 16 rules, the place of the first broken one if it is among them.
  localparam int unsigned Groups = RuleCount / 16;
  typedef logic [5:0] place_t;
  place_t group_place[Groups], group_place_q[Groups], place;
  status_e status, status_q;

  always_comb begin
    for (int unsigned g = 0; g < Groups; g++) begin
      group_place[g] = '0;
      for (int unsigned i = 0; i < 16; i++) begin
        if (first_q[16*g+i]) begin
          group_place[g] |= 16 * g < CommandBytes ? place_t'(16 * g + i) : Places[i];
        end
      end
    end
    status = StatusBadField;
    if (first_q[0]) status = StatusBadOpcode;
    if (first_q[RuleUnsupported]) status = StatusUnsupported;
    if (first_q[RuleCount-1]) status = StatusOk;
    place = '0;
    for (int unsigned g = 0; g < Groups; g++) place |= group_place_q[g];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      step_q <= '0;
      done_o <= 1'b0;
    end else begin
      step_q <= clear_i ? '0 : {step_q[2:0], start_i};
      done_o <= step_q[3] && !clear_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      rules_q[KindNone] <= rules_t'(1);
      rules_q[KindNop] <= {1'b1, limits_t'(0), broken_nop(command_i)};
      rules_q[KindPages] <= {1'b1, beyond_pages(pages_command_t'(command_i)),
                             broken_pages_command(pages_command_t'(command_i))};
      rules_q[KindAppend] <= {1'b1, beyond_append(append_command_t'(command_i)),
                              broken_append_command(append_command_t'(command_i))};
      rules_q[KindRead] <= {1'b1, beyond_read(read_command_t'(command_i)),
                            broken_read_command(read_command_t'(command_i))};
      rules_q[KindGather] <= {1'b1, beyond_gather(gather_command_t'(command_i)),
                              broken_gather_command(gather_command_t'(command_i))};
      rules_q[KindTopk] <= {1'b1, beyond_topk(topk_command_t'(command_i)),
                            broken_topk_command(topk_command_t'(command_i))};
      rules_q[KindAttend] <= {1'b1, beyond_attend(attend_command_t'(command_i)),
                              broken_attend_command(attend_command_t'(command_i))};
    end
    if (step_q[0]) of_kind_q <= rules_q[kind_i];
    // And minus itself: the lowest bit of those that are set.
    if (step_q[1]) first_q <= of_kind_q & (~of_kind_q + 1'b1);
    if (step_q[2]) begin
      group_place_q <= group_place;
      status_q <= status;
    end
    if (step_q[3]) verdict_o <= '{status: status_q, detail: 64'(place)};
  end

endmodule
