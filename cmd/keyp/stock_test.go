package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/testkit"
)

// TestStockFiles: a server starts with the configuration files of Redis, Debian and Valkey. The
// test changes only the paths in them.
func TestStockFiles(t *testing.T) {
	for _, name := range []string{"redis-2.4", "redis-2.8", "redis-7.2",
		"debian-7.0", "valkey-8.0"} {
		file, err := filepath.Abs("../../internal/config/testdata/stock/" + name + ".conf")
		if err != nil {
			t.Fatal(err)
		}
		args := []string{file, "--supervised", "systemd", "--daemonize", "no", "--logfile", "",
			"--pidfile", ""}
		if status, out, errs := runKeyp(t, "", nil,
			append(args, "--check-config")...); status != 0 || errs != "" ||
			!strings.HasSuffix(out, "the configuration is valid\n") {
			t.Errorf("%s: status %d, %q, %q", name, status, out, errs)
		}
		var log bytes.Buffer
		p := startLogging(t, &log, filepath.Join(t.TempDir(), "data"), args...)
		if err := p.client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Error(err)
		}
		p.signal(t, syscall.SIGTERM)
		if status := p.status(t); status != 0 {
			t.Errorf("%s: status %d", name, status)
		}
		if n := strings.Count(log.String(), "level=WARN"); n > 2 {
			t.Errorf("%s: %d warnings: %s", name, n, log.String())
		}
	}
}

// TestCheckConfig: each mistake is reported in a line of its own.
func TestCheckConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(file, []byte("prot 1\nhz x\nrename-command NOPE \"\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	including := filepath.Join(filepath.Dir(file), "including.conf")
	if err := os.WriteFile(including, []byte("include -\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	included, more, dir := filepath.Join(filepath.Dir(file), "included.conf"),
		filepath.Join(filepath.Dir(file), "more.conf"), filepath.Join(filepath.Dir(file), "dir")
	for path, text := range map[string]string{included: "",
		more: "include more.inc\ninclude included.conf\n",
		filepath.Join(filepath.Dir(file), "more.inc"): "maxmemory 1gb\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	several := filepath.Join(filepath.Dir(file), "several.conf")
	if err := os.WriteFile(several,
		[]byte("tls-port 7002\nport 7002\ntls-protocols TLSv9\ntls-cert-file /none\ntls-key-file /none\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	in := filepath.Dir(file)
	acl, words, binary, dump, many := filepath.Join(in, "users.acl"),
		filepath.Join(in, "words.conf"), filepath.Join(in, "binary"), filepath.Join(in, "dump.rdb"),
		filepath.Join(in, "many.conf")
	for path, text := range map[string]string{
		acl: "user a on nosuch\nuser\n\nuser b +nosuch\n", binary: "ELF\x00\n",
		dump: "REDIS0011\xfa\x00", many: strings.Repeat("nosuchoption 1\n", 20_000),
		words: "port 7002\nbind 999.1.1.1\naclfile /none\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var unknown strings.Builder
	for i := range 100 {
		fmt.Fprintf(&unknown,
			"keyp: %s:%d: nosuchoption: unknown option (keyp help options lists all)\n", many, i+1)
	}
	link := filepath.Join(filepath.Dir(file), "link") // to what is not there yet
	if err := os.Symlink("dir/keyp.db", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const noAuthority = "keyp: cannot serve TLS: either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is not no: tls-port needs it\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{more, "--logfile", included},
			"keyp: an included file and logfile are the same file, " + included + "\n"},
		{[]string{"--dir", dir, "--logfile", link}, "keyp: logfile is " + link +
			", where the server keeps its data\n"},
		{[]string{"--dir", dir, "--pidfile", dir}, "keyp: pidfile is " + dir +
			", where the server keeps its data\nkeyp: pidfile " + dir + " is not a regular file\n"},
		{[]string{"--aclfile", acl},
			"keyp: " + acl +
				":1: \"a\": a word is not a rule: passwords begin with >, commands with + or -, keys with ~\nkeyp: " + acl + ":2: a line is: user NAME RULE…\nkeyp: " + acl + ":4: \"b\": rule '+nosuch': Unknown command or category name in ACL\n"},
		{[]string{words},
			"keyp: Error loading ACLs, opening file '/none': No such file or directory (" + words +
				":3: aclfile)\nkeyp: bind: \"999.1.1.1\" is no IP address (the port is an option of its own) (" + words + ":2: bind)\n"},
		{[]string{binary}, "keyp: " + binary + " is no configuration: it is not a text\n"},
		{[]string{dump}, "keyp: " + dump +
			" is a dump of Redis and no configuration; keyp import reads it\n"},
		{[]string{many}, unknown.String() + "keyp: " + many +
			":101: the rest was not read: too much is wrong\n"},
		{[]string{several}, "keyp: port and tls-port are both 7002 (" + several + ":2: port, " +
			several +
			":1: tls-port)\nkeyp: cannot serve TLS: tls-protocols: \"tlsv9\" is none of TLSv1.2, TLSv1.3 (" +
			several +
			":3: tls-protocols)\nkeyp: cannot serve TLS: tls-cert-file: open /none: no such file or directory (" + several + ":4: tls-cert-file)\nkeyp: cannot serve TLS: tls-key-file: open /none: no such file or directory (" + several + ":5: tls-key-file)\n" +
			strings.TrimSuffix(noAuthority, "\n") + " (" + several + ":1: tls-port)\n"},
		{[]string{"--unixsocket", file}, "keyp: unixsocket: " + file +
			" is there, and is not a socket\n"},
		{[]string{"--unixsocket", "/dev/null"},
			"keyp: unixsocket: /dev/null is there, and is not a socket\n"},
		{[]string{"--tls-ca-cert-dir", dir, "--logfile", dir + "/c.pem"},
			"keyp: logfile is " + dir + "/c.pem, among the certificates of tls-ca-cert-dir\n"},
		{[]string{"--bind", "127.0.0.1:80"},
			"keyp: bind: \"127.0.0.1:80\" is no IP address (the port is an option of its own)\n"},
		{[]string{"--bind", "::1", "-127.0.0.256"},
			"keyp: bind: \"127.0.0.256\" is no IP address (the port is an option of its own)\n"},
		{[]string{"--bind", "-", "::1"},
			"keyp: bind: \"\" is no IP address (the port is an option of its own)\n"},
		{[]string{"--aclfile", "/dev/zero"},
			"keyp: Error loading ACLs, opening file '/dev/zero': It is larger than 64 MiB\n"},
		{[]string{file}, "keyp: " + file + ":1: prot: unknown option; did you mean port?\nkeyp: " +
			file + ":2: hz: argument couldn't be parsed into an integer (it is \"x\")\nkeyp: " +
			file + ":3: rename-command: there is no command \"NOPE\"\n"},
		{[]string{"--port", "0", "--unixsocket", "s", "--user", "bob", "on", "SECRET"},
			"keyp: --user: \"bob\": a word is not a rule: passwords begin with >, commands with + or -, keys with ~\n"},
		{[]string{"--port", "0", "--unixsocket", "s", "--user", "bob", "on", "+nosuch"},
			"keyp: --user: \"bob\": rule '+nosuch': Unknown command or category name in ACL\n"},
		{[]string{"--aclfile", filepath.Dir(file) + "/none"},
			"keyp: Error loading ACLs, opening file '" + filepath.Dir(file) +
				"/none': No such file or directory\n"},
		{[]string{"--http-addr", "localhost:1"},
			"keyp: http-addr \"localhost:1\" is not an IP address with a port, such as 127.0.0.1:8379\n"},
		{[]string{"--dir", "", "--archive-dir", "a", "--archive-command", "b"},
			"keyp: archive-dir and archive-command exclude each other\nkeyp: dir is empty: it names the directory of the data, such as ./keyp-data\n"},
		{[]string{"--port", "0"},
			"keyp: nothing to listen on: port and tls-port are 0, or no bind address is available, and there is no unixsocket\n"},
		{[]string{"--port", "0", "--unixsocket", "/" + strings.Repeat("a", 107)},
			"keyp: unixsocket: the path has 108 bytes, and the system allows 107\n"},
		{[]string{"--port", "1", "--http-addr", "127.0.0.1:1"},
			"keyp: port and http-addr are both 1\n"},
		{[]string{"--port", "1", "--bind", "*", "--http-addr", "127.0.0.1:1"},
			"keyp: port and http-addr are both 1\n"},
		{[]string{"--port", "1", "--tls-port", "1"},
			"keyp: port and tls-port are both 1\nkeyp: cannot serve TLS: no tls-cert-file is configured: tls-port needs it\nkeyp: cannot serve TLS: no tls-key-file is configured: tls-port needs it\n" + noAuthority},
		{[]string{"--tls-port", "1", "--tls-cert-file", "/none", "--tls-key-file", "/none"},
			"keyp: cannot serve TLS: tls-cert-file: open /none: no such file or directory\nkeyp: cannot serve TLS: tls-key-file: open /none: no such file or directory\n" + noAuthority},
		{[]string{"--http-addr", "127.0.0.1:1", "--http-tls", "yes", "--tls-auth-clients", "no"},
			"keyp: cannot serve TLS: no tls-cert-file is configured: http-tls needs it\nkeyp: cannot serve TLS: no tls-key-file is configured: http-tls needs it\n"},
		{[]string{"--cluster-enabled", "yes", "--cluster-secret-file", "/none"},
			"keyp: cluster-secret-file: open /none: no such file or directory\n"},
		{[]string{"--dir", "/none/data", "--archive-dir", "/none/data/archive"},
			"keyp: archive-dir /none/data/archive is the directory of the data, or in it: the archive is to survive the loss of that\n"},
		{[]string{"--bind", ""},
			"keyp: nothing to listen on: port and tls-port are 0, or no bind address is available, and there is no unixsocket\n"},
		{[]string{"--bind", "::1%nope"},
			"keyp: bind: cannot listen on \"::1%nope\": there is no network interface nope\n"},
		{[]string{"--cluster-enabled", "yes", "--port", "7001", "--cluster-port", "7001"},
			"keyp: port and cluster-port are both 7001\n"},
		{[]string{"--cluster-enabled", "yes", "--port", "60000"},
			"keyp: port 60000 is too high for one that is 10000 more: set cluster-port\n"},
		{[]string{"--cluster-enabled", "yes", "--http-addr", "127.0.0.1:16379"},
			"keyp: http-addr and cluster-port are both 16379\n"},
		{[]string{"--dir", file}, "keyp: dir: " + file + " is not a directory\n"},
		{[]string{"--archive-dir", file}, "keyp: archive-dir " + file + " is not a directory\n"},
		{[]string{"--logfile", "/none/log"}, "keyp: logfile: there is no directory /none\n"},
		{[]string{"--requirepass=top", "SECRET"},
			"keyp: unexpected argument behind --requirepass=…: a value with blanks needs quotes\n"},
		{[]string{including}, "keyp: " + including + ":1: include: open " + filepath.Dir(file) +
			"/-: no such file or directory\n"},
		{[]string{"--shards", "3"},
			"keyp: --shards: argument must be a power of two (it is \"3\")\n"},
		{[]string{"--rename-command", "NOPE", ""},
			"keyp: --rename-command: there is no command \"NOPE\"\n"},
	} {
		for _, args := range [][]string{tt.args, append([]string{"--check-config"}, tt.args...)} {
			if status, out, errs := runKeyp(t, "", nil, args...); status != 1 || out != "" ||
				errs != tt.want {
				t.Errorf("%q: status %d, %q, %q", args, status, out, errs)
			}
		}
	}
}

// TestRemarks: a valid setting that is probably a mistake is reported by --check-config and in the
// log.
func TestRemarks(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--archive-command", "true"},
			"archive-command has no %p, so it does not get the file that it is to keep\n"},
		{[]string{"--ready-archive-age", "10"},
			"ready-archive-age has no effect without archive-dir or archive-command\n"},
		{[]string{"--ready-archive-age", "60", "--archive-dir", "/none"},
			"ready-archive-age is not longer than archive-timeout, so the server is not ready again and again\n"},
		{[]string{"--ready-archive-age", "61", "--archive-dir", "/none"}, ""},
	} {
		if status, out, errs := runKeyp(t, "", nil,
			append([]string{"--check-config"}, tt.args...)...); status != 0 || errs != "" ||
			out != tt.want+"the configuration is valid\n" {
			t.Errorf("%q: status %d, %q, %q", tt.args, status, out, errs)
		}
	}
}

// TestWrongDirectories: tools refuse a directory without data, and a target inside the directory
// with the data.
func TestWrongDirectories(t *testing.T) {
	empty, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	server := testkit.Keyp(t)
	server.Stop()
	data := server.Dir()
	none := empty + " cannot be %s: storage: the directory has no data of Keyp\n"
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"check", empty}, 1, fmt.Sprintf(none, "checked")},
		{[]string{"repair", empty, to}, 2, fmt.Sprintf(none, "repaired")},
		{[]string{"repair", data, filepath.Join(data, "x")}, 2, data + " cannot be repaired: " +
			data + "/x is in the directory that is repaired, which stays as it is\n"},
		{[]string{"backup", data, filepath.Join(data, "x")}, 1, data +
			"/x is in the directory of the data, and a backup is to survive the loss of that\n"},
		{[]string{"export", data, filepath.Join(data, "x")}, 2, data + " cannot be exported: " +
			data + "/x is in the directory of the data\n"},
	} {
		if status, out, errs := runKeyp(t, "", nil, tt.args...); status != tt.status || out != "" ||
			errs != "keyp: "+tt.want {
			t.Errorf("%q: status %d, %q, %q", tt.args, status, out, errs)
		}
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("repair made a directory: %v", err)
	}
}

// TestNearMisses: for a misspelt command of a tool, the error names the misspelt word and a similar
// command.
func TestNearMisses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cluster", "statu", "127.0.0.1:1"},
			"keyp: there is no command cluster statu; did you mean status? (see keyp cluster --help)\n"},
		{[]string{"cluster", "weather"},
			"keyp: there is no command cluster weather (see keyp cluster --help)\n"},
		{[]string{"backup", "verfy", "x"},
			"keyp: there is no command backup verfy, and no directory of that name; did you mean verify? (see keyp backup --help)\n"},
		{[]string{"backup", "--dri", "x", "y"},
			"keyp: unknown option --dri; usage: keyp backup ADDR|DIR TARGET, keyp backup verify FILE, keyp backup prune DIR (see keyp backup --help)\n"},
		{[]string{"check", "--verbos", "x"},
			"keyp: unknown option --verbos; did you mean --verbose?; usage: keyp check DIR [--verbose]\n"},
		{[]string{"restore", "--arcive", "x", "y", "z"},
			"keyp: unknown option --arcive; did you mean --archive? (see keyp restore --help)\n"},
		{[]string{"repiar", "a", "b"},
			"keyp: there is no command repiar, and no configuration file of that name; did you mean repair? (see keyp help)\n"},
	} {
		if status, out, errs := runKeyp(t, "", nil, tt.args...); status == 0 || out != "" ||
			errs != tt.want {
			t.Errorf("%q: status %d, %q, %q", tt.args, status, out, errs)
		}
	}
}
