// Package fakes3 is S3-compatible storage for tests, in memory and on loopback. It checks the
// access key of each request, which the underlying library does not do.
package fakes3

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the name of the only bucket.
const Bucket = "bucket"

const (
	access = "AKIDEXAMPLE"
	secret = "secret of the example"
)

// Server is a storage server that runs until the test ends.
type Server struct {
	// URL is the endpoint.
	URL string
	// Clock is the server's clock.
	Clock gofakes3.TimeSourceAdvancer

	backend gofakes3.Backend
	storage http.Handler
	ca      string
	before  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// Start starts a server with one bucket. If secure is set, it uses TLS, with the certificate that
// AWS_CA_BUNDLE names.
func Start(t testing.TB, secure bool) *Server {
	t.Helper()
	s := &Server{backend: s3mem.New(), Clock: gofakes3.FixedTimeSource(time.Now())}
	s.storage = gofakes3.New(s.backend, gofakes3.WithTimeSource(s.Clock),
		gofakes3.WithTimeSkewLimit(0)).Server()
	if err := s.backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests refuse its certificate
	if secure {
		server.StartTLS()
		s.ca = filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: server.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.URL = server.URL
	return s
}

// Environ returns the environment variables that a client process needs.
func (s *Server) Environ() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + access, "AWS_SECRET_ACCESS_KEY=" + secret,
		"AWS_REGION=us-east-1", "AWS_ENDPOINT_URL=" + s.URL, "AWS_CA_BUNDLE=" + s.ca}
}

// Before sets a function that sees each request first, on any goroutine. If it returns true, it has
// replied. Nil removes the function.
func (s *Server) Before(fn func(w http.ResponseWriter, r *http.Request) bool) {
	if fn == nil {
		fn = func(http.ResponseWriter, *http.Request) bool { return false }
	}
	s.before.Store(&fn)
}

// Serve handles a request with the storage.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) { s.storage.ServeHTTP(w, r) }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.Clock.Now().UTC().Format(http.TimeFormat))
	if !strings.Contains(r.Header.Get("Authorization"), "Credential="+access+"/") {
		Refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
		return
	}
	if before := s.before.Load(); before != nil && (*before)(w, r) {
		return
	}
	s.Serve(w, r)
}

// Refuse replies with an error with a status and a code.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	// The client may be gone.
	_, _ = w.Write([]byte("<Error><Code>" + code +
		"</Code><Message>the test says so</Message></Error>"))
}

// Names returns the names of the objects, sorted.
func (s *Server) Names(t testing.TB) (names []string) {
	t.Helper()
	list, err := s.backend.ListBucket(Bucket, nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range list.Contents {
		names = append(names, object.Key)
	}
	slices.Sort(names)
	return names
}

// Put creates an object.
func (s *Server) Put(t testing.TB, name string, content []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPut, "/"+Bucket+"/"+name, bytes.NewReader(content))
	r.Header.Set("Content-Length", strconv.Itoa(len(content)))
	s.Serve(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
}

// Uploads returns the number of multipart uploads that are neither completed nor aborted.
func (s *Server) Uploads(t testing.TB) int {
	t.Helper()
	w := httptest.NewRecorder()
	s.Serve(w, httptest.NewRequest(http.MethodGet, "/"+Bucket+"?uploads", nil))
	if w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "NoSuchUpload") {
		// There has never been an upload.
		return 0
	}
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return strings.Count(w.Body.String(), "<Upload>")
}
