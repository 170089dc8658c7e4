package exporter

import (
	"bufio"
	"strconv"

	"keyp/internal/rdb"
	"keyp/resp"
)

// respFormat writes commands that create the keys: SET for a string, RESTORE for any other value.
// They replace existing keys.
type respFormat struct {
	out     *bufio.Writer
	version int
	db      int // that is selected; a connection begins with 0
	w       resp.Writer
}

func (f *respFormat) library(source string) error {
	return f.do([]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), []byte(source))
}

func (f *respFormat) refuses(k *Key) (string, error) { return rdb.Portable(k.Payload, f.version) }

func (f *respFormat) key(k *Key) error {
	if k.DB != f.db {
		f.db = k.DB
		if err := f.do([]byte("SELECT"), strconv.AppendInt(nil, int64(k.DB), 10)); err != nil {
			return err
		}
	}
	deadline := strconv.AppendInt(nil, k.Deadline, 10)
	if rdb.TypeOf(k.Payload) != rdb.String {
		return f.do([]byte("RESTORE"), k.Name, deadline, k.Payload, []byte("REPLACE"),
			[]byte("ABSTTL"))
	}
	v, err := rdb.Decode(k.Payload)
	switch {
	case err != nil:
		return err
	case k.Deadline == 0:
		return f.do([]byte("SET"), k.Name, v.Str)
	default:
		return f.do([]byte("SET"), k.Name, v.Str, []byte("PXAT"), deadline)
	}
}

func (f *respFormat) end() error { return nil }

func (f *respFormat) do(args ...[]byte) error {
	f.w.Truncate(0)
	f.w.Array(len(args))
	for _, arg := range args {
		f.w.Bulk(arg)
	}
	_, err := f.out.Write(f.w.Buf)
	if cap(f.w.Buf) > 4*bufferBytes {
		f.w.Buf = nil
	}
	return err
}
