package config

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// completionOf writes a shell's completion to a file.
func completionOf(t *testing.T, shell string) (path, text string) {
	t.Helper()
	var b bytes.Buffer
	if err := Completion(shell, &b); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "keyp."+shell)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, b.String()
}

// Each shell can read its completion, which contains each option of --help and each subcommand.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, text := completionOf(t, shell)
		for o := range effective() {
			name := "--" + o.name
			if shell == "fish" {
				name = "-l " + o.name
			}
			if !strings.Contains(text, name) {
				t.Errorf("%s: %s is missing", shell, name)
			}
		}
		for _, u := range Uses {
			if !strings.Contains(text, u.Name) {
				t.Errorf("%s: %s is missing", shell, u.Name)
			}
		}
		program, found := testkit.FindTool(shell)
		if !found {
			t.Logf("SKIPPED: %s is not installed, so it does not read its completion", shell)
			continue
		}
		if out, err := plain(t, program, "-n", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

// plain returns a command that runs a program in an environment that it does not complain about.
func plain(t *testing.T, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+home, "XDG_CONFIG_HOME="+home,
		"XDG_DATA_HOME="+home, "BASH_ENV=")
	return cmd
}

// bash completes options, their values, subcommands and directories.
func TestBashCompletes(t *testing.T) {
	bash, found := testkit.FindTool("bash")
	if !found {
		t.Skip("SKIPPED: bash is not installed, so nothing is completed")
	}
	path, _ := completionOf(t, "bash")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "some data"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, want string }{
		{"keyp --appendf", "--appendfsync"},
		{"keyp --appendfsync e", "everysec"},
		{"keyp --http-tls ", "yes no"},
		{"keyp comp", "compact completion"},
		{"keyp completion z", "zsh"},
		{"keyp --vers", "--version"},
		{"keyp x.conf --log-format ", "text json"},
	} {
		words := strings.Split(tt.line, " ")
		script :=
			`compopt() { :; }; source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _keyp; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := plain(t, bash, append([]string{"-c", script, path}, words...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.Fields(string(out)); err != nil ||
			!slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s: %q, %v, want %s", tt.line, out, err, tt.want)
		}
	}
}

// The manual page has everything that --help has, and troff reads it without a complaint.
func TestManPage(t *testing.T) {
	var b bytes.Buffer
	if err := ManPage(&b, "2026-01-31"); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for o := range effective() {
		if !strings.Contains(text, "\n.TP\n.B "+roff("--"+o.name)) {
			t.Errorf("--%s is missing", o.name)
		}
	}
	for _, want := range []string{".TH KEYP 1 \"2026\\-01\\-31\"", "\n.B check DIR\n",
		"\n.SH EXAMPLES\n", "proc\\-title\\-template"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if got, want := roff(".x\n'y\na\\b-c"), "\\&.x\n\\&'y\na\\eb\\-c"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	groff, found := testkit.FindTool("groff")
	if !found {
		t.Log("SKIPPED: groff is not installed, so it does not read the manual")
		return
	}
	cmd := plain(t, groff, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
