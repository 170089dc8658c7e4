// Command release makes the files of a release. For each platform it makes an archive with the
// program, its manual, completions and a configuration, and a bill of materials (CycloneDX). It
// also makes the checksums of all. With the same version of Go the same commit gives the same
// bytes.
//
//	go run ./internal/release [-out DIR] [-platforms OS/ARCH,...]
//
// The content of each archive is also in DIR/OS-ARCH, for packages.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"keyp/internal/config"
)

func main() {
	out := flag.String("out", "bin/release", "directory for the results; an older one is replaced")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
		"OS/ARCH, with commas between them")
	flag.Parse()
	if err := run(*out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// source is the commit that is built.
type source struct {
	commit string
	when   time.Time
}

func run(out string, platforms []string) error {
	from, err := identify()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	var made []string
	for _, platform := range platforms {
		system, machine, found := strings.Cut(platform, "/")
		if !found {
			return fmt.Errorf("%q is not a platform, such as linux/amd64", platform)
		}
		stage := filepath.Join(out, system+"-"+machine)
		name := fmt.Sprintf("keyp-%s-%s-%s", config.Version, system, machine)
		if err := from.build(system, machine, filepath.Join(stage, "keyp")); err != nil {
			return err
		}
		if err := from.stage(stage); err != nil {
			return err
		}
		archived, listed := filepath.Join(out, name+".tar.gz"), filepath.Join(out, name+".cdx.json")
		if err := archive(archived, stage, name, from.when); err != nil {
			return err
		}
		if err := writeBOM(listed, filepath.Join(stage, "keyp"), from.when); err != nil {
			return err
		}
		made = append(made, archived, listed)
	}
	return checksums(filepath.Join(out, "SHA256SUMS"), made)
}

// identify returns the commit and its time. They come from COMMIT and SOURCE_DATE_EPOCH
// in the environment, or else from git.
func identify() (s source, err error) {
	s.commit = os.Getenv("COMMIT")
	if s.commit == "" {
		if s.commit, err = git("rev-parse", "HEAD"); err != nil {
			return s, fmt.Errorf("%w; COMMIT names the commit where there is no repository", err)
		}
		changes, err := git("status", "--porcelain")
		if err != nil {
			return s, err
		}
		if changes != "" {
			s.commit += "-modified"
		}
	}
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		if text, err = git("log", "-1", "--format=%ct"); err != nil {
			return s,
				fmt.Errorf("%w; SOURCE_DATE_EPOCH gives its time where there is no repository", err)
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	s.when = time.Unix(seconds, 0).UTC()
	return s, err
}

func git(args ...string) (string, error) {
	var errs bytes.Buffer
	cmd := exec.Command("git", args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles the server. The result depends only on the commit and the compiler.
func (s source) build(system, machine, to string) error {
	const in = "keyp/internal/config."
	flags := fmt.Sprintf("-s -w -buildid= -X %scommit=%s -X %sdate=%s", in, s.commit, in,
		s.when.Format(time.RFC3339))
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "build", "-trimpath", "-buildvcs=false",
		"-ldflags", flags, "-o", to, "./cmd/keyp")
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s/%s: %w\n%s", system, machine, err, out)
	}
	return nil
}

// stage puts the other files of the archive into the directory of the program.
func (s source) stage(dir string) error {
	if err := stageTexts(".", dir); err != nil {
		return err
	}
	var manual bytes.Buffer
	if err := config.ManPage(&manual, s.when.Format(time.DateOnly)); err != nil {
		return err
	}
	if err := put(filepath.Join(dir, "keyp.1"), manual.Bytes()); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "keyp.bash", "zsh": "_keyp",
		"fish": "keyp.fish"} {
		var text bytes.Buffer
		if err := config.Completion(shell, &text); err != nil {
			return err
		}
		if err := put(filepath.Join(dir, "completion", name), text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// stageTexts copies README.md, the files that it and the documents link to, and a configuration.
func stageTexts(root, dir string) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
		"SECURITY.md", "go.mod", "go.sum", "deploy/package/keyp.conf"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := put(filepath.Join(dir, filepath.Base(name)), text); err != nil {
			return err
		}
	}
	for _, name := range []string{"docs", "deploy"} {
		if err := os.CopyFS(filepath.Join(dir, name),
			os.DirFS(filepath.Join(root, name))); err != nil {
			return err
		}
	}
	return nil
}

func put(path string, text []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644))
}
