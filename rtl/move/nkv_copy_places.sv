// Whether any page of a COPY or TRANSCODE would be written over a source or over another new page. New places
// are put as pages come, in units of PageGrainBytes, and sorted where they do not ascend (nkv_places_apart).
// Then each source is looked for among them, unless all of them lie on one side of all new places: the last place
// that begins before the source ends is the only one that it can meet. That takes 3 cycles a page, and 2 for
// every bit of their number.

module nkv_copy_places
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,          // Forgets all pages.

  input  logic        put_i,            // Up to ListPages times: where a page goes,
  input  logic [31:0] place_i,
  input  logic [24:0] extent_i,         // its room, at least 1, and its source.
  input  logic        judge_i,          // After the last one; held until done_o.
  output logic        done_o,           // For one cycle.
  output logic        collides_o,       // With it.

  output page_index_t page_o,           // While they are judged the source of this page follows by one cycle,
  input  logic [31:0] source_i,         // in the order in which they were put: where it lies,
  input  logic [24:0] source_grains_i   // and what it takes there.
);

  typedef logic [PageIndexBits:0] count_t;
  typedef logic [32:0] end_t;

  typedef enum logic [2:0] {
    StPut,
    StApart,  // New places against each other,
    StLook,   // then against each source:
    StTake,
    StProbe,  // a new place in the middle of those that are left,
    StWeigh,
    StJudge   // and the one that was found at last.
  } state_e;

  state_e      state_q;
  page_index_t index_q;
  count_t      count_q, first_step_q;   // The largest power of two of places.
  count_t      step_q, below_q;         // So many places begin before the source's end.
  logic [31:0] source_q, place_q;
  end_t        source_end_q, place_end_q, below_end_q;

  logic        judged, apart;
  logic [31:0] place;
  logic [24:0] extent;
  wire count_t probe = below_q + step_q;
  wire weighs = state_q == StWeigh;
  wire is_below = probe <= count_q && end_t'(place) < source_end_q;
  wire meets = below_end_q > end_t'(source_q);
  wire is_last = count_t'(index_q) + 1'b1 == count_q;

  nkv_places_apart #(
    .Places(ListPages),
    .ExtentBits(25),
    .OneExtent(1'b0)
  ) u_apart (
    .clk_i,
    .rst_ni,
    .clear_i,
    .extent_i,
    .put_i,
    .place_i,
    .judge_i (state_q == StApart),
    .done_o  (judged),
    .apart_o (apart),
    .look_i  (page_index_t'(probe - 1'b1)),
    .place_o (place),
    .extent_o(extent)
  );

  assign page_o = index_q;

  // ---- What all of them take ----
  typedef struct packed {
    logic [31:0] first;
    end_t        last_end;
  } reach_t;
  localparam reach_t Nothing = '{first: '1, last_end: '0};
  reach_t sources_q, places_q;
  logic   put_q;
  wire    on_one_side = places_q.last_end <= end_t'(sources_q.first) ||
      sources_q.last_end <= end_t'(places_q.first);

  function automatic reach_t reach(reach_t known, logic [31:0] first, end_t last_end);
    return '{first: known.first < first ? known.first : first,
             last_end: known.last_end > last_end ? known.last_end : last_end};
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      put_q <= 1'b0;
      {sources_q, places_q} <= {2{Nothing}};
    end else if (clear_i) begin
      put_q <= 1'b0;
      {sources_q, places_q} <= {2{Nothing}};
    end else begin
      put_q <= put_i;
      if (put_q) begin
        sources_q <= reach(sources_q, source_q, source_end_q);
        places_q <= reach(places_q, place_q, place_end_q);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (put_i) begin
      place_q <= place_i;
      place_end_q <= end_t'(place_i) + end_t'(extent_i);
    end
    if (put_i || state_q == StTake) begin
      source_q <= source_i;
      source_end_q <= end_t'(source_i) + end_t'(source_grains_i);
    end
    if (state_q == StTake) below_end_q <= '0;
    else if (weighs && is_below) below_end_q <= end_t'(place) + end_t'(extent);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, index_q, count_q, step_q, below_q, done_o, collides_o} <= '0;
      first_step_q <= count_t'(1);
    end else if (clear_i) begin
      state_q <= StPut;
      {index_q, count_q, done_o} <= '0;
      first_step_q <= count_t'(1);
    end else begin
      done_o <= 1'b0;
      unique case (state_q)
        StPut: begin
          if (put_i) begin
            count_q <= count_q + 1'b1;
            if (count_q + 1'b1 == first_step_q << 1) first_step_q <= first_step_q << 1;
          end
          if (judge_i && !done_o) state_q <= StApart;
        end
        StApart: begin
          if (judged) begin
            state_q <= apart && !on_one_side ? StLook : StPut;
            done_o <= !apart || on_one_side;
            collides_o <= !apart;
          end
        end
        StLook: state_q <= StTake;
        StTake: begin
          below_q <= '0;
          step_q <= first_step_q;
          state_q <= StProbe;
        end
        StProbe: state_q <= StWeigh;
        StWeigh: begin
          if (is_below) below_q <= probe;
          step_q <= step_q >> 1;
          state_q <= step_q[0] ? StJudge : StProbe;
        end
        default: begin
          index_q <= index_q + 1'b1;
          state_q <= meets || is_last ? StPut : StLook;
          done_o <= meets || is_last;
          collides_o <= meets;
        end
      endcase
    end
  end

endmodule
