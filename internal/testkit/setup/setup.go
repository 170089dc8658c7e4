// Package setup prepares each test process before its tests. Every package with tests imports it,
// directly or through testkit (internal/layout checks that).
//
// # Invariants
//
//   - A test process that is interrupted or killed leaves no directory. Its temporary directories
//     are all in one directory on disk, and in one in memory (RAM). A shell removes both after the
//     process has ended, for whatever reason.
//   - A test process ends soon after the go test command that started it, even if that was killed.
//   - The tests draw the same random numbers each time. KEYP_SEED sets another seed, a number or
//     "random". Properties (rapid) use it too, unless -rapid.seed is given.
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

// memoryDir is a file system in memory, on Linux. It is used if it has memoryFree bytes of free
// space: several packages are tested at a time.
const (
	memoryDir  = "/dev/shm"
	memoryFree = 2 << 30
)

// seed is the seed of a test process, unless KEYP_SEED sets another one.
const seed = 1

// checks is the number of cases of each property. They are the same each time, so more of them find
// nothing new. With KEYP_LONG=1 rapid's own number applies.
const checks = "20"

// Seed is the seed of this process.
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
			// They belong to the caller of the tests. Servers must not notify its
			// service manager.
			panic(err)
		}
	}
	// All servers would use the same default port for HTTP.
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

// RAM is a directory in memory for this process; "": the system has no such place. It may not exist
// yet.
var RAM string

// cleaner waits until the process at the other end of its standard input has ended. It unmounts
// file systems that a test has mounted, and removes the directories. It tries for a while, since
// servers that are being killed may still create files.
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

// ownDirectory makes the directory for temporary files and starts its cleaner. The cleaner has a
// session of its own, so a signal to this process's group does not end it.
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

// held keeps the pipe to the cleaner open as long as the process lives.
var held atomic.Pointer[os.File]
