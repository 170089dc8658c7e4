package target

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// amazon is the endpoint unless another one is named.
const amazon = "https://s3.amazonaws.com"

// tries is how often a request is sent if it fails for a reason that may pass.
const tries = 5

// bucket is the Folder of the objects of a bucket whose names begin with prefix.
type bucket struct {
	core   *minio.Core
	clock  *dated
	name   string
	prefix string // empty, or ends with a slash
}

// openBucket opens BUCKET/PREFIX. Credentials, region and endpoint come from the environment
// variables that Amazon's own tools use.
func openBucket(path string, o Options) (*bucket, error) {
	name, prefix, _ := strings.Cut(path, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if name == "" {
		return nil, fmt.Errorf("%s%s has no name of a bucket", scheme, path)
	}
	endpoint := cmp.Or(o.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"),
		amazon)
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" ||
		strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("the endpoint %q is not of the form https://HOST:PORT", endpoint)
	}
	id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil,
			errors.New("S3 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
	}
	transport, err := transportOf(at.Scheme == "https")
	if err != nil {
		return nil, err
	}
	clock := &dated{RoundTripper: transport}
	core, err := minio.NewCore(at.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(id, secret, os.Getenv("AWS_SESSION_TOKEN")),
		Secure: at.Scheme == "https", Transport: clock,
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")), MaxRetries: tries,
	})
	if err != nil {
		return nil, err
	}
	return &bucket{core, clock, name, prefix}, nil
}

// dated stores the server's time, which each response states.
type dated struct {
	http.RoundTripper
	last atomic.Int64 // in Unix seconds; 0: it never did
}

// RoundTrip implements http.RoundTripper. A response may come before the whole body was sent. Then
// RoundTrip ends the reading of the body, because the client may send the same body again.
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		body := &endable{r.Body, make(chan bool, 1)}
		body.more <- true
		defer body.end()
		r = r.WithContext(r.Context()) // the caller's stays as it is
		r.Body = body
	}
	response, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		d.last.Store(at.Unix())
	}
	return response, nil
}

// endable is a body that can be ended. Then it reads as io.EOF.
type endable struct {
	io.ReadCloser
	more chan bool // whether there is more to read, while nobody reads
}

func (e *endable) Read(b []byte) (int, error) {
	more := <-e.more
	defer func() { e.more <- more }()
	if !more {
		return 0, io.EOF
	}
	return e.ReadCloser.Read(b)
}

// end ends the body. It waits for a read under way.
func (e *endable) end() {
	<-e.more
	e.more <- false
}

// transportOf returns a transport that verifies certificates with those in the file AWS_CA_BUNDLE,
// or with the system's if that is not set.
func transportOf(secure bool) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	file := os.Getenv("AWS_CA_BUNDLE")
	if !secure || file == "" {
		return transport, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return transport, nil
}

// Path and the methods after it implement Folder.
func (b *bucket) Path(name string) string { return scheme + b.name + "/" + b.prefix + name }

// errorOf adds the path and the error's code to an error. For a missing object it wraps
// os.ErrNotExist.
func (b *bucket) errorOf(err error, name string) error {
	if err == nil {
		return nil
	}
	code := minio.ToErrorResponse(err).Code
	switch code {
	case "":
		return fmt.Errorf("%s: %w", b.Path(name), err)
	case minio.NoSuchKey:
		return fmt.Errorf("%s: %w", b.Path(name), os.ErrNotExist)
	}
	return fmt.Errorf("%s: %w (%s)", b.Path(name), err, code)
}

func (b *bucket) List(ctx context.Context) (files []File, err error) {
	for object := range b.core.ListObjectsIter(ctx, b.name,
		minio.ListObjectsOptions{Prefix: b.prefix}) {
		if object.Err != nil {
			return nil, b.errorOf(object.Err, "")
		}
		if name := strings.TrimPrefix(object.Key, b.prefix); name != "" &&
			!strings.Contains(name, "/") {
			files = append(files, File{name, object.Size})
		}
	}
	return files, ctx.Err()
}

func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	d := &download{ctx: ctx, b: b, name: name}
	if err := d.open(); err != nil {
		return nil, 0, b.errorOf(err, name)
	}
	return d, d.size, nil
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	return b.errorOf(b.core.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}),
		name)
}

// Tidy considers uploads as left over if they began at least age ago by the server's clock. The
// clock of this machine may be ahead of it.
func (b *bucket) Tidy(ctx context.Context, age time.Duration,
	dry bool) (names []string, err error) {
	var uploads []minio.ObjectMultipartInfo
	for upload := range b.core.ListIncompleteUploads(ctx, b.name, b.prefix, false) {
		// After an error the loop goes on: the sender waits until somebody reads the whole channel.
		if err = errors.Join(err, b.errorOf(upload.Err, "")); upload.UploadID != "" &&
			!strings.Contains(strings.TrimPrefix(upload.Key, b.prefix), "/") {
			uploads = append(uploads, upload)
		}
	}
	now := b.clock.last.Load()
	if err == nil && now == 0 && len(uploads) > 0 {
		err =
			fmt.Errorf("%s: the server does not say what time it is, so it is not known which uploads are left over",
				b.Path(""))
	}
	for _, upload := range uploads {
		if err != nil {
			break
		}
		if upload.Initiated.After(time.Unix(now, 0).Add(-age)) {
			continue
		}
		name := strings.TrimPrefix(upload.Key, b.prefix)
		if !dry {
			err = b.errorOf(b.core.AbortMultipartUpload(ctx, b.name, upload.Key, upload.UploadID),
				name)
		}
		names = append(names, name)
	}
	return names, err
}

// download reads an object from its beginning. If a connection ends early, it requests the rest.
type download struct {
	ctx      context.Context
	b        *bucket
	name     string
	etag     string // of the object: the rest has to be of the same one
	at, size int64
	body     io.ReadCloser // nil: it has ended
	failures int           // since bytes came last
}

func (d *download) open() error {
	var o minio.GetObjectOptions
	if d.at > 0 {
		if err := errors.Join(o.SetRange(d.at, 0), o.SetMatchETag(d.etag)); err != nil {
			return err
		}
	}
	body, info, _, err := d.b.core.GetObject(d.ctx, d.b.name, d.b.prefix+d.name, o)
	if err != nil {
		return err
	}
	if d.etag == "" {
		d.etag, d.size = info.ETag, info.Size
	}
	if info.Size != d.size-d.at {
		return errors.Join(fmt.Errorf("%d bytes come from byte %d on, of %d", info.Size, d.at,
			d.size), body.Close())
	}
	d.body = body
	return nil
}

func (d *download) Read(p []byte) (n int, err error) {
	for d.at < d.size {
		if d.body == nil {
			err = d.open()
		}
		if err == nil {
			n, err = d.body.Read(p[:min(int64(len(p)), d.size-d.at)])
		}
		if d.at += int64(n); n > 0 || len(p) == 0 {
			d.failures = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		if err = d.failed(err); err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

// failed waits before the next try. It returns an error if another try is useless.
func (d *download) failed(err error) error {
	if d.body != nil {
		_ = d.body.Close() // it has failed already
		d.body = nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	status := minio.ToErrorResponse(err).StatusCode
	if d.failures++; d.failures >= tries || d.ctx.Err() != nil || status >= 400 && status < 500 {
		return d.b.errorOf(err, d.name)
	}
	select {
	case <-time.After(100 * time.Millisecond << d.failures):
	case <-d.ctx.Done():
	}
	return nil
}

func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}
