package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/fakes3"
)

// storage is S3-compatible storage, with methods to run tools that use it.
type storage struct {
	*fakes3.Server
	t *testing.T
}

func newStorage(t *testing.T) storage {
	t.Helper()
	return storage{fakes3.Start(t, true), t}
}

// works runs a subcommand, which must succeed, and returns its output.
func (s storage) works(args ...string) string {
	s.t.Helper()
	status, out, errs := tool(s.t, s.Environ(), args...)
	if status != 0 {
		s.t.Fatalf("keyp %q: status %d, %s", args, status, errs)
	}
	return out
}

// refuses runs a subcommand, which must fail with a message that contains words. The environment is
// that of the storage plus env.
func (s storage) refuses(words string, env []string, args ...string) {
	s.t.Helper()
	if status, _, errs := tool(s.t, append(s.Environ(), env...), args...); status != 1 ||
		!strings.Contains(errs, words) {
		s.t.Errorf("keyp %q: status %d, %q, want %q", args, status, errs, words)
	}
}

// TestBackupToBucket: a backup is written to a bucket, and can be verified and restored from there,
// also with an archive in a bucket. Old backups are removed.
func TestBackupToBucket(t *testing.T) {
	t.Parallel()
	bucket, dir := newStorage(t), t.TempDir()
	archive := filepath.Join(dir, "archive")
	s := testkit.Keyp(t, "--enable-debug-command", "yes", "--archive-dir", archive,
		"--archive-timeout", "1")
	c := s.Client(2)
	fillTypes(t, c)
	first := digestOf(t, c)
	const folder = "s3://bucket/some/where"
	if got := bucket.works("backup", s.Addr(), folder); !strings.Contains(got, folder+"/keyp-") ||
		!strings.Contains(got, " has 30") {
		t.Errorf("it prints %q", got)
	}
	names := bucket.Names(t)
	if len(names) != 1 || !strings.HasPrefix(names[0], "some/where/keyp-") ||
		!strings.HasSuffix(names[0], ".backup") {
		t.Fatalf("the bucket has %q", names)
	}
	file := "s3://bucket/" + names[0]
	if got := bucket.works("backup", "verify", file, "--s3-endpoint",
		bucket.URL); !strings.Contains(got, file+" is sound: 30") {
		t.Errorf("verify prints %q", got)
	}
	restored := func(name, want string, args ...string) {
		t.Helper()
		to := filepath.Join(dir, name)
		bucket.works(append([]string{"restore", file, to}, args...)...)
		if got := digestOf(t, servedFrom(t, to).Client(2)); got != want {
			t.Errorf("%s: the digest is %s, want %s", name, got, want)
		}
	}
	restored("first", first)

	is(t, "OK")(c.Set(ctx, "later", "v", 0).Result())
	last := digestOf(t, c)
	bucket.works("backup", s.Addr(), folder)
	s.Stop()
	bucket.works("backup", s.Dir(), "s3://bucket") // of a directory too
	for _, name := range namesIn(t, archive, ".log") {
		content, err := os.ReadFile(filepath.Join(archive, name))
		if err != nil {
			t.Fatal(err)
		}
		bucket.Put(t, "log/"+name, content)
	}
	restored("second", last, "--archive", "s3://bucket/log")
	if got := bucket.works("restore", file, "--archive", "s3://bucket/log",
		"--list"); !strings.Contains(got, "the archive ends") {
		t.Errorf("the list is %q", got)
	}

	all := len(bucket.Names(t))
	bucket.Put(t, "some/where/keyp-broken.backup", []byte("something"))
	bucket.Put(t, "some/where/notes", []byte("something"))
	if got := bucket.works("backup", "prune", folder, "--keep", "1",
		"--dry-run"); !strings.Contains(got, file) || len(bucket.Names(t)) != all+2 {
		t.Errorf("a dry run prints\n%s", got)
	}
	got := bucket.works("backup", "prune", folder, "--keep", "1", "--archive", "s3://bucket/log")
	if left := bucket.Names(t); len(left) >= all+2 || strings.Contains(strings.Join(left, " "),
		names[0]) || !strings.Contains(got, "keyp-broken.backup is not sound") {
		t.Errorf("%q are left; it prints\n%s", left, got)
	}
	bucket.refuses("file does not exist", nil, "backup", "verify", file)
}

// TestBucketRefuses: an upload that fails leaves no backup, and the error names the reason.
func TestBucketRefuses(t *testing.T) {
	t.Parallel()
	bucket, s := newStorage(t), testkit.Keyp(t)
	random(t, s.Client(2), 20) // two parts
	nothing := func() {
		t.Helper()
		if names := bucket.Names(t); len(names) != 0 || bucket.Uploads(t) != 0 {
			t.Errorf("the bucket has %q, and %d uploads", names, bucket.Uploads(t))
		}
	}
	bucket.refuses("NoSuchBucket", nil, "backup", s.Addr(), "s3://another")
	bucket.refuses("Access", []string{"AWS_ACCESS_KEY_ID=somebody"}, "backup",
		s.Addr(), "s3://bucket")
	bucket.refuses("AWS_SECRET_ACCESS_KEY", []string{"AWS_SECRET_ACCESS_KEY="}, "backup",
		s.Addr(), "s3://bucket")
	bucket.refuses("certificate", []string{"AWS_CA_BUNDLE="}, "backup", s.Addr(), "s3://bucket")
	bucket.refuses("names no file of a bucket", nil, "restore", "s3://bucket",
		filepath.Join(t.TempDir(), "new"))
	nothing()
	var parts atomic.Int32
	bucket.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("partNumber") || parts.Add(1) == 1 {
			return false
		}
		fakes3.Refuse(w, http.StatusInternalServerError, "InternalError")
		return true
	})
	bucket.refuses("InternalError", nil, "backup", s.Addr(), "s3://bucket")
	nothing()
	if parts.Load() < 3 {
		t.Errorf("%d requests for parts", parts.Load())
	}
}

// TestBucketToolKilled: a tool that is killed during an upload leaves nothing that looks like a
// backup. A tool that is interrupted aborts the upload.
func TestBucketToolKilled(t *testing.T) {
	t.Parallel()
	bucket, s := newStorage(t), testkit.Keyp(t)
	random(t, s.Client(2), 20)
	// sends has the uploads whose parts are being sent. A tool sends several parts at once.
	sends := make(chan string, 100)
	bucket.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("partNumber") {
			return false
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			// If the body is not read, the end of the connection is not noticed.
			return true
		}
		sends <- r.URL.Query().Get("uploadId")
		<-r.Context().Done() // until the tool is gone
		return true
	})
	begin := func() *exec.Cmd {
		cmd := exec.Command(testkit.Binary(t), "backup", s.Addr(), "s3://bucket")
		cmd.Env = bucket.Environ()
		return cmd
	}
	cmd := begin()
	cmd.Env = append(testkit.Environ(), cmd.Env...)
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	killed := await.For(t, "a part is sent", sends)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if names := bucket.Names(t); len(names) != 0 || bucket.Uploads(t) != 1 {
		t.Errorf("a killed tool leaves %q, and %d uploads", names, bucket.Uploads(t))
	}
	status, said := interrupted(t, begin(), func() {
		for await.For(t, "a part of another upload is sent", sends) == killed {
		}
	})
	if status != 1 || !strings.Contains(said, "it was interrupted") {
		t.Errorf("status %d: %s", status, said)
	}
	if names := bucket.Names(t); len(names) != 0 || bucket.Uploads(t) != 1 {
		t.Errorf("an interrupted tool leaves %q, and %d uploads", names, bucket.Uploads(t))
	}
	bucket.Before(nil)
	bucket.works("backup", s.Addr(), "s3://bucket")
	names := bucket.Names(t)
	if len(names) != 1 {
		t.Fatalf("the bucket has %q", names)
	}
	if got := bucket.works("backup", "verify", "s3://bucket/"+names[0]); !strings.Contains(got,
		"is sound: 200 keys") {
		t.Errorf("verify prints %q", got)
	}
}
