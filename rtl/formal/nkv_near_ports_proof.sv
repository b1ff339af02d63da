// What nkv_near_ports promises while a slice answers no more than it was asked: offers hold until they
// are taken, credits never run under or over, no answer is lost or made up or goes to another port,
// whoever may go goes, and a port that may go waits for at most one access of each other port. A
// request names its port in its highest bits.

module nkv_near_ports_proof #(
  parameter int unsigned Ports = 2,
  parameter int unsigned Queued = 2,
  parameter int unsigned Credits = 2,
  localparam int unsigned PortBits = $clog2(Ports)
) (
  input logic                clk_i,
  input logic [Ports-1:0]    valid_i,
  input logic [Ports-1:0]    tag_i,
  input logic [Ports-1:0]    answer_ready_i,
  input logic                ready_i,
  input logic                answer_valid_i,
  input logic [PortBits-1:0] answer_port_i,
  input logic                answer_i,
  input logic [PortBits-1:0] watched_i
);

  typedef logic [PortBits:0] request_t;
  typedef logic [3:0] count_t;

  logic rst_n = 1'b0;
  logic [PortBits-1:0] watched = '0;  // Any port, chosen at the start.
  logic [Ports-1:0] ready, answer_valid;
  request_t request_in[Ports], request;
  request_t answer_out[Ports];
  logic valid, answer_ready;

  for (genvar i = 0; i < int'(Ports); i++) begin : gen_port
    assign request_in[i] = {PortBits'(i), tag_i[i]};
  end

  nkv_near_ports #(
    .Ports(Ports),
    .Request(request_t),
    .Answer(request_t),
    .Queued(Queued),
    .Credits(Credits)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .valid_i,
    .ready_o(ready),
    .request_i(request_in),
    .answer_valid_o(answer_valid),
    .answer_ready_i,
    .answer_o(answer_out),
    .valid_o(valid),
    .ready_i,
    .request_o(request),
    .answer_valid_i,
    .answer_ready_o(answer_ready),
    .answer_port_i,
    .answer_i({answer_port_i, answer_i})
  );

  wire [PortBits-1:0] sender = request[PortBits:1];
  wire [Ports-1:0] sent = Ports'(valid && ready_i) << sender;
  wire [Ports-1:0] came = Ports'(answer_valid_i) << answer_port_i;
  wire [Ports-1:0] gone = answer_valid & answer_ready_i;

  count_t [Ports-1:0] waiting = '0;  // Accepted, not at the slice yet;
  count_t [Ports-1:0] asked = '0;    // there;
  count_t [Ports-1:0] held = '0;     // answered, the answer not taken yet.
  count_t [Ports-1:0] others = '0;   // Of other ports', since the port may go.
  logic offered = 1'b0;              // In the last cycle, and not taken:
  request_t offer = '0;              // this.

  logic [Ports-1:0] may;
  always_comb begin
    for (int i = 0; i < int'(Ports); i++) begin
      may[i] = waiting[i] != '0 && asked[i] + held[i] < count_t'(Credits);
    end
  end

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (!rst_n) watched <= watched_i;
    else begin
      for (int i = 0; i < int'(Ports); i++) begin
        waiting[i] <= waiting[i] + count_t'(valid_i[i] && ready[i]) - count_t'(sent[i]);
        asked[i] <= asked[i] + count_t'(sent[i]) - count_t'(came[i]);
        held[i] <= held[i] + count_t'(came[i]) - count_t'(gone[i]);
        others[i] <= !may[i] || sent[i] ? '0 : others[i] + count_t'(sent != '0);
      end
      offered <= valid && !ready_i;
    end
    offer <= request;
  end

  always_comb begin
    if (rst_n) begin
      assume (!answer_valid_i || asked[answer_port_i] != '0);
      if (offered) a_offer_holds : assert (valid && offer == request);
      a_conserves_work : assert (valid == (may != '0));
      a_only_who_may : assert (!valid || may[sender]);
      a_takes_answers : assert (answer_ready);
      a_queues_have_room : assert (ready[watched] == (waiting[watched] < count_t'(Queued)));
      a_bounded : assert (asked[watched] + held[watched] <= count_t'(Credits));
      a_answers_arrive : assert (answer_valid[watched] == (held[watched] != '0));
      if (answer_valid[watched])
        a_answers_find_home : assert (answer_out[watched][PortBits:1] == watched);
      a_nobody_starves : assert (others[watched] < count_t'(Ports));
    end
  end

endmodule
