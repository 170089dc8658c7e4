package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// events opens the stream of events as a user.
func (s *served) events(user string) (*http.Response, *bufio.Scanner) {
	s.t.Helper()
	answer, err := http.DefaultClient.Do(s.request("/dashboard/events", user,
		user).WithContext(await.Context(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer, bufio.NewScanner(answer.Body)
}

// nextEvents returns the next message with events, or false at the end.
func nextEvents(t *testing.T, lines *bufio.Scanner) (m eventsMessage, ok bool) {
	t.Helper()
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			return m, true
		}
	}
	return m, false
}

// Users who may subscribe to events get some events of each second, and the number of the others.
func TestEvents(t *testing.T) {
	s := keyp(t, "--notify-keyspace-events", "KEA", "--user", "u", "on", ">u", "-@all",
		"+psubscribe", "allchannels",
		"--user", "deaf", "on", ">deaf", "-@all", "+psubscribe", "resetchannels")
	if status, text := fetch(t, s.request("/dashboard/events", "deaf", "deaf")); status != 403 ||
		!strings.Contains(text, "NOPERM") {
		t.Errorf("without channels: %d %s", status, text)
	}
	_, lines := s.events("u")
	if m, ok := nextEvents(t, lines); !ok || len(m.Events) != 0 {
		t.Fatalf("%+v %v", m, ok)
	}
	await.Until(t, "the subscription is there", func() bool {
		return s.redis(command("PUBSUB", "NUMPAT")) == ":1\r\n"
	})
	long := strings.Repeat("n", 2*eventName)
	sets := [][]byte{command("SET", "\x00<b>", "v"), command("SET", long, "v")}
	const more = 50 * eventsShown
	for i := range more {
		sets = append(sets, command("SET", fmt.Sprint(i), "v"))
	}
	s.redis(slices.Concat(sets...))
	shown, skipped := []event{}, int64(0)
	for int64(len(shown))+skipped < more+2 {
		m, ok := nextEvents(t, lines)
		if !ok {
			t.Fatal("the stream ended")
		}
		if len(m.Events) > eventsShown {
			t.Errorf("%d events in a second", len(m.Events))
		}
		shown, skipped = append(shown, m.Events...), skipped+m.Skipped
	}
	if int64(len(shown))+skipped != more+2 || skipped == 0 {
		t.Errorf("%d events are shown, and %d more counted", len(shown), skipped)
	}
	if e := shown[0]; e.Name != "set" || string(e.Key) != "\x00<b>" || e.Long {
		t.Errorf("%+v", e)
	}
	if e := shown[1]; string(e.Key) != long[:eventName] || !e.Long {
		t.Errorf("%+v", e)
	}
	for range userEvents - 1 {
		s.events("u")
	}
	if status, text := fetch(t, s.request("/dashboard/events", "u", "u")); status != 503 ||
		!strings.Contains(text, "too many pages") {
		t.Errorf("one more of a user: %d %s", status, text)
	}
	s.redis(command("ACL", "SETUSER", "u", "resetchannels"))
	for ok := true; ok; {
		_, ok = nextEvents(t, lines)
	}
}
