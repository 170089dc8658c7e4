package target

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
)

// This file stores a new file in a bucket of S3-compatible storage. It sends the file in several
// parts.

const (
	// A file is sent to a bucket as an S3 multipart upload. partSize is the smallest size of a
	// part, in bytes. The last part may be smaller.
	partSize = 16 << 20
	// mostParts is the largest number of parts that all S3-compatible servers accept. fewParts is
	// the number that Create aims at.
	mostParts, fewParts = 10_000, 5_000
	// parallel is how many parts are sent at a time.
	parallel = 2
	// abortTime bounds how long the abort of an upload may take.
	abortTime = 10 * time.Second
)

// Create implements Folder.Create. It aborts an upload that is not completed.
func (b *bucket) Create(ctx context.Context, name string, about int64,
	fill func(io.Writer) error) (size int64, err error) {
	key := b.prefix + name
	if err := b.errorOf(b.stat(ctx, key, -1), name); err == nil {
		return 0, exists(b.Path(name))
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	id, err := b.core.NewMultipartUpload(ctx, b.name, key,
		minio.PutObjectOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return 0, b.errorOf(err, name)
	}
	u := &upload{ctx: ctx, b: b, key: key, id: id, sent: make(chan sentPart, parallel),
		room: max(partSize, int(about/fewParts))}
	if err = fill(u); err == nil {
		err = u.end()
	}
	if failed := u.wait(1); err == nil {
		err = failed
	}
	if err == nil {
		err = u.complete()
	}
	if err == nil {
		return u.size, nil
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer stop()
	if failed := b.core.AbortMultipartUpload(late, b.name, key, id); failed != nil {
		err = errors.Join(err, fmt.Errorf("its upload is not aborted: %w", b.errorOf(failed, name)))
	}
	return 0, b.errorOf(err, name)
}

// stat returns nil if the object exists and has the given size. A negative size stands for any
// size.
func (b *bucket) stat(ctx context.Context, key string, size int64) error {
	info, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err == nil && size >= 0 && info.Size != size {
		return fmt.Errorf("it has %d bytes, and %d were sent", info.Size, size)
	}
	return err
}

// upload sends the written bytes in parts. Only one goroutine may use it.
type upload struct {
	ctx     context.Context
	b       *bucket
	key, id string
	room    int // bytes of a part
	buf     []byte
	spare   [][]byte // buffers to use again
	parts   []minio.CompletePart
	size    int64
	under   int // parts that are being sent
	sent    chan sentPart
	err     error
}

// sentPart is the result of sending a part.
type sentPart struct {
	number int
	etag   string
	buf    []byte
	err    error
}

func (u *upload) Write(b []byte) (n int, err error) {
	for len(b) > 0 && u.err == nil {
		if u.buf == nil {
			u.buf = u.buffer()
		}
		m := min(len(b), u.room-len(u.buf))
		u.buf, b, n = append(u.buf, b[:m]...), b[m:], n+m
		if len(u.buf) == u.room {
			u.send()
		}
	}
	return n, u.err
}

func (u *upload) buffer() []byte {
	if n := len(u.spare); n > 0 {
		buf := u.spare[n-1][:0]
		u.spare = u.spare[:n-1]
		return buf
	}
	return make([]byte, 0, u.room)
}

// send starts a goroutine that sends the buffer as a part. Then it waits until fewer than parallel
// parts are being sent.
func (u *upload) send() {
	if len(u.parts) == mostParts {
		u.err = fmt.Errorf("it has more than %d parts of %d bytes", mostParts, u.room)
		return
	}
	number, buf := len(u.parts)+1, u.buf
	u.parts = append(u.parts, minio.CompletePart{PartNumber: number})
	u.buf, u.size, u.under = nil, u.size+int64(len(buf)), u.under+1
	go func() {
		sum := sha256.Sum256(buf)
		// minio need not compute the checksum again.
		o := minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:]),
			DisableContentSha256: true}
		part, err := u.b.core.PutObjectPart(u.ctx, u.b.name, u.key, u.id, number,
			bytes.NewReader(buf), int64(len(buf)), o)
		u.sent <- sentPart{number, part.ETag, buf, err}
	}()
	u.err = u.wait(parallel)
}

// wait waits until fewer than most parts are being sent. It returns the first error of the upload
// so far.
func (u *upload) wait(most int) error {
	for u.under >= most {
		p := <-u.sent
		u.under--
		u.parts[p.number-1].ETag = p.etag
		u.spare = append(u.spare, p.buf)
		if u.err == nil {
			u.err = p.err
		}
	}
	return u.err
}

// end sends the rest of the buffer.
func (u *upload) end() error {
	if u.err == nil && len(u.buf) > 0 {
		u.send()
	}
	return u.err
}

// complete joins the parts into the object. After an error it checks whether the object exists with
// the right size, because only the reply may be lost.
func (u *upload) complete() error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	_, err := u.b.core.CompleteMultipartUpload(u.ctx, u.b.name, u.key, u.id, u.parts,
		minio.PutObjectOptions{})
	if err != nil && u.b.stat(u.ctx, u.key, u.size) == nil {
		return nil
	}
	return err
}
