package web

import (
	"embed"
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"

	"keyp/commands"
	"keyp/internal/config"
	"keyp/storage"
)

// The dashboard is one page, whose files are in the binary. Its scripts request the data. A request
// for data is refused unless the user may run the commands that show such data (for instance SCAN
// for lists of keys).

//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load only its own files and send requests only to its own server.
// Scripts can insert text only as text: a script that assigns a string as HTML fails.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes are the types of the page's files.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// showFile serves the files of the page.
func (s *Server) showFile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/dashboard/")
	if name == "/" {
		name = "index.html"
	}
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		reply(w, http.StatusNotFound, "there is no such page")
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Type", pageTypes[path.Ext(name)])
	_, _ = w.Write(text) // the client may be gone
}

// mayWatch and mayList check the rights for parts of the dashboard: those of /metrics, and those
// for listing keys.
func mayWatch(v *commands.Visitor) error {
	return mayRun([]string{"INFO"}, []string{"LATENCY", "HISTOGRAM"})(v)
}

func mayList(v *commands.Visitor) error { return mayRun([]string{"SCAN", "0"})(v) }

// session describes the user who has opened the page, and the parts of the page for that user.
type session struct {
	User      string          `json:"user"`
	Version   string          `json:"version"`
	Databases int             `json:"databases"`
	Token     string          `json:"token"` // for requests that run commands
	May       map[string]bool `json:"may"`
	Group     bool            `json:"group"` // the server is a member of one
}

func (s *Server) showSession(w http.ResponseWriter, r *http.Request) {
	s.useAs(w, r, func(env *commands.Env, v *commands.Visitor) {
		s.replyJSON(w, session{User: v.Name(), Version: config.Version,
			Databases: env.Store.Databases(), Token: s.tokens.issue(v.Name()), May: offered(v),
			Group: env.GroupReport() != nil})
	})
}

// used are the commands that the page runs: commands that read, and commands that set or remove a
// deadline or delete a key. A request to run any other command, except HELLO, is refused.
var used = strings.Fields(`SCAN TYPE PTTL STRLEN GETRANGE HSCAN HLEN HPTTL SSCAN SCARD ZSCAN ZCARD LRANGE LLEN XREVRANGE XLEN XINFO|GROUPS
	SLOWLOG|GET CLIENT|LIST RANDOMKEY MEMORY|USAGE KEYP.POLICY|LIST KEYP.OUTBOX|LIST KEYP.CLOCK|INFO
	KEYP.LEASE|INFO KEYP.DELAY|INFO KEYP.DELAY|RANGE KEYP.LIMIT|INFO KEYP.LIMIT|PEEK
	PEXPIRE PERSIST HPEXPIRE HPERSIST EXPIREMEMBER UNLINK`)

// offered returns which parts of the page, and which of its commands, the visitor may use.
func offered(v *commands.Visitor) map[string]bool {
	may := map[string]bool{"SELECT": v.Runs("SELECT"), "watch": v.Runs("INFO") && v.Runs("LATENCY",
		"HISTOGRAM"), "list": v.Runs("SCAN", "0"), "events": v.Runs("PSUBSCRIBE", eventChannels)}
	for _, name := range used {
		may[name] = v.Runs(strings.Split(name, "|")...)
	}
	return may
}

// useAs calls fn with the environment and the visitor who sent the request. If that is not
// possible, it replies with the reason.
func (s *Server) useAs(w http.ResponseWriter, r *http.Request,
	fn func(*commands.Env, *commands.Visitor)) {
	var err error
	loaded := s.use(func(env *commands.Env) {
		var v *commands.Visitor
		if v, err = s.visit(env, r); err == nil {
			fn(env, v)
		}
	})
	switch {
	case !loaded:
		reply(w, http.StatusServiceUnavailable, s.pulse.says())
	case err != nil: // the user was changed since the check of the rights
		reply(w, http.StatusForbidden, err.Error())
	}
}

// visitorOf returns the visitor who sent the request; nil if useAs has answered it already.
func (s *Server) visitorOf(w http.ResponseWriter, r *http.Request) (visitor *commands.Visitor) {
	s.useAs(w, r, func(_ *commands.Env, v *commands.Visitor) { visitor = v })
	return visitor
}

// maxDueKeys bounds a list of keys, and maxPattern the length of its pattern.
const (
	maxDueKeys = 500
	maxPattern = 1 << 10
)

// dueKeys are the first keys that are due in a span of time. The JSON has the names in base64,
// because they may be any bytes.
type dueKeys struct {
	Keys    []dueKey `json:"keys"`
	Through int64    `json:"through"` // the list is complete up to this Unix ms
}

type dueKey struct {
	Name    []byte `json:"name"`
	At      int64  `json:"at"`
	Element bool   `json:"element"`
}

// showDue lists keys in the order of their deadlines.
func (s *Server) showDue(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	db, from, until, pattern := number(q.Get("db")), number(q.Get("from")), number(q.Get("until")),
		q.Get("match")
	if pattern == "" {
		pattern = "*"
	}
	if !q.Has("db") || from < 0 || until < from || len(pattern) > maxPattern {
		reply(w, http.StatusBadRequest,
			"wanted: db, from and until (Unix time in ms) and, if wished, match")
		return
	}
	s.inTurn(w, r, func() {
		s.useAs(w, r, func(env *commands.Env, v *commands.Visitor) {
			if db < 0 || db >= int64(env.Store.Databases()) {
				reply(w, http.StatusBadRequest, "there is no such database")
				return
			}
			list, through, err := v.Due(int(db), from, until, maxDueKeys, []byte(pattern))
			if err != nil {
				w.Header().Set("Retry-After", "1")
				reply(w, http.StatusServiceUnavailable,
					"a script or a transaction has the keys; try again")
				return
			}
			s.replyJSON(w, dueKeys{listed(list), through})
		})
	})
}

func listed(list []storage.DueKey) []dueKey {
	keys := make([]dueKey, len(list))
	for i, k := range list {
		// The copy is never nil, which JSON would encode as null. The empty name may be
		// nil.
		keys[i] = dueKey{append([]byte{}, k.Name...), k.At, k.Element}
	}
	return keys
}

// number parses a number of a request, and returns -1 if it is invalid. A number out of range
// becomes the largest or smallest one, because scripts round the largest one up.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return -1
	}
	return n
}
