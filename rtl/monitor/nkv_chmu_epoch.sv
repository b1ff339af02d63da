// The length of epochs: end_o is high for one cycle each value_i * 100 us * 10**(scale_i - 1), the
// first such time after start_i. Scales 1 to 5 (100 us to 1 s), values from 1.

module nkv_chmu_epoch #(
  parameter int unsigned ClockKhz = 400_000  // A multiple of 10, 20 at least
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic        run_i,
  input  logic        start_i,
  input  logic [3:0]  scale_i,               // Changes only while run_i is low, as value_i.
  input  logic [11:0] value_i,
  output logic        end_o
);

  localparam int unsigned TickCycles = ClockKhz / 10;
  localparam int unsigned TickBits = $clog2(TickCycles);

  logic [TickBits-1:0] cycles_q;
  logic [13:0] ticks_q, last_tick_q;
  logic [11:0] steps_q, last_step_q;
  logic tick_q, step_q;

  always_ff @(posedge clk_i) begin
    unique case (scale_i)
      4'd2: last_tick_q <= 14'd9;
      4'd3: last_tick_q <= 14'd99;
      4'd4: last_tick_q <= 14'd999;
      4'd5: last_tick_q <= 14'd9999;
      default: last_tick_q <= '0;
    endcase
    last_step_q <= value_i - 1'b1;
  end

  wire last_tick = ticks_q == last_tick_q;
  wire last_step = steps_q == last_step_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycles_q <= '0;
      ticks_q <= '0;
      steps_q <= '0;
      tick_q <= 1'b0;
      step_q <= 1'b0;
      end_o <= 1'b0;
    end else if (start_i) begin
      cycles_q <= '0;
      ticks_q <= '0;
      steps_q <= '0;
      tick_q <= 1'b0;
      step_q <= 1'b0;
      end_o <= 1'b0;
    end else begin
      if (run_i) cycles_q <= cycles_q == TickBits'(TickCycles - 1) ? '0 : cycles_q + 1'b1;
      tick_q <= run_i && cycles_q == TickBits'(TickCycles - 1);
      step_q <= tick_q && last_tick;
      end_o <= run_i && step_q && last_step;
      if (tick_q) ticks_q <= last_tick ? '0 : ticks_q + 1'b1;
      if (step_q) steps_q <= last_step ? '0 : steps_q + 1'b1;
    end
  end

endmodule
