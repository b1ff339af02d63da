// Runs a harness in four-state logic: registers and memories hold unknown bits until something is written.
// From the end of reset on, what steers must be known in every cycle, and data whenever they are said to be
// there. `+cycles=N` and `+least=N`: so long, and data at least so often.
module four_state;
  reg clk = 1'b0;
  reg rst_n = 1'bx;
  reg [127:0] random = 128'b0;
  wire [63:0] control;
  wire data_valid;
  wire [1023:0] data;

  integer cycles, least, cycle, seen;

  harness u_harness (
    .clk_i(clk),
    .rst_ni(rst_n),
    .random_i(random),
    .control_o(control),
    .data_valid_o(data_valid),
    .data_o(data)
  );

  initial begin
    if (!$value$plusargs("cycles=%d", cycles)) cycles = 1000;
    if (!$value$plusargs("least=%d", least)) least = 1;
    seen = 0;
    #1 rst_n = 1'b1;
    #1 rst_n = 1'b0;
    for (cycle = 0; cycle < cycles; cycle = cycle + 1) begin
      random = {$random, $random, $random, $random};
      if (cycle == 3) rst_n = 1'b1;
      #1;
      if (rst_n) begin
        if (^{control, data_valid} === 1'bx) begin
          $display("unknown: control %h, data_valid %b in cycle %0d", control, data_valid, cycle);
          $finish;
        end
        if (data_valid) begin
          seen = seen + 1;
          if (^data === 1'bx) begin
            $display("unknown: data %h in cycle %0d", data, cycle);
            $finish;
          end
        end
      end
      #1 clk = 1'b1;
      #1 clk = 1'b0;
    end
    if (seen < least) $display("vacuous: data %0d times, not %0d", seen, least);
    else $display("known: %0d cycles, data %0d times", cycles, seen);
    $finish;
  end
endmodule
