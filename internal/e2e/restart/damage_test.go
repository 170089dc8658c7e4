package restart

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// newestSegment returns the last log segment in use. Its header shows that it is in use: a prepared
// segment does not contain the number of its name (storage/wal/doc.go).
func newestSegment(t testing.TB, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "wal", "wal-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		number, err := strconv.ParseUint(filepath.Base(name)[4:20], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if header := read(t, name)[:64]; bytes.HasPrefix(header, []byte("keypwal\n")) &&
			binary.LittleEndian.Uint64(header[16:]) == number {
			return name
		}
	}
	t.Fatalf("no log segment in use among %q", names)
	return ""
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write puts bytes at an offset of a file.
func write(t testing.TB, name string, offset int, data []byte) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(data, int64(offset)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// lastByte is the offset of the last byte that is not zero: the end of the log.
func lastByte(data []byte) int { return len(bytes.TrimRight(data, "\x00")) - 1 }

// fill writes key0, key1 … one by one, so that each has a commit of its own.
func fill(t testing.TB, s *testkit.Server, keys int) {
	t.Helper()
	c := s.Client(2)
	for i := range keys {
		do(t, c, "SET", fmt.Sprint("key", i), fmt.Sprintf("%d %s.", i, strings.Repeat("v", 100)))
	}
}

// survivors counts the keys of fill that are there, from the first on. It fails if a later key is
// there or a value has changed.
func survivors(t testing.TB, s *testkit.Server) int {
	t.Helper()
	c := s.Client(3)
	n := int(do(t, c, "DBSIZE").(int64))
	for i := range n {
		if got, want := do(t, c, "GET", fmt.Sprint("key", i)),
			fmt.Sprintf("%d %s.", i, strings.Repeat("v", 100)); got != want {
			t.Fatalf("of %d keys key%d is %v, want %q", n, i, got, want)
		}
	}
	return n
}

// TestGarbageAfterTheEnd writes random bytes after the end of the log.
func TestGarbageAfterTheEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	garbage := make([]byte, 3000)
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	const keys = 20
	s := testkit.Keyp(t, small...)
	fill(t, s, keys)
	for name, where := range map[string]func(data []byte) int{
		// Numbers at the end of the last record may end with zero bytes.
		"soon after the last record": func(data []byte) int { return lastByte(data) + 64 },
		"at the end of the segment":  func(data []byte) int { return len(data) - len(garbage) },
		"beyond the segment":         func(data []byte) int { return len(data) },
	} {
		s.Kill()
		segment := newestSegment(t, s.Dir())
		write(t, segment, where(read(t, segment)), garbage)
		s.Start()
		if n := survivors(t, s); n != keys {
			t.Errorf("garbage %s: %d keys of %d", name, n, keys)
		}
		fill(t, s, keys) // the log goes on
	}
	s.Kill()
	s.Start()
	if n := survivors(t, s); n != keys {
		t.Errorf("%d keys of %d", n, keys)
	}
	s.Stop()
}

// TestTornTail removes the last bytes of the log, as a power failure can do with unsynced data. The
// last command may be lost completely, and no other.
func TestTornTail(t *testing.T) {
	s := testkit.Keyp(t, small...)
	for name, tear := range map[string]func(data []byte, last int) []byte{
		"flipped":      func(data []byte, last int) []byte { return []byte{data[last] ^ 0x10} },
		"one zero":     func([]byte, int) []byte { return make([]byte, 1) },
		"30 zeros":     func([]byte, int) []byte { return make([]byte, 30) },
		"30 ones":      func([]byte, int) []byte { return bytes.Repeat([]byte{0xff}, 30) },
		"almost whole": func([]byte, int) []byte { return make([]byte, 120) },
	} {
		const keys = 10
		run(t, s.Client(2), "FLUSHALL")
		fill(t, s, keys)
		s.Kill()
		segment := newestSegment(t, s.Dir())
		data := read(t, segment)
		torn := tear(data, lastByte(data))
		write(t, segment, lastByte(data)+1-len(torn), torn)
		s.Start()
		if n := survivors(t, s); n != keys-1 {
			t.Errorf("%s: %d keys, want %d", name, n, keys-1)
		}
		fill(t, s, keys)
		s.Restart()
		if n := survivors(t, s); n != keys {
			t.Errorf("%s, written again: %d keys, want %d", name, n, keys)
		}
	}
	s.Stop()
}

// TestCorruptLog damages durable data. The server must refuse to start.
func TestCorruptLog(t *testing.T) {
	const keys = 100
	s := testkit.Keyp(t, small...)
	fill(t, s, keys)
	s.Kill()
	segment := newestSegment(t, s.Dir())
	good := read(t, segment)
	const header = 4096
	place := regexp.MustCompile(`(\S+) is corrupt at offset (\d+) `)
	for _, at := range []int{header + (lastByte(good)-header)/4,
		header + (lastByte(good)-header)/2} {
		write(t, segment, at, []byte{good[at] ^ 0x04})
		damaged := read(t, segment)
		for range 2 { // the refusal has changed nothing
			status, printed := s.Refuses()
			found := place.FindStringSubmatch(printed)
			if status != 1 || found == nil || strings.Count(printed, "\n") != 1 {
				t.Fatalf("status %d, printed:\n%s", status, printed)
			}
			offset, err := strconv.Atoi(found[2])
			if err != nil || filepath.Join(s.Dir(), found[1]) != segment ||
				!strings.Contains(printed, s.Dir()) || offset > at || offset < at-400 {
				t.Errorf("damage in %s at %d, printed:\n%s", segment, at, printed)
			}
		}
		output, err := exec.Command(testkit.Binary(t), "check", s.Dir()).CombinedOutput()
		if err == nil || !bytes.Contains(output, fmt.Appendf(nil, "damage: %s, offset ", segment)) {
			t.Errorf("keyp check: %v\n%s", err, output)
		}
		if !bytes.Equal(read(t, segment), damaged) {
			t.Error("the refusal has changed the log")
		}
		write(t, segment, at, good[at:at+1])
	}
	s.Start()
	if n := survivors(t, s); n != keys {
		t.Errorf("repaired by hand: %d keys of %d", n, keys)
	}
	s.Stop()
}
