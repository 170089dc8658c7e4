// Package resp implements the Redis protocol: an incremental parser of clients' commands and a
// writer of replies, in RESP2 and RESP3.
//
// A client sends commands in one of two forms, and may mix them:
//
//	*2\r\n $3\r\n GET\r\n $1\r\n k\r\n     multibulk: count, then each argument
//	                                       with its length in bytes (no spaces)
//	GET k\r\n                              inline: a line, split as SplitArgs says
//
// Reader owns a connection's input buffer. Arguments are slices of that buffer:
// nothing is copied for a multibulk command, and no byte is parsed twice, however
// small the pieces that arrive. Memory follows the bytes received, never the
// lengths announced.
//
// Writer appends replies to a byte slice. It allocates memory only to let that slice grow. For each
// type that only RESP3 has, Writer has a form in RESP2. So a handler writes a reply once:
//
//	            RESP2              RESP3
//	Null        $-1                _
//	NullArray   *-1                _
//	Map         *2n                %n
//	Set         *n                 ~n
//	Push        *n                 >n
//	Double      $ (bulk)           ,
//	Bool        :1 :0              #t #f
//	BigNumber   $ (bulk)           (
//	Verbatim    $ (bulk)           = with a three-letter format
//
// Reader differs from Redis 7 in two ways, both so that the result does not depend on how the
// network cut the input. A NUL in a line is a byte like others; Redis waits for ever. A line over
// 64 KB is always an error; Redis accepts one whose end comes with the same read.
//
// Numbers are written as Redis writes them: see AppendDouble for replies and
// LongDouble for INCRBYFLOAT. The package does not depend on commands or sessions.
package resp
