// The hardware's side of `firmware_share`: takes commands from the mailbox to the firmware and
// answers back, and operations from the firmware to who carries them out. It looks at the share
// through the second port of the processor's memory, word for word and for ever: the firmware need
// not be alive.
//
//   Clear -> Poll -+-> GivePayload -> Give          a command of the mailbox
//              ^   +-> Finish -> FinishPayload      its answer
//              |   +-> Fetch -> Carry -> Report     an operation
//              |   +-> Error                        an error of the memory
//              `---+-> Forget                       a firmware that starts anew

module nkv_share
  import nkv_firmware_pkg::*;
#(
  // An operation that is not done by then has failed; less than the firmware waits.
  parameter int unsigned OperationCycles = 1 << 22,
  localparam int unsigned PayloadWords = MailboxBytes / 4,
  localparam int unsigned WordBits     = $clog2(PayloadWords)
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // Of the card, as the firmware sees it when it starts.
  input  logic [63:0] memory_bytes_i,
  input  logic [63:0] serial_i,
  input  logic [63:0] dynamic_bytes_i,
  input  logic [15:0] temperature_i,     // Degrees Celsius, two's complement; may change.

  // The processor's memory. It may start once it is cleared.
  input  logic        restart_i,         // For a cycle: it starts anew, and is not ready.
  output logic        cleared_o,
  output logic [3:0]  port_write_o,
  output logic [31:0] port_at_o,
  output logic [31:0] port_data_o,
  input  logic [31:0] port_data_i,       // In the cycle after.

  // nkv_mailbox
  input  logic                command_valid_i,
  input  logic [15:0]         opcode_i,
  input  logic [20:0]         payload_bytes_i,
  output logic                answer_valid_o,
  output logic [15:0]         answer_status_o,
  output logic [20:0]         answer_bytes_o,
  output logic                payload_write_o,
  output logic [WordBits-1:0] payload_at_o,
  output logic [31:0]         payload_o,
  input  logic [31:0]         payload_i,
  output logic                ready_o,
  output logic [31:0]         event_logs_o,
  output logic                background_runs_o,
  output logic [63:0]         background_o,
  output logic                interrupt_o,         // For a cycle: the firmware interrupts the host.

  // An operation stands until it is done, or has taken too long. A failed one has results, too.
  output logic                operation_valid_o,
  output firmware_operation_e operation_o,
  output logic [63:0]         operation_at_o,
  output logic [31:0]         operation_bytes_o,
  output logic [511:0]        operation_line_o,
  input  logic                operation_done_i,
  input  logic                operation_failed_i,
  input  logic [63:0]         operation_at_i,
  input  logic [511:0]        operation_line_i,

  // Errors that the memory controller found, one at a time.
  input  logic                error_valid_i,
  output logic                error_ready_o,
  input  logic [63:0]         error_at_i,
  input  logic                error_corrected_i,
  output logic                errors_taken_o      // The firmware knows of all of them.
);
  localparam int unsigned LineWords = 16;
  localparam int unsigned PatienceBits = $clog2(OperationCycles + 1);
  // Cleared at reset: what outlives a restart of the core, and the share up to its payload.
  localparam int unsigned ClearAt    = ProcessorKeptAt - ProcessorShareAt;
  localparam int unsigned ClearWords = (FirmwareSharePayload - ClearAt) / 4;

  typedef enum logic [3:0] {
    Clear, Poll, GivePayload, Give, Finish, FinishPayload, Fetch, Carry, Report, Error, Forget
  } state_e;

  // What Poll reads, and at its end writes.
  typedef enum logic [3:0] {
    LookMagic, LookAnswer, LookOperations, LookInterrupts, LookEvents, LookRuns, LookBackgroundLow,
    LookBackgroundHigh, LookErrors, TellTemperature
  } look_e;

  state_e                    state_q;
  logic [WordBits-1:0]       step_q;
  logic                      acts_q;          // The second cycle of a step: words are there.

  logic                      restarts_q;      // `magic` is of a firmware that was.
  logic                      given_q;         // A command is the firmware's.
  logic [31:0]               request_q, operations_q, interrupts_q, errors_q;
  logic                      errors_free_q;
  logic [15:0]               status_q;
  logic [20:0]               bytes_q;
  logic [31:0]               background_low_q;
  logic                      failed_q;
  logic [PatienceBits-1:0]   patience_q;      // Cycles that an operation may still take.
  logic [LineWords-1:0][31:0] line_q;

  // Words of a payload that there is room for.
  function automatic logic [WordBits:0] words_of(logic [20:0] bytes);
    return bytes > 21'(MailboxBytes) ? (WordBits+1)'(PayloadWords) : (WordBits+1)'((bytes + 21'd3) >> 2);
  endfunction

  wire [WordBits:0] words = words_of(bytes_q);
  wire is_last_word = (WordBits+1)'(step_q) + 1'b1 == words;
  wire [3:0] index = step_q[3:0];
  wire is_line = !step_q[4];               // Of Fetch and Report: the line first, the rest behind it.

  // ---- Where a step works, and what it writes ----
  logic [31:0] field, value;
  logic        writes;

  always_comb begin
    field  = '0;
    value  = '0;
    writes = 1'b0;
    unique case (state_q)
      Clear: begin
        field  = ClearAt + (32'(step_q) << 2);
        writes = 1'b1;
        unique case (field)
          FirmwareShareTemperatureCelsius: value = 32'(signed'(temperature_i));
          FirmwareShareMemoryBytes:        value = memory_bytes_i[31:0];
          FirmwareShareMemoryBytes + 4:    value = memory_bytes_i[63:32];
          FirmwareShareSerial:             value = serial_i[31:0];
          FirmwareShareSerial + 4:         value = serial_i[63:32];
          FirmwareShareDynamicBytes:       value = dynamic_bytes_i[31:0];
          FirmwareShareDynamicBytes + 4:   value = dynamic_bytes_i[63:32];
          default:                         value = '0;
        endcase
      end
      Poll: begin
        unique case (look_e'(index))
          LookMagic:          field = FirmwareShareMagic;
          LookAnswer:         field = FirmwareShareAnswer;
          LookOperations:     field = FirmwareShareOperations;
          LookInterrupts:     field = FirmwareShareInterrupts;
          LookEvents:         field = FirmwareShareEventLogs;
          LookRuns:           field = FirmwareShareBackgroundRuns;
          LookBackgroundLow:  field = FirmwareShareBackground;
          LookBackgroundHigh: field = FirmwareShareBackground + 4;
          LookErrors:         field = FirmwareShareErrorsTaken;
          default:            field = FirmwareShareTemperatureCelsius;
        endcase
        writes = look_e'(index) == TellTemperature;
        value  = 32'(signed'(temperature_i));
      end
      GivePayload: begin
        field  = FirmwareSharePayload + (32'(step_q) << 2);
        value  = payload_i;
        writes = 1'b1;
      end
      Give: begin
        field  = index == 0 ? FirmwareShareOpcode :
                 index == 1 ? FirmwareSharePayloadBytes : FirmwareShareRequest;
        value  = index == 0 ? 32'(opcode_i) : index == 1 ? 32'(payload_bytes_i) : request_q + 1;
        writes = 1'b1;
      end
      Finish:        field = index == 0 ? FirmwareShareOpcode : FirmwareSharePayloadBytes;
      FinishPayload: field = FirmwareSharePayload + (32'(step_q) << 2);
      Fetch:
        if (is_line) field = FirmwareShareLine + (32'(index) << 2);
        else
          unique case (index)
            0:       field = FirmwareShareOperation;
            1:       field = FirmwareShareOperationBytes;
            2:       field = FirmwareShareOperationAt;
            default: field = FirmwareShareOperationAt + 4;
          endcase
      Report: begin
        writes = 1'b1;
        if (is_line) begin
          field = FirmwareShareLine + (32'(index) << 2);
          value = line_q[index];
        end else
          unique case (index)
            0:       begin field = FirmwareShareOperationAt;     value = operation_at_o[31:0];  end
            1:       begin field = FirmwareShareOperationAt + 4; value = operation_at_o[63:32]; end
            2:       begin field = FirmwareShareOperationFailed; value = 32'(failed_q);         end
            default: begin field = FirmwareShareOperationsDone;  value = operations_q;          end
          endcase
      end
      Error: begin
        writes = 1'b1;
        unique case (index)
          0:       begin field = FirmwareShareErrorAddress;     value = error_at_i[31:0];       end
          1:       begin field = FirmwareShareErrorAddress + 4; value = error_at_i[63:32];      end
          2:       begin field = FirmwareShareErrorCorrected;   value = 32'(error_corrected_i); end
          default: begin field = FirmwareShareErrors;           value = errors_q + 1;           end
        endcase
      end
      Forget: begin
        field  = FirmwareShareMagic;
        writes = 1'b1;
      end
      default: ;
    endcase
  end

  assign port_at_o    = ProcessorShareAt + field;
  assign port_write_o = writes && acts_q ? '1 : '0;
  assign port_data_o  = value;

  // ---- The mailbox's payload: read a cycle before it is written, and the other way round ----
  assign payload_at_o    = step_q;
  assign payload_write_o = state_q == FinishPayload && acts_q && words != 0;
  assign payload_o       = port_data_i;
  assign answer_status_o = status_q;
  assign answer_bytes_o  = bytes_q;

  assign operation_valid_o = state_q == Carry;
  assign operation_line_o  = line_q;
  assign errors_taken_o    = errors_free_q;
  assign error_ready_o     = state_q == Error && acts_q && index == 3;

  // ---- Steps ----
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q           <= Clear;
      step_q            <= '0;
      acts_q            <= 1'b0;
      cleared_o         <= 1'b0;
      restarts_q        <= 1'b0;
      given_q           <= 1'b0;
      request_q         <= '0;
      operations_q      <= '0;
      interrupts_q      <= '0;
      errors_q          <= '0;
      errors_free_q     <= 1'b0;
      ready_o           <= 1'b0;
      event_logs_o      <= '0;
      background_runs_o <= 1'b0;
      background_o      <= '0;
      answer_valid_o    <= 1'b0;
      interrupt_o       <= 1'b0;
    end else begin
      answer_valid_o <= 1'b0;
      interrupt_o    <= 1'b0;
      if (restart_i) restarts_q <= 1'b1;
      if (state_q == Carry) begin
        patience_q <= patience_q - 1'b1;
        if (operation_done_i || patience_q == '0) begin
          failed_q <= operation_failed_i || !operation_done_i;
          state_q  <= Report;
          step_q   <= '0;
        end
        if (operation_done_i) begin
          operation_at_o <= operation_at_i;
          line_q         <= operation_line_i;
        end
      end else begin
        acts_q <= !acts_q;
      end
      if (acts_q) begin
        step_q <= step_q + 1'b1;
        unique case (state_q)
          Clear:
            if (32'(step_q) == ClearWords - 1) begin
              cleared_o <= 1'b1;
              state_q   <= Poll;
              step_q    <= '0;
            end
          Poll: begin
            unique case (look_e'(index))
              LookMagic: ready_o <= port_data_i == FirmwareMagic;
              LookAnswer:
                if (given_q && port_data_i == request_q) begin
                  state_q <= Finish;
                  step_q  <= '0;
                end
              LookOperations:
                if (port_data_i != operations_q) begin
                  operations_q <= port_data_i;
                  state_q      <= Fetch;
                  step_q       <= '0;
                end
              LookInterrupts: begin
                interrupts_q <= port_data_i;
                interrupt_o  <= port_data_i != interrupts_q;
              end
              LookEvents:         event_logs_o      <= port_data_i;
              LookRuns:           background_runs_o <= port_data_i[0];
              LookBackgroundLow:  background_low_q  <= port_data_i;
              LookBackgroundHigh: background_o      <= {port_data_i, background_low_q};
              LookErrors:         errors_free_q     <= port_data_i == errors_q;
              default: begin
                step_q <= '0;
                if (restarts_q) begin
                  restarts_q <= 1'b0;
                  ready_o    <= 1'b0;
                  state_q    <= Forget;
                end else if (command_valid_i && !given_q && ready_o) begin
                  given_q <= 1'b1;
                  bytes_q <= payload_bytes_i;
                  state_q <= words_of(payload_bytes_i) == 0 ? Give : GivePayload;
                end else if (error_valid_i && errors_free_q) begin
                  errors_free_q <= 1'b0;
                  state_q       <= Error;
                end
              end
            endcase
          end
          GivePayload:
            if (is_last_word) begin
              state_q <= Give;
              step_q  <= '0;
            end
          Give:
            if (index == 2) begin
              request_q <= request_q + 1;
              state_q   <= Poll;
              step_q    <= '0;
            end
          Finish:
            if (index == 0) begin
              status_q <= port_data_i[31:16];
            end else begin
              bytes_q <= port_data_i[20:0];
              state_q <= FinishPayload;
              step_q  <= '0;
            end
          FinishPayload:
            if (words == 0 || is_last_word) begin
              given_q        <= 1'b0;
              answer_valid_o <= 1'b1;
              state_q        <= Poll;
              step_q         <= '0;
            end
          Fetch:
            if (is_line) line_q[index] <= port_data_i;
            else
              unique case (index)
                0: operation_o           <= firmware_operation_e'(port_data_i[7:0]);
                1: operation_bytes_o     <= port_data_i;
                2: operation_at_o[31:0]  <= port_data_i;
                default: begin
                  operation_at_o[63:32] <= port_data_i;
                  patience_q            <= PatienceBits'(OperationCycles);
                  state_q               <= Carry;
                end
              endcase
          Report:
            if (!is_line && index == 3) begin
              state_q <= Poll;
              step_q  <= '0;
            end
          Forget: begin
            state_q <= Poll;
            step_q  <= '0;
          end
          default:                         // Error
            if (index == 3) begin
              errors_q <= errors_q + 1;
              state_q  <= Poll;
              step_q   <= '0;
            end
        endcase
      end
    end
  end

endmodule
