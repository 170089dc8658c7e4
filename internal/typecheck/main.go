// Command typecheck checks the types of the whole module, tests included. Each argument is a
// platform, or a platform with build tags: linux/arm64, or linux/amd64:browser,race. The command
// compiles nothing, so a platform takes seconds where the compiler takes minutes. `make cross`
// compiles.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mode loads everything that type checking needs from source, so nothing must be compiled first.
const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles |
	packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
	packages.NeedTypesInfo | packages.NeedSyntax

func main() {
	for _, platform := range os.Args[1:] {
		fmt.Println("types for", platform)
		errors, err := check(".", platform)
		if err != nil {
			fmt.Fprintln(os.Stderr, "typecheck:", err)
			os.Exit(1)
		}
		if errors > 0 {
			fmt.Fprintf(os.Stderr, "typecheck: %d errors for %s\n", errors, platform)
			os.Exit(1)
		}
	}
}

// check prints the errors of the module in dir for a platform and returns their number.
func check(dir, platform string) (errors int, err error) {
	platform, tags, _ := strings.Cut(platform, ":")
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, fmt.Errorf("%q is no platform, as linux/arm64 is", platform)
	}
	env := append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	found, err := packages.Load(&packages.Config{
		Mode: mode, Tests: true, Dir: dir, Env: env, BuildFlags: []string{"-tags=" + tags},
	}, "./...")
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("%s has no packages for %s", dir, platform)
	}
	return packages.PrintErrors(found), nil
}
