package config

import (
	"runtime/debug"
	"strings"
)

// Version is Keyp's own version.
const Version = "0.1.0"

// commit and date belong to the source of a release; the linker sets them (internal/release).
var commit, date string

// Build returns the commit that the program was built from and that commit's date, both empty if
// unknown.
func Build() (revision, when string) {
	if commit != "" {
		return commit, date
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.time":
			when = s.Value
		}
	}
	return revision, when
}

// VersionLine returns the output of `keyp version`.
func VersionLine() string {
	line := "keyp " + Version
	if revision, when := Build(); revision != "" {
		line += " (" + revision + strings.TrimSuffix(", "+when, ", ") + ")"
	}
	return line
}
