// What a command does at its engine's memory port, from start_i on: bursts asked for and written, and
// in how many cycles the port refused a read, else refused a write, else had accesses under way and
// neither took nor answered one. As of this cycle.
//
// From trail_i on the command trails: it only writes results, while the next one may start. Of what then
// happens its own writes are its, and all else is the next one's.

module nkv_port_meter
  import nkv_queue_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         start_i,
  input  logic         run_i,      // The command is in flight.
  input  logic         trail_i,
  input  logic         trails_i,   // One trails.
  input  port_events_t events_i,
  output activity_t    activity_o,
  output activity_t    trailing_o
);

  typedef logic [31:0] count_t;

  activity_t activity_q, trailing_q;
  count_t asked_q, settled_q;      // Accesses, and those answered: equal if none is under way.

  wire reads = events_i.ar_valid && events_i.ar_ready;
  wire any_writes = events_i.w_valid && events_i.w_ready;
  wire writes = any_writes && !events_i.w_trails;
  wire read_refused = events_i.ar_valid && !events_i.ar_ready;
  wire any_write_refused = events_i.w_valid && !events_i.w_ready;
  wire write_refused = any_write_refused && !events_i.w_trails;
  wire moves = reads || any_writes || events_i.r_valid || events_i.b_valid;
  wire write_answered = events_i.b_valid && !events_i.b_trails;
  wire count_t beats = reads ? count_t'(events_i.ar_len) + 32'd1 : '0;

  assign activity_o = activity_q;
  assign trailing_o = trailing_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      activity_q <= '0;
      asked_q <= '0;
      settled_q <= '0;
    end else if (start_i) begin
      activity_q <= '0;
      asked_q <= '0;
      settled_q <= '0;
    end else if (run_i) begin
      activity_q.ticks <= activity_q.ticks + 64'd1;
      if (read_refused) begin
        activity_q.read_refused_ticks <= activity_q.read_refused_ticks + 32'd1;
      end else if (write_refused) begin
        activity_q.write_refused_ticks <= activity_q.write_refused_ticks + 32'd1;
      end else if (!moves && asked_q != settled_q) begin
        activity_q.memory_wait_ticks <= activity_q.memory_wait_ticks + 32'd1;
      end
      if (moves) begin
        activity_q.read_bursts <= activity_q.read_bursts + beats;
        activity_q.written_bursts <= activity_q.written_bursts + count_t'(writes);
        asked_q <= asked_q + beats + count_t'(writes);
        settled_q <= settled_q + count_t'(events_i.r_valid) + count_t'(write_answered);
      end
    end
  end

  wire activity_t so_far = trail_i ? activity_q : trailing_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      trailing_q <= '0;
    end else if (trail_i || trails_i) begin
      trailing_q <= so_far;
      trailing_q.ticks <= so_far.ticks + 64'd1;
      trailing_q.written_bursts <= so_far.written_bursts + 32'(any_writes && events_i.w_trails);
      trailing_q.write_refused_ticks <= so_far.write_refused_ticks +
          32'(any_write_refused && events_i.w_trails);
    end
  end

endmodule
