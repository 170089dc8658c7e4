// Package importer sends what files of Redis and Valkey have to a server: RDB files, append-only
// files, and the directories of append-only files that Redis writes since 7.0.
//
// Files are mapped (source.go), so that lengths that are lies cost nothing, and the system gives
// the memory of what was read to others. They are read twice: the first time as a whole, so that a
// damaged file changes nothing, and to find where the last command is complete; then their content
// is sent in pipelines (pipe.go).
//
// A string is sent as SET, any other value as RESTORE with the payload as it is in the file. Of an
// append-only file the commands are sent as they are. What the server refuses, or has no place for,
// is counted with its reason and the first keys or commands that it concerns.
package importer
