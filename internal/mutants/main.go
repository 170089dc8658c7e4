// Command mutants makes the mutations of its list (list.go), one at a time, and prints which of them
// their tests notice. Arguments are folders ("storage") or files: only mutations of files there are made.
// It ends with status 1 unless all are caught.
//
// A mutated file stands in a directory of its own, and by -overlay go test compiles it
// instead of the one in the tree, which nobody writes to. A test that waits without result takes minutes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"keyp/internal/tether"
)

// mutation is a change of the program that a test has to notice.
type mutation struct {
	file     string // from the module's root, with slashes
	old, new string // old is there once
	in       string // the folder of the test; "": the file's
	test     string // its name
}

func (m mutation) dir() string {
	if m.in != "" {
		return m.in
	}
	return path.Dir(m.file)
}

// verdict is what became of a mutation.
type verdict string

const (
	caught    verdict = "caught"
	notCaught verdict = "NOT CAUGHT" // the test passes
	stale     verdict = "STALE"      // the old text is not in the file, or several times
	broken    verdict = "BROKEN"     // what it makes of the program does not compile
	failing   verdict = "TEST FAILS" // or is not there, also without the mutation
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	tether.EndWithParent()
	chosen := slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return !within(m.file, os.Args[1:]) })
	verdicts, err := audit(ctx, os.Stdout, ".", chosen)
	if err == nil && len(verdicts) == 0 {
		err = fmt.Errorf("the list has nothing for %s", strings.Join(os.Args[1:], " "))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	missed := 0
	for _, v := range verdicts {
		if v != caught {
			missed++
		}
	}
	fmt.Printf("%d mutations, %d not caught\n", len(verdicts), missed)
	if missed > 0 {
		os.Exit(1)
	}
}

// within reports whether a file is in one of the folders; without any it is.
func within(file string, folders []string) bool {
	return len(folders) == 0 || slices.ContainsFunc(folders, func(folder string) bool {
		folder = path.Clean(filepath.ToSlash(folder))
		return file == folder || strings.HasPrefix(file, folder+"/")
	})
}

// audit makes the mutations of the module at root, and prints and gives what became of each.
func audit(ctx context.Context, w io.Writer, root string, list []mutation) (verdicts []verdict, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	passing, err := unmutated(ctx, root, list)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		v, output := failing, ""
		if passing[m.test] {
			if v, output, err = try(ctx, root, dir, m); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(w, "%-10s  %-24s  %-36s  %s\n", v, m.file, m.test, m.firstChange())
		if v == broken {
			fmt.Fprintln(w, output)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// unmutated gives the tests of the list that pass: one that fails anyway notices nothing.
func unmutated(ctx context.Context, root string, list []mutation) (passing map[string]bool, err error) {
	var tests, dirs []string
	for _, m := range list {
		tests, dirs = append(tests, m.test), append(dirs, "./"+m.dir())
	}
	slices.Sort(dirs)
	output, err := goTest(ctx, root, "", tests, slices.Compact(dirs)...)
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	passing = map[string]bool{}
	for _, test := range tests {
		passing[test] = strings.Contains("\n"+output, "\n--- PASS: "+test+" ")
	}
	return passing, nil
}

// try makes a mutation and runs its test.
func try(ctx context.Context, root, dir string, m mutation) (v verdict, output string, err error) {
	original := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(original)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	if strings.Count(string(text), m.old) != 1 {
		return stale, "", nil
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	paths, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return "", "", err
	}
	err = errors.Join(os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600),
		os.WriteFile(overlay, paths, 0o600))
	if err != nil {
		return "", "", err
	}
	output, err = goTest(ctx, root, overlay, []string{m.test}, "./"+m.dir())
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err == nil:
		return notCaught, output, nil
	case !errors.As(err, &failed):
		return "", "", err
	case strings.Contains(output, "[build failed]"):
		return broken, output, nil
	}
	return caught, output, nil
}

// goTest runs tests. The overlay is for what these compile, too.
func goTest(ctx context.Context, root, overlay string, tests []string, dirs ...string) (output string, err error) {
	args := []string{"test", "-count=1", "-v", "-vet=off", "-timeout=20m", "-run", "^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "go", append(args, dirs...)...)
	var out strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = root, os.Environ(), &out, &out
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" '-overlay="+overlay+"'")
	}
	if err := tether.Start(cmd); err != nil {
		return "", err
	}
	err = cmd.Wait()
	return out.String(), err
}

// firstChange is the first line of the old text that the mutation changes.
func (m mutation) firstChange() string {
	after := strings.Split(m.new, "\n")
	for i, line := range strings.Split(m.old, "\n") {
		if i >= len(after) || line != after[i] {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
