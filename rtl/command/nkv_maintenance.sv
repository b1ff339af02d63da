// SCRUB and ERASE: pages where they are, part by part of a list that may be longer than what is on
// chip. `count` of the outcome says how many pages were done; the one after them is the one that failed.

module nkv_maintenance
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,

  input  logic           start_i,
  input  pages_command_t command_i,     // Checked; held until done.
  output logic           done_o,        // For one cycle.
  output outcome_t       outcome_o,

  output logic           load_o,
  output list_load_t     list_o,
  input  logic           loaded_i,
  input  logic           poisoned_i,

  output logic           pass_start_o,
  output pass_setup_t    pass_o,
  input  pass_report_t   pass_i
);

  typedef enum logic [2:0] {
    StIdle,
    StLoad,
    StLoading,
    StStart,
    StPass
  } state_e;

  state_e      state_q;
  logic [31:0] begun_q;  // Pages in the parts before this one.

  wire [31:0] rest = command_i.count - begun_q;
  wire [31:0] part = rest > ListPages ? ListPages : rest;

  assign load_o = state_q == StLoad;
  assign list_o = '{
      address: command_i.source + 64'(begun_q) * 64'(PageEntryBytes),
      entries: (PageIndexBits + 1)'(part)
  };
  assign pass_start_o = state_q == StStart;
  assign pass_o = '{
      tokens: part * PageTokens,
      window: '0,
      sinks: '0,
      first_index: list_index_t'(begun_q),
      demand: '{any_codec: 1'b1, default: '0},
      plan: '{whole: '1, compressed: 1'b1, default: '0},
      erase: command_i.opcode == OpcodeErase
  };

  function automatic outcome_t ended(status_e status, logic [31:0] pages_done);
    automatic outcome_t outcome = '0;
    outcome.verdict.status = status;
    outcome.verdict.detail = status == StatusOk ? '0 : 64'(pages_done);
    outcome.count = pages_done;
    return outcome;
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StIdle;
      begun_q <= '0;
      done_o <= 1'b0;
      outcome_o <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      done_o <= 1'b0;
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StIdle: begin
          begun_q <= '0;
          if (start_i) state_q <= StLoad;
        end
        StLoad: state_q <= StLoading;
        StLoading: begin
          if (loaded_i && poisoned_i) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            outcome_o <= ended(StatusPoison, begun_q);
          end else if (loaded_i) begin
            state_q <= StStart;
          end
        end
        StStart: state_q <= StPass;
        StPass: begin
          if (pass_i.done && pass_i.failed) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            outcome_o <= ended(pass_i.failure.status, 32'(pass_i.failure.index));
          end else if (pass_i.done && part == rest) begin
            state_q <= StIdle;
            done_o <= 1'b1;
            outcome_o <= ended(StatusOk, command_i.count);
          end else if (pass_i.done) begin
            state_q <= StLoad;
            begun_q <= begun_q + part;
          end
        end
        default: state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^{command_i, pass_i};

endmodule
