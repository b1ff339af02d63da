// Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit.
//
// NearKV device contract, version 3.0.
// The first member of a packed struct is its most significant part, so members stand in reverse:
// byte 0 of a structure in memory is bits 7:0 of the struct.

package nkv_abi_pkg;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  localparam logic [63:0] AbiId = 64'h0056_4b52_4145_4e01;
  localparam logic [15:0] AbiMajor = 16'd3;
  localparam logic [15:0] AbiMinor = 16'd0;
  localparam logic [31:0] PageMagic = 32'h504b_564e;
  localparam logic [15:0] PageVersion = 16'd2;

  // Limits
  // [tokens] Tokens of one closed page.
  localparam int unsigned PageTokens = 64;
  // [bytes] One memory burst: the grain in which a device reads and in which traffic is counted.
  localparam int unsigned BurstBytes = 64;
  // [bytes] Every command, and every slot of a ring.
  localparam int unsigned CommandBytes = 64;
  // [bytes] Device memory goes round a card's slices in granules of so many bytes, which are the
  // lines that its CXL IP deals them.
  localparam int unsigned SliceGranuleBytes = 64;
  // [bytes] A page starts at a multiple of this; `page_entry.page` counts in it.
  localparam int unsigned PageGrainBytes = 256;
  // [tokens] Longest page list of one command. Longer contexts take several commands, merged by (O,
  // LSE).
  localparam int unsigned MaxTokens = 1048576;
  // [rows] Most query rows (query heads of a KV head, times new tokens) in one command.
  localparam int unsigned MaxGroup = 128;
  // [channels] Widest key row: an MLA latent of 512 plus its 64 rotary channels.
  localparam int unsigned MaxHeadDim = 576;
  // [tokens] Largest k of TOPK.
  localparam int unsigned MaxTopK = 4096;
  // [queues] Queue register blocks in the map.
  localparam int unsigned MaxQueues = 16;
  // [bytes] From a queue's doorbell in device memory to the next's: a page of a host, which can
  // give each to another process.
  localparam int unsigned DoorbellStrideBytes = 4096;
  // [entries] Failed commands that a device remembers.
  localparam int unsigned ErrorEntries = 16;
  // [words] Room for the registers of a hotness monitoring unit.
  localparam int unsigned HotnessWords = 2048;
  // [us] For so long at the least after a doorbell a device waits for what it told of and what is
  // not in the submission ring yet.
  localparam int unsigned SlotPatienceUs = 500;
  // [entries] Smallest ring.
  localparam int unsigned MinRingEntries = 16;
  // [entries] Largest ring. Ring sizes are powers of two.
  localparam int unsigned MaxRingEntries = 4096;
  // [entries] Room for DELTA4 exceptions in a page, per tensor.
  localparam int unsigned Exceptions = 16;
  // [planes] Bit planes of the codes of K.
  localparam int unsigned KeyCodePlanes = 4;
  // [planes] Bit planes of the codes of V.
  localparam int unsigned ValueCodePlanes = 3;
  // [sets] Sign sets of codes.
  localparam int unsigned SignSets = 16;
  // [pages] Pages in a row that share a sign set, and with it a transformed query, if APPEND does
  // not say.
  localparam int unsigned SignRun = 8;
  // [sixteenths] Standard deviations behind the bound of ATTEND in mode BOUNDED, if the command
  // does not say.
  localparam int unsigned UsualBoundZ = 26;
  // [sixteenths] Standard deviations that TOPK in mode STATISTICAL allows for, if the command does
  // not say.
  localparam int unsigned UsualSearchZ = 96;

  // Number formats
  // Query element: signed integer, the head's largest exponent at the top.
  localparam int unsigned QueryBits = 24;
  // Key element in the exact stage: signed integer, the list's largest exponent at the top.
  localparam int unsigned KeyBits = 27;
  // Value element: signed integer, the list's largest exponent at the top.
  localparam int unsigned ValueBits = 25;
  // Fraction bits of a logit in base 2.
  localparam int unsigned LogitFractionBits = 16;
  // Softmax weight mantissa: 1.17, before its right shift.
  localparam int unsigned WeightBits = 18;
  // Leading fraction bits that index the exp2 table; the rest interpolates.
  localparam int unsigned Exp2TableBits = 6;

  // What a command does.
  typedef enum logic [7:0] {
    // Nothing; completes.
    OpcodeNop = 8'd0,
    // Build pages from K and V rows.
    OpcodeAppend = 8'd1,
    // Give K or V rows back, exact or as their codes tell them.
    OpcodeRead = 8'd2,
    // Score a group of queries against a page list and return the best k.
    OpcodeTopk = 8'd3,
    // softmax(q K) V over a page list: (O, LSE).
    OpcodeAttend = 8'd4,
    // Pack chosen K or V rows for the host.
    OpcodeGather = 8'd5,
    // Rewrite pages with another codec.
    OpcodeTranscode = 8'd6,
    // Verify every checksum of pages.
    OpcodeScrub = 8'd7,
    // Wipe pages.
    OpcodeErase = 8'd8,
    // Copy pages to other places.
    OpcodeCopy = 8'd9
  } opcode_e;

  // How a command ended. The errno is what the C API and the driver return, negated; the message is
  // what a person reads.
  typedef enum logic [7:0] {
    // done
    StatusOk = 8'd0,
    // the opcode is unknown to this device; check that library and device have the same ABI
    StatusBadOpcode = 8'd1,
    // a command field is out of range; detail is the field's byte offset
    StatusBadField = 8'd2,
    // an address lies outside the queue's window; detail is the address
    StatusAddressFault = 8'd3,
    // the page was freed or rewritten since its entry was made; detail is the entry's index; look
    // the sequence up again
    StatusStalePage = 8'd4,
    // a page's shape or format does not fit the command; detail is the entry's index
    StatusBadPage = 8'd5,
    // a checksum is wrong, so the page or object was not used; detail is the entry's index; drop
    // the sequence or object and recompute it
    StatusCorrupt = 8'd6,
    // the memory reported poison; detail is the entry's index; drop the sequence or object and
    // recompute it
    StatusPoison = 8'd7,
    // these rows do not fit the compact row form; detail is the page's index; append it with row
    // form RAW
    StatusPageOverflow = 8'd8,
    // the query holds a NaN or an infinity; detail is the row
    StatusBadQuery = 8'd9,
    // this device does not offer the requested mode; read FEATURES
    StatusUnsupported = 8'd10,
    // a page is compressed; transcode it to codec NONE first; detail is the entry's index
    StatusColdPage = 8'd11,
    // the device was reset while the command was in flight; submit it again
    StatusAborted = 8'd12,
    // the device failed; read DEVICE_STATUS
    StatusInternal = 8'd13,
    // a doorbell told of a command that was not written to the ring in time; the completion's
    // sq_head tells which; write commands with the ring's phase, then ring
    StatusNotWritten = 8'd14,
    // no such device, or it cannot be opened
    StatusNoDevice = 8'd64,
    // the device URI is malformed; see nearkv/device.hpp
    StatusBadUri = 8'd65,
    // the device speaks another ABI; rebuild the library or update the device
    StatusBadAbi = 8'd66,
    // an argument is out of range
    StatusBadArgument = 8'd67,
    // the pool has no room left that may be used; drop or unpin something, or open a larger pool
    StatusPoolFull = 8'd68,
    // no such sequence, object or namespace
    StatusNotFound = 8'd69,
    // it exists already
    StatusExists = 8'd70,
    // the queue is full; poll completions and submit again
    StatusQueueFull = 8'd71,
    // the device did not answer in time
    StatusTimeout = 8'd72,
    // the memory holds no NearKV pool, or one of another version; create it anew
    StatusBadPool = 8'd73,
    // the operating system refused an operation on the pool's memory
    StatusIoError = 8'd74,
    // not enough memory
    StatusOutOfMemory = 8'd75,
    // compressed data is damaged
    StatusCodecError = 8'd76,
    // the job was cancelled before this item began
    StatusCancelled = 8'd77,
    // the object is leased or being written; try again when that is over
    StatusBusy = 8'd78,
    // the tenant's quota is used up by objects that cannot be evicted; unpin some or raise it
    StatusQuota = 8'd79,
    // this client may not do that; see the permissions of its tenant
    StatusDenied = 8'd80,
    // the daemon does not answer; start `nearkv serve`, or wait for its restart and try again
    StatusNoDaemon = 8'd81,
    // opened before this process was made by fork(), and of no use in it; open or connect again
    // here
    StatusForked = 8'd82,
    // the namespace's model, dtype and layout are too long together; they may have 960 bytes
    StatusNameTooLong = 8'd83,
    // the object is too large; it may have 536870912 bytes (512 MiB)
    StatusObjectTooLarge = 8'd84,
    // each namespace that may be there has objects or users; erase a namespace's objects and close
    // it, or raise max_namespaces: a tenant's in the daemon's configuration, a pool's when it is
    // made
    StatusNamespacesFull = 8'd85,
    // the object does not fit the half of the window that carries bytes to the daemon; raise
    // window_bytes and the daemon's clients.window, or use memory of allocate()
    StatusWindowTooSmall = 8'd86,
    // the other hosts hold this one for dead; drop its objects and join again
    StatusFenced = 8'd88,
    // other hosts have not answered yet; poll and call again
    StatusNotYet = 8'd89
  } status_e;

  // Element type of rows that the host hands over.
  typedef enum logic [7:0] {
    // bfloat16.
    DtypeBf16 = 8'd0,
    // IEEE binary16.
    DtypeFp16 = 8'd1,
    // IEEE binary32; queries only.
    DtypeFp32 = 8'd2,
    // OCP FP8 E4M3FN: no infinities, NaN = S.1111.111.
    DtypeFp8E4m3 = 8'd3,
    // OCP FP8 E5M2.
    DtypeFp8E5m2 = 8'd4,
    // Two's complement; the scale is the caller's.
    DtypeInt8 = 8'd5
  } dtype_e;

  // How a page stores the exact rows of a tensor.
  typedef enum logic [7:0] {
    // The source elements, unchanged.
    RowFormRaw = 8'd0,
    // bf16 in 12 bits, lossless: a sign-and-mantissa byte and a 4-bit exponent below the channel's
    // largest; 0 is zero or an exception.
    RowFormDelta4 = 8'd1,
    // Not stored: no values, or values that are the leading channels of K (MLA).
    RowFormNone = 8'd2
  } row_form_e;

  // Compression of a page's payload. Only pages of codec NONE can be attended to.
  typedef enum logic [7:0] {
    // Attendable.
    CodecNone = 8'd0,
    // Lossless: exponent-delta bit planes, LZ4.
    CodecPlanesLz4 = 8'd2,
    // Lossless: exponent-delta bit planes, ZSTD.
    CodecPlanesZstd = 8'd3,
    // Lossy: per channel for K, per token for V.
    CodecInt8 = 8'd4,
    // Lossy: per channel for K, per token for V.
    CodecInt4 = 8'd5,
    // Lossy: E4M3 with a power-of-two scale per channel for K, per token for V.
    CodecFp8 = 8'd6
  } codec_e;

  // How TOPK finds its tokens.
  typedef enum logic [7:0] {
    // By codes: only rows are read that z-sigma bounds from codes leave in question, and the ids
    // are those of FULL but for a few. A list of pages without codes is answered as FULL does.
    // Needs feature CODES.
    SelectStatistical = 8'd1,
    // Every row is read exactly.
    SelectFull = 8'd2,
    // DSA lightning indexer: sum over heads of weight * relu(q k), one list for the whole group;
    // every row is read.
    SelectIndexer = 8'd3
  } select_e;

  // What ATTEND reads.
  typedef enum logic [7:0] {
    // Every visible token exactly.
    AttendModeDense = 8'd0,
    // By codes: the best k tokens exactly, all others as their codes tell them. A list of pages
    // without codes is answered as DENSE does. Needs feature CODES.
    AttendModeTail = 8'd1,
    // By codes: planes of codes and rows are read until the measured error is within `error`. A
    // list of pages without codes is answered as DENSE does. Needs feature CODES.
    AttendModeBounded = 8'd2
  } attend_mode_e;

  // Which rows READ and GATHER return.
  typedef enum logic [7:0] {
    // K rows.
    TensorKeys = 8'd0,
    // V rows.
    TensorValues = 8'd1,
    // All K rows, then all V rows.
    TensorBoth = 8'd2
  } tensor_e;

  // Life of a page slot.
  typedef enum logic [7:0] {
    // Nothing to find here.
    PageStateFree = 8'd0,
    // Holds PAGE_TOKENS tokens and never changes.
    PageStateClosed = 8'd1
  } page_state_e;

  // Options of ATTEND. Bit numbers, and the mask of all.
  // O is bf16; fp32 otherwise.
  localparam int unsigned AttendFlagOutputBf16 = 0;
  // LSE is a base-2 logarithm; natural otherwise.
  localparam int unsigned AttendFlagLseBase2 = 1;
  localparam logic [7:0] AttendFlagAll = 8'h03;

  // Options of APPEND. Bit numbers, and the mask of all.
  // Each key row is followed by its fp32 scale (fp8 indexer keys).
  localparam int unsigned AppendFlagKeyScales = 0;
  // The pages get codes, with the gains that stand behind the entries.
  localparam int unsigned AppendFlagCodes = 1;
  localparam logic [7:0] AppendFlagAll = 8'h03;

  // What a page carries besides its rows. Bit numbers, and the mask of all.
  // The KEY_SCALES array is present.
  localparam int unsigned PageFlagKeyScales = 0;
  // The arrays of codes, CODE_SUMMARY to K_GAINS, are present. To a device without feature
  // CODE_PAGES such a page is BAD_PAGE.
  localparam int unsigned PageFlagCodes = 1;
  localparam logic [7:0] PageFlagAll = 8'h03;

  // Options of READ. Bit numbers, and the mask of all.
  // Rows as the codes of `planes` planes tell them, in bf16.
  localparam int unsigned ReadFlagCodes = 0;
  localparam logic [7:0] ReadFlagAll = 8'h01;

  // What a slot of a submission ring says in its command's `flags`, where no command has an option.
  // Bit numbers, and the mask of all.
  // The ring's current phase (1 in the first round, then alternating): the slot is written. A
  // doorbell may overtake the stores before it, so the device waits for this, SLOT_PATIENCE_US at
  // the least, and ends a command that does not come with NOT_WRITTEN. The host writes the first 32
  // bits of a slot last. Commands lose it as they are fetched.
  localparam int unsigned SlotFlagPhase = 7;
  localparam logic [7:0] SlotFlagAll = 8'h80;

  // What a person should know of a result. Bit numbers, and the mask of all.
  // Tokens whose key (or key scale, where it is used) holds a NaN or infinity took no part.
  localparam int unsigned CompletionFlagNonfinite = 0;
  // TAIL or BOUNDED was answered by a dense read: the list has no codes, codes could not say its
  // scores, or it was cheaper.
  localparam int unsigned CompletionFlagDenseFallback = 1;
  // BOUNDED stopped at its byte cap; `bound` says what was reached.
  localparam int unsigned CompletionFlagCapped = 2;
  localparam logic [7:0] CompletionFlagAll = 8'h07;

  // FEATURES register. Bit numbers, and the mask of all.
  // DSA indexer selection.
  localparam int unsigned FeatureIndexer = 1;
  // TRANSCODE, between the codecs that CODECS names.
  localparam int unsigned FeatureTranscode = 4;
  // Completions carry device time.
  localparam int unsigned FeatureTicks = 5;
  // Queues share the device by WEIGHT.
  localparam int unsigned FeatureQueueWeights = 6;
  // INTERRUPT_STATUS, INTERRUPT_MASK and COALESCE.
  localparam int unsigned FeatureInterrupts = 7;
  // TOTAL registers of each queue.
  localparam int unsigned FeatureCounters = 8;
  // ERROR registers.
  localparam int unsigned FeatureErrorLog = 9;
  // INLINE registers.
  localparam int unsigned FeatureInlineControl = 10;
  // DOORBELL registers.
  localparam int unsigned FeatureMemoryDoorbells = 11;
  // HOST_HOTNESS and NEAR_HOTNESS.
  localparam int unsigned FeatureHotness = 12;
  // Pages with codes: flag CODES of APPEND, and such pages wherever their rows are used. A device
  // without it answers UNSUPPORTED.
  localparam int unsigned FeatureCodePages = 13;
  // CODE_PAGES, and what is done by codes: flag CODES of READ, ATTEND's modes TAIL and BOUNDED,
  // STATISTICAL of TOPK, TRANSCODE of pages with codes. A device without it answers UNSUPPORTED.
  localparam int unsigned FeatureCodes = 14;
  localparam logic [63:0] FeatureAll = 64'h0000_0000_0000_7ff2;

  // One page of a sequence, as page lists name it. The host writes `page` and `generation` before
  // APPEND, the device the exponents; entries may be copied freely (forks share pages).
  typedef struct packed {
    // Byte 7. The same of the values.
    logic [7:0] v_exponent;
    // Byte 6. Largest biased bf16 exponent among the page's finite keys; 0 if all are zero.
    logic [7:0] k_exponent;
    // Byte 4. Must equal the page header's.
    logic [15:0] generation;
    // Byte 0. Page address in the window, in units of PAGE_GRAIN_BYTES.
    logic [31:0] page;
  } page_entry_t;
  localparam int unsigned PageEntryBytes = 8;

  // Head of a page. The first 64 bytes are all of it that a scan of codes reads, the tenant among
  // them: a page that is touched tells its tenant. Without flag CODES what it says of codes is
  // zero; with it, a sign set that is none is BAD_PAGE to a command that uses codes. CRC32C
  // (Castagnoli, initial value and final inversion all ones) per array and per header half. Of the
  // header, the halves that a command relies on are compared at each use. Arrays are compared in
  // one of two ways, and a device's documentation says which: those that a command streams, each
  // time; or all of a page before the first command that uses it since it came in or the device was
  // reset, and again before a use when the last comparison is older than a stated time. Either way
  // the page is CORRUPT, and nothing of it is used. READ, GATHER, COPY, TRANSCODE and SCRUB compare
  // each time.
  typedef struct packed {
    // Byte 124. CRC32C of bytes 64 to 123.
    logic [31:0] crc_cold;
    // Byte 120. Zero.
    logic [31:0] reserved3;
    // Byte 116. Bytes after the header that are in use.
    logic [31:0] payload_bytes;
    // Byte 114. KV head.
    logic [15:0] kv_head;
    // Byte 112. Layer of the model.
    logic [15:0] layer;
    // Byte 104. That sequence.
    logic [63:0] sequence_id;
    // Byte 100. Position of the page's first token in the sequence that wrote it.
    logic [31:0] first_token;
    // Byte 96. CRC32C of V_CODES.
    logic [31:0] crc_v_codes;
    // Byte 92. CRC32C of K_CODES.
    logic [31:0] crc_k_codes;
    // Byte 88. CRC32C of V_EXCEPTIONS; for a compressed page, of the whole payload.
    logic [31:0] crc_v_exceptions;
    // Byte 84. CRC32C of V_ROWS.
    logic [31:0] crc_v_rows;
    // Byte 80. CRC32C of V_EXPONENTS.
    logic [31:0] crc_v_exponents;
    // Byte 76. CRC32C of KEY_SCALES.
    logic [31:0] crc_key_scales;
    // Byte 72. CRC32C of K_EXCEPTIONS.
    logic [31:0] crc_k_exceptions;
    // Byte 68. CRC32C of K_ROWS.
    logic [31:0] crc_k_rows;
    // Byte 64. CRC32C of K_EXPONENTS.
    logic [31:0] crc_k_exponents;
    // Byte 60. CRC32C of bytes 0 to 59.
    logic [31:0] crc_hot;
    // Byte 56. Zero.
    logic [31:0] reserved2;
    // Byte 52. CRC32C of K_GAINS. Pages whose gains are equal have it in common.
    logic [31:0] crc_k_gains;
    // Byte 48. CRC32C of K_SIGNS.
    logic [31:0] crc_k_signs;
    // Byte 44. CRC32C of CODE_SUMMARY.
    logic [31:0] crc_code_summary;
    // Byte 43. Zero.
    logic [7:0] reserved;
    // Byte 42. Codes: 0 to SIGN_SETS - 1.
    logic [7:0] sign_set;
    // Byte 40. The same of V.
    logic signed [15:0] v_top;
    // Byte 38. Codes: factor 15 of K, in sixteenths of octaves; 0 if no row has a residual.
    logic signed [15:0] k_top;
    // Byte 36. The same of V.
    logic signed [15:0] v_mean_power;
    // Byte 34. Codes: the means of gained K are in units of 2^this.
    logic signed [15:0] k_mean_power;
    // Byte 32. Tenant of the queue that wrote it.
    logic [15:0] tenant;
    // Byte 24. Bit t: the key of token t holds a NaN or infinity.
    logic [63:0] nonfinite;
    // Byte 23. Entries used in V_EXCEPTIONS.
    logic [7:0] v_exceptions;
    // Byte 22. Entries used in K_EXCEPTIONS.
    logic [7:0] k_exceptions;
    // Byte 21. As in the entry.
    logic [7:0] v_exponent;
    // Byte 20. As in the entry.
    logic [7:0] k_exponent;
    // Byte 18. PAGE_TOKENS.
    logic [15:0] tokens;
    // Byte 16. Incremented each time the slot is used; entries of an earlier use are refused.
    logic [15:0] generation;
    // Byte 14. Channels of a value row; 0 without values.
    logic [15:0] value_dim;
    // Byte 12. Channels of a key row.
    logic [15:0] head_dim;
    // Byte 11. NONE, or how the payload is compressed. [a value of codec]
    codec_e codec;
    // Byte 10. Source element type. [a value of dtype]
    dtype_e dtype;
    // Byte 9. Form of the value rows. [a value of row_form]
    row_form_e v_form;
    // Byte 8. Form of the key rows. [a value of row_form]
    row_form_e k_form;
    // Byte 7. What the page carries. [flags of page_flag]
    logic [7:0] flags;
    // Byte 6. Written last when a page is published. [a value of page_state]
    page_state_e state;
    // Byte 4. Page layout version, PAGE_VERSION.
    logic [15:0] version;
    // Byte 0. PAGE_MAGIC.
    logic [31:0] magic;
  } page_header_t;
  localparam int unsigned PageHeaderBytes = 128;

  // An element that DELTA4 cannot hold: smaller than 2^-14 of its channel's largest, or not finite.
  // Scores and values count it as zero; READ and GATHER restore it.
  typedef struct packed {
    // Byte 2. The bf16 pattern.
    logic [15:0] bits;
    // Byte 0. token * dim + channel.
    logic [15:0] element;
  } row_exception_t;
  localparam int unsigned RowExceptionBytes = 4;

  // Follows the header of a compressed page. Behind it come the K block, the V block unless v_form
  // is NONE, KEY_SCALES if flagged, and K_GAINS with CODES, each starting at a multiple of
  // BURST_BYTES from the page's start; bytes between them are zero. A block is one tensor in the
  // header's codec (host_lib/src/codec/FORMATS.md). In the header, payload_bytes reaches to the end
  // of the last part, crc_v_exceptions covers them all, the other arrays' checksums are zero, and
  // what else it says is what the source page said. The page's size is rounded up to
  // PAGE_GRAIN_BYTES, with zeros.
  typedef struct packed {
    // Byte 8. Zero.
    logic [63:0] reserved;
    // Byte 4. Size of the V block; 0 with v_form NONE.
    logic [31:0] v_bytes;
    // Byte 0. Size of the K block.
    logic [31:0] k_bytes;
  } cold_payload_t;
  localparam int unsigned ColdPayloadBytes = 16;

  // Build `tokens` / PAGE_TOKENS pages. The pages' places overlap neither each other nor the bytes
  // from the first row to the last (BAD_FIELD, detail = offset of `page_list`). All or nothing: on
  // an error no entry has changed and no new page can be found; what its place held may be lost.
  // With CODES, K_GAINS of all pages stand behind the page_list's last entry. The completion means
  // that the pages are durable where the memory is: neither the end of a process nor, on memory
  // that outlives it, the loss of power undoes them. At no moment can a page be found whose bytes
  // are not durable.
  typedef struct packed {
    // Byte 63. CODES: pages in a row that share a sign set; 0 means SIGN_RUN. Not looked at without
    // CODES.
    logic [7:0] sign_run;
    // Byte 62. RAW, DELTA4 (bf16 only) or NONE. [a value of row_form]
    row_form_e v_form;
    // Byte 61. RAW or DELTA4 (bf16 only). [a value of row_form]
    row_form_e k_form;
    // Byte 60. Element type of the rows; not FP32. [a value of dtype]
    dtype_e dtype;
    // Byte 56. Bytes from one value row to the next.
    logic [31:0] value_stride;
    // Byte 52. Bytes from one key row to the next. [at least 1]
    logic [31:0] key_stride;
    // Byte 50. Written into the headers.
    logic [15:0] kv_head;
    // Byte 48. Written into the headers.
    logic [15:0] layer;
    // Byte 40. Written into the headers.
    logic [63:0] sequence_id;
    // Byte 32. First page_entry; `page` and `generation` filled in by the host. [a multiple of 8]
    logic [63:0] page_list;
    // Byte 24. First value row; 0 with v_form NONE.
    logic [63:0] values;
    // Byte 16. First key row.
    logic [63:0] keys;
    // Byte 12. Position of the first row in the sequence. [a multiple of PAGE_TOKENS]
    logic [31:0] first_token;
    // Byte 8. Rows to take. [PAGE_TOKENS to MAX_TOKENS, a multiple of PAGE_TOKENS]
    logic [31:0] tokens;
    // Byte 6. Channels of a value row; with v_form NONE, the leading key channels that serve as
    // values, or 0. [at most MAX_HEAD_DIM, a multiple of 16]
    logic [15:0] value_dim;
    // Byte 4. Channels of a key row. [16 to MAX_HEAD_DIM, a multiple of 16]
    logic [15:0] head_dim;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Options. [flags of append_flag]
    logic [7:0] flags;
    // Byte 0. APPEND.
    opcode_e opcode;
  } append_command_t;
  localparam int unsigned AppendCommandBytes = 64;

  // O = softmax(scale * q K) V and LSE per row over the visible tokens of a page list. Writes O
  // [group][value_dim], LSE fp32 [group], bound fp32 [group]. All pages of a list store values, or
  // none does. A token t is visible if t < tokens and (window = 0 or t >= tokens - window or t <
  // sinks).
  typedef struct packed {
    // Byte 60. Zero.
    logic [31:0] reserved;
    // Byte 56. BOUNDED: wanted |O - exact| / |O| per row (Euclidean), above 0 and at most 1.
    logic [31:0] error;
    // Byte 55. BOUNDED: standard deviations behind the bound, in sixteenths; 0 means USUAL_BOUND_Z.
    logic [7:0] z;
    // Byte 54. BF16, FP16 or FP32. [a value of dtype]
    dtype_e query_dtype;
    // Byte 53. Query rows. [1 to MAX_GROUP]
    logic [7:0] group;
    // Byte 52. What to read. [a value of attend_mode]
    attend_mode_e mode;
    // Byte 50. TAIL: tokens per row to read exactly. [at most MAX_TOP_K]
    logic [15:0] top_k;
    // Byte 49. BOUNDED: most bytes to read, in 1/256 of a dense read; 0 for no cap.
    logic [7:0] byte_cap;
    // Byte 48. First tokens that a window does not hide.
    logic [7:0] sinks;
    // Byte 44. c > 0: logits become c * tanh(logit / c); 0 for none.
    logic [31:0] soft_cap;
    // Byte 40. Multiplies q k; finite and not zero.
    logic [31:0] scale;
    // Byte 32. Where O, LSE and bound go, one after the other, each starting at a multiple of 64
    // bytes. [a multiple of BURST_BYTES]
    logic [63:0] result;
    // Byte 24. First page_entry of ceil(tokens / PAGE_TOKENS). [a multiple of 8]
    logic [63:0] page_list;
    // Byte 16. Query rows [group][head_dim], contiguous. [a multiple of 4]
    logic [63:0] query;
    // Byte 12. Sliding window in tokens; 0 for none.
    logic [31:0] window;
    // Byte 8. Causal limit: tokens of the list that may be seen; 0 gives O = 0, LSE = -inf. [at
    // most MAX_TOKENS]
    logic [31:0] tokens;
    // Byte 6. Channels of an output row. [16 to MAX_HEAD_DIM, a multiple of 16]
    logic [15:0] value_dim;
    // Byte 4. Channels of a query row. [16 to MAX_HEAD_DIM, a multiple of 16]
    logic [15:0] head_dim;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Options. [flags of attend_flag]
    logic [7:0] flags;
    // Byte 0. ATTEND.
    opcode_e opcode;
  } attend_command_t;
  localparam int unsigned AttendCommandBytes = 64;

  // The best k tokens per row, by score descending, ties by index ascending. Writes ids u32
  // [group][top_k], scores fp32 [group][top_k] (scale * q k), counts u32 [group]; INDEXER writes
  // one row. Unused places hold id 2^32 - 1 and score -inf.
  typedef struct packed {
    // Byte 56. INDEXER: fp32 weight per head. [a multiple of 4]
    logic [63:0] weights;
    // Byte 55. STATISTICAL: standard deviations, in sixteenths; 0 means USUAL_SEARCH_Z.
    logic [7:0] z;
    // Byte 54. BF16, FP16, FP32; INDEXER also FP8_E4M3. [a value of dtype]
    dtype_e query_dtype;
    // Byte 53. Query rows. [1 to MAX_GROUP]
    logic [7:0] group;
    // Byte 52. How to find them. [a value of select]
    select_e mode;
    // Byte 50. Tokens wanted per row. [1 to MAX_TOP_K]
    logic [15:0] top_k;
    // Byte 49. Zero.
    logic [7:0] reserved3;
    // Byte 48. As in ATTEND.
    logic [7:0] sinks;
    // Byte 44. Zero.
    logic [31:0] reserved2;
    // Byte 40. As in ATTEND.
    logic [31:0] scale;
    // Byte 32. Where ids, scores and counts go, one after the other, each starting at a multiple of
    // 64 bytes. [a multiple of BURST_BYTES]
    logic [63:0] result;
    // Byte 24. As in ATTEND. [a multiple of 8]
    logic [63:0] page_list;
    // Byte 16. As in ATTEND. [a multiple of 4]
    logic [63:0] query;
    // Byte 12. As in ATTEND.
    logic [31:0] window;
    // Byte 8. As in ATTEND. [at most MAX_TOKENS]
    logic [31:0] tokens;
    // Byte 6. Zero.
    logic [15:0] reserved;
    // Byte 4. Channels of a query row. [16 to MAX_HEAD_DIM, a multiple of 16]
    logic [15:0] head_dim;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Zero. [0]
    logic [7:0] flags;
    // Byte 0. TOPK.
    opcode_e opcode;
  } topk_command_t;
  localparam int unsigned TopkCommandBytes = 64;

  // Rows `first` to `first + count` of a page list, in the source dtype, each tensor's rows
  // contiguous and starting at a multiple of 64 bytes. The bytes from the first row to the last
  // overlap neither a page that is read, nor the entries up to it, nor GATHER's ids (BAD_FIELD,
  // detail = offset of `result`).
  typedef struct packed {
    // Byte 40. Zero.
    logic [2:0][63:0] reserved3;
    // Byte 32. Where the rows go. [a multiple of BURST_BYTES]
    logic [63:0] result;
    // Byte 24. First page_entry of the list. [a multiple of 8]
    logic [63:0] page_list;
    // Byte 16. Zero.
    logic [63:0] reserved2;
    // Byte 12. Tokens. [1 to MAX_TOKENS]
    logic [31:0] count;
    // Byte 8. First token. [at most MAX_TOKENS]
    logic [31:0] first;
    // Byte 6. Zero.
    logic [15:0] reserved;
    // Byte 5. CODES: planes of the codes to use, 1 to KEY_CODE_PLANES of keys and VALUE_CODE_PLANES
    // of values; a page without codes is BAD_PAGE. Without CODES, 0. [at most KEY_CODE_PLANES]
    logic [7:0] planes;
    // Byte 4. Which rows. [a value of tensor]
    tensor_e tensor;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Options. [flags of read_flag]
    logic [7:0] flags;
    // Byte 0. READ.
    opcode_e opcode;
  } read_command_t;
  localparam int unsigned ReadCommandBytes = 64;

  // Rows of chosen tokens, in the order of `ids`, laid out as READ does.
  typedef struct packed {
    // Byte 40. Zero.
    logic [2:0][63:0] reserved2;
    // Byte 32. Where the rows go. [a multiple of BURST_BYTES]
    logic [63:0] result;
    // Byte 24. First page_entry of the list. [a multiple of 8]
    logic [63:0] page_list;
    // Byte 16. u32 token ids, any order, repeats allowed. [a multiple of 4]
    logic [63:0] ids;
    // Byte 12. Ids. [1 to MAX_TOKENS]
    logic [31:0] count;
    // Byte 8. Tokens of the list; an id at or above it is BAD_FIELD. [1 to MAX_TOKENS]
    logic [31:0] tokens;
    // Byte 5. Zero.
    logic [2:0][7:0] reserved;
    // Byte 4. Which rows. [a value of tensor]
    tensor_e tensor;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Zero. [0]
    logic [7:0] flags;
    // Byte 0. GATHER.
    opcode_e opcode;
  } gather_command_t;
  localparam int unsigned GatherCommandBytes = 64;

  // Whole pages, attendable or compressed: SCRUB and ERASE use `source`; TRANSCODE and COPY also
  // `destination`, whose entries name the new places and generations and receive the exponents.
  // These places overlap no source and each other not (BAD_FIELD); every checksum of a source is
  // verified first. TRANSCODE decodes a page to its rows, encodes them anew and writes the new
  // page's size in bytes (u32) to `result`; a page larger than `slot_bytes` is PAGE_OVERFLOW, a
  // codec that does not take the rows (lossy ones: bf16, finite, below 2^126 for INT8 and INT4)
  // BAD_PAGE, a damaged source CORRUPT, a codec that CODECS does not name, rows wider than LIMITS
  // or, without feature CODES, a page with codes UNSUPPORTED. Codec NONE builds the page as APPEND
  // does, in the source's row forms; rows that a lossy codec has changed so that DELTA4 cannot hold
  // them become RAW, K and V both. A command stops at the first page that fails: those before it
  // are done, as the completion's `count` says, and their sources stay; what the others' new places
  // held may be lost. The completion means that what was done is durable where the memory is, as
  // with APPEND: new pages of TRANSCODE and COPY, and the zeros of ERASE.
  typedef struct packed {
    // Byte 40. Zero.
    logic [2:0][63:0] reserved2;
    // Byte 32. TRANSCODE: sizes. [a multiple of 4]
    logic [63:0] result;
    // Byte 24. First page_entry of the new places. [a multiple of 8]
    logic [63:0] destination;
    // Byte 16. First page_entry. [a multiple of 8]
    logic [63:0] source;
    // Byte 12. TRANSCODE: room at each destination, all of it inside the window; 0 is BAD_FIELD.
    logic [31:0] slot_bytes;
    // Byte 8. Pages. [1 to MAX_TOKENS]
    logic [31:0] count;
    // Byte 5. Zero.
    logic [2:0][7:0] reserved;
    // Byte 4. TRANSCODE: the new codec. [a value of codec]
    codec_e codec;
    // Byte 2. Returned in the completion.
    logic [15:0] tag;
    // Byte 1. Zero. [0]
    logic [7:0] flags;
    // Byte 0. TRANSCODE, SCRUB, ERASE or COPY. [TRANSCODE or SCRUB or ERASE or COPY]
    opcode_e opcode;
  } pages_command_t;
  localparam int unsigned PagesCommandBytes = 64;

  // Posted to the completion ring. The device writes the first 32 bits last; a new entry is one
  // whose `phase` equals the ring's current phase (1 in the first round, then alternating).
  typedef struct packed {
    // Byte 48. Zero.
    logic [1:0][63:0] reserved;
    // Byte 40. Device time spent, in 1/TICK_HZ; 0 without feature TICKS.
    logic [63:0] ticks;
    // Byte 36. BOUNDED: largest error bound of the rows, relative to |O|.
    logic [31:0] bound;
    // Byte 35. BOUNDED: rounds that read.
    logic [7:0] rounds;
    // Byte 34. What to know of the result. [flags of completion_flag]
    logic [7:0] flags;
    // Byte 32. Commands before this index have been fetched.
    logic [15:0] sq_head;
    // Byte 28. Bursts of value rows, and of planes of the codes of V, read for chosen tokens.
    logic [31:0] value_bursts;
    // Byte 24. Bursts of key rows read for chosen tokens.
    logic [31:0] exact_bursts;
    // Byte 20. Bursts of further planes of the codes of K.
    logic [31:0] refine_bursts;
    // Byte 16. Bursts read in order: headers, what a scan of codes reads, dense rows.
    logic [31:0] stream_bursts;
    // Byte 8. What the status message refers to.
    logic [63:0] detail;
    // Byte 4. Pages or rows done; tokens returned by TOPK over all rows.
    logic [31:0] count;
    // Byte 3. 0 or 1.
    logic [7:0] phase;
    // Byte 2. How it ended. [a value of status]
    status_e status;
    // Byte 0. The command's; 0 of one that memory never gave, which ends with INTERNAL, or the host
    // never wrote, which ends with NOT_WRITTEN: `sq_head` tells which.
    logic [15:0] tag;
  } completion_t;
  localparam int unsigned CompletionBytes = 64;

  // Begins the page of a queue at DOORBELL_BASE. A host's write to all bytes of a field is a write
  // of the register besides; of other bytes it is a write to memory alone.
  typedef struct packed {
    // Byte 10. Zero.
    logic [2:0][15:0] reserved2;
    // Byte 8. Its CQ_HEAD.
    logic [15:0] cq_head;
    // Byte 2. Zero.
    logic [2:0][15:0] reserved;
    // Byte 0. The queue's SQ_TAIL.
    logic [15:0] sq_tail;
  } doorbell_line_t;
  localparam int unsigned DoorbellLineBytes = 16;

  // Registers: byte offsets; fields by lowest bit and width
  // [ro] Read first: another value is another device.
  localparam logic [31:0] RegId = 32'h0000_0000;
  // [ro] Read second: a library opens a device of the same major number only.
  localparam logic [31:0] RegAbi = 32'h0000_0008;
  localparam int unsigned RegAbiMajorLsb = 0;
  localparam int unsigned RegAbiMajorBits = 16;
  localparam int unsigned RegAbiMinorLsb = 16;
  localparam int unsigned RegAbiMinorBits = 16;
  // [ro] What the device offers.
  localparam logic [31:0] RegFeatures = 32'h0000_0010;
  // [ro] Size of device memory that windows may lie in.
  localparam logic [31:0] RegMemoryBytes = 32'h0000_0018;
  // [ro] This device's limits, at or below the contract's. A command beyond one is BAD_FIELD,
  // detail = offset of the field.
  localparam logic [31:0] RegLimits = 32'h0000_0020;
  localparam int unsigned RegLimitsQueuesLsb = 0;
  localparam int unsigned RegLimitsQueuesBits = 8;
  localparam int unsigned RegLimitsGroupLsb = 8;
  localparam int unsigned RegLimitsGroupBits = 8;
  localparam int unsigned RegLimitsHeadDimLsb = 16;
  localparam int unsigned RegLimitsHeadDimBits = 16;
  localparam int unsigned RegLimitsTopKLsb = 32;
  localparam int unsigned RegLimitsTopKBits = 16;
  localparam int unsigned RegLimitsTokensLog2Lsb = 48;
  localparam int unsigned RegLimitsTokensLog2Bits = 8;
  // [ro] Ticks per second in completions; 0 without feature TICKS.
  localparam logic [31:0] RegTickHz = 32'h0000_0028;
  // [rw] Device control.
  localparam logic [31:0] RegControl = 32'h0000_0030;
  localparam int unsigned RegControlResetLsb = 0;
  localparam int unsigned RegControlResetBits = 1;
  // [ro] Health.
  localparam logic [31:0] RegDeviceStatus = 32'h0000_0038;
  localparam int unsigned RegDeviceStatusReadyLsb = 0;
  localparam int unsigned RegDeviceStatusReadyBits = 1;
  localparam int unsigned RegDeviceStatusFatalLsb = 1;
  localparam int unsigned RegDeviceStatusFatalBits = 1;
  // [ro] Ticks since power-up; 0 without feature TICKS.
  localparam logic [31:0] RegTickCount = 32'h0000_0040;
  // [rw] What asks for an interrupt: bit n drives line n unless INTERRUPT_MASK has it. Writing 1
  // puts a bit back to 0, unless its cause comes again in that cycle; CONTROL.RESET all.
  localparam logic [31:0] RegInterruptStatus = 32'h0000_0048;
  localparam int unsigned RegInterruptStatusHostHotnessLsb = 0;
  localparam int unsigned RegInterruptStatusHostHotnessBits = 1;
  localparam int unsigned RegInterruptStatusNearHotnessLsb = 1;
  localparam int unsigned RegInterruptStatusNearHotnessBits = 1;
  localparam int unsigned RegInterruptStatusErrorsLsb = 2;
  localparam int unsigned RegInterruptStatusErrorsBits = 1;
  localparam int unsigned RegInterruptStatusQueuesLsb = 3;
  localparam int unsigned RegInterruptStatusQueuesBits = 16;
  // [rw] 1: the bit of INTERRUPT_STATUS does not drive its line.
  localparam logic [31:0] RegInterruptMask = 32'h0000_0050;
  localparam int unsigned RegInterruptMaskHostHotnessLsb = 0;
  localparam int unsigned RegInterruptMaskHostHotnessBits = 1;
  localparam int unsigned RegInterruptMaskNearHotnessLsb = 1;
  localparam int unsigned RegInterruptMaskNearHotnessBits = 1;
  localparam int unsigned RegInterruptMaskErrorsLsb = 2;
  localparam int unsigned RegInterruptMaskErrorsBits = 1;
  localparam int unsigned RegInterruptMaskQueuesLsb = 3;
  localparam int unsigned RegInterruptMaskQueuesBits = 16;
  // [ro] Log of commands that ended with a status other than OK; CONTROL.RESET empties it.
  localparam logic [31:0] RegErrorState = 32'h0000_0058;
  localparam int unsigned RegErrorStateTailLsb = 0;
  localparam int unsigned RegErrorStateTailBits = 16;
  localparam int unsigned RegErrorStateLostLsb = 16;
  localparam int unsigned RegErrorStateLostBits = 32;
  // [rw] How far software has read the log.
  localparam logic [31:0] RegErrorHead = 32'h0000_0060;
  localparam int unsigned RegErrorHeadCountLsb = 0;
  localparam int unsigned RegErrorHeadCountBits = 16;
  // [rw] Who goes first where the host's accesses and near-data's meet.
  localparam logic [31:0] RegInlineControl = 32'h0000_0068;
  localparam int unsigned RegInlineControlCustomLsb = 0;
  localparam int unsigned RegInlineControlCustomBits = 1;
  localparam int unsigned RegInlineControlShareLsb = 1;
  localparam int unsigned RegInlineControlShareBits = 4;
  localparam int unsigned RegInlineControlAgeCyclesLsb = 5;
  localparam int unsigned RegInlineControlAgeCyclesBits = 10;
  // [rw] Depth of memory's queues, in accesses; more than 1,023 is no limit.
  localparam logic [31:0] RegInlineLimits = 32'h0000_0070;
  localparam int unsigned RegInlineLimitsNearLeastLsb = 0;
  localparam int unsigned RegInlineLimitsNearLeastBits = 16;
  localparam int unsigned RegInlineLimitsReadsLsb = 16;
  localparam int unsigned RegInlineLimitsReadsBits = 16;
  localparam int unsigned RegInlineLimitsWritesLsb = 32;
  localparam int unsigned RegInlineLimitsWritesBits = 16;
  // [rw] Accesses in flight from which on DevLoad says more; more than 1,023 count as that.
  localparam logic [31:0] RegInlineLoad = 32'h0000_0078;
  localparam int unsigned RegInlineLoadOptimalLsb = 0;
  localparam int unsigned RegInlineLoadOptimalBits = 16;
  localparam int unsigned RegInlineLoadOverloadLsb = 16;
  localparam int unsigned RegInlineLoadOverloadBits = 16;
  // [rw] First of pages of device memory, DOORBELL_STRIDE_BYTES each, one a queue; a multiple of
  // BURST_BYTES. A page begins with a `doorbell_line`.
  localparam logic [31:0] RegDoorbellBase = 32'h0000_0080;
  // [rw] Pages that hold doorbells.
  localparam logic [31:0] RegDoorbellEnable = 32'h0000_0088;
  localparam int unsigned RegDoorbellEnableQueuesLsb = 0;
  localparam int unsigned RegDoorbellEnableQueuesBits = 16;
  // [ro] What TRANSCODE takes. Another codec is UNSUPPORTED: wanted of the command, detail 0; found
  // in a page, detail = the entry's index.
  localparam logic [31:0] RegCodecs = 32'h0000_0090;
  localparam int unsigned RegCodecsBuiltLsb = 0;
  localparam int unsigned RegCodecsBuiltBits = 16;
  localparam int unsigned RegCodecsReadLsb = 16;
  localparam int unsigned RegCodecsReadBits = 16;
  // [ro] An entry of the error log. Still what TAIL announced if TAIL, read again, is not more than
  // ERROR_ENTRIES ahead of it.
  localparam logic [31:0] RegErrorEntry = 32'h0000_0100;
  localparam int unsigned RegErrorEntryCount = ErrorEntries;
  localparam int unsigned RegErrorEntryStride = 16;
  localparam int unsigned RegErrorEntryTagLsb = 0;
  localparam int unsigned RegErrorEntryTagBits = 16;
  localparam int unsigned RegErrorEntryTenantLsb = 16;
  localparam int unsigned RegErrorEntryTenantBits = 16;
  localparam int unsigned RegErrorEntryQueueIndexLsb = 32;
  localparam int unsigned RegErrorEntryQueueIndexBits = 8;
  localparam int unsigned RegErrorEntryOpcodeLsb = 40;
  localparam int unsigned RegErrorEntryOpcodeBits = 8;
  localparam int unsigned RegErrorEntryStatusLsb = 48;
  localparam int unsigned RegErrorEntryStatusBits = 8;
  // [ro] Its completion's `detail`.
  localparam logic [31:0] RegErrorDetail = 32'h0000_0108;
  localparam int unsigned RegErrorDetailCount = ErrorEntries;
  localparam int unsigned RegErrorDetailStride = 16;
  // [rw] Submission ring in device memory; 64-byte aligned, zeroed by the host. Read when the queue
  // is enabled.
  localparam logic [31:0] RegSqBase = 32'h0000_1000;
  localparam int unsigned RegSqBaseCount = MaxQueues;
  localparam int unsigned RegSqBaseStride = 128;
  // [rw] Completion ring in device memory; 64-byte aligned, zeroed by the host.
  localparam logic [31:0] RegCqBase = 32'h0000_1008;
  localparam int unsigned RegCqBaseCount = MaxQueues;
  localparam int unsigned RegCqBaseStride = 128;
  // [rw] Entries of both rings, a power of two.
  localparam logic [31:0] RegRingEntries = 32'h0000_1010;
  localparam int unsigned RegRingEntriesCount = MaxQueues;
  localparam int unsigned RegRingEntriesStride = 128;
  // [rw] Queue control. A queue's commands run in order, one at a time, and each finds what those
  // before it wrote. Between queues there is no order: their commands may run at the same time.
  // Memory has all that a command wrote when it completes: who needs that, or is to overwrite or
  // erase what a command of another queue reads or writes, waits for its completion.
  localparam logic [31:0] RegQueueControl = 32'h0000_1018;
  localparam int unsigned RegQueueControlCount = MaxQueues;
  localparam int unsigned RegQueueControlStride = 128;
  localparam int unsigned RegQueueControlEnableLsb = 0;
  localparam int unsigned RegQueueControlEnableBits = 1;
  // [rw] Submission doorbell: free-running count of commands written, modulo 2^16. Each is taken
  // once its slot has the ring's phase (slot_flag).
  localparam logic [31:0] RegSqTail = 32'h0000_1020;
  localparam int unsigned RegSqTailCount = MaxQueues;
  localparam int unsigned RegSqTailStride = 128;
  // [rw] Free-running count of completions consumed, modulo 2^16; the device never overwrites an
  // unread one.
  localparam logic [31:0] RegCqHead = 32'h0000_1028;
  localparam int unsigned RegCqHeadCount = MaxQueues;
  localparam int unsigned RegCqHeadStride = 128;
  // [rw] First byte of device memory that the queue's commands may touch, a multiple of
  // PAGE_GRAIN_BYTES; address 0 of the window.
  localparam logic [31:0] RegWindowBase = 32'h0000_1030;
  localparam int unsigned RegWindowBaseCount = MaxQueues;
  localparam int unsigned RegWindowBaseStride = 128;
  // [rw] Size of the window.
  localparam logic [31:0] RegWindowBytes = 32'h0000_1038;
  localparam int unsigned RegWindowBytesCount = MaxQueues;
  localparam int unsigned RegWindowBytesStride = 128;
  // [rw] Tenant number written into page headers; a page of another tenant is BAD_PAGE.
  localparam logic [31:0] RegTenant = 32'h0000_1040;
  localparam int unsigned RegTenantCount = MaxQueues;
  localparam int unsigned RegTenantStride = 128;
  localparam int unsigned RegTenantNumberLsb = 0;
  localparam int unsigned RegTenantNumberBits = 16;
  // [ro] Queue state.
  localparam logic [31:0] RegQueueStatus = 32'h0000_1048;
  localparam int unsigned RegQueueStatusCount = MaxQueues;
  localparam int unsigned RegQueueStatusStride = 128;
  localparam int unsigned RegQueueStatusRunningLsb = 0;
  localparam int unsigned RegQueueStatusRunningBits = 1;
  localparam int unsigned RegQueueStatusRefusedLsb = 1;
  localparam int unsigned RegQueueStatusRefusedBits = 1;
  // [rw] The queue's share of the device against those of others that have commands too, in bursts
  // moved.
  localparam logic [31:0] RegWeight = 32'h0000_1050;
  localparam int unsigned RegWeightCount = MaxQueues;
  localparam int unsigned RegWeightStride = 128;
  localparam int unsigned RegWeightShareLsb = 0;
  localparam int unsigned RegWeightShareBits = 4;
  // [rw] When completions ask for an interrupt: when so many wait, or the oldest has waited so
  // long. With either 0, each at once.
  localparam logic [31:0] RegCoalesce = 32'h0000_1058;
  localparam int unsigned RegCoalesceCount = MaxQueues;
  localparam int unsigned RegCoalesceStride = 128;
  localparam int unsigned RegCoalesceCompletionsLsb = 0;
  localparam int unsigned RegCoalesceCompletionsBits = 16;
  localparam int unsigned RegCoalesceWaitTicksLsb = 16;
  localparam int unsigned RegCoalesceWaitTicksBits = 32;
  // [ro] Commands that ended, other than by CONTROL.RESET, which puts all TOTAL registers back to
  // 0. They change a few ticks after the completion is written.
  localparam logic [31:0] RegTotalCommands = 32'h0000_1800;
  localparam int unsigned RegTotalCommandsCount = MaxQueues;
  localparam int unsigned RegTotalCommandsStride = 128;
  // [ro] Sum of `stream_bursts` of completions.
  localparam logic [31:0] RegTotalStreamBursts = 32'h0000_1808;
  localparam int unsigned RegTotalStreamBurstsCount = MaxQueues;
  localparam int unsigned RegTotalStreamBurstsStride = 128;
  // [ro] Sum of `refine_bursts`.
  localparam logic [31:0] RegTotalRefineBursts = 32'h0000_1810;
  localparam int unsigned RegTotalRefineBurstsCount = MaxQueues;
  localparam int unsigned RegTotalRefineBurstsStride = 128;
  // [ro] Sum of `exact_bursts`.
  localparam logic [31:0] RegTotalExactBursts = 32'h0000_1818;
  localparam int unsigned RegTotalExactBurstsCount = MaxQueues;
  localparam int unsigned RegTotalExactBurstsStride = 128;
  // [ro] Sum of `value_bursts`.
  localparam logic [31:0] RegTotalValueBursts = 32'h0000_1820;
  localparam int unsigned RegTotalValueBurstsCount = MaxQueues;
  localparam int unsigned RegTotalValueBurstsStride = 128;
  // [ro] Bursts that commands wrote, other than completions.
  localparam logic [31:0] RegTotalWrittenBursts = 32'h0000_1828;
  localparam int unsigned RegTotalWrittenBurstsCount = MaxQueues;
  localparam int unsigned RegTotalWrittenBurstsStride = 128;
  // [ro] With a command of the queue in flight. Of these, each counted once, by the first that
  // holds:
  localparam logic [31:0] RegTotalBusyTicks = 32'h0000_1830;
  localparam int unsigned RegTotalBusyTicksCount = MaxQueues;
  localparam int unsigned RegTotalBusyTicksStride = 128;
  // [ro] a read was refused by the memory port,
  localparam logic [31:0] RegTotalReadRefusedTicks = 32'h0000_1838;
  localparam int unsigned RegTotalReadRefusedTicksCount = MaxQueues;
  localparam int unsigned RegTotalReadRefusedTicksStride = 128;
  // [ro] a write was,
  localparam logic [31:0] RegTotalWriteRefusedTicks = 32'h0000_1840;
  localparam int unsigned RegTotalWriteRefusedTicksCount = MaxQueues;
  localparam int unsigned RegTotalWriteRefusedTicksStride = 128;
  // [ro] reads or writes were under way, and neither was one asked for nor answered.
  localparam logic [31:0] RegTotalMemoryWaitTicks = 32'h0000_1848;
  localparam int unsigned RegTotalMemoryWaitTicksCount = MaxQueues;
  localparam int unsigned RegTotalMemoryWaitTicksStride = 128;
  // [rw] Words of a CHMU register block of the CXL specification: it counts the host's accesses.
  localparam logic [31:0] RegHostHotness = 32'h0001_0000;
  localparam int unsigned RegHostHotnessCount = HotnessWords;
  localparam int unsigned RegHostHotnessStride = 8;
  // [rw] The same for near-data: it counts what commands read, in runs of up to 16 bursts within 4
  // KiB.
  localparam logic [31:0] RegNearHotness = 32'h0002_0000;
  localparam int unsigned RegNearHotnessCount = HotnessWords;
  localparam int unsigned RegNearHotnessStride = 8;
  localparam int unsigned RegMapBytes = 147456;

  // Fields of CONTROL
  typedef struct packed {
    logic reset;
  } csr_control_t;

  // Fields of INTERRUPT_MASK
  typedef struct packed {
    logic [15:0] queues;
    logic errors;
    logic near_hotness;
    logic host_hotness;
  } csr_interrupt_mask_t;

  // Fields of ERROR_HEAD
  typedef struct packed {
    logic [15:0] count;
  } csr_error_head_t;

  // Fields of INLINE_CONTROL
  typedef struct packed {
    logic [9:0] age_cycles;
    logic [3:0] share;
    logic custom;
  } csr_inline_control_t;

  // Fields of INLINE_LIMITS
  typedef struct packed {
    logic [15:0] writes;
    logic [15:0] reads;
    logic [15:0] near_least;
  } csr_inline_limits_t;

  // Fields of INLINE_LOAD
  typedef struct packed {
    logic [15:0] overload;
    logic [15:0] optimal;
  } csr_inline_load_t;

  // Fields of DOORBELL_ENABLE
  typedef struct packed {
    logic [15:0] queues;
  } csr_doorbell_enable_t;

  // Fields of QUEUE_CONTROL
  typedef struct packed {
    logic enable;
  } csr_queue_control_t;

  // Fields of TENANT
  typedef struct packed {
    logic [15:0] number;
  } csr_tenant_t;

  // Fields of WEIGHT
  typedef struct packed {
    logic [3:0] share;
  } csr_weight_t;

  // Fields of COALESCE
  typedef struct packed {
    logic [31:0] wait_ticks;
    logic [15:0] completions;
  } csr_coalesce_t;

  // Fields of LIMITS
  typedef struct packed {
    logic [7:0] tokens_log2;
    logic [15:0] top_k;
    logic [15:0] head_dim;
    logic [7:0] group;
    logic [7:0] queues;
  } csr_limits_t;

  // Fields of DEVICE_STATUS
  typedef struct packed {
    logic fatal;
    logic ready;
  } csr_device_status_t;

  // Fields of CODECS
  typedef struct packed {
    logic [15:0] read;
    logic [15:0] built;
  } csr_codecs_t;

  // Fields of QUEUE_STATUS
  typedef struct packed {
    logic refused;
    logic running;
  } csr_queue_status_t;

  // What software wrote; pulses are high for one cycle
  typedef struct packed {
    csr_control_t control;
    csr_interrupt_mask_t interrupt_mask;
    csr_error_head_t error_head;
    csr_inline_control_t inline_control;
    csr_inline_limits_t inline_limits;
    csr_inline_load_t inline_load;
    logic [63:0] doorbell_base;
    csr_doorbell_enable_t doorbell_enable;
    logic [RegSqBaseCount-1:0][63:0] sq_base;
    logic [RegCqBaseCount-1:0][63:0] cq_base;
    logic [RegRingEntriesCount-1:0][63:0] ring_entries;
    csr_queue_control_t [RegQueueControlCount-1:0] queue_control;
    logic [RegSqTailCount-1:0][63:0] sq_tail;
    logic [RegCqHeadCount-1:0][63:0] cq_head;
    logic [RegWindowBaseCount-1:0][63:0] window_base;
    logic [RegWindowBytesCount-1:0][63:0] window_bytes;
    csr_tenant_t [RegTenantCount-1:0] tenant;
    csr_weight_t [RegWeightCount-1:0] weight;
    csr_coalesce_t [RegCoalesceCount-1:0] coalesce;
  } csr_reg2hw_t;

  // What software is to read
  typedef struct packed {
    logic [63:0] features;
    logic [63:0] memory_bytes;
    csr_limits_t limits;
    logic [63:0] tick_hz;
    csr_device_status_t device_status;
    logic [63:0] tick_count;
    csr_codecs_t codecs;
    csr_queue_status_t [RegQueueStatusCount-1:0] queue_status;
  } csr_hw2reg_t;

  // Bytes of one element; 0 for an unknown type
  function automatic logic [31:0] element_bytes(dtype_e dtype);
    unique case (dtype)
      DtypeBf16: return 32'd2;
      DtypeFp16: return 32'd2;
      DtypeFp32: return 32'd4;
      DtypeFp8E4m3: return 32'd1;
      DtypeFp8E5m2: return 32'd1;
      DtypeInt8: return 32'd1;
      default: return '0;
    endcase
  endfunction

  // Bytes of one row as a page stores it; 0 for an unknown form
  function automatic logic [31:0] row_bytes(row_form_e form, dtype_e dtype, logic [31:0] dim);
    unique case (form)
      RowFormRaw: return dim * element_bytes(dtype);
      RowFormDelta4: return dim + dim / 2;
      RowFormNone: return 0;
      default: return '0;
    endcase
  endfunction

  // The arrays of a page, in the order of their places
  localparam int unsigned PageArrayKExponents = 0;
  localparam int unsigned PageArrayKRows = 1;
  localparam int unsigned PageArrayKExceptions = 2;
  localparam int unsigned PageArrayKeyScales = 3;
  localparam int unsigned PageArrayVExponents = 4;
  localparam int unsigned PageArrayVRows = 5;
  localparam int unsigned PageArrayVExceptions = 6;
  localparam int unsigned PageArrayCodeSummary = 7;
  localparam int unsigned PageArrayKSigns = 8;
  localparam int unsigned PageArrayKCodes = 9;
  localparam int unsigned PageArrayVCodes = 10;
  localparam int unsigned PageArrayKGains = 11;
  localparam int unsigned PageArrayCount = 12;

  // The fields of a page header that decide its layout
  typedef struct packed {
    logic [15:0] value_dim;
    logic [15:0] head_dim;
    logic [7:0] flags;
    dtype_e dtype;
    row_form_e v_form;
    row_form_e k_form;
  } page_shape_t;

  // Where the arrays lie, in bytes from the page's start; an absent one has 0 bytes
  typedef struct packed {
    logic [31:0] total_bytes;
    logic [PageArrayCount-1:0][31:0] bytes;
    logic [PageArrayCount-1:0][31:0] offset;
  } page_layout_t;

  // Lays out a page. Any shape gives a layout; whether it makes sense is not judged.
  function automatic page_layout_t page_layout(page_shape_t shape);
    logic [31:0] head_dim;
    logic [31:0] value_dim;
    logic [31:0] k_row_bytes;
    logic [31:0] v_row_bytes;
    logic [31:0] place;
    page_layout_t layout;
    head_dim = 32'(shape.head_dim);
    value_dim = 32'(shape.value_dim);
    k_row_bytes = row_bytes(shape.k_form, shape.dtype, head_dim);
    v_row_bytes = row_bytes(shape.v_form, shape.dtype, value_dim);
    layout.bytes[PageArrayKExponents] = shape.k_form == RowFormDelta4 ? head_dim : '0;
    layout.bytes[PageArrayKRows] = PageTokens * k_row_bytes;
    layout.bytes[PageArrayKExceptions] = shape.k_form == RowFormDelta4 ? 4 * Exceptions : '0;
    layout.bytes[PageArrayKeyScales] = shape.flags[PageFlagKeyScales] ? 4 * PageTokens : '0;
    layout.bytes[PageArrayVExponents] = shape.v_form == RowFormDelta4 ? value_dim : '0;
    layout.bytes[PageArrayVRows] = PageTokens * v_row_bytes;
    layout.bytes[PageArrayVExceptions] = shape.v_form == RowFormDelta4 ? 4 * Exceptions : '0;
    layout.bytes[PageArrayCodeSummary] = shape.flags[PageFlagCodes] ? PageTokens + head_dim + value_dim : '0;
    layout.bytes[PageArrayKSigns] = shape.flags[PageFlagCodes] ? PageTokens / 8 * head_dim : '0;
    layout.bytes[PageArrayKCodes] = shape.flags[PageFlagCodes] ? 3 * PageTokens / 8 * head_dim : '0;
    layout.bytes[PageArrayVCodes] = shape.flags[PageFlagCodes] ? 3 * PageTokens / 8 * value_dim : '0;
    layout.bytes[PageArrayKGains] = shape.flags[PageFlagCodes] ? head_dim : '0;
    place = PageHeaderBytes;
    for (int unsigned i = 0; i < PageArrayCount; i++) begin
      layout.offset[i] = place;
      place += (layout.bytes[i] + BurstBytes - 1) / BurstBytes * BurstBytes;
    end
    layout.total_bytes = (place + PageGrainBytes - 1) / PageGrainBytes * PageGrainBytes;
    return layout;
  endfunction

  // Bit i: the field that begins at byte i of a command breaks its rule
  typedef logic [CommandBytes-1:0] fields_t;

  // Fields that may hold anything are left alone.
  // verilator lint_off UNUSEDSIGNAL

  // Looks at each field of append_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_append_command(append_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = command.opcode != OpcodeAppend;
    broken[1] = (command.flags & ~AppendFlagAll) != '0;
    broken[4] = command.head_dim < 16'd16 || command.head_dim > 16'(MaxHeadDim) ||
        command.head_dim % 16'd16 != '0;
    broken[6] = command.value_dim > 16'(MaxHeadDim) || command.value_dim % 16'd16 != '0;
    broken[8] = command.tokens < PageTokens || command.tokens > MaxTokens ||
        command.tokens % PageTokens != '0;
    broken[12] = command.first_token % PageTokens != '0;
    broken[32] = command.page_list % 64'd8 != '0;
    broken[52] = command.key_stride < 32'd1;
    broken[60] = command.dtype > DtypeInt8;
    broken[61] = command.k_form > RowFormNone;
    broken[62] = command.v_form > RowFormNone;
    return broken;
  endfunction

  // Looks at each field of attend_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_attend_command(attend_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = command.opcode != OpcodeAttend;
    broken[1] = (command.flags & ~AttendFlagAll) != '0;
    broken[4] = command.head_dim < 16'd16 || command.head_dim > 16'(MaxHeadDim) ||
        command.head_dim % 16'd16 != '0;
    broken[6] = command.value_dim < 16'd16 || command.value_dim > 16'(MaxHeadDim) ||
        command.value_dim % 16'd16 != '0;
    broken[8] = command.tokens > MaxTokens;
    broken[16] = command.query % 64'd4 != '0;
    broken[24] = command.page_list % 64'd8 != '0;
    broken[32] = command.result % 64'(BurstBytes) != '0;
    broken[50] = command.top_k > 16'(MaxTopK);
    broken[52] = command.mode > AttendModeBounded;
    broken[53] = command.group < 8'd1 || command.group > 8'(MaxGroup);
    broken[54] = command.query_dtype > DtypeInt8;
    broken[60] = command.reserved != '0;
    return broken;
  endfunction

  // Looks at each field of topk_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_topk_command(topk_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = command.opcode != OpcodeTopk;
    broken[1] = command.flags != '0;
    broken[4] = command.head_dim < 16'd16 || command.head_dim > 16'(MaxHeadDim) ||
        command.head_dim % 16'd16 != '0;
    broken[6] = command.reserved != '0;
    broken[8] = command.tokens > MaxTokens;
    broken[16] = command.query % 64'd4 != '0;
    broken[24] = command.page_list % 64'd8 != '0;
    broken[32] = command.result % 64'(BurstBytes) != '0;
    broken[44] = command.reserved2 != '0;
    broken[49] = command.reserved3 != '0;
    broken[50] = command.top_k < 16'd1 || command.top_k > 16'(MaxTopK);
    broken[52] = !(command.mode inside {SelectStatistical, SelectFull, SelectIndexer});
    broken[53] = command.group < 8'd1 || command.group > 8'(MaxGroup);
    broken[54] = command.query_dtype > DtypeInt8;
    broken[56] = command.weights % 64'd4 != '0;
    return broken;
  endfunction

  // Looks at each field of read_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_read_command(read_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = command.opcode != OpcodeRead;
    broken[1] = (command.flags & ~ReadFlagAll) != '0;
    broken[4] = command.tensor > TensorBoth;
    broken[5] = command.planes > 8'(KeyCodePlanes);
    broken[6] = command.reserved != '0;
    broken[8] = command.first > MaxTokens;
    broken[12] = command.count < 32'd1 || command.count > MaxTokens;
    broken[16] = command.reserved2 != '0;
    broken[24] = command.page_list % 64'd8 != '0;
    broken[32] = command.result % 64'(BurstBytes) != '0;
    broken[40] = command.reserved3 != '0;
    return broken;
  endfunction

  // Looks at each field of gather_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_gather_command(gather_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = command.opcode != OpcodeGather;
    broken[1] = command.flags != '0;
    broken[4] = command.tensor > TensorBoth;
    broken[5] = command.reserved != '0;
    broken[8] = command.tokens < 32'd1 || command.tokens > MaxTokens;
    broken[12] = command.count < 32'd1 || command.count > MaxTokens;
    broken[16] = command.ids % 64'd4 != '0;
    broken[24] = command.page_list % 64'd8 != '0;
    broken[32] = command.result % 64'(BurstBytes) != '0;
    broken[40] = command.reserved2 != '0;
    return broken;
  endfunction

  // Looks at each field of pages_command_t by itself; a command is judged by the first that is
  // broken
  function automatic fields_t broken_pages_command(pages_command_t command);
    fields_t broken;
    broken = '0;
    broken[0] = !(command.opcode inside {OpcodeTranscode, OpcodeScrub, OpcodeErase, OpcodeCopy});
    broken[1] = command.flags != '0;
    broken[4] = !(command.codec inside {CodecNone, CodecPlanesLz4, CodecPlanesZstd, CodecInt8,
        CodecInt4, CodecFp8});
    broken[5] = command.reserved != '0;
    broken[8] = command.count < 32'd1 || command.count > MaxTokens;
    broken[16] = command.source % 64'd8 != '0;
    broken[24] = command.destination % 64'd8 != '0;
    broken[32] = command.result % 64'd4 != '0;
    broken[40] = command.reserved2 != '0;
    return broken;
  endfunction

  // verilator lint_on UNUSEDSIGNAL

  // verilator lint_on UNUSEDPARAM

endpackage
