// Package exporter writes the keys of a store as files that others read: RDB files of Redis,
// commands in the protocol, and lines of JSON.
//
//	Source                         Export                         format
//	  Server (server.go)             expired keys are left out,     rdbFormat   rdb.FileWriter
//	  Store (store.go)               what the format cannot have    respFormat  resp.go
//	                                  is counted and named           jsonFormat  json.go
//
// A key goes from the one to the other as the payload that DUMP replies, one at a time, so that
// memory is bounded by the largest values. A file is written from the front to the end, and may be
// a pipe.
//
// A Server is read while others change it. A key's value and deadline are those of one instant,
// which WATCH proves; different keys are of different instants. SCAN of Keyp shows no key twice,
// which a file of Redis could not have.
package exporter
