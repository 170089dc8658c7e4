package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"keyp/commands"
)

// page is a page of the server, with the rights that its visitors need.
type page struct {
	// rights returns the reason why a visitor may not see the page; nil: every visitor whom admit
	// lets in may see it.
	rights func(*commands.Visitor) error
	show   http.HandlerFunc
	post   bool // only POST is allowed, with a body
}

// mayRun returns the rights for a page that shows data of these commands.
func mayRun(list ...[]string) func(*commands.Visitor) error {
	return func(v *commands.Visitor) error {
		for _, words := range list {
			if err := v.May(words...); err != nil {
				return err
			}
		}
		return nil
	}
}

// allPages returns the pages by path. A path that ends in a slash stands for all paths below it.
func (s *Server) allPages() map[string]page {
	info := []string{"INFO"}
	return map[string]page{
		"/healthz": {show: s.showHealth},
		"/readyz":  {show: s.showReady},
		"/metrics": {rights: mayRun(info, []string{"LATENCY", "HISTOGRAM"}),
			show: s.showMetrics},
		"/usage":        {rights: mayRun(info, []string{"MEMORY", "STATS"}), show: s.showUsage},
		"/version":      {rights: mayRun(info), show: s.showVersion},
		"/debug/pprof/": {rights: (*commands.Visitor).MayDebug, show: s.showProfile},

		"/":                  {rights: mayRun(), show: s.showFile},
		"/dashboard/":        {rights: mayRun(), show: s.showFile},
		"/dashboard/session": {rights: mayRun(), show: s.showSession},
		"/dashboard/live":    {rights: mayWatch, show: s.showLive},
		"/dashboard/due":     {rights: mayList, show: s.showDue},
		"/dashboard/span":    {rights: mayWatch, show: s.showSpan},
		"/dashboard/events":  {rights: mayListen, show: s.showEvents},
		"/dashboard/run":     {rights: mayRun(), show: s.runCommands, post: true},
	}
}

func (s *Server) find(path string) (page, bool) {
	if p, ok := s.pages[path]; ok {
		return p, true
	}
	folder := path[:strings.LastIndexByte(path, '/')+1]
	p, ok := s.pages[folder]
	return p, ok && folder != "/"
}

// headers are those of every reply. Browsers do not store the reply, do not show it in a frame, and
// do not let pages of other sites read it. A reply that a browser shows as a page can neither load
// nor run anything.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		switch p := recover(); {
		case p == http.ErrAbortHandler:
			panic(p) // closes the connection
		case p != nil:
			s.o.Log.Error("internal error", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			panic(http.ErrAbortHandler)
		}
	}()
	s.requests.Add(1)
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if !hasBody(r) {
		s.answer(w, r)
		return
	}
	// A handler that reads the body deletes this header. With it the reply does not wait for the
	// rest of the body.
	w.Header().Set("Connection", "close")
	s.answer(w, r)
	if w.Header().Get("Connection") != "" {
		s.conns.drop(w, r)
	}
}

// hasBody reports whether a request has a body. It may not have arrived yet.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 || len(r.TransferEncoding) > 0 }

// answer shows the page of a request, or replies with the reason why it does not.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if status, why := s.admit(r); status != 0 {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD")
			if p, _ := s.find(r.URL.Path); p.post {
				w.Header().Set("Allow", "POST")
			}
		}
		w.Header().Set("Connection", "close")
		reply(w, status, why)
		return
	}
	p, ok := s.find(r.URL.Path)
	if !ok {
		reply(w, http.StatusNotFound, "there is no such page")
		return
	}
	if status, why := s.refusal(r, p); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="keyp", charset="UTF-8"`)
		}
		reply(w, status, why)
		return
	}
	p.show(w, r)
}

// admit returns the status and the reason with which a request is refused before its user is
// checked. The status is 0 if the request is not refused.
func (s *Server) admit(r *http.Request) (status int, why string) {
	open := false // a user needs no password
	s.use(func(env *commands.Env) { _, open = env.Passwordless() })
	protected := s.o.Config.Bool("http-protected")
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	stranger := err != nil || !peer.Addr().Unmap().IsLoopback()
	switch {
	case stranger && (protected || open):
		return http.StatusForbidden,
			"only requests from this machine are answered, since http-protected is yes or a user needs no password"
	case (protected || open) && !isAddress(r.Host):
		// The owner of a site can make the name of the site resolve to this machine (DNS
		// rebinding). A page of that site could then read replies that its visitor's browser gets
		// from here. With a password it reads nothing: the browser sends the password only to the
		// name for which it was entered.
		return http.StatusForbidden, "ask for this by its address"
	case !s.fromHere(r):
		return http.StatusForbidden, "requests of other sites are not answered"
	}
	if p, _ := s.find(r.URL.Path); p.post {
		if r.Method != http.MethodPost {
			return http.StatusMethodNotAllowed, "only POST is served here"
		}
		return 0, ""
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "only GET and HEAD are served"
	case hasBody(r):
		return http.StatusRequestEntityTooLarge, "no body is expected"
	}
	return 0, ""
}

// isAddress reports whether a Host header is an address or localhost, with or without a port.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	// A zone may contain any text, even a host name.
	return err == nil && addr.Zone() == "" || strings.EqualFold(host, "localhost")
}

// fromHere returns false for a request that a page of another site made a browser send.
func (s *Server) fromHere(r *http.Request) bool {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, scheme+r.Host) {
			return false
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	return true
}

// refusal returns the status and the reason why the sender of a request may not see a page. The
// status is 0 if the sender may see it.
func (s *Server) refusal(r *http.Request, p page) (status int, why string) {
	if p.rights == nil {
		return 0, ""
	}
	_, _, given := r.BasicAuth()
	if !given && len(r.Header.Values("Authorization")) > 0 {
		return http.StatusUnauthorized, "only basic authentication is supported"
	}
	loaded := s.use(func(env *commands.Env) {
		visitor, err := s.visit(env, r)
		if err != nil {
			status, why = http.StatusUnauthorized, err.Error()
			return
		}
		if err := p.rights(visitor); err != nil {
			status, why = http.StatusForbidden, err.Error()
			if !given {
				status = http.StatusUnauthorized // another user may be allowed to see it
			}
		}
	})
	if !loaded {
		return http.StatusServiceUnavailable, s.pulse.says()
	}
	return status, why
}

// visit returns the visitor who sent a request.
func (s *Server) visit(env *commands.Env, r *http.Request) (*commands.Visitor, error) {
	name, password, given := r.BasicAuth()
	return env.Visit(r.RemoteAddr, s.addr, given, []byte(name), []byte(password))
}

// reply replies with a line of text.
func reply(w http.ResponseWriter, status int, why string) {
	why += "\n"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(why)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why) // the client may be gone
}

// accepts reports whether a client takes an encoding of the body.
func accepts(r *http.Request, encoding string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","),
		","), func(offer string) bool {
		name, weight, _ := strings.Cut(offer, ";")
		weight = strings.ReplaceAll(strings.TrimSpace(weight), " ", "")
		return strings.TrimSpace(name) == encoding &&
			!(strings.HasPrefix(weight, "q=0") && strings.Trim(weight, "q=0.") == "")
	})
}
