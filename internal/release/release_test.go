package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	_ "keyp/internal/testkit/setup"
)

// TestArchive: the same files give the same archive, whatever their times and permissions are.
func TestArchive(t *testing.T) {
	when := time.Unix(1_700_000_000, 0).UTC()
	var made [2][]byte
	for i := range made {
		dir := t.TempDir()
		stage := filepath.Join(dir, "stage")
		for _, name := range []string{"z", "a/b", "keyp"} {
			if err := put(filepath.Join(stage, name), []byte("text of "+name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Join(stage, "keyp"), 0o700+os.FileMode(i*0o55)),
			os.Chtimes(filepath.Join(stage, "z"), time.Time{},
				time.Unix(int64(i), 0))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "archive.tar.gz")
		if err := archive(path, stage, "keyp-1", when); err != nil {
			t.Fatal(err)
		}
		var err error
		if made[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two archives of the same files differ")
	}
	zip, err := gzip.NewReader(bytes.NewReader(made[0]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for in := tar.NewReader(zip); ; {
		head, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || !head.ModTime.Equal(when) {
			t.Errorf("%s: %v, from %v", head.Name, err, head.ModTime)
		}
		got = append(got, fmt.Sprintf("%s %o %s", head.Name, head.Mode, text))
	}
	if want := []string{"keyp-1/a/b 644 text of a/b", "keyp-1/keyp 755 text of keyp",
		"keyp-1/z 644 text of z"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLinks: an archive contains all link targets of its pages, with the headings that links name.
func TestLinks(t *testing.T) {
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := stageTexts(root, dir); err != nil {
		t.Fatal(err)
	}
	links := 0
	pages := os.DirFS(dir)
	err = fs.WalkDir(pages, ".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(page, ".md") || page == "CONTRIBUTING.md" {
			// This page is about the source.
			return err
		}
		text, err := fs.ReadFile(pages, page)
		for _, link := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(
			string(text), -1) {
			links++
			name, anchor, _ := strings.Cut(link[1], "#")
			target := path.Join(path.Dir(page), name)
			if name == "" {
				target = page
			}
			switch linked, err := fs.ReadFile(pages, target); {
			case anchor != "" && (err != nil || !slices.Contains(anchors(string(linked)), anchor)):
				t.Errorf("%s links to %s, which has no such heading", page, link[1])
			case anchor == "":
				if _, err := fs.Stat(pages, target); err != nil {
					t.Errorf("%s links to %s: %v", page, link[1], err)
				}
			}
		}
		return err
	})
	if err != nil || links < 100 {
		t.Errorf("%d links, %v", links, err)
	}
}

// anchors returns the names that links use for the headings of a page.
func anchors(text string) (list []string) {
	for i, part := range strings.Split(text, "```") {
		for line := range strings.Lines(part) {
			if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); i%2 == 0 &&
				line[0] == '#' && ok {
				name := regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(
					strings.ToLower(strings.TrimSpace(title)), "")
				list = append(list, strings.ReplaceAll(name, " ", "-"))
			}
		}
	}
	return list
}

func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	file, sums := filepath.Join(dir, "file"), filepath.Join(dir, "SHA256SUMS")
	if err := errors.Join(put(file, []byte("text")), checksums(sums, []string{file})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sums)
	if want := fmt.Sprintf("%x  file\n", sha256.Sum256([]byte("text"))); err != nil ||
		string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// TestBOM: the bill of materials of a program has each module that its build names.
func TestBOM(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bom.json")
	if err := writeBOM(path, program, time.Unix(0, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil || b.Format != "CycloneDX" ||
		b.Metadata.Component.Name != "keyp" || b.Metadata.Timestamp != "1970-01-01T00:00:00Z" {
		t.Errorf("%v: %s", err, text)
	}
	if std := b.Components[0]; std.Name != "std" ||
		!strings.HasPrefix(std.URL, "pkg:golang/std@1.") {
		t.Errorf("%+v", std)
	}
	list := listModules(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:x"},
		{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new",
			Version: "v2.0.0"}},
	}}, time.Time{}).Components
	if len(list) != 3 || list[1].URL != "pkg:golang/example.com/a@v1.0.0" ||
		list[1].Properties[0].Value != "h1:x" || list[2].Name != "example.com/new" {
		t.Errorf("%+v", list)
	}
}
