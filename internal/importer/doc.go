// Package importer sends the contents of files of Redis and Valkey to a server. It reads RDB files,
// append-only files, and the directories of append-only files that Redis writes since 7.0.
//
// Files are mapped into memory (source.go). So wrong lengths in a file cost no memory, and the
// system can reclaim the memory of parts that were read. Files are read twice. The first pass reads
// the whole file, so that a damaged file changes nothing, and finds the end of the last complete
// command. The second pass sends the contents in pipelines (pipe.go).
//
// Each value, including strings, is sent as RESTORE with the payload from the file, because a
// server's policies do not apply to RESTORE. The commands of an append-only file are sent
// unchanged. The import counts the data that the server refuses or has no place for. The report has
// the reasons, and the first keys or commands concerned.
package importer
