// The best k of one query row's candidates, exactly and in order (ARITHMETIC.md section 6). Any order and
// distribution of scores; each token comes once.
//
// Candidates fall into 4,096 bins around a reference (nkv_score_bin), whose choice costs time, not
// exactness. The threshold bin, below which nothing can be among the best k, rises as they come. What lies
// above is stored; when the store is full it is cut: what lies below the threshold bin goes, and if that
// leaves it more than 3/4 full, all but exactly the best k. While candidates cannot come for another reason, a
// store that is 7/8 full is cut, too: it would have to be soon.
// A cut to exactly k is a radix selection among the members of the threshold bin. Finish does without
// one where few candidates are left to be too many: they are sorted too, and not given.
//
// Interface. A command is taken in an idle row (where Finish finds nothing) or in one that collects.
// Candidates that were taken up to that cycle count. in_ready_o falls while a command or a cut is under
// way. Finish answers once; after that the candidates follow on out_*, and the row becomes idle.
//
// Cost in cycles. Candidates: one per cycle. n = stored candidates (n <= Entries - 16). A cut: what is
// left of the threshold's climb (200 at most) + p * (n + 90) + n + 25 at most, with p = 0 if the
// threshold bin holds just what is needed, else usually 1; never more than 15, and never more than 5
// where all members of the bin have one score. Where the bin and what is above it are m < n / 2, it is
// n + 30 + p * (m + 90) + m + 25. Finish = a cut + the sort of nkv_candidate_sort, where p = 0 also if the
// threshold bin holds up to 16 too many, and without the cut if n <= k + 16. A part of the row's bins is
// emptied during the sort, for 256 cycles, before it is idle; after a Start in a row that collects, before it
// does so again. None of it grows with k but the sort.

`include "nkv_assert.svh"

module nkv_select
  import nkv_select_pkg::*;
#(
  parameter int unsigned Entries = 8192,  // A power of two; k is at most half of it.
  localparam int unsigned IndexBits = $clog2(Entries),
  localparam int unsigned CountBits = IndexBits + 1,
  localparam type index_t = logic [IndexBits-1:0],
  localparam type count_t = logic [CountBits-1:0]
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               command_valid_i,
  output logic               command_ready_o,
  input  select_command_e    command_i,
  input  logic [IndexBits-1:0] k_i,           // Start: 1 .. Entries / 2.
  input  logic signed [30:0] reference_i,     // Start: |reference| < 2^30.
  input  logic        [ 5:0] shift_i,         // Start.

  input  logic               held_i,          // Candidates wait for something else.
  input  logic               in_valid_i,
  output logic               in_ready_o,
  input  score_t             in_score_i,
  input  token_t             in_token_i,

  output logic               answer_valid_o,  // For one cycle.
  output count_t             answer_count_o,  // So many candidates follow.

  output logic               out_valid_o,
  input  logic               out_ready_i,
  output logic               out_last_o,
  output score_t             out_score_o,
  output token_t             out_token_o
);

  // Room for the candidates that are under way when the store is found to be full.
  localparam int unsigned Margin = 16;
  // So many more than k may be sorted.
  localparam int unsigned Excess = 16;
  localparam int unsigned DigitBits = 6;

  typedef enum logic [3:0] {
    Clear, Idle, Collect, Drain, Settle, Refresh, Choose, Decide, Pass, Find, Compact, Fix, Answer,
    Sort
  } state_e;

  state_e state_q;
  logic wants_q;            // Finish waits for the cut; otherwise the store was full.
  logic started_q;
  count_t k_q;
  logic signed [30:0] reference_q;
  logic [5:0] shift_q;
  count_t stored_q, kept_q;
  index_t replay_q, replay_end_q;
  logic replays_q;          // Entry replay_q is read again; the last is replay_end_q.
  count_t need_q;           // Of the members of the threshold bin, so many are among the best k.
  count_t cut_need_q;       // The rank that is looked for among the members that are left.
  count_t members_q;        // These members,
  count_t room_q;           // and what they may be for a store that is not more than 3/4 full.
  count_t left_q;           // So many candidates lie in the threshold bin or above it.
  logic exact_q;            // The cut leaves exactly k.
  logic again_q;            // Another one follows.
  count_t sortable_q;       // So many may be sorted.

  wire command_taken = command_valid_i && command_ready_o;
  assign command_ready_o = state_q == Idle || state_q == Collect;
  wire restarts = command_taken && command_i == SelectStart && state_q == Collect;
  wire finishes = state_q == Answer;
  wire is_full = stored_q >= count_t'(Entries - Margin);
  wire cuts_early = held_i && stored_q >= count_t'(Entries / 8 * 7);
  assign in_ready_o = state_q == Collect && !is_full;

  logic sort_busy, sort_read, sort_write;
  index_t sort_read_index, sort_write_index;
  score_t sort_score;
  token_t sort_token;

  // ---- Store ---------------------------------------------------------------------------------
  logic write, read_valid, read_busy;
  index_t read_index, write_index;
  score_t read_score, write_score;
  token_t read_token, write_token;

  nkv_candidate_store #(
    .Entries(Entries)
  ) u_store (
    .clk_i, .rst_ni,
    .read_i(sort_read || replays_q), .read_index_i(read_index),
    .read_valid_o(read_valid), .read_busy_o(read_busy),
    .read_score_o(read_score), .read_token_o(read_token),
    .write_i(write), .write_index_i(write_index),
    .write_score_i(write_score), .write_token_i(write_token)
  );

  // ---- Candidates, new ones and replayed ones, get their bins --------------------------------
  wire is_cutting = state_q == Pass || state_q == Compact;
  wire is_new = in_valid_i && in_ready_o;

  logic binned_valid, bins_busy;
  score_t binned_score;
  token_t binned_token;
  word_t binned_word;
  bin_t binned_bin;

  nkv_score_bin u_bin (
    .clk_i, .rst_ni,
    .reference_i(reference_q), .shift_i(shift_q),
    .valid_i(is_new || (read_valid && is_cutting)),
    .score_i(is_new ? in_score_i : read_score),
    .token_i(is_new ? in_token_i : read_token),
    .valid_o(binned_valid),
    .score_o(binned_score), .token_o(binned_token), .word_o(binned_word), .bin_o(binned_bin),
    .busy_o(bins_busy)
  );

  logic new_valid, new_keep;                           // Of the threshold,
  logic digit_valid, old_valid, old_keep, cut_is_last;  // and of the cut.
  wire stores = new_valid && new_keep;
  wire keeps = old_valid && old_keep && state_q == Compact;

  logic tested_valid, beats_tau;
  bin_t tested_bin;
  score_t held_score;
  token_t held_token;

  nkv_select_tau u_tau (
    .clk_i, .rst_ni,
    .clear_i(state_q == Idle || restarts),
    .valid_i(binned_valid), .score_i(binned_score), .token_i(binned_token), .bin_i(binned_bin),
    .valid_o(tested_valid), .beats_o(beats_tau), .bin_o(tested_bin),
    .held_score_o(held_score), .held_token_o(held_token),
    .restart_i(state_q == Decide),
    .keep_i(keeps && exact_q),
    .commit_i(state_q == Fix && exact_q)
  );

  wire collects = state_q == Collect || state_q == Drain;
  wire is_quiet = !bins_busy && !tested_valid && !read_busy && !replays_q;
  wire replay_is_over = is_quiet && !old_valid;

  // ---- Threshold bin, and the cut through it --------------------------------------------------
  logic threshold_ready, settled, reached;
  bin_t threshold;
  count_t above, at_threshold;
  nkv_select_threshold #(
    .CountBits(CountBits)
  ) u_threshold (
    .clk_i, .rst_ni,
    .clear_i(restarts || finishes),
    .ready_o(threshold_ready),
    .k_i(k_q),
    .add_valid_i(tested_valid && collects && beats_tau),
    .add_bin_i(tested_bin),
    .keep_valid_o(new_valid),
    .keep_o(new_keep),
    .settled_o(settled),
    .reached_o(reached),
    .threshold_o(threshold),
    .above_o(above),
    .refresh_i(state_q == Refresh),
    .at_o(at_threshold),
    .set_valid_i(state_q == Fix && exact_q),
    .set_count_i(need_q)
  );

  logic [DigitBits-1:0] digit, found_digit;
  logic find, found, digits_busy;
  count_t found_rank, found_members;

  nkv_select_cut #(
    .DigitBits(DigitBits)
  ) u_cut (
    .clk_i, .rst_ni,
    .begin_i(state_q == Refresh),
    .threshold_i(threshold), .shift_i(shift_q),
    .pass_i(found),
    .valid_i(binned_valid && !collects),
    .word_i(binned_word), .token_i(binned_token), .bin_i(binned_bin),
    .digit_valid_o(digit_valid), .digit_o(digit),
    .keep_valid_o(old_valid), .keep_o(old_keep),
    .advance_i(found), .digit_i(found_digit), .is_last_o(cut_is_last)
  );

  nkv_digit_rank #(
    .DigitBits(DigitBits),
    .CountBits(CountBits)
  ) u_digits (
    .clk_i, .rst_ni,
    .busy_o(digits_busy),
    .add_valid_i(digit_valid && state_q == Pass), .add_digit_i(digit),
    .find_i(find), .need_i(cut_need_q),
    .done_o(found), .digit_o(found_digit), .rank_o(found_rank), .members_o(found_members)
  );

  assign find = state_q == Pass && replay_is_over && !digits_busy;

  // ---- Sort ----------------------------------------------------------------------------------

  nkv_candidate_sort #(
    .IndexBits(IndexBits - 1)
  ) u_sort (
    .clk_i, .rst_ni,
    .start_i(finishes && stored_q != '0),
    .count_i(stored_q[IndexBits-1:0]),
    .give_i(answer_count_o[IndexBits-1:0]),
    .busy_o(sort_busy),
    .read_valid_o(sort_read), .read_address_o(sort_read_index),
    .read_score_i(read_score), .read_token_i(read_token),
    .write_valid_o(sort_write), .write_address_o(sort_write_index),
    .write_score_o(sort_score), .write_token_o(sort_token),
    .out_valid_o, .out_ready_i, .out_last_o, .out_score_o, .out_token_o
  );

  assign read_index = sort_read ? sort_read_index : replay_q;

  assign write = stores || keeps || sort_write;
  assign write_index = sort_write ? sort_write_index :
                       keeps ? kept_q[IndexBits-1:0] : stored_q[IndexBits-1:0];
  assign write_score = sort_write ? sort_score : held_score;
  assign write_token = sort_write ? sort_token : held_token;

  assign answer_valid_o = state_q == Answer;
  assign answer_count_o = stored_q > k_q ? k_q : stored_q;

  // ---- Order of events -----------------------------------------------------------------------
  wire fits = members_q == need_q;
  wire is_cut_by_bin = members_q <= room_q;
  // Passes over what a cut by the bin leaves are so much shorter that it goes first.
  wire bin_first = !fits && !is_cut_by_bin && (CountBits + 1)'(stored_q) > {left_q, 1'b0};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Clear;
      wants_q <= 1'b0;
      started_q <= 1'b0;
      k_q <= count_t'(1);
      reference_q <= '0;
      shift_q <= '0;
      stored_q <= '0;
    end else begin
      if (stores) stored_q <= stored_q + 1'b1;
      unique case (state_q)
        // What was under way when a Start came is lost here.
        Clear: begin
          if (threshold_ready && !digits_busy && is_quiet && !new_valid) begin
            state_q <= started_q ? Collect : Idle;
          end
        end
        Idle, Collect: begin
          if (command_taken) begin
            wants_q <= 1'b1;
            if (command_i == SelectStart) begin
              state_q <= state_q == Idle ? Collect : Clear;
              started_q <= 1'b1;
              stored_q <= '0;
              k_q <= count_t'(k_i);
              reference_q <= reference_i;
              shift_q <= shift_i;
            end else begin
              state_q <= Drain;
            end
          end else if (is_full || cuts_early) begin
            wants_q <= 1'b0;
            state_q <= Drain;
          end
        end
        Drain: if (is_quiet && !new_valid) state_q <= Settle;
        Settle: begin
          if (settled) state_q <= !reached || (wants_q && stored_q <= sortable_q) ? Answer : Refresh;
        end
        Refresh: state_q <= Choose;
        Choose: state_q <= Decide;
        Decide: state_q <= fits || is_cut_by_bin || bin_first ? Compact : Pass;
        Pass: if (find) state_q <= Find;
        Find: if (found) state_q <= found_rank == found_members || cut_is_last ? Compact : Pass;
        Compact: if (replay_is_over) state_q <= Fix;
        Fix: begin
          stored_q <= kept_q;
          state_q <= again_q ? Refresh : wants_q ? Answer : Collect;
        end
        Answer: begin
          started_q <= 1'b0;
          state_q <= stored_q == '0 ? Clear : Sort;
        end
        Sort: begin
          if (!sort_busy) begin
            stored_q <= '0;
            state_q <= Clear;
          end
        end
        default: state_q <= Clear;
      endcase
    end
  end

  // Numbers of a cut: set when it begins, and after each pass.
  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Choose: begin
        replay_end_q <= index_t'(stored_q - 1'b1);
        need_q <= k_q - above;
        members_q <= at_threshold;
        left_q <= above + at_threshold;
        room_q <= (wants_q ? sortable_q : count_t'(Entries / 4 * 3)) - above;
      end
      Decide: begin
        replay_q <= '0;
        replays_q <= 1'b1;
        kept_q <= '0;
        cut_need_q <= need_q;
        exact_q <= fits || !(is_cut_by_bin || bin_first);
        again_q <= bin_first;
      end
      Find: begin
        if (found) begin
          replay_q <= '0;
          replays_q <= 1'b1;
          cut_need_q <= found_rank;
        end
      end
      Pass, Compact: begin
        if (replays_q) replay_q <= replay_q + 1'b1;
        if (replay_q == replay_end_q) replays_q <= 1'b0;
      end
      Clear: replays_q <= 1'b0;
      default: ;
    endcase
    if (keeps) kept_q <= kept_q + 1'b1;
    sortable_q <= k_q > count_t'(Entries / 2 - Excess) ? count_t'(Entries / 2) : k_q + count_t'(Excess);
  end

  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, {out_last_o, out_score_o, out_token_o})

endmodule
