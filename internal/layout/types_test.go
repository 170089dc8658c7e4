package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"testing"
)

// checkedPackage is a package of the module with its types.
type checkedPackage struct {
	files []*ast.File
	info  *types.Info
	types *types.Package
}

// listed is a package as go list shows it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listPackages lists packages and what they import, with the files of the compiler's export data.
func listPackages(t *testing.T, args ...string) (list []listed) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export,Module"}, args...)...)
	command.Dir = "../.."
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, errs.String())
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// exportData imports the packages of a list as they are compiled.
func exportData(lines *token.FileSet, list []listed) types.Importer {
	exports := map[string]string{}
	for _, p := range list {
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(lines, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

func check(lines *token.FileSet, path string, files []*ast.File,
	imports types.Importer) (checkedPackage, error) {
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	pkg, err := (&types.Config{Importer: imports}).Check(path, lines, files, info)
	return checkedPackage{files, info, pkg}, err
}
