package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/childproc"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/setup"
)

// TestInterrupted interrupts a test process (TestVictim), and checks that nothing of it is left.
// victimEnv names the file in which that process lists the things that it has created.
const victimEnv = "KEYP_VICTIM"

// TestVictim runs only in a process that TestInterrupted starts. It starts servers, creates
// directories, and is interrupted.
func TestVictim(t *testing.T) {
	path, then, asked := strings.Cut(os.Getenv(victimEnv), ",")
	if !asked {
		return // it is no test by itself
	}
	server := Keyp(t)
	loose := exec.Command("sleep", "1000")
	if err := childproc.Start(loose); err != nil {
		t.Fatal(err)
	}
	dir, memory := t.TempDir(), filepath.Join(setup.RAM, "case")
	if err := os.MkdirAll(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	made := fmt.Sprintln("pids", os.Getpid(), server.Pid(), loose.Process.Pid) +
		fmt.Sprintln("addr", server.Addr()) + fmt.Sprintln("dirs", os.TempDir(), dir,
		server.Dir(), setup.RAM)
	if err := os.WriteFile(path+".new", []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if then == "panic" {
		go panic("as when the time of all tests is up")
	}
	await.For(t, "the interruption", server.Exited()) // never: it is interrupted before
}

// TestInterrupted ends test processes in all ways that leave no time for their cleanups. None of
// their processes and directories remains.
func TestInterrupted(t *testing.T) {
	for _, way := range []struct {
		name   string
		parent bool // the process ends that has started the tests
		sig    syscall.Signal
	}{
		{"interrupt", false, syscall.SIGINT}, {"terminate", false, syscall.SIGTERM},
		{"kill", false, syscall.SIGKILL},
		{"quit", false, syscall.SIGQUIT}, {"panic", false, 0}, {"parent", true, syscall.SIGKILL},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			interrupted(t, way.name, way.parent, way.sig)
		})
	}
}

func interrupted(t *testing.T, name string, parent bool, sig syscall.Signal) {
	path := filepath.Join(t.TempDir(), "made")
	args := []string{os.Args[0], "-test.run=^TestVictim$", "-test.count=1"}
	if parent {
		args = append([]string{"/bin/sh", "-c", `"$@" & wait`, "sh"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), victimEnv+"="+path+","+name)
	if sig != 0 && signal.Ignored(sig) {
		// The signal is ignored, as in a background job of a shell. A started process would ignore
		// it, too.
		signal.Notify(make(chan os.Signal, 1), sig)
	}
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	var made map[string][]string
	await.Until(t, "the tests have made something", func() bool {
		made = readMade(t, path)
		return made != nil
	})
	if sig != 0 {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	_ = await.For(t, "the tests end", waited) // with the error that it was interrupted
	for _, text := range made["pids"] {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "process "+text+" ends", func() bool { return ended(pid) })
	}
	await.Until(t, made["addr"][0]+" is free", func() bool {
		listener, err := net.Listen("tcp", made["addr"][0])
		if err == nil {
			listener.Close()
		}
		return err == nil
	})
	if len(made["dirs"]) != 4 {
		t.Fatalf("made %q", made)
	}
	for _, dir := range made["dirs"] {
		await.Until(t, dir+" is removed", func() bool {
			_, err := os.Stat(dir)
			return os.IsNotExist(err)
		})
	}
}

// readMade returns what TestVictim has written, or nil if it has not written yet.
func readMade(t *testing.T, path string) map[string][]string {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	made := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		made[words[0]] = words[1:]
	}
	return made
}

// ended reports whether a process has ended, even if nobody has fetched its status yet.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}
