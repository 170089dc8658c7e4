package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMakefileNames: each test that the Makefile names exists. Otherwise a renamed test would no
// longer run under the race detector, and nobody would notice.
func TestMakefileNames(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for variable, of := range map[string]struct{ before, folders string }{
		"SHARED_STORAGE":  {".*", "../../storage"},
		"SHARED_COMMANDS": {"", "../../commands"},
		"SHARED_KEYP":     {"", "../../cmd/keyp"},
		"LONGER":          {"", "../../member"},
		"ONE_CLIENT":      {"", "../../internal/e2e ../../internal/e2e/group"},
	} {
		line := regexp.MustCompile(`(?m)^` + variable + ` = (.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Errorf("the Makefile has no %s", variable)
			continue
		}
		var tests strings.Builder
		for _, folder := range strings.Fields(of.folders) {
			files, err := filepath.Glob(folder + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				tests.Write(text)
			}
		}
		// A name with parentheses, as in Backup(Place|Resume), counts as one name here.
		for _, name := range regexp.MustCompile(`(\([^)]*\)|[^|])+`).FindAllString(string(line[1]),
			-1) {
			name = strings.TrimPrefix(name, "Test")
			if !regexp.MustCompile(`(?m)^func Test` + of.before + name + `\(`).MatchString(
				tests.String()) {
				t.Errorf("%s: there is no test %s", variable, name)
			}
		}
	}
}
