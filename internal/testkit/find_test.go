package testkit

import (
	"runtime"
	"testing"

	"keyp/internal/testkit/await"
)

// verdict records the outcome that a test would have had.
type verdict struct {
	testing.TB
	failed, skipped bool
}

func (v *verdict) Helper() {}

func (v *verdict) Fatalf(string, ...any) {
	v.failed = true
	runtime.Goexit()
}

func (v *verdict) Skipf(string, ...any) {
	v.skipped = true
	runtime.Goexit()
}

// TestFind: a missing program skips the test, or fails it if the program is required.
func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, required := range []string{"", "1"} {
		t.Setenv("KEYP_REQUIRE_REDIS", required)
		v := &verdict{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Program(v, "redis-server")
		}()
		await.For(t, "the end", ended)
		if v.failed != (required == "1") || v.skipped == v.failed {
			t.Errorf("with KEYP_REQUIRE_REDIS=%q: failed %v, skipped %v", required,
				v.failed, v.skipped)
		}
	}
}
