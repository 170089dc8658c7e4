// Package exporter writes the keys of a store to files for other programs: RDB files of Redis,
// commands in the protocol, and lines of JSON.
//
//	Source (Server or Store) ──► Export ──► format (RDB, RESP or JSON)
//
// Export leaves out expired keys. It counts keys that the format cannot have, and names them. Keys
// are passed from the source to the format one at a time, as the payload of DUMP. So the
// largest values bound the memory. A file is written from beginning to end, so it may be a pipe.
package exporter
