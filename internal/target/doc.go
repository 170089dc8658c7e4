// Package target has the places in which backups are kept: directories of this machine, and buckets
// of S3-compatible storage. It does not know what the files are.
//
// A file that is made has its name when all of it is there and durable. What a process that was
// killed leaves is never listed or opened as a file: in a directory it has another name
// (Unfinished), in a bucket it is a multipart upload that was not completed. Tidy removes it.
//
// A file of a bucket is sent in parts, some at a time, each with its SHA-256, and read in one
// request, which is continued where a connection ends early.
package target
