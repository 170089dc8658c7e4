package group

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestRefused: if a server cannot become a member of a group, keyp cluster reports the reason at
// once.
func TestRefused(t *testing.T) {
	secret := func(text string) string {
		path := filepath.Join(testkit.MemoryDir(t), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := secret("the secret of these servers")
	g := members.New(t, 2, "--cluster-secret-file", ours)
	other := members.New(t, 2, "--cluster-secret-file", ours)
	stranger := members.NewServer(t, "--cluster-secret-file",
		secret("the secret of another cluster"))
	full := members.NewServer(t, "--cluster-secret-file", ours)
	c := full.Client(2)
	for _, command := range [][]any{{"cluster", "addslotsrange", 0, 16383}, {"set", "a", "b"}} {
		if err := c.Do(await.Context(t), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	first := g.Servers[0].Addr()
	for _, c := range []struct{ addr, want string }{
		{stranger.Addr(), "do not have the same secret"},
		{other.Servers[1].Addr(), "member of another group"},
		{full.Addr(), "has keys"},
		{first, "cannot join itself"},
	} {
		out, err := exec.CommandContext(await.Context(t), testkit.Binary(t), "cluster", "add",
			first, c.addr).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) ||
			strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s is added, and the tool says %q, %v instead of %q", c.addr,
				out, err, c.want)
		}
	}
	out, err := exec.CommandContext(await.Context(t), testkit.Binary(t), "cluster", "create",
		full.Addr(), stranger.Addr(), full.Addr()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "are the same server") ||
		strings.Count(string(out), "\n") != 1 {
		t.Errorf("a server is named twice, and the tool says %q, %v", out, err)
	}
	if out := g.Tool("add", first, g.Servers[1].Addr()); !strings.Contains(out, "2 members") {
		t.Error(out)
	}
}
