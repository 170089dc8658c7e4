package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSizeOfFile: a file or standard input that is too large is refused as a whole.
func TestSizeOfFile(t *testing.T) {
	const option = "port 7777\n"
	for _, extra := range []int{0, 1} {
		data := append(bytes.Repeat([]byte("#"), maxFile-len(option)-1+extra), "\n"+option...)
		path := filepath.Join(t.TempDir(), "keyp.conf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, "-"} {
			c, err := Load([]string{name}, nil, bytes.NewReader(data))
			switch {
			case extra == 0 && (err != nil || c.Int("port") != 7777):
				t.Errorf("%s of %d bytes: %v", name, len(data), err)
			case extra > 0 && (err == nil || !strings.Contains(err.Error(), "is larger than")):
				t.Errorf("%s of %d bytes: %v", name, len(data), err)
			}
		}
	}
}
