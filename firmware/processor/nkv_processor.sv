// The processor that the firmware runs on: an Ibex core, its RAM, and the ROM at which it starts. A
// second port looks into both. Outside the engine: nothing here is on a query's way.
module nkv_processor
  import ibex_pkg::*;
  import nkv_firmware_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,        // The core's alone: memory is loaded while it is low.
  // A word a cycle; reads answer in the next one. Writes the ROM, too.
  input  logic        port_valid_i,
  input  logic [3:0]  port_write_i,  // Of each byte.
  input  logic [31:0] port_at_i,     // Bytes from the RAM's start, a multiple of 4.
  input  logic [31:0] port_data_i,
  output logic [31:0] port_data_o,
  // The core met an exception while it served one; it waits for the watchdog.
  output logic        failed_o,
  // For a cycle: the watchdog resets the core, whose memory stays as it is.
  output logic        restart_o
);
  localparam logic [31:0] TimerPlace    = ProcessorTimerAt;
  localparam logic [31:0] WatchdogPlace = ProcessorWatchdogAt;
  localparam int unsigned Words         = (ProcessorRamBytes + ProcessorRomBytes) / 4;
  localparam int unsigned IndexLow      = 2;
  localparam int unsigned IndexW        = $clog2(Words);
  localparam int unsigned WatchdogBits  = $clog2(ProcessorWatchdogCycles + 1);

  logic [31:0] memory [Words];       // The ROM lies behind the RAM.

  logic        fetch, fetch_valid_q, data, data_valid_q, data_write, data_error_q, fetch_error_q;
  logic [31:0] fetch_at, fetch_word_q, data_at, data_word_q, data_wanted;
  logic [3:0]  data_bytes;

  logic        timer_q, faults, core_rst_nq;
  logic [WatchdogBits-1:0] watchdog_q;
  logic [63:0] cycles_q;
  logic [31:0] timer_word_q, cycles_high_q;

  function automatic logic is_timer(logic [31:0] at);
    return at[31:3] == TimerPlace[31:3];
  endfunction

  function automatic logic is_ram(logic [31:0] at);
    return at >= ProcessorRamAt && at - ProcessorRamAt < ProcessorRamBytes;
  endfunction

  function automatic logic is_inside(logic [31:0] at);
    return is_ram(at) || at >= ProcessorRomAt && at - ProcessorRomAt < ProcessorRomBytes;
  endfunction

  function automatic logic [IndexW-1:0] index_of(logic [31:0] at);
    return at[IndexLow +: IndexW];
  endfunction

  function automatic logic is_watchdog(logic [31:0] at);
    return at[31:2] == WatchdogPlace[31:2];
  endfunction

  // ---- Watchdog ----
  wire writes_watchdog = data && data_write && is_watchdog(data_at);
  assign restart_o = core_rst_nq && (watchdog_q == '0 || writes_watchdog && data_wanted == '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watchdog_q  <= WatchdogBits'(ProcessorWatchdogCycles);
      core_rst_nq <= 1'b0;
    end else begin
      core_rst_nq <= !restart_o;
      watchdog_q  <= writes_watchdog || restart_o ? WatchdogBits'(ProcessorWatchdogCycles) : watchdog_q - 1'b1;
    end
  end

  // The port comes last: what a host writes holds.
  always_ff @(posedge clk_i) begin
    fetch_word_q <= memory[index_of(fetch_at)];
    data_word_q  <= memory[index_of(data_at)];
    port_data_o  <= memory[index_of(port_at_i)];
    for (int b = 0; b < 4; b++) begin
      if (data && data_write && is_ram(data_at) && data_bytes[b]) begin
        memory[index_of(data_at)][8*b +: 8] <= data_wanted[8*b +: 8];
      end
      if (port_valid_i && port_write_i[b]) begin
        memory[index_of(port_at_i)][8*b +: 8] <= port_data_i[8*b +: 8];
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fetch_valid_q <= 1'b0;
      data_valid_q  <= 1'b0;
      fetch_error_q <= 1'b0;
      data_error_q  <= 1'b0;
      timer_q       <= 1'b0;
      failed_o      <= 1'b0;
      cycles_q      <= '0;
    end else begin
      cycles_q      <= cycles_q + 64'd1;
      failed_o      <= (failed_o || faults) && core_rst_nq;
      timer_q       <= is_timer(data_at);
      fetch_valid_q <= fetch;
      data_valid_q  <= data;
      fetch_error_q <= fetch && !is_inside(fetch_at);
      data_error_q  <= data && !(data_write ? is_ram(data_at) || writes_watchdog
                                            : is_inside(data_at) || is_timer(data_at));
    end
  end

  always_ff @(posedge clk_i) begin
    timer_word_q <= data_at[2] ? cycles_high_q : cycles_q[31:0];
    if (data && is_timer(data_at) && !data_at[2]) cycles_high_q <= cycles_q[63:32];
  end

  ibex_top #(
    .RV32M          (RV32MSingleCycle),
    .RegFile        (RegFileFF),
    .BranchTargetALU(1'b1),
    .WritebackStage (1'b1)
  ) u_core (
    .clk_i, .rst_ni(core_rst_nq),
    .test_en_i(1'b0), .ram_cfg_i('0), .hart_id_i('0), .boot_addr_i(ProcessorRomAt), .scan_rst_ni(1'b1),
    .instr_req_o(fetch), .instr_gnt_i(fetch), .instr_rvalid_i(fetch_valid_q),
    .instr_addr_o(fetch_at), .instr_rdata_i(fetch_word_q), .instr_rdata_intg_i('0),
    .instr_err_i(fetch_error_q),
    .data_req_o(data), .data_gnt_i(data), .data_rvalid_i(data_valid_q), .data_we_o(data_write),
    .data_be_o(data_bytes), .data_addr_o(data_at), .data_wdata_o(data_wanted),
    .data_wdata_intg_o(), .data_rdata_i(timer_q ? timer_word_q : data_word_q), .data_rdata_intg_i('0),
    .data_err_i(data_error_q),
    .irq_software_i(1'b0), .irq_timer_i(1'b0), .irq_external_i(1'b0), .irq_fast_i('0),
    .irq_nm_i(1'b0),
    .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .scramble_req_o(),
    .debug_req_i(1'b0), .crash_dump_o(), .double_fault_seen_o(faults),
    .fetch_enable_i(IbexMuBiOn), .alert_minor_o(), .alert_major_internal_o(),
    .alert_major_bus_o(), .core_sleep_o()
  );
endmodule
