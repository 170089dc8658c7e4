package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"keyp/commands"
)

// A page can show events as they come. A connection to the server subscribes to them, like that of
// any client. Each second the page gets some of the events, and the number of the others.

const (
	// eventsShown is how many events a page gets in a second, and eventName how many bytes of each
	// key's name.
	eventsShown = 20
	eventName   = 256
	// maxEvents bounds the pages that get events, userEvents those of a user.
	maxEvents  = 8
	userEvents = 2
	// eventChannels is the pattern of the channels that have all events.
	eventChannels = "__keyevent@*__:*"
)

// event is what happened to a key.
type event struct {
	DB   int64  `json:"db"`
	Name string `json:"event"`
	Key  []byte `json:"key"`
	Long bool   `json:"long"` // the key's name is longer
}

// eventsMessage is the message that a page gets each second.
type eventsMessage struct {
	Events  []event `json:"events"`
	Skipped int64   `json:"skipped"` // number of further events
}

// mayListen checks the rights for getting events.
func mayListen(v *commands.Visitor) error {
	return mayRun([]string{"PSUBSCRIBE", eventChannels})(v)
}

// showEvents sends events for as long as the page asks and its user may subscribe to them.
func (s *Server) showEvents(w http.ResponseWriter, r *http.Request) {
	visitor := s.visitorOf(w, r)
	if visitor == nil {
		return
	}
	user := visitor.Name()
	if !s.events.begin(user) {
		reply(w, http.StatusServiceUnavailable, "too many pages show events")
		return
	}
	defer s.events.end(user)
	conn, err := s.login(r, 0)
	if err == nil {
		defer conn.Close()
		_, err = conn.Write(command("PSUBSCRIBE", eventChannels))
	}
	if err != nil {
		s.o.Log.Debug("events are not shown", "error", err)
		reply(w, http.StatusServiceUnavailable, "the server takes no commands now")
		return
	}
	_ = conn.SetDeadline(time.Time{}) // it fails only for closed ones
	out := s.eventStream(w, r)
	if out == nil {
		return
	}
	come, skipped := make(chan event, eventsShown), new(atomic.Int64)
	go func() {
		defer close(come)
		err := readEvents(conn, visitor.Selects, come, skipped)
		// The client is gone, or the user may no longer get them.
		s.o.Log.Debug("events end", "error", err)
	}()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for on := true; on; {
		var m eventsMessage
		m.Events, on = drain(come)
		m.Skipped = skipped.Swap(0)
		if text, err := json.Marshal(m); err != nil || !out.send(text) { // there is no such error
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.pulse.quit:
			return
		}
	}
}

// drain returns the events that are in the channel, eventsShown at most. on is false if the channel
// is closed.
func drain(come <-chan event) (list []event, on bool) {
	list = []event{}
	for len(list) < eventsShown {
		select {
		case e, open := <-come:
			if !open {
				return list, false
			}
			list = append(list, e)
		default:
			return list, true
		}
	}
	return list, true
}

// readEvents reads events until the connection ends, and sends them to come. It drops events of
// databases for which seen returns false, and counts events that do not fit into come.
func readEvents(conn io.Reader, seen func(db int) bool, come chan<- event,
	skipped *atomic.Int64) error {
	in := bufio.NewReader(conn)
	for {
		words, long, err := readPush(in)
		if err != nil {
			return err
		}
		if len(words) != 4 || string(words[0]) != "pmessage" {
			continue // the subscription
		}
		db, name, _ := strings.Cut(strings.TrimPrefix(string(words[2]), "__keyevent@"), "__:")
		e := event{number(db), name, words[3], long}
		if !seen(int(e.DB)) {
			continue
		}
		select {
		case come <- e:
		default:
			skipped.Add(1)
		}
	}
}

// readPush reads an array of strings and numbers as RESP2 encodes it. Of each string it returns the
// first eventName bytes; long is true if the last one has more.
func readPush(in *bufio.Reader) (words [][]byte, long bool, err error) {
	head, n, err := readHead(in)
	if err != nil || head != '*' {
		return nil, false, errors.Join(err, errReply)
	}
	for range n {
		head, size, err := readHead(in)
		switch {
		case err != nil:
			return nil, false, err
		case head == ':':
			words = append(words, nil)
			continue
		case head != '$' || size < 0:
			return nil, false, errReply
		}
		word := make([]byte, min(size, eventName))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, false, err
		}
		if _, err := in.Discard(int(size) - len(word) + len("\r\n")); err != nil {
			return nil, false, err
		}
		words, long = append(words, word), size > eventName
	}
	return words, long, nil
}

var errReply = errors.New("the server replies something else than events")

// readHead reads the line that a reply begins with: its type and number.
func readHead(in *bufio.Reader) (head byte, n int64, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil || len(line) < len("*0\r\n") {
		return 0, 0, errors.Join(err, errReply)
	}
	n, err = strconv.ParseInt(string(line[1:len(line)-2]), 10, 64)
	if err != nil {
		return 0, 0, errReply
	}
	return line[0], n, nil
}
