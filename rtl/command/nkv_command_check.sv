// Judges the fields and addresses of a command before anything is read: the contract's own rules, this
// build's limits, then every range against the window; the first that fails is the verdict. It takes 6
// cycles more than there are ranges, and 6 where there is none. What it does not judge: page entries,
// pages, and the query's numbers.

module nkv_command_check
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_command_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            valid_i,    // Until the verdict has come, which falling leaves as it is.
  input  engine_command_t command_i,
  output logic            done_o,     // While valid_i stands.
  output verdict_t        verdict_o
);

  logic        begun_q, fields_done, fields_judged_q, ranges_busy, fault;
  kind_e       kind_q;
  verdict_t    fields;
  logic [63:0] address;
  wire starts = valid_i && !begun_q;
  wire judged = (fields_done || fields_judged_q) && !ranges_busy;

  nkv_command_fields u_fields (
    .clk_i,
    .rst_ni,
    .clear_i  (!valid_i),
    .start_i  (starts),
    .kind_i   (kind_q),
    .command_i(command_i.command),
    .done_o   (fields_done),
    .verdict_o(fields)
  );

  nkv_command_ranges u_ranges (
    .clk_i,
    .rst_ni,
    .start_i  (starts),
    .window_i (command_i.domain.window_bytes),
    .command_i(command_i.command),
    .busy_o   (ranges_busy),
    .fault_o  (fault),
    .address_o(address)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      begun_q <= 1'b0;
      fields_judged_q <= 1'b0;
      done_o <= 1'b0;
    end else begin
      begun_q <= valid_i;
      fields_judged_q <= begun_q && valid_i && (fields_judged_q || fields_done);
      done_o <= begun_q && valid_i && (done_o || judged);
    end
  end

  always_ff @(posedge clk_i) begin
    if (starts) kind_q <= kind_of(opcode_e'(command_i.command[7:0]));
    if (begun_q && valid_i && judged && !done_o) begin
      verdict_o <= fields;
      if (fields.status == StatusOk && fault) begin
        verdict_o <= '{status: StatusAddressFault, detail: address};
      end
    end
  end

  wire unused_domain = ^{command_i.domain.window_base, command_i.domain.tenant};

endmodule
