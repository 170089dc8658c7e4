package e2e

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// cutting starts a proxy for connections to a server. It closes the client's side of the first
// connections after some bytes of replies: cuts is the number of these connections, and bytes that
// of the bytes. It closes the server's side of every second one of them, and leaves the others
// open. Later connections are not touched.
func cutting(t *testing.T, addr string, cuts, bytes int) (string, *atomic.Int32) {
	t.Helper()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Close() })
	var n atomic.Int32
	go func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			server, err := await.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			t.Cleanup(func() { server.Close() })
			number := int(n.Add(1))
			go func() {
				if _, err := io.Copy(server, client); err == nil &&
					(number > cuts || number%2 == 0) {
					server.Close()
				}
			}()
			go func() {
				defer client.Close()
				if number <= cuts {
					_, err = io.CopyN(client, server, int64(bytes))
				} else {
					_, err = io.Copy(client, server)
				}
			}()
		}
	}()
	return front.Addr().String(), &n
}

// TestBackupGoesOn: a backup whose connection is lost, within a part or between two, continues on
// another connection. The result is the same as without the loss.
func TestBackupGoesOn(t *testing.T) {
	t.Parallel()
	s, dir := testkit.Keyp(t, "--enable-debug-command", "yes"), t.TempDir()
	c := s.Client(2)
	random(t, c, 12)
	want := digestOf(t, c)
	for name, bytes := range map[string]int{"often": 2_500_000, "early": 1_100_000} {
		front, connections := cutting(t, s.Addr(), 4, bytes)
		file, to := filepath.Join(dir, name), filepath.Join(dir, name+".data")
		status, _, errs := tool(t, nil, "backup", front, file)
		if status != 0 || strings.Count(errs, "is made again") != 4 || connections.Load() != 5 {
			t.Fatalf("%s: status %d, %d connections: %s", name, status, connections.Load(), errs)
		}
		works(t, "restore", file, to)
		if got := digestOf(t, servedFrom(t, to).Client(2)); got != want {
			t.Errorf("%s: the digest is %s, want %s", name, got, want)
		}
	}
	// Without a server there is nothing to wait for.
	front, _ := cutting(t, s.Addr(), 1, 2_500_000)
	stalled := filepath.Join(dir, "other")
	s.Stop()
	if status, _, errs := tool(t, nil, "backup", front, stalled); status != 1 ||
		!strings.Contains(errs, "is not backed up") {
		t.Errorf("without a server: status %d, %s", status, errs)
	}
	absent(t, stalled)
}
