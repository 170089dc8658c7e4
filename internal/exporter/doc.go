// Package exporter writes the keys of a store as files that others read: RDB files of Redis,
// commands in the protocol, and lines of JSON.
//
//	Source                         Export                         format
//	  Server (server.go)             expired keys are left out,     rdbFormat   rdb.FileWriter
//	  Store (store.go)               what the format cannot have    respFormat  resp.go
//	                                  is counted and named           jsonFormat  json.go
//
// Keys are passed from the source to the format one at a time, as the payload that DUMP replies, so
// the largest values bound the memory. A file is written from beginning to end, so it may be a
// pipe.
//
// A Server is read while others change it. WATCH ensures that a key's value and deadline are from
// the same instant; different keys are from different instants. SCAN of Keyp returns no key twice;
// an RDB file must not have a key twice.
package exporter
