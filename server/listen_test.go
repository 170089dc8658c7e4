package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"keyp/internal/childproc"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestAddressInUse(t *testing.T) {
	ts := start(t)
	_, err := prepareServer(t, t.TempDir(), ts.Addrs()[:1])
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), ts.Addrs()[0]) {
		t.Fatalf("got %v", err)
	}
}

func TestNothingToListenOn(t *testing.T) {
	if _, err := prepareServer(t, t.TempDir(), nil, "port=0"); err == nil {
		t.Fatal("a server without listeners was made")
	}
}

func TestSeveralAddresses(t *testing.T) {
	ts, err := prepareServer(t, t.TempDir(), []string{"127.0.0.1:0", "[::1]:0"})
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
		t.Skip("this machine has no IPv6 loopback")
	}
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	for _, addr := range ts.Addrs() {
		c := dial(t, "tcp", addr)
		c.send("CLIENT INFO\n")
		if got := c.reply(); !strings.Contains(got, "laddr="+addr+" ") ||
			!strings.Contains(got, "addr="+c.LocalAddr().String()+" ") {
			t.Errorf("%s: %s", addr, got)
		}
	}
	if _, port, _ := net.SplitHostPort(ts.Addrs()[0]); fmt.Sprint(ts.Port()) != port {
		t.Errorf("Port is %d, the first listener's %s", ts.Port(), port)
	}
}

// TestBindSetting: port and bind work as in redis.conf. A missing address is skipped only if it is
// optional.
func TestBindSetting(t *testing.T) {
	port := strconv.Itoa(testkit.FreePort(t))
	ts, err := prepareServer(t, t.TempDir(), nil, "port="+port, "bind=127.0.0.1 -192.0.2.77")
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	if got := strings.Join(ts.Addrs(), " "); got != "127.0.0.1:"+port {
		t.Fatalf("listening on %s", got)
	}
	if got := ts.dial().do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	_, err = prepareServer(t, t.TempDir(), nil, "port="+strconv.Itoa(testkit.FreePort(t)),
		"bind=192.0.2.77")
	if !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Fatalf("got %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "keyp") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)

	_, err = prepareServer(t, t.TempDir(), nil, "port=0", "unixsocket="+path)
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Fatalf("somebody listens there, and New gave %v", err)
	}
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}

	ts, err := prepareServer(t, t.TempDir(), nil, "port=0", "unixsocket="+path,
		"unixsocketperm=700")
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", info, err)
	}
	c := dial(t, "unix", path)
	c.send("CLIENT INFO\n")
	if got := c.reply(); !strings.Contains(got, "addr="+path+":0 ") {
		t.Errorf("CLIENT INFO: %s", got)
	}
	large := strings.Repeat("x", 8<<20)
	c.raw(multibulk("SET", "k", large) + multibulk("GET", "k"))
	c.expect("+OK", large)
	ts.stop()
	await.Until(t, "the socket's file is removed", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestFileInTheWayOfUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareServer(t, t.TempDir(), nil, "port=0", "unixsocket="+path); err == nil {
		t.Fatal("a server was made")
	}
	if b, err := os.ReadFile(path); string(b) != "data" {
		t.Fatalf("the file is gone: %v", err)
	}
}

// TestProtectedMode connects from an address of this machine that is not loopback.
func TestProtectedMode(t *testing.T) {
	addr := outsideAddress()
	if addr == "" {
		t.Skip("this machine has no address but loopback")
	}
	ts, err := prepareServer(t, t.TempDir(), []string{addr + ":0"})
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	if got := ts.dial().reply(); !strings.HasPrefix(got, "-DENIED") {
		t.Fatalf("got %q", got)
	}
	set := func(pairs ...config.Pair) {
		ts.onLoop(func(*loop) {
			if err := ts.cfg.Set(pairs...); err != nil {
				t.Error(err)
			}
		})
	}
	set(config.Pair{Name: "requirepass", Value: "secret"})
	c := ts.dial()
	c.send("PING\nAUTH secret\nPING\n")
	c.expect("-NOAUTH Authentication required.", "+OK", "+PONG")
	set(config.Pair{Name: "requirepass"}, config.Pair{Name: "protected-mode", Value: "no"})
	if got := ts.dial().do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
}

func outsideAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return ""
}

// TestNoDescriptorsLeft runs a server in a process that may open only a few files, and opens more
// connections than that.
func TestNoDescriptorsLeft(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "KEYP_TEST_SERVER="+t.TempDir(), "KEYP_TEST_FILES=50")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log testkit.Output
	cmd.Stderr = &log
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	exited := false
	defer func() {
		if !exited {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not start: %v\n%s", err, log.String())
	}
	addr := strings.TrimSpace(strings.TrimPrefix(line, "listening"))

	first := dial(t, "tcp", addr)
	first.do("SET a 1")
	var served []*client
	refused := 0
	for range 60 {
		c := dial(t, "tcp", addr)
		switch got := c.do("PING"); got {
		case "+PONG":
			served = append(served, c)
		case "-ERR max number of clients reached":
			refused++
		default:
			if !strings.HasPrefix(got, "(") { // reset while the refusal was on its way
				t.Fatalf("got %q", got)
			}
			refused++
		}
	}
	if len(served) < 5 || refused == 0 {
		t.Fatalf("%d served, %d refused: the limit was not reached", len(served), refused)
	}
	if got := first.do("GET a"); got != "1" {
		t.Fatalf("a client that was there before got %q", got)
	}
	for _, c := range served {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "connections are accepted again", func() bool {
		c := dial(t, "tcp", addr)
		defer c.Close()
		return c.do("PING") == "+PONG"
	})
	await.Until(t, "the server is idle", func() bool { // it may have work left from before
		before := cpuOf(t, cmd.Process.Pid)
		await.Pass(200 * time.Millisecond) // the span that is measured
		return cpuOf(t, cmd.Process.Pid)-before <= 100*time.Millisecond
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err, exited = cmd.Wait(), true
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if n := strings.Count(log.String(), "no new connections can be accepted"); n == 0 || n > 20 {
		t.Errorf("logged %d times:\n%.3000s", n, log.String())
	}
}

// cpuOf returns the processor time that a process has used, or 0 on systems without /proc.
func cpuOf(t *testing.T, pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks, n time.Duration
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		if _, err := fmt.Sscan(f, &n); err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks * 10 * time.Millisecond
}
