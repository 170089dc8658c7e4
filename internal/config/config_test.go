package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestLoadValues: options get their values from configuration files, the environment, the command
// line and standard input.
func TestLoadValues(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "more.conf"), "maxmemory 2gb\ntimeout 9\n")
	write(t, filepath.Join(dir, "conf.d", "a.conf"), "hz 20\n")
	file := filepath.Join(dir, "keyp.conf")
	write(t, file, strings.Join([]string{
		"# comment", "", "  PORT 7001  ", "requirepass \"a b\\x21\"", "include more.conf",
		"include conf.d/*.conf", "include none.d/*.conf", "timeout 10\r",
		"save 900 1", "save 300 10",
		"client-output-buffer-limit pubsub 1mb 1k 5", "hash-max-ziplist-entries 7", "appendonly no",
	}, "\n"))
	tests := []struct {
		name  string
		args  []string
		env   []string
		stdin string
		want  map[string]string
	}{
		{"defaults", nil, nil, "", map[string]string{
			"port": "6379", "bind": "127.0.0.1", "dir": "./keyp-data", "appendfsync": "always",
			"maxmemory":        "0",
			"maxmemory-policy": "noeviction", "appendonly": "yes", "save": "",
			"proto-max-bulk-len":         "536870912",
			"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		}},
		{"file", []string{file}, nil, "", map[string]string{
			"port": "7001", "requirepass": "a b!", "maxmemory": "2147483648", "timeout": "10",
			"hz": "20", "save": "900 1 300 10",
			"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 1000 5",
			"hash-max-listpack-entries":  "7", "hash-max-ziplist-entries": "7", "appendonly": "yes",
		}},
		{"environment beats the file", []string{file},
			[]string{"KEYP_PORT=7002", "KEYP_MAXMEMORY_POLICY=allkeys-LRU",
				"KEYP_BIND=127.0.0.1 ::1", "PORT=1"}, "", map[string]string{
				"port": "7002", "maxmemory-policy": "allkeys-lru", "bind": "127.0.0.1 ::1",
				"maxmemory": "2147483648",
			}},
		{"command line beats all", []string{file, "--port", "7003", "--save", "", "--bind",
			"127.0.0.1", "::1"}, []string{"KEYP_PORT=7002"}, "", map[string]string{
			"port": "7003", "save": "", "bind": "127.0.0.1 ::1",
		}},
		{"equals sign", []string{"--port=7004", "--requirepass=--x=y", "--notify-keyspace-events="},
			nil, "", map[string]string{
				"port": "7004", "requirepass": "--x=y", "notify-keyspace-events": "",
			}},
		{"standard input", []string{"--port", "7005", "-"}, nil, "port 7006\nmaxclients 5",
			map[string]string{"port": "7005", "maxclients": "5"}},
		{"a password is no service link", nil, []string{"KEYP_REQUIREPASS=tcp://x"}, "",
			map[string]string{"requirepass": "tcp://x"}},
		{"service links", nil, []string{"KEYP_PORT=tcp://10.0.0.1:6379",
			"KEYP_SERVICE_HOST=10.0.0.1"}, "", map[string]string{"port": "6379"}},
		{"events", []string{"--notify-keyspace-events", "Kg$lshzxetd"}, nil, "",
			map[string]string{"notify-keyspace-events": "AK"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(tt.args, tt.env, strings.NewReader(tt.stdin))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got := c.String(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "keyp.conf")
		write(t, name, text)
		return name
	}
	tests := []struct {
		name string
		args []string
		env  []string
		text string // of the file, when not empty
		want string
	}{
		{name: "unknown option", args: []string{"--nope", "1"},
			want: "--nope: unknown option (keyp help options lists all)"},
		{name: "nearly an option", args: []string{"--maxmemry", "1"},
			want: "--maxmemry: unknown option; did you mean maxmemory?"},
		{name: "nearly a command", args: []string{"chek"},
			want: "there is no command chek, and no configuration file of that name; did you mean check? (see keyp help)"},
		{name: "nearly a command with arguments", args: []string{"chek", "/tmp"},
			want: "there is no command chek, and"},
		{name: "help of nearly a command", args: []string{"helth", "--help"},
			want: "did you mean health?"},
		{name: "nearly help", args: []string{"--hlep"},
			want: "--hlep: unknown option; did you mean help?"},
		{name: "no command", args: []string{"weather"}, want: "of that name (see keyp help)"},
		{name: "unknown flag", args: []string{"-x"}, want: `unknown argument "-x"`},
		{name: "password behind a colon", args: []string{"--requirepass:X"},
			want: "--requirepass…: unknown option; did you mean requirepass?"},
		{name: "password behind the name", args: []string{"--requirepassX"},
			want: "--requirepass…: unknown option; did you mean requirepass?"},
		{name: "another server's password", args: []string{"--masterauth:X"},
			want: "--masterauth…: unknown option"},
		{name: "password behind one dash", args: []string{"-requirepass:X"},
			want: `unknown argument "-requirepass…"`},
		{name: "password without dashes", args: []string{"requirepass", "X"},
			want: `unexpected argument "requirepass"`},
		{name: "password in a word", args: []string{"requirepassX"},
			want: "there is no command requirepass…, and"},
		{name: "password in a file", text: "requirepassX\n",
			want: "keyp.conf:1: requirepass…: unknown option"},
		{name: "no value", args: []string{"--port", "--dir", "x"},
			want: "--port: wrong number of arguments"},
		{name: "two values", args: []string{"--port", "1", "2"},
			want: "--port: wrong number of arguments"},
		{name: "not a number", args: []string{"--port", "abc"},
			want: `--port: argument couldn't be parsed into an integer (it is "abc")`},
		{name: "out of bounds", args: []string{"--port", "65536"},
			want: "--port: argument must be between 0 and 65535 inclusive"},
		{name: "shards", args: []string{"--shards", "3"},
			want: `--shards: argument must be a power of two (it is "3")`},
		{name: "not bytes", args: []string{"--maxmemory", "1tb"},
			want: "--maxmemory: argument must be a memory value"},
		{name: "bytes overflow", args: []string{"--maxmemory", "9223372036gb"},
			want: "argument must be a memory value"},
		{name: "not a policy", args: []string{"--appendfsync", "often"},
			want: "argument(s) must be one of the following: always, everysec, no"},
		{name: "daemonize", args: []string{"--daemonize", "yes"},
			want: "--daemonize: Keyp stays in the foreground"},
		{name: "replica", args: []string{"--replicaof", "localhost", "1"},
			want: "there are no replicas; three servers that form a group have the same data: see cluster-enabled and keyp cluster create"},
		{name: "hostname", args: []string{"--cluster-announce-hostname", "a_b"},
			want: "Hostnames may only contain alphanumeric characters, hyphens or dots"},
		{name: "long hostname", args: []string{"--cluster-announce-hostname",
			strings.Repeat("a", 256)}, want: "Hostnames must be less than 256 characters"},
		{name: "address", args: []string{"--cluster-announce-ip", "a:b:c"},
			want: "argument must be an IP address"},
		{name: "module", args: []string{"--loadmodule", "x.so"}, want: "modules are not supported"},
		{name: "two files", args: []string{"a", "b"}, want: `unexpected argument "b"`},
		{name: "missing file", args: []string{filepath.Join(dir, "none")},
			want: "can't read the configuration: open "},
		{name: "directory", args: []string{dir}, want: "is a directory"},
		{name: "environment", env: []string{"KEYP_DATABASES=0"},
			want: "KEYP_DATABASES: argument must be between 1 and 65536 inclusive"},
		{name: "file line", text: "port 1\n\ntimeout x\n",
			want: "keyp.conf:3: timeout: argument couldn't be parsed into an integer"},
		{name: "file unknown", text: "prot 1\n",
			want: "keyp.conf:1: prot: unknown option; did you mean port?"},
		{name: "quotes", text: "port 1\nrequirepass \"a\n", want: "keyp.conf:2: unbalanced quotes"},
		{name: "include itself", text: "include keyp.conf\n", want: "too deep"},
		{name: "include missing", text: "include other.conf\n",
			want: "keyp.conf:1: include: open "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.text != "" {
				tt.args = []string{file(tt.text)}
			}
			_, err := Load(tt.args, tt.env, strings.NewReader(""))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	for line, want := range map[string]error{
		"-h": ErrHelp, "-v": ErrVersion, "--port 1 --help": ErrHelp, "x.conf --version": ErrVersion,
	} {
		if _, err := Load(strings.Fields(line), nil, nil); err != want {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestSet(t *testing.T) {
	tests := []struct {
		pairs []Pair
		want  string // error; empty: ok
		check Pair
	}{
		{[]Pair{{"maxmemory", "100mb"}, {"TIMEOUT", "5"}}, "", Pair{"maxmemory", "104857600"}},
		{[]Pair{{"maxmemory", "7"}, {"foo", "x"}},
			"Unknown option or number of arguments for CONFIG SET - 'foo'", Pair{"maxmemory", "0"}},
		{[]Pair{{"port", "7"}},
			"CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
			Pair{"port", "6379"}},
		{[]Pair{{"hz", "7"}, {"HZ", "8"}},
			"CONFIG SET failed (possibly related to argument 'HZ') - duplicate parameter",
			Pair{"hz", "10"}},
		{[]Pair{{"replica-priority", "7"}, {"slave-priority", "8"}},
			"CONFIG SET failed (possibly related to argument 'slave-priority') - duplicate parameter",
			Pair{"slave-priority", "100"}},
		{[]Pair{{"timeout", "7"}, {"maxclients", "0"}},
			"CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
			Pair{"timeout", "0"}},
		{[]Pair{{"latency-tracking", "maybe"}},
			"CONFIG SET failed (possibly related to argument 'latency-tracking') - argument must be 'yes' or 'no'",
			Pair{"latency-tracking", "yes"}},
		{[]Pair{{"notify-keyspace-events", "Q"}},
			"CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdnocSTIV'.",
			Pair{"notify-keyspace-events", ""}},
		{[]Pair{{"notify-keyspace-events", "g$lshzxeKEtm"}}, "",
			Pair{"notify-keyspace-events", "g$lshzxetKEm"}},
		{[]Pair{{"notify-keyspace-events", "VITScoKAn"}}, "",
			Pair{"notify-keyspace-events", "AKnocSTIV"}},
		{[]Pair{{"save", "900 1 300 10"}}, "", Pair{"save", "900 1 300 10"}},
		{[]Pair{{"save", "900"}},
			"CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters",
			Pair{"save", ""}},
		{[]Pair{{"client-output-buffer-limit", "normal 1kb 2k 3"}}, "",
			Pair{"client-output-buffer-limit",
				"normal 1024 2000 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60"}},
		{[]Pair{{"client-output-buffer-limit", "normal 1"}},
			"CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Wrong number of arguments in buffer limit configuration.",
			Pair{"timeout", "0"}},
		{[]Pair{{"client-output-buffer-limit", "x 1 1 1"}},
			"CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Invalid client class specified in buffer limit configuration.",
			Pair{"timeout", "0"}},
		{[]Pair{{"client-output-buffer-limit", "normal x 1 1"}},
			"CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Error in hard, soft or soft_seconds setting in buffer limit configuration.",
			Pair{"timeout", "0"}},
		{[]Pair{{"latency-tracking-info-percentiles", "50 101"}},
			"CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
			Pair{"latency-tracking-info-percentiles", "50 99 99.900000000000006"}},
		{[]Pair{{"appendonly", "no"}}, "", Pair{"appendonly", "yes"}},
		{[]Pair{{"appendonly", "maybe"}},
			"CONFIG SET failed (possibly related to argument 'appendonly') - argument must be 'yes' or 'no'",
			Pair{"appendonly", "yes"}},
		{[]Pair{{"requirepass", ""}}, "", Pair{"requirepass", ""}},
		{[]Pair{{"maxmemory-clients", "1mb"}}, "", Pair{"maxmemory-clients", "1048576"}},
		{[]Pair{{"maxmemory-clients", "5%"}}, "", Pair{"maxmemory-clients", "5%"}},
		{[]Pair{{"maxmemory-clients", "0%"}}, "", Pair{"maxmemory-clients", "0"}},
		{[]Pair{{"maxmemory-clients", "101%"}},
			"CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100",
			Pair{"maxmemory-clients", "0"}},
		{[]Pair{{"maxmemory-clients", "x%"}},
			"CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value",
			Pair{"maxmemory-clients", "0"}},
		{[]Pair{{"maxmemory-clients", "-1"}},
			"CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value",
			Pair{"maxmemory-clients", "0"}},
	}
	for _, tt := range tests {
		c := New()
		err := c.Set(tt.pairs...)
		if (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Set(%v): %v, want %q", tt.pairs, err, tt.want)
		}
		if got := c.String(tt.check.Name); got != tt.check.Value {
			t.Errorf("after Set(%v) %s is %q, want %q", tt.pairs, tt.check.Name,
				got, tt.check.Value)
		}
	}
}

// TestSetWithoutEffect: options without effect accept the same values as in Redis, and show them in
// the same way.
func TestSetWithoutEffect(t *testing.T) {
	const scores = "Invalid oom-score-adj-values, elements must be between -2000 and 2000."
	for _, tt := range []struct{ name, value, want string }{
		// want: "=" and what GET shows, or the error.
		{"sanitize-dump-payload", "CLIENTS", "=clients"}, {"sanitize-dump-payload", "x",
			"argument(s) must be one of the following: no, yes, clients"},
		{"repl-diskless-load", "swapdb", "=swapdb"}, {"repl-diskless-load", "yes",
			"argument(s) must be one of the following: disabled, on-empty-db, swapdb"},
		{"propagation-error-behavior", "panic", "=panic"},
		{"propagation-error-behavior", "", "argument(s) must be one of"},
		{"oom-score-adj", "absolute", "=absolute"}, {"oom-score-adj", "2",
			"argument(s) must be one of the following: no, yes, relative, absolute"},
		{"oom-score-adj-values", "1 -2000 2000", "=1 -2000 2000"},
		{"oom-score-adj-values", "1 2", "wrong number of arguments"},
		{"oom-score-adj-values", "0 0 2001", scores}, {"oom-score-adj-values", "0 x 0", scores},
		{"shutdown-on-sigint", "Force nosave", "=nosave force"},
		{"shutdown-on-sigterm", "default now", "=now"}, {"shutdown-on-sigterm", "save nosave",
			"shutdown options SAVE and NOSAVE can't be used simultaneously"},
		{"shutdown-on-sigterm", "never",
			"argument(s) must be one of the following: default, save, nosave, now, force"},
		{"proc-title-template", "{title} {{x {port}", "={title} {{x {port}"},
		{"proc-title-template", "{x}", "template format is invalid or contains unknown variables"},
		{"proc-title-template", "{title", "template format"},
		{"proc-title-template", "", "template format"},
		{"io-threads", "2", "can't set immutable config"},
		{"supervised", "no", "can't set immutable config"},
		{"bio_cpulist", "1", "can't set immutable config"},
		{"cluster-config-file", "x", "can't set immutable config"},
		{"active-expire-effort", "11", "argument must be between 1 and 10 inclusive"},
		{"repl-backlog-size", "0", "argument must be between 1 and"},
		{"replica-announce-port", "65536", "argument must be between 0 and 65535 inclusive"},
		{"maxmemory-samples", "0", "argument must be between 1 and"},
		{"repl-backlog-ttl", "-1", "argument must be between 0 and"},
		{"replica-announce-ip", strings.Repeat("x", longestText),
			"=" + strings.Repeat("x", longestText)},
		{"replica-announce-ip", strings.Repeat("x", longestText+1),
			"argument must be at most 65536 bytes"}, {"requirepass",
			strings.Repeat("x", longestText+1), "argument must be at most 65536 bytes"},
	} {
		c := New()
		old := c.String(tt.name)
		err := c.Set(Pair{tt.name, tt.value})
		shown, ok := strings.CutPrefix(tt.want, "=")
		switch {
		case ok && (err != nil || c.String(tt.name) != shown):
			t.Errorf("%s %.40q: %v, and it is %.40q", tt.name, tt.value, err, c.String(tt.name))
		case !ok && (err == nil || !strings.Contains(err.Error(), tt.want) ||
			c.String(tt.name) != old):
			t.Errorf("%s %.40q: error %v, want %q, and it is %.40q", tt.name, tt.value, err,
				tt.want, c.String(tt.name))
		}
	}
}

func TestMaxMemoryClients(t *testing.T) {
	for _, tt := range []struct {
		maxmemory, clients string
		want               int64
	}{
		{"0", "0", 0},
		{"1gb", "0", 0},
		{"0", "5%", 0},
		{"0", "1gb", 1 << 30},
		{"1gb", "100%", 1 << 30},
		{"1000000000", "7%", 70_000_000},
		{"9223372036854775807", "50%", 1<<62 - 1},
		{"1gb", "1", 128 << 10},
		{"1mb", "1%", 128 << 10},
	} {
		c := New()
		if err := c.Set(Pair{"maxmemory", tt.maxmemory},
			Pair{"maxmemory-clients", tt.clients}); err != nil {
			t.Error(err)
		}
		if got := c.MaxMemoryClients(); got != tt.want {
			t.Errorf("%s of %s: %d, want %d", tt.clients, tt.maxmemory, got, tt.want)
		}
	}
}

func TestOnChangeTakesBack(t *testing.T) {
	c := New()
	var seen []string
	c.OnChange("maxmemory", func() error { seen = append(seen, c.String("maxmemory")); return nil })
	c.OnChange("maxclients", func() error {
		if c.Int("maxclients") > 20000 {
			return errors.New("too many")
		}
		return nil
	})
	err := c.Set(Pair{"maxmemory", "5"}, Pair{"maxclients", "30000"})
	if want :=
		"CONFIG SET failed (possibly related to argument 'maxclients') - too many"; err == nil ||
		err.Error() != want {
		t.Fatalf("error %v, want %s", err, want)
	}
	if got := strings.Join(seen, " "); got != "5 0" || c.Int("maxmemory") != 0 ||
		c.Int("maxclients") != 10000 {
		t.Errorf("listener saw %q; maxmemory %d, maxclients %d", got, c.Int("maxmemory"),
			c.Int("maxclients"))
	}
}

func TestMatch(t *testing.T) {
	got := New().Match(func(name string) bool { return strings.HasPrefix(name, "maxmemory") })
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	if want :=
		"maxmemory maxmemory-clients maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples"; strings.Join(names,
		" ") != want {
		t.Errorf("names %v", names)
	}
}

// TestHelp: the help is short, and there is help for each topic, option and group of options.
func TestHelp(t *testing.T) {
	help := func(about string) string {
		var b strings.Builder
		if err := Help(&b, about); err != nil {
			t.Errorf("%q: %v", about, err)
		}
		return b.String()
	}
	if n := strings.Count(help(""), "\n"); n > 26 {
		t.Errorf("the help has %d lines", n)
	}
	for _, about := range topics() {
		if got := help(about); !strings.Contains(got, " --") {
			t.Errorf("%s: %q", about, got)
		}
	}
	for _, s := range New().order {
		if got := help(s.name); !strings.Contains(got, s.name) {
			t.Errorf("%s: %q", s.name, got)
		}
	}
	for about, want := range map[string]string{
		"slave-serve-stale-data": "--replica-serve-stale-data ", "hz": "has no effect",
		"list-max-ziplist-entries": "has no effect", "replicaof": `accepted as "", and refused`,
		"daemonize":  `accepted as "no", and refused`,
		"appendonly": `other than "yes" have a warning`, "loadmodule": "is refused: modules",
		"rename-command": "rename-command OLD NEW", "user": "ACL SETUSER",
		"include": "include PATH",
	} {
		if got := help(about); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", about, got, want)
		}
	}
	for about, want := range map[string]string{"zip": "", "memori": "; did you mean memory?",
		"maxmemroy": "; did you mean maxmemory?", "chekc": "; did you mean check?", "weather": ""} {
		if err := Help(io.Discard, about); err == nil ||
			err.Error() != fmt.Sprintf("there is no topic %q%s", about, want) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

// TestReplacedValues: an invalid value causes no error if a later source replaces it.
func TestReplacedValues(t *testing.T) {
	for _, tt := range []struct {
		file      string
		env, args []string
		want      int64 // 0: the start is refused
	}{
		{"port x", nil, nil, 0},
		{"port x", []string{"KEYP_PORT=7"}, nil, 7},
		{"port x", []string{"KEYP_PORT=y"}, nil, 0},
		{"port x", []string{"KEYP_PORT=y"}, []string{"--port", "8"}, 8},
		{"port 6", []string{"KEYP_PORT=y"}, nil, 0},
		{"port x", []string{"KEYP_PORT=tcp://10.0.0.1:6379"}, nil, 0},
	} {
		cfg, err := Load(append([]string{"-"}, tt.args...), tt.env, strings.NewReader(tt.file))
		if err == nil && cfg.Int("port") != tt.want || (err == nil) != (tt.want != 0) {
			t.Errorf("%q, %q, %q: %v", tt.file, tt.env, tt.args, err)
		}
	}
}

// TestLocate: an error names the lines and variables that set the options it is about.
func TestLocate(t *testing.T) {
	cfg, err := Load([]string{"-", "--tls-port", "7"}, []string{"KEYP_DIR=d"},
		strings.NewReader("port 7\nhttp-addr 127.0.0.1:7"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"port and http-addr are both 7":       " (standard input:1: port, standard input:2: http-addr)",
		"port and tls-port are both 7":        " (standard input:1: port)",
		"http-addr \"x\" needs a port":        " (standard input:2: http-addr)",
		"dir: it is a file":                   " (KEYP_DIR)",
		"the dir of a port is in the pidfile": "",
	} {
		if got := cfg.Locate(errors.New(text)).Error(); got != text+want {
			t.Errorf("%q, want the end %q", got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"chek", "check", 1}, {"cehck", "check", 1},
		{"port", "prot", 1}, {"check", "chalk", 2}, {"ab", "ba", 1}, {"help", "health", 3}} {
		if got, back := distance(tt.a, tt.b), distance(tt.b, tt.a); got != tt.want ||
			back != tt.want {
			t.Errorf("%s, %s: %d, %d", tt.a, tt.b, got, back)
		}
	}
}

func TestUsageNamesEveryOption(t *testing.T) {
	var b strings.Builder
	if err := Help(&b, "options"); err != nil {
		t.Fatal(err)
	}
	for _, s := range New().order {
		if !strings.Contains(b.String(), s.name) {
			t.Errorf("%s is missing", s.name)
		}
		if s.group != groupCompat && s.help == "" {
			t.Errorf("%s has no help", s.name)
		}
	}
	for i, line := range strings.Split(b.String(), "\n") {
		if len(line) > width || strings.TrimRight(line, " ") != line {
			t.Errorf("line %d is too long or ends in spaces: %q", i+1, line)
		}
	}
}

func BenchmarkInt(b *testing.B) {
	c := New()
	b.ReportAllocs()
	for b.Loop() {
		c.Int("proto-max-bulk-len")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}
