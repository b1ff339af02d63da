// What the modules of the engine share: sizes that a build chooses, and the structs that pass
// between modules. What the host sees stands in nkv_abi_pkg, generated from the contract.

package nkv_pkg;

  import nkv_abi_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // ---- Sizes of this build --------------------------------------------------------------
  // Query rows that are scored side by side.
  localparam int unsigned Rows = 8;
  // Widest key or value row of this build, in channels.
  localparam int unsigned Channels = 128;
  // Elements of a row that the exact stages take per cycle.
  localparam int unsigned ExactLanes = 32;
  // Longest page list that is kept on chip: the contract's MaxTokens.
  localparam int unsigned ListPages = 16384;
  localparam int unsigned PageIndexBits = $clog2(ListPages);
  localparam int unsigned ListTokensLog2 = $clog2(ListPages * PageTokens);
  // How long selectors clear their memories after reset, at the most.
  localparam int unsigned ClearCycles = 4500;
  // For which memory may not answer, or a command not get on, before it counts as lost.
  localparam int unsigned PatienceCycles = 262144;
  // Pages whose bodies may be on their way: with few bursts of each, a memory's latency needs many.
  localparam int unsigned PagesAhead = 32;
  // Memory bursts that an engine may have in flight.
  localparam int unsigned Outstanding = 128;
  // Bit c: TRANSCODE builds pages of codec c, and reads them. What it only reads are those of
  // compressors, whose choices between equal pages it does not share.
  localparam logic [15:0] BuiltCodecs = 16'd1 << CodecNone | 16'd1 << CodecInt8 |
      16'd1 << CodecInt4 | 16'd1 << CodecFp8;
  localparam logic [15:0] ReadCodecs = BuiltCodecs | 16'd1 << CodecPlanesLz4 |
      16'd1 << CodecPlanesZstd;

  // ---- Memory: AXI4 as the CXL IP's slices have it, and what units ask of it -----------------
  localparam int unsigned BurstBits = BurstBytes * 8;
  typedef logic [BurstBits-1:0] burst_t;
  // Byte address in device memory.
  localparam int unsigned AddressBits = 52;
  typedef logic [AddressBits-1:0] address_t;
  localparam int unsigned AxiIdBits = 12;
  typedef logic [AxiIdBits-1:0] axi_id_t;

  typedef struct packed {
    axi_id_t    id;
    address_t   addr;
    logic [9:0] len;     // Beats - 1.
  } axi_ar_t;

  typedef struct packed {
    axi_id_t    id;
    logic       error;   // resp is SLVERR or DECERR.
    logic       poison;  // user
    logic       last;
    burst_t     data;
  } axi_r_t;

  // Writes are single beats: address and data of one burst travel together.
  typedef struct packed {
    axi_id_t               id;
    address_t              addr;
    logic [BurstBytes-1:0] strb;
    logic                  poison;
    burst_t                data;
  } axi_w_t;

  typedef struct packed {
    axi_id_t id;
    logic    error;
  } axi_b_t;

  // What a queue's commands may touch: addresses of commands are offsets into its window.
  typedef struct packed {
    logic [15:0] tenant;
    address_t    window_bytes;
    address_t    window_base;
  } domain_t;

  // Who takes the bursts of a read.
  typedef enum logic [2:0] {
    SinkList,    // Page entries.
    SinkQuery,   // Query rows.
    SinkHeader,  // Page headers.
    SinkArray,   // Arrays of pages.
    SinkRows,    // Source rows of APPEND.
    SinkIds      // Token ids of GATHER.
  } sink_e;

  // PageArray*.
  typedef logic [$clog2(PageArrayCount)-1:0] page_array_t;

  // What travels with a read and comes back with each of its bursts.
  typedef struct packed {
    logic [6:0]                   last_bytes;  // Bytes that count of the last burst, 1 to 64.
    logic [PageIndexBits-1:0]     page;        // Of the list on chip.
    logic                         keys_too;    // Key rows that are the page's values, too.
    logic                         whole;       // A whole array, which has a checksum.
    page_array_t                  array;
    sink_e                        sink;
  } read_tag_t;

  typedef logic [25:0] burst_count_t;

  // Bursts that hold so many bytes.
  function automatic burst_count_t bursts_of(logic [31:0] bytes);
    return burst_count_t'((33'(bytes) + 33'(BurstBytes) - 33'd1) >> $clog2(BurstBytes));
  endfunction

  // Of a compressed page, whole grains.
  function automatic logic [31:0] compressed_page_bytes(logic [31:0] payload_bytes);
    return (32'(PageHeaderBytes) + payload_bytes + 32'(PageGrainBytes) - 32'd1) &
        ~(32'(PageGrainBytes) - 32'd1);
  endfunction

  // Whether `bytes` from `address` on lie in the first `space` bytes.
  function automatic logic span_inside(logic [63:0] space, logic [63:0] address, logic [63:0] bytes);
    return bytes <= space && address <= space - bytes;
  endfunction

  // Whether bytes [a_begin, a_end) and [b_begin, b_end) share one.
  function automatic logic spans_overlap(logic [63:0] a_begin, logic [63:0] a_end,
                                         logic [63:0] b_begin, logic [63:0] b_end);
    return a_begin < b_end && b_begin < a_end;
  endfunction

  // A read of whole bursts. `address` is an offset into the window, at a multiple of 64 bytes.
  typedef struct packed {
    read_tag_t   tag;
    burst_count_t bursts;  // At least 1.
    logic [63:0] address;
  } read_request_t;

  // One burst of a read, in the order of the requests.
  typedef struct packed {
    logic      fault;    // The read lay outside the window: no data, and no further bursts of it.
    logic      poison;   // The memory says that the data are not to be used.
    logic      first;    // Of its request.
    logic      last;
    read_tag_t tag;
    burst_t    data;
  } read_beat_t;

  // A write within one burst, at an offset into the window.
  typedef struct packed {
    logic [63:0]           address;  // A multiple of 64.
    logic [BurstBytes-1:0] strobes;
    burst_t                data;
  } write_request_t;

  // ---- Commands ---------------------------------------------------------------------------
  typedef struct packed {
    status_e     status;
    logic [63:0] detail;
  } verdict_t;

  localparam verdict_t VerdictOk = '{status: StatusOk, detail: '0};

  typedef struct packed {
    domain_t      domain;
    logic [511:0] command;
  } engine_command_t;

  // What a command reports in its completion.
  typedef struct packed {
    logic [31:0] bound;
    logic [7:0]  rounds;
    logic [7:0]  flags;
    logic [31:0] value_bursts;
    logic [31:0] exact_bursts;
    logic [31:0] refine_bursts;
    logic [31:0] stream_bursts;
    logic [31:0] count;
    verdict_t    verdict;
  } outcome_t;

  // Bursts of a command's results that are still to be written.
  typedef logic [7:0] results_t;

  // ---- Pages --------------------------------------------------------------------------------
  // Bit t: token t of a page.
  typedef logic [PageTokens-1:0] token_mask_t;

  // What makes a header one is written last: its first bytes, the same for all pages but for the flags.
  localparam int unsigned HeaderWordBytes = 8;
  typedef logic [8*HeaderWordBytes-1:0] header_word_t;
  function automatic header_word_t header_word(logic [7:0] flags);
    return {flags, PageStateClosed, PageVersion, PageMagic};
  endfunction
  // The bytes of a header's first burst behind them.
  localparam logic [BurstBytes-1:0] HeaderRest = {BurstBytes{1'b1}} << HeaderWordBytes;

  // A page's place in the list of its command, and in the part of it that is on chip.
  typedef logic [$clog2(MaxTokens)-1:0] list_index_t;
  typedef logic [PageIndexBits-1:0] page_index_t;

  // A page that a pass goes to, and which of its tokens it is for.
  typedef struct packed {
    page_index_t page;
    token_mask_t tokens;
  } visit_t;

  // What a page must be to serve a command.
  typedef struct packed {
    logic        any_codec;   // Compressed pages too.
    logic        keys;        // `head_dim` must fit,
    logic        values;      // `value_dim` too, and all pages store values or none does.
    logic        raw_keys;    // Keys must be RAW.
    logic        alike;       // All pages are of the first one's type and sizes, and fit this build.
    logic        any_values;  // There are channels of values.
    logic        no_codes;    // This build does not take their codes along.
    logic [15:0] head_dim;
    logic [15:0] value_dim;
  } demand_t;

  // A page that was judged. Unless the verdict is OK, only `page` and `verdict` hold.
  typedef struct packed {
    visit_t       visit;
    verdict_t     verdict;
    logic [63:0]  address;      // Offset into the window.
    page_header_t header;
    logic [31:0]  total_bytes;
    logic [PageArrayCount-1:0][31:0] offset;  // Of each array in the page,
    logic [PageArrayCount-1:0][31:0] bytes;   // and its size.
  } page_record_t;

  // A page whose body has been asked for, as whoever takes its bursts must know it.
  typedef struct packed {
    page_index_t page;
    token_mask_t tokens;      // The visit's,
    token_mask_t nonfinite;   // and those whose key is not finite.
    row_form_e   k_form;
    row_form_e   v_form;
    dtype_e      dtype;
    logic        key_scales;  // It has KEY_SCALES.
  } page_body_t;

  // What a pass reads of the pages that it goes to.
  typedef struct packed {
    logic [PageArrayCount-1:0] whole;       // Arrays, ascending, each verified.
    logic                      compressed;  // Of compressed pages the payload instead.
    logic                      padding;     // After the arrays, what follows them to the page's end.
    logic                      rows;        // After the arrays, the key rows of the visit's tokens,
    logic                      rows_whole;  // or with this all rows, verified.
    logic                      of_values;   // Rows are of values; what a page that stores none would
                                            // have of values is read of its keys instead.
    logic                      again;       // Pages were verified before, and must still be the same.
  } plan_t;

  // Entries of a page list that are to be brought on chip.
  typedef struct packed {
    logic [63:0]            address;
    logic [PageIndexBits:0] entries;
  } list_load_t;

  // A pass over the pages on chip that have a token in sight.
  typedef struct packed {
    logic [31:0] tokens;
    logic [31:0] window;
    logic [7:0]  sinks;
    list_index_t first_index;  // Of the first page on chip, in the command's list.
    demand_t     demand;
    plan_t       plan;
    logic        erase;
  } pass_setup_t;

  // A page of a pass that cannot be used, by its index in the command's list.
  typedef struct packed {
    status_e     status;
    list_index_t index;
  } page_failure_t;

  // How a pass goes.
  typedef struct packed {
    logic          done;       // All that it asked for has come and was verified.
    logic          failed;
    page_failure_t failure;    // The failing page of the lowest index.
    logic          nonfinite;  // A token in sight has a key that is not finite.
    logic [31:0]   bursts;     // Of headers and arrays of the pages so far.
  } pass_report_t;

  // verilator lint_on UNUSEDPARAM

endpackage
