// Package setup is what each test process does before its tests. Every package with tests
// imports it, by itself or through testkit (internal/layout sees to that).
//
// # Invariants
//
//   - A test process that is interrupted or killed leaves no directory: all temporary ones
//     stand in one of its own (those in memory in RAM), which a shell removes when the
//     process has ended, however that came about.
//   - It ends soon after the go test that started it, should that be killed.
//   - The tests draw the same random numbers each time; KEYP_SEED is another number to draw
//     them from, or "random". Properties (rapid) follow it too, unless -rapid.seed is given.
package setup

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	_ "pgregory.net/rapid" // so that its flags are there

	"keyp/internal/childproc"
)

// memoryDir is a file system in memory, on Linux. It is used if it has room for memoryFree bytes:
// several packages are tested at a time.
const (
	memoryDir  = "/dev/shm"
	memoryFree = 2 << 30
)

// seed is what a test process draws from unless KEYP_SEED says something else.
const seed = 1

// checks is how many cases of each property run. They are the same each time, so more of them find
// nothing new; with KEYP_LONG=1 there are as many as rapid has by itself.
const checks = "20"

// Seed is what this process draws from.
var Seed = chosen()

func chosen() uint64 {
	switch text := os.Getenv("KEYP_SEED"); text {
	case "":
		return seed
	case "random":
		return 1 + rand.Uint64N(1<<40)
	default:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("KEYP_SEED=%s is neither a number nor random", text))
		}
		return n
	}
}

func init() {
	childproc.EndWithParent()
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil {
			// The service manager above the tests is not theirs.
			panic(err)
		}
	}
	// Servers do not take the usual port for HTTP from each other.
	if err := os.Setenv("KEYP_HTTP_ADDR", ""); err != nil {
		panic(err)
	}
	set := func(name, value string) {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	set("rapid.seed", strconv.FormatUint(Seed, 10))
	if os.Getenv("KEYP_LONG") != "1" {
		set("rapid.checks", checks)
	}
	if err := ownDirectory(); err != nil {
		panic(err)
	}
}

// RAM is where this process may make directories that the system keeps in memory, "" where it
// has no such place. It may not exist yet.
var RAM string

// cleaner waits until the process that holds the other end of its standard input has ended.
// A file system that a test has mounted is released first. Servers that are being killed
// may make files until they are gone.
const cleaner = `
trap '' HUP INT QUIT TERM
read -r _
if [ -r /proc/mounts ]; then
	while read -r _ mounted _; do
		case $mounted in "$1"/* | "$2"/*) umount -l "$mounted" ;; esac
	done </proc/mounts
fi
tries=0
until rm -rf -- "$1" "$2" && ! [ -e "$1" ]; do
	[ $((tries += 1)) -lt 100 ] || exit
	sleep 0.1
done
`

// ownDirectory makes the directory for temporary files, and starts its cleaner: in a session
// of its own, so that what ends this process's group does not end it.
func ownDirectory() error {
	dir, err := os.MkdirTemp("", "keyp-test-")
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	held.Store(in)
	memory := filepath.Join(memoryDir, filepath.Base(dir))
	var free syscall.Statfs_t
	if syscall.Statfs(memoryDir, &free) == nil && free.Bavail*uint64(free.Bsize) >= memoryFree {
		RAM = memory
	}
	cmd := exec.Command("/bin/sh", "-c", cleaner, "sh", dir, memory)
	cmd.Stdin = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.Setenv("TMPDIR", dir)
}

// held is open as long as the process lives.
var held atomic.Pointer[os.File]
