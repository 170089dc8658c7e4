package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// MemoryDisk mounts a file system in memory until the test ends. If mounting is not allowed, it
// skips the test.
func MemoryDisk(t testing.TB, mb int) string {
	return Mount(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mb), "keyp-test")
}

// LoopDisk mounts an ext4 file system, in the file image, until the test ends. If mounting is not
// allowed, it skips the test.
func LoopDisk(t testing.TB, mb int) (dir, image string) {
	t.Helper()
	image = filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, int64(mb)<<20); err != nil {
		t.Fatal(err)
	}
	// -m 0 reserves no space for root: the server may run as root.
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0",
		image).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no ext4 file system can be made here: %v %s", err, out)
	}
	return Mount(t, "-o", "loop", image), image
}

// Mount calls mount with args and a new directory, and unmounts it when the test ends. If mounting
// is not allowed, it skips the test.
func Mount(t testing.TB, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no small file system can be mounted here (needs root on Linux): %s",
			bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}
