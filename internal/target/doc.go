// Package target provides the places in which backups are kept: directories of this machine, and
// buckets of S3-compatible storage. It knows nothing about the contents of the files.
//
// A new file gets its name when it is complete and durable. The unfinished file of a process that
// was killed is never listed or opened. In a directory it has another name (Unfinished). In a
// bucket it is a multipart upload that was not completed. Tidy removes it.
//
// A file of a bucket is sent in parts, several at a time, each with its SHA-256. It is read in one
// request. If a connection ends early, another request continues from there.
package target
