package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStockFiles: Load accepts the configuration files that Redis and Valkey ship. The copies here
// lack the comments. Debian's file asks for a daemon, but Debian's service overrides that on the
// command line.
func TestStockFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/stock/*.conf")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		args := []string{file}
		if strings.Contains(file, "debian") {
			if _, err := Load(args, nil, nil); err == nil ||
				!strings.HasSuffix(err.Error(), "let a service manager run it") {
				t.Errorf("%s alone: %v", file, err)
			}
			args = append(args, "--supervised", "systemd", "--daemonize", "no")
		}
		c, err := Load(args, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		about := 0
		for _, w := range c.Warnings() {
			if strings.HasPrefix(w, "options without effect") {
				about++
			}
		}
		if about > 1 {
			t.Errorf("%s: %q", file, c.Warnings())
		}
	}
}

// Each option name that a version of Redis or Valkey reads from its file is known: as an option, as
// an option without effect, or as one that is refused with a reason.
func TestStockNames(t *testing.T) {
	text, err := os.ReadFile("testdata/stock/names")
	if err != nil {
		t.Fatal(err)
	}
	c := New()
	for _, name := range strings.Fields(string(text)) {
		_, refused := unsupported[name]
		elsewhere := slices.Contains([]string{"include", "user", "rename-command"}, name)
		if c.slots[name] == nil && !passedOver[name] && !refused && !elsewhere {
			t.Errorf("nobody knows %s", name)
		}
		if passedOver[name] && (c.slots[name] != nil || refused || elsewhere) {
			t.Errorf("%s is passed over, and known", name)
		}
	}
}

// An error does not print words that may be passwords.
func TestNamesOfMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"requirepass=SeCrEt": "standard input:1: requirepass…: unknown option",
		"requirepass:SeCrEt": "standard input:1: requirepass…: unknown option",
		">SeCrEt on":         "standard input:1: …: unknown option",
	} {
		if _, err := Load([]string{"-"}, nil, strings.NewReader(line+"\n")); err == nil ||
			!strings.HasPrefix(err.Error(), want) ||
			strings.Contains(strings.ToLower(err.Error()), "secret") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// All mistakes are reported at once, except mistakes in values that the command line replaces.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keyp.conf")
	write(t, filepath.Join(dir, "more.conf"), "timeout x\nmaxclients\n")
	write(t, file,
		"prot 1\ninclude more.conf\ndaemonize yes\nmaxmemory 1tb\nreplicaof a 1\nport\nhz 20\nrename-command GET\nuser\n")
	_, err := Load([]string{file, "--daemonize", "no", "--port", "0", "--timeout", "y"},
		[]string{"KEYP_SHARDS=0", "KEYP_DATABASES=-1"}, nil)
	var got []string
	mistakes, _ := err.(Mistakes)
	for _, mistake := range mistakes {
		got = append(got, strings.TrimPrefix(mistake.Error(), dir+"/"))
	}
	want := []string{
		"keyp.conf:1: prot: unknown option; did you mean port?",
		"more.conf:2: maxclients: wrong number of arguments",
		`keyp.conf:4: maxmemory: argument must be a memory value (it is "1tb")`,
		"keyp.conf:5: replicaof: there are no replicas; three servers that form a group have the same data: see cluster-enabled and keyp cluster create",
		"keyp.conf:8: rename-command: wrong number of arguments",
		"keyp.conf:9: user: wrong number of arguments",
		`KEYP_SHARDS: argument must be between 1 and 64 inclusive (it is "0")`,
		`KEYP_DATABASES: argument must be between 1 and 65536 inclusive (it is "-1")`,
		`--timeout: argument couldn't be parsed into an integer (it is "y")`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestRemarks(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"hz 20\nvm-enabled no\nlist-max-ziplist-value 64",
			"options without effect, since they only tune Redis's own machinery: hz, list-max-ziplist-value, vm-enabled"},
		{"maxmemory-policy allkeys-lru", "maxmemory-policy allkeys-lru deletes no keys"},
		{"maxmemory-policy noeviction\nrename-command GET g\n", ""},
	} {
		c, err := Load([]string{"-"}, nil, strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings(), "\n"); !strings.HasPrefix(got, tt.want) ||
			got != "" && tt.want == "" {
			t.Errorf("%q: %q", tt.text, got)
		}
	}
}
