package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says where the figures come from; what the system does not tell is empty.
type machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu,omitempty"`
	Memory int64  `json:"memory_bytes,omitempty"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	m.CPU = procField("/proc/cpuinfo", "model name")
	var kb int64
	if _, err := fmt.Sscanf(procField("/proc/meminfo", "MemTotal"), "%d kB", &kb); err == nil {
		m.Memory = kb << 10
	}
	return m
}

// procField is the first value of a field in a file of "name : value" lines, empty where
// there is none.
func procField(path, field string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m machine) String() string {
	parts := []string{fmt.Sprintf("%d CPUs", m.CPUs)}
	if m.CPU != "" {
		parts[0] += " (" + m.CPU + ")"
	}
	if m.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30)))
	}
	return strings.Join(append(parts, strings.TrimSpace(m.OS+"/"+m.Arch+" "+m.Kernel)), ", ")
}
