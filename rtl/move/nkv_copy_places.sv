// Whether any page of a COPY or TRANSCODE would be written over a source or over another new page: takes
// page after page, where it lies and where it goes, in units of PageGrainBytes. A page takes three cycles,
// and one more for every Lanes pages before it.

module nkv_copy_places
  import nkv_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        clear_i,          // Forgets all pages.

  input  logic        valid_i,
  output logic        ready_o,
  input  logic [31:0] source_i,
  input  logic [31:0] destination_i,
  input  logic [24:0] source_grains_i,  // Of the page,
  input  logic [24:0] room_grains_i,    // and of its new place.
  output logic        collides_o        // Of the pages that were taken before ready_o.
);

  localparam int unsigned Lanes = 16;
  localparam int unsigned LaneBits = $clog2(Lanes);
  localparam int unsigned GroupBits = PageIndexBits - LaneBits;

  typedef logic [GroupBits-1:0] group_t;

  typedef struct packed {
    logic [32:0] first;
    logic [32:0] last;
  } place_t;

  typedef struct packed {
    place_t source;
    place_t destination;
  } move_t;

  typedef enum logic [1:0] {
    StIdle,
    StCompare,  // Pages before, Lanes at a time.
    StKeep      // The last of them, too.
  } state_e;

  function automatic logic overlap(place_t a, place_t b);
    return a.first <= b.last && b.first <= a.last;
  endfunction

  function automatic logic meet(move_t a, move_t b);
    return overlap(a.destination, b.source) || overlap(a.source, b.destination) ||
        overlap(a.destination, b.destination);
  endfunction

  state_e           state_q;
  page_index_t      index_q;
  group_t           group_q;
  move_t            move_q;
  logic [Lanes-1:0] before_q, meets;
  logic             collides_q;

  assign ready_o = state_q == StIdle;
  assign collides_o = collides_q;
  wire take = valid_i && ready_o;

  for (genvar l = 0; l < Lanes; l++) begin : gen_lanes
    (* ram_style = "block" *) move_t moves[ListPages/Lanes];
    move_t other_q;

    always_ff @(posedge clk_i) begin
      if (state_q == StKeep && index_q[LaneBits-1:0] == LaneBits'(l)) begin
        moves[index_q[PageIndexBits-1:LaneBits]] <= move_q;
      end
      if (state_q == StCompare) begin
        other_q <= moves[group_q];
        before_q[l] <= {group_q, LaneBits'(l)} < index_q;
      end
    end
    assign meets[l] = before_q[l] && meet(move_q, other_q);
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      move_q <= '{
          source: '{
              first: 33'(source_i),
              last: 33'(source_i) + 33'(source_grains_i) - 33'd1
          },
          destination: '{
              first: 33'(destination_i),
              last: 33'(destination_i) + 33'(room_grains_i) - 33'd1
          }
      };
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, index_q, group_q, collides_q} <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
      index_q <= '0;
      collides_q <= 1'b0;
    end else begin
      unique case (state_q)
        StIdle: begin
          group_q <= '0;
          if (take) state_q <= StCompare;
        end
        StCompare: begin
          group_q <= group_q + 1'b1;
          // What the first group is compared with is there a cycle later.
          if (group_q != '0 && meets != '0) collides_q <= 1'b1;
          if (group_q == index_q[PageIndexBits-1:LaneBits]) state_q <= StKeep;
        end
        default: begin
          if (meets != '0 || overlap(move_q.source, move_q.destination)) collides_q <= 1'b1;
          index_q <= index_q + 1'b1;
          state_q <= StIdle;
        end
      endcase
    end
  end

endmodule
