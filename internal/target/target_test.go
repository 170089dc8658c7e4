package target

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit/fakes3"
	_ "keyp/internal/testkit/setup"
)

// inBucket returns a folder in a bucket of a server.
func inBucket(t *testing.T, s *fakes3.Server, path string) Folder {
	t.Helper()
	for _, line := range s.Environ() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// random returns content in which no two parts are equal.
func random(size int) []byte {
	b, rng := make([]byte, size), rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(b) // it gives no error
	return b
}

func create(ctx context.Context, f Folder, name string, content []byte) (int64, error) {
	return f.Create(ctx, name, 0, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func read(ctx context.Context, f Folder, name string) ([]byte, error) {
	in, size, err := f.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err == nil && int64(len(b)) != size {
		err = errors.New("it has another size")
	}
	return b, err
}

// TestFolder: a directory and a bucket behave in the same way.
func TestFolder(t *testing.T) {
	s, dir := fakes3.Start(t, true), t.TempDir()
	s.Put(t, "elsewhere", []byte("x"))
	s.Put(t, "a/prefix/deeper/one", []byte("x"))
	for what, f := range map[string]Folder{"directory": Dir(dir),
		"bucket": inBucket(t, s, "s3://bucket/a/prefix/")} {
		ctx := t.Context()
		if files, err := f.List(ctx); err != nil || len(files) != 0 {
			t.Errorf("%s: an empty one has %v, %v", what, files, err)
		}
		for _, name := range []string{"two", "one"} {
			content := []byte(name)
			if n, err := create(ctx, f, name, content); err != nil || int(n) != len(content) {
				t.Fatalf("%s: %q of %d bytes, %v", what, name, n, err)
			}
			if got, err := read(ctx, f, name); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: %q has %q, %v", what, name, got, err)
			}
		}
		if _, err := create(ctx, f, "one", []byte("other")); !errors.Is(err, ErrExists) ||
			!strings.Contains(err.Error(), f.Path("one")) {
			t.Errorf("%s: a file that exists: %v", what, err)
		}
		mine := errors.New("mine")
		if _, err := f.Create(ctx, "three", 0, func(w io.Writer) error {
			_, err := w.Write(make([]byte, partSize+1))
			return errors.Join(err, mine)
		}); !errors.Is(err, mine) {
			t.Errorf("%s: an error while it is written: %v", what, err)
		}
		files, err := f.List(ctx)
		if want := []File{{"one", 3}, {"two", 3}}; err != nil || !slices.Equal(files, want) {
			t.Errorf("%s: it has %v, want %v, %v", what, files, want, err)
		}
		if err := f.Remove(ctx, "one"); err != nil {
			t.Error(what, err)
		}
		if _, err := read(ctx, f, "one"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: what was removed: %v", what, err)
		}
	}
	if names := s.Names(t); len(names) != 3 || s.Uploads(t) != 0 {
		t.Errorf("the bucket has %q, and %d uploads", names, s.Uploads(t))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v, %v", left, err)
	}
}

func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Has("partNumber")
}

func isCompletion(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

// TestUploadTriesAgain: a request that fails for a temporary reason is sent again. A lost reply
// does no harm.
func TestUploadTriesAgain(t *testing.T) {
	s := fakes3.Start(t, false)
	f, content := inBucket(t, s, "s3://bucket"), random(2*partSize+12345)
	var parts, completions atomic.Int32
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case isPart(r) && parts.Add(1)%2 == 1:
			fakes3.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		case isCompletion(r) && completions.Add(1) == 1:
			s.Serve(httptest.NewRecorder(), r)
			fakes3.Refuse(w, http.StatusInternalServerError, "InternalError")
			return true
		}
		return false
	})
	if n, err := create(t.Context(), f, "file", content); err != nil || int(n) != len(content) {
		t.Fatal(n, err)
	}
	if got, err := read(t.Context(), f, "file"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back, %v", len(got), err)
	}
	if parts.Load() < 4 || completions.Load() < 2 {
		t.Errorf("%d requests for parts, %d to complete", parts.Load(), completions.Load())
	}
}

// early is a transport that returns the response before it has read the request's body.
type early struct{ body io.Reader }

func (e *early) RoundTrip(r *http.Request) (*http.Response, error) {
	e.body = r.Body
	return httptest.NewRecorder().Result(), nil
}

// TestBodyEnds: after an early response, nothing more is read from the request's body, which may be
// sent again.
func TestBodyEnds(t *testing.T) {
	var base early
	body := strings.NewReader("a part")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://host/",
		io.NopCloser(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&dated{RoundTripper: &base}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := base.body.Read(make([]byte, 1)); n != 0 || err != io.EOF ||
		body.Len() != len("a part") {
		t.Errorf("%d bytes more are read, %v; %d are left", n, err, body.Len())
	}
}

// TestUploadFails: an upload that fails or is cancelled is aborted, and leaves no object.
func TestUploadFails(t *testing.T) {
	s := fakes3.Start(t, false)
	f, content := inBucket(t, s, "s3://bucket"), random(2*partSize+1)
	fails := func(what string, ctx context.Context, words string) {
		t.Helper()
		if _, err := create(ctx, f, "file", content); err == nil || !strings.Contains(err.Error(),
			words) || !strings.Contains(err.Error(), "s3://bucket/file") {
			t.Errorf("%s: %v", what, err)
		}
		if names := s.Names(t); len(names) != 0 || s.Uploads(t) != 0 {
			t.Errorf("%s: the bucket has %q, and %d uploads", what, names, s.Uploads(t))
		}
	}
	var parts atomic.Int32
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if isPart(r) && parts.Add(1) > 1 {
			fakes3.Refuse(w, http.StatusInternalServerError, "InternalError")
			return true
		}
		return false
	})
	fails("a server that fails", t.Context(), "InternalError")
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if isCompletion(r) {
			fakes3.Refuse(w, http.StatusForbidden, "AccessDenied")
			return true
		}
		return false
	})
	fails("a completion that is refused", t.Context(), "AccessDenied")
	ctx, stop := context.WithCancel(t.Context())
	s.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if isPart(r) {
			stop()
		}
		return false
	})
	fails("cancelled", ctx, context.Canceled.Error())
}

// TestDownloadGoesOn: if a connection ends early, the rest is read from the same object. If the
// object was replaced meanwhile, the download fails.
func TestDownloadGoesOn(t *testing.T) {
	s := fakes3.Start(t, true)
	f, content := inBucket(t, s, "s3://bucket"), random(1<<20)
	s.Put(t, "file", content)
	var requests atomic.Int32
	replaced := false
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		n := requests.Add(1)
		if r.Method != http.MethodGet || r.URL.Path != "/bucket/file" {
			return false
		}
		if n > 1 && (r.Header.Get("If-Match") == "" || r.Header.Get("Range") == "") {
			t.Errorf("request %d has %v", n, r.Header)
		}
		if replaced && n > 1 {
			fakes3.Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return true
		}
		if n > 3 {
			return false
		}
		whole := httptest.NewRecorder()
		s.Serve(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(whole.Code)
		// The server sends fewer bytes than the header says, and the connection ends.
		_, _ = w.Write(whole.Body.Bytes()[:100_000*n])
		return true
	})
	got, err := read(t.Context(), f, "file")
	if err != nil || !bytes.Equal(got, content) || requests.Load() != 4 {
		t.Errorf("%d bytes in %d requests, %v", len(got), requests.Load(), err)
	}
	replaced = true
	requests.Store(0)
	if _, err := read(t.Context(), f, "file"); err == nil ||
		!strings.Contains(err.Error(), "PreconditionFailed") {
		t.Errorf("another object: %v", err)
	}
}

// begin starts an upload that is never completed.
func begin(t *testing.T, s *fakes3.Server, key string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Serve(w, httptest.NewRequest(http.MethodPost, "/bucket/"+key+"?uploads", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
}

// TestTidy: Tidy removes after a while what an interrupted run has left. It does not touch files
// that another run is writing.
func TestTidy(t *testing.T) {
	s, dir := fakes3.Start(t, false), t.TempDir()
	f := inBucket(t, s, "s3://bucket/p").(*bucket)
	for _, name := range []string{"p/old", "p/deep/er", "other"} {
		begin(t, s, name)
	}
	s.Clock.Advance(24 * time.Hour)
	begin(t, s, "p/new")
	for _, name := range []string{"old" + Unfinished, "new" + Unfinished, "old"} {
		path, at := filepath.Join(dir, name), time.Now().Add(-24*time.Hour)
		if strings.HasPrefix(name, "new") {
			at = time.Now()
		}
		if err := errors.Join(os.WriteFile(path, nil, 0o600),
			os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		f    Folder
		want string
	}{{f, "old"}, {Dir(dir), "old" + Unfinished}} {
		for _, dry := range []bool{true, false} {
			if names, err := tt.f.Tidy(t.Context(), 23*time.Hour, dry); err != nil ||
				!slices.Equal(names, []string{tt.want}) {
				t.Errorf("%q, %v", names, err)
			}
		}
		if names, err := tt.f.Tidy(t.Context(), 23*time.Hour, false); err != nil ||
			len(names) != 0 {
			t.Errorf("again: %q, %v", names, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 || s.Uploads(t) != 3 {
		t.Errorf("%v are left, %v, and %d uploads", left, err, s.Uploads(t))
	}
}

// TestTidyBesideTheClock: Tidy keeps a file that is being written, even if the clock of this
// machine is days ahead of the server's or the file system's. If the server does not send its time,
// Tidy removes nothing.
func TestTidyBesideTheClock(t *testing.T) {
	s, dir := fakes3.Start(t, false), t.TempDir()
	f := inBucket(t, s, "s3://bucket/p")
	s.Clock.Advance(-72 * time.Hour)
	tidied := func(f Folder, name string) {
		t.Helper()
		_, err := f.Create(t.Context(), name, 0, func(w io.Writer) error {
			if _, err := w.Write([]byte("x")); err != nil {
				return err
			}
			if f == Dir(dir) {
				at := time.Now().Add(-72 * time.Hour)
				if err := os.Chtimes(filepath.Join(dir, name+Unfinished), at, at); err != nil {
					return err
				}
			}
			names, err := f.Tidy(t.Context(), 24*time.Hour, false)
			if len(names) != 0 {
				t.Errorf("%q are removed", names)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if content, err := read(t.Context(), f, name); err != nil || string(content) != "x" {
			t.Errorf("%s has %q, %v", f.Path(name), content, err)
		}
	}
	tidied(f, "one")
	tidied(Dir(dir), "one")

	begin(t, s, "p/left")
	s.Clock.Advance(72 * time.Hour)
	s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header()["Date"] = nil // so it sends none
		return false
	})
	if names, err := inBucket(t, s, "s3://bucket/p").Tidy(t.Context(), 24*time.Hour,
		false); err == nil || !strings.Contains(err.Error(), "what time it is") ||
		len(names) != 0 || s.Uploads(t) != 1 {
		t.Errorf("%q, %v, and %d uploads", names, err, s.Uploads(t))
	}
	s.Before(nil)
	if names, err := f.Tidy(t.Context(), 24*time.Hour, false); err != nil ||
		!slices.Equal(names, []string{"left"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestRefused: errors describe in words what cannot work.
func TestRefused(t *testing.T) {
	s := fakes3.Start(t, true)
	inBucket(t, s, "s3://bucket") // the environment
	for _, tt := range []struct{ path, endpoint, words string }{
		{"s3:///name", "", "has no name of a bucket"}, {"s3://bucket", "ftp://host",
			"not of the form"}, {"s3://bucket", "https://host/path", "not of the form"},
	} {
		if _, err := Open(tt.path, Options{Endpoint: tt.endpoint}); err == nil ||
			!strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s at %s: %v", tt.path, tt.endpoint, err)
		}
	}
	for _, path := range []string{"s3://bucket", "s3://bucket/prefix/", "s3:///"} {
		if _, _, err := Split(path, Options{}); err == nil {
			t.Errorf("%s is taken for a file", path)
		}
	}
	refused := func(what string, f Folder, words string) {
		t.Helper()
		_, listed := f.List(t.Context())
		_, created := create(t.Context(), f, "file", []byte("x"))
		if listed == nil || created == nil || !strings.Contains(created.Error(), words) ||
			!strings.Contains(listed.Error(), words) {
			t.Errorf("%s: %v, %v", what, listed, created)
		}
	}
	refused("no such bucket", inBucket(t, s, "s3://another"), "NoSuchBucket")
	t.Setenv("AWS_CA_BUNDLE", "")
	unknown, err := Open("s3://bucket", Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused("a certificate that nobody knows", unknown, "certificate")
	inBucket(t, s, "s3://bucket") // the environment as it was
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	f, err := Open("s3://bucket", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.List(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "InvalidAccessKeyId") {
		t.Errorf("another user: %v", err)
	}
	if _, err := create(t.Context(), f, "file", []byte("x")); err == nil || len(s.Names(t)) > 0 {
		t.Errorf("another user: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if _, err := Open("s3://bucket", Options{}); err == nil ||
		!strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("no password: %v", err)
	}
}
