package main

import (
	"debug/buildinfo"
	"encoding/json"
	"runtime/debug"
	"strings"
	"time"

	"keyp/internal/config"
)

// bom is a bill of materials: the components of a program, in the format CycloneDX 1.5.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	URL        string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeBOM writes the bill of materials of a program, from the build information in the program.
func writeBOM(path, program string, when time.Time) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(listModules(info, when), "", "  ")
	if err != nil {
		return err
	}
	return put(path, append(text, '\n'))
}

func listModules(info *debug.BuildInfo, when time.Time) bom {
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Timestamp = when.Format(time.RFC3339)
	b.Metadata.Component = component{Type: "application", Name: "keyp", Version: config.Version}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" {
			b.Metadata.Component.Properties = append(b.Metadata.Component.Properties,
				property{"go:" + strings.ToLower(s.Key), s.Value})
		}
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = []component{{Type: "library", Name: "std", Version: version,
		URL: "pkg:golang/std@" + version}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version,
			URL: "pkg:golang/" + m.Path + "@" + m.Version}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		b.Components = append(b.Components, c)
	}
	return b
}
