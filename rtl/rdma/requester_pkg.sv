// Types of the requester's blocks.
package requester_pkg;

  // Lines of 64 bytes that a buffer touches: the first one, and how many follow. The low bits suffice to find an
  // overlap; buffers far apart may seem to overlap, and so may any two if one is 8 MiB long or longer.
  localparam int unsigned BufferLineBits = 18;
  typedef struct packed {
    logic                      wide;
    logic [BufferLineBits-1:0] first;
    logic [BufferLineBits-2:0] more;
  } buffer_lines_t;

endpackage
