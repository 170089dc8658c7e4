package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Binary returns the path of the keyp executable: KEYP_BIN, if that is set. Otherwise the first
// call in a process builds it in bin/testkit, under the module's root. Later test processes find
// the file there, and link it again only if a source has changed.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("KEYP_BIN"); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := readSources(root); err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "testkit")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name, args := "keyp", []string{"build", "-buildvcs=false"}
	if Race {
		name, args = "keyp-race", append(args, "-race")
	}
	path := filepath.Join(dir, name)
	return path, build(root, path, append(args, "-o", path, "./cmd/keyp"))
})

// build runs go build, one process at a time.
func build(root, path string, args []string) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // which lets the lock go
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

// Root returns the root directory of the module that contains the test.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// readSources lists the module's directories and does nothing else. go test notes the files that a
// test lists, with their sizes and times, and runs the test again if these differ. It cannot see
// the files that go build reads.
func readSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since its directory was listed
		}
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && path != root
		if entry.IsDir() && (hidden || path == filepath.Join(root, "bin")) {
			return fs.SkipDir
		}
		return nil
	})
}
