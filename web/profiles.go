package web

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
)

// maxProfile is the longest duration of a profile, in seconds.
const maxProfile = 300

// showProfile serves Go's profiles, except for the command line, which may contain a password.
func (s *Server) showProfile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/debug/pprof/")
	serve := pprof.Handler(name).ServeHTTP
	switch name {
	case "":
		serve = pprof.Index
	case "profile":
		serve = pprof.Profile
	case "trace":
		serve = pprof.Trace
	case "symbol":
		serve = pprof.Symbol
	case "cmdline":
		reply(w, http.StatusNotFound, "there is no such page")
		return
	}
	if text := r.URL.Query().Get("seconds"); text != "" {
		if seconds, err := strconv.ParseFloat(text, 64); err != nil ||
			!(seconds > 0 && seconds <= maxProfile) {
			reply(w, http.StatusBadRequest,
				fmt.Sprintf("seconds must be above 0, and %d at most", maxProfile))
			return
		}
	}
	select {
	case s.slow <- struct{}{}:
		defer func() { <-s.slow }()
	default:
		reply(w, http.StatusServiceUnavailable, "another profile is being made")
		return
	}
	serve(w, r) // which gives the reply as much time as it takes itself
}
