// What passes between the modules that build a page, and how source rows lie.

package nkv_ingest_pkg;

  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // An element of a source row as it came, in the low bits.
  typedef logic [15:0] element_t;
  // A tensor of a page is PageTokens rows of up to RowWords words.
  localparam int unsigned TokenBits = $clog2(PageTokens);
  typedef logic [TokenBits-1:0] token_t;
  // Rows of elements are counted in granules where they are stored.
  localparam int unsigned GranuleBytes = 8;
  localparam int unsigned BurstGranules = BurstBytes / GranuleBytes;
  typedef logic [8*GranuleBytes-1:0] granule_t;
  typedef logic [$clog2(BurstGranules+1)-1:0] granule_count_t;

  // A page that someone else than an APPEND builds here, of rows that it keeps: what `command` says but
  // for its page list. Rows are asked for where the command says that they lie, without key scales.
  typedef struct packed {
    logic            active;         // Held, with the command, from load to done.
    append_command_t command;        // One page; its rows lie at multiples of 64.
    logic [15:0]     tenant;
    logic [63:0]     address;        // Where the page goes,
    logic [15:0]     generation;
    logic            load;           // Before each start.
    logic            start;
    logic            drain;          // After an overflow, until rows_idle.
    logic            request_ready;
    logic            beat_valid;
    read_beat_t      beat;
    logic            scale_valid;    // All of a page's come before its last key row.
    token_t          scale_row;
    logic [31:0]     scale;
  } guest_page_t;

  typedef struct packed {
    logic [31:0]   total_bytes;      // Of the page; from the cycle after load on.
    logic          done;             // For one cycle, and
    logic          overflow;         // in place of it: DELTA4 does not hold its rows.
    logic [7:0]    k_exponent;       // With done.
    logic [7:0]    v_exponent;
    logic          rows_idle;
    logic          request_valid;
    read_request_t request;
    logic          beat_ready;
  } guest_report_t;

  // verilator lint_on UNUSEDPARAM

  // Bytes of a source row, without and with what follows the elements.
  function automatic logic [31:0] source_row_bytes(dtype_e dtype, logic [15:0] dim, logic scaled);
    return 32'(dim) * element_bytes(dtype) + (scaled ? 32'd4 : 32'd0);
  endfunction

  // Bytes from the first byte of `tokens` source rows to the last.
  function automatic logic [63:0] source_span(logic [31:0] tokens, logic [31:0] stride,
                                              logic [31:0] row);
    return (64'(tokens) - 64'd1) * 64'(stride) + 64'(row);
  endfunction

endpackage
