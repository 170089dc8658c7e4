package web

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"keyp/resp"
)

// The page changes data and reads keys by commands. A request contains commands in RESP, and its
// reply contains the server's replies. Only commands that the page uses are accepted. They go
// through a connection to the server itself, as the user of the request. So permissions, SLOWLOG,
// MONITOR and durability are the same as for any client. The connection ends with the request, and
// so does a blocking command.

const (
	// runBytes bounds the commands of a request, runReply the bytes that are sent back: a longer
	// reply is cut.
	runBytes = 16 << 20
	runReply = 64 << 20
	// runTime bounds a request with commands.
	runTime = 10 * time.Second
	// maxRuns bounds the requests in progress, including those that are still being read, and
	// userRuns those of a user. The first request of each user may exceed maxRuns. So many other
	// users cannot keep a user from running commands.
	maxRuns  = 16
	userRuns = 6
)

// runs counts requests of a kind in progress. There are at most most of them, and ofUser of one
// user. With spare, the first one of each user may exceed most.
type runs struct {
	most, ofUser int
	spare        bool
	mu           struct {
		sync.Mutex
		all    int
		byUser map[string]int
	}
}

func (r *runs) init(most, ofUser int, spare bool) {
	r.most, r.ofUser, r.spare, r.mu.byUser = most, ofUser, spare, map[string]int{}
}

// begin counts a new request of a user. It returns false if there are too many.
func (r *runs) begin(user string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.mu.byUser[user]; n >= r.ofUser || r.mu.all >= r.most && (n > 0 || !r.spare) {
		return false
	}
	r.mu.all++
	r.mu.byUser[user]++
	return true
}

func (r *runs) end(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.all--
	if r.mu.byUser[user]--; r.mu.byUser[user] == 0 {
		delete(r.mu.byUser, user)
	}
}

// under returns how many requests are in progress.
func (r *runs) under() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.all
}

// tokens makes and checks tokens. The open page gets one, and sends it with each request that runs
// commands. A page of another site cannot read it. Tokens are valid until the process ends.
type tokens struct{ secret [32]byte }

func (t *tokens) init() { _, _ = rand.Read(t.secret[:]) } // which never fails

const nonceSize = 16

func (t *tokens) issue(user string) string {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(append(nonce, t.seal(nonce, user)...))
}

func (t *tokens) valid(token, user string) bool {
	b, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(b) > nonceSize &&
		hmac.Equal(b[nonceSize:], t.seal(b[:nonceSize], user))
}

func (t *tokens) seal(nonce []byte, user string) []byte {
	mac := hmac.New(sha256.New, t.secret[:])
	mac.Write(nonce)
	mac.Write([]byte(user))
	return mac.Sum(nil)
}

// runCommands runs the commands of a request as its user, in the database db of the query (0
// without one).
func (s *Server) runCommands(w http.ResponseWriter, r *http.Request) {
	visitor := s.visitorOf(w, r)
	if visitor == nil {
		return
	}
	user := visitor.Name()
	if r.Header.Get("Origin") == "" || !s.tokens.valid(r.Header.Get("X-Keyp-Token"), user) {
		reply(w, http.StatusForbidden, "this needs the token of a page that is open; load it again")
		return
	}
	db := int64(0)
	if q := r.URL.Query(); q.Has("db") {
		if db = number(q.Get("db")); db < 0 {
			reply(w, http.StatusBadRequest, "db is the number of a database")
			return
		}
	}
	if !s.runs.begin(user) {
		reply(w, http.StatusServiceUnavailable, "too many requests at a time")
		return
	}
	defer s.runs.end(user)
	control := http.NewResponseController(w)
	// These fail only for writers without a connection.
	_ = control.SetWriteDeadline(inTime(2 * runTime))
	_ = control.SetReadDeadline(inTime(runTime))
	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, runBytes))
	if err != nil {
		reply(w, http.StatusRequestEntityTooLarge,
			"the commands are longer than "+strconv.Itoa(runBytes>>20)+
				" MiB, or did not come in time")
		return
	}
	w.Header().Del("Connection")
	if why := refused(sent); why != "" {
		reply(w, http.StatusForbidden, why)
		return
	}
	conn, err := s.login(r, db)
	var denied refusal
	switch {
	case errors.As(err, &denied):
		reply(w, http.StatusConflict, denied.Error())
		return
	case err != nil:
		s.o.Log.Debug("commands of the dashboard were not run", "error", err)
		reply(w, http.StatusServiceUnavailable, "the server takes no commands now")
		return
	}
	defer conn.Close()
	go func() {
		if _, err := conn.Write(sent); err == nil {
			_ = conn.CloseWrite() // so that the server ends the connection after the last reply
		}
	}()
	w.Header().Set("Content-Type", "application/octet-stream")
	// The client may be gone; the page recognizes a reply that was cut.
	_, _ = io.Copy(w, io.LimitReader(conn, runReply))
}

// refused returns the reason why the commands of a request are not run: the page does not use one
// of them, or they are no commands. It returns "" if they may all run.
func refused(sent []byte) (why string) {
	var in resp.Reader
	in.Advance(copy(in.Space(len(sent)), sent))
	for {
		words, err := in.Next(nil)
		switch {
		case err != nil:
			return err.Error()
		case words == nil && in.Buffered() > 0:
			return "the last command is incomplete"
		case words == nil:
			return ""
		}
		name := strings.ToUpper(string(words[0]))
		sub := name
		if len(words) > 1 {
			sub += "|" + strings.ToUpper(string(words[1]))
		}
		if (name != "HELLO" || len(words) > 2) && !slices.Contains(used, name) &&
			!slices.Contains(used, sub) {
			return "the page does not use " + strconv.Quote(sub)
		}
	}
}

// refusal is the server's error reply to AUTH or SELECT, after which no command may run.
type refusal string

func (r refusal) Error() string { return string(r) }

// login connects to the server as the user of a request, in a database.
func (s *Server) login(r *http.Request, db int64) (*net.UnixConn, error) {
	c, err := s.connect(r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	_ = conn.SetDeadline(inTime(runTime)) // it fails only for closed ones
	context.AfterFunc(r.Context(), func() { _ = conn.Close() })
	if name, password, given := r.BasicAuth(); given {
		if name == "" {
			name = "default"
		}
		err = prepare(conn, "AUTH", name, password)
	}
	if err == nil && db != 0 {
		err = prepare(conn, "SELECT", strconv.FormatInt(db, 10))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// prepare runs a command whose reply is OK. Any other reply of the server is a refusal.
func prepare(conn net.Conn, words ...string) error {
	if _, err := conn.Write(command(words...)); err != nil {
		return err
	}
	// Nothing follows, because only one command was sent.
	line, err := bufio.NewReader(conn).ReadString('\n')
	switch line = strings.TrimSuffix(line, "\r\n"); {
	case err != nil:
		return err
	case line != "+OK":
		return refusal(strings.TrimPrefix(line, "-"))
	}
	return nil
}

// command returns a command in RESP, as clients send it.
func command(words ...string) (text []byte) {
	text = append(text, '*')
	text = append(strconv.AppendInt(text, int64(len(words)), 10), '\r', '\n')
	for _, word := range words {
		text = append(text, '$')
		text = append(strconv.AppendInt(text, int64(len(word)), 10), '\r', '\n')
		text = append(append(text, word...), '\r', '\n')
	}
	return text
}
