package server

import (
	"fmt"
	"os"
	"runtime/pprof"
)

var profile *os.File

// startProfile writes a CPU profile of a server process to KEYP_TEST_PROFILE.
func startProfile() {
	path := os.Getenv("KEYP_TEST_PROFILE")
	if path == "" {
		return
	}
	var err error
	if profile, err = os.Create(path); err == nil {
		err = pprof.StartCPUProfile(profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
}

func stopProfile() {
	if profile == nil {
		return
	}
	pprof.StopCPUProfile()
	if err := profile.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
}
