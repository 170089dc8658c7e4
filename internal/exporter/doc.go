// Package exporter writes the keys of a store to files for other programs: RDB files of Redis,
// commands in the protocol, and lines of JSON.
//
//	Source                         Export                         format
//	  Server (server.go)             expired keys are left out,     rdbFormat   rdb.FileWriter
//	  Store (store.go)               what the format cannot have    respFormat  resp.go
//	                                  is counted and named           jsonFormat  json.go
//
// Keys are passed from the source to the format one at a time, as the payload of DUMP. So the
// largest values bound the memory. A file is written from beginning to end, so it may be a pipe.
package exporter
