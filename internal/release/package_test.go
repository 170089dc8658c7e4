package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/childproc"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestPackage installs the deb on this machine and runs the server. It then upgrades the package,
// keeping the data, removes it, keeping the data, and purges it with the data.
func TestPackage(t *testing.T) {
	dir := os.Getenv("KEYP_PACKAGES")
	_, debian := testkit.FindTool("dpkg")
	switch {
	case dir == "":
		t.Skip("SKIPPED: KEYP_PACKAGES does not name the directory of packages to install on this machine (make test-packages)")
	case !debian || os.Getuid() != 0:
		t.Skip("SKIPPED: packages are installed as root on Debian")
	}
	deb := filepath.Join(dir, fmt.Sprintf("keyp_%s_%s.deb", config.Version, runtime.GOARCH))
	if _, err := os.Stat("/usr/bin/keyp"); err == nil {
		t.Fatal("keyp is installed on this machine already")
	}
	t.Cleanup(func() { _ = exec.Command("dpkg", "--purge", "keyp").Run() }) // what a failure left
	dpkg := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(await.Context(t), "dpkg", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("dpkg %q: %v\n%s", args, err, out)
		}
	}
	there := func(want bool, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) == want {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	dpkg("--install", deb)
	there(true, "/usr/bin/keyp", "/etc/keyp/keyp.conf", "/etc/logrotate.d/keyp",
		"/usr/lib/systemd/system/keyp.service", "/usr/lib/systemd/system/keyp-backup.timer",
		"/usr/share/man/man1/keyp.1",
		"/usr/share/bash-completion/completions/keyp", "/var/lib/keyp", "/var/log/keyp")
	if err := os.WriteFile("/etc/keyp/keyp.conf", []byte(readConf(t)+"# mine\n"),
		0o640); err != nil {
		t.Fatal(err)
	}
	serve(t, "SET k v\r\nCONFIG SET timeout 77\r\nCONFIG REWRITE\r\n", "+OK\r\n+OK\r\n+OK\r\n")
	dpkg("--install", deb) // an upgrade, to the same
	if text := readConf(t); !strings.Contains(text, "# mine\n") ||
		!strings.Contains(text, "timeout 77\n") {
		t.Errorf("the configuration is not as it was: %s", text)
	}
	serve(t, "GET k\r\n", "$1\r\nv\r\n")
	dpkg("--remove", "keyp")
	there(false, "/usr/bin/keyp")
	there(true, "/etc/keyp/keyp.conf", "/var/lib/keyp/keyp.db")
	dpkg("--install", deb)
	serve(t, "GET k\r\n", "$1\r\nv\r\n")
	dpkg("--purge", "keyp")
	there(false, "/usr/bin/keyp", "/etc/keyp", "/var/lib/keyp", "/var/log/keyp",
		"/etc/logrotate.d/keyp", "/usr/lib/systemd/system/keyp.service")
	if out, err := exec.Command("getent", "passwd", "keyp").Output(); err == nil {
		t.Errorf("the user is still there: %s", out)
	}
}

func readConf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/etc/keyp/keyp.conf")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// serve runs the installed server as its user, sends commands to it, and stops it.
func serve(t *testing.T, commands, want string) {
	t.Helper()
	port := fmt.Sprint(testkit.FreePort(t))
	var errs bytes.Buffer
	cmd := exec.Command("setpriv", "--reuid=keyp", "--regid=keyp", "--init-groups", "/usr/bin/keyp",
		"/etc/keyp/keyp.conf",
		"--port", port, "--http-addr", "", "--pidfile", "", "--logfile", "", "--wal-segment-size",
		"4mb")
	cmd.Stderr = &errs
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var got []byte
	await.Until(t, "the installed server answers", func() bool {
		if len(ended) > 0 {
			t.Fatalf("it has ended: %s", &errs)
		}
		conn, err := await.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		defer conn.Close()
		got = make([]byte, 0, len(want))
		if _, err := conn.Write([]byte(commands)); err != nil {
			t.Fatal(err)
		}
		for len(got) < len(want) {
			n, err := conn.Read(got[len(got):cap(got)])
			if err != nil {
				t.Fatalf("%q, %v", got, err)
			}
			got = got[:len(got)+n]
		}
		return true
	})
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := await.For(t, "it stops", ended); err != nil {
		t.Errorf("%v: %s", err, &errs)
	}
}
