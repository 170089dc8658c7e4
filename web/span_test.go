package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// counted waits for the count of a span by a user, until it has so many in all.
func (h *harness) counted(query, user string, want int64) (c spanCount) {
	h.t.Helper()
	await.Until(h.t, fmt.Sprintf("%s has %d", query, want), func() bool {
		status, body := h.read("/dashboard/span?"+query, user)
		var answer struct{ Count *spanCount }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
			h.t.Fatalf("%s: %d %s", query, status, body)
		}
		all := int64(0)
		if answer.Count == nil {
			return false
		}
		c = *answer.Count
		for _, bars := range c.DBs {
			for _, bar := range bars {
				for _, n := range bar[1:] {
					all += n
				}
			}
		}
		return all == want
	})
	return c
}

// A span is counted in bars, by key and element or by pattern, of all keys or of those whose names a user may see.
func TestSpan(t *testing.T) {
	h := listen(t)
	h.load()
	h.run("ACL SETUSER watcher on >watcher -@all +info +latency|histogram")
	h.run("ACL SETUSER lister on >lister -@all +info +latency|histogram +scan +pexpiretime ~a:* %R~b:*")
	first := (h.o.Clock.Now()/hour + 2) * hour
	for i, name := range []string{"a:1", "a:2", "b:1", "b:2", "b:3", "c:1"} {
		h.run(fmt.Sprintf("SET %s v PXAT %d", name, first+int64(i%2)*minute))
	}
	h.run(fmt.Sprintf("SET later v PXAT %d", first+hour))
	query := fmt.Sprintf("from=%d&unit=%d&bars=60", first, minute)
	match := "&" + url.Values{"match": {"a:1", "a:*", "c:*"}}.Encode()
	for _, want := range []struct {
		query, user string
		all         int64
		bars        string
	}{
		{query, "watcher", 6, "[[0 3 0] [1 3 0]]"},
		{query + match, "lister", 5, "[[0 1 0 0 2] [1 0 1 0 1]]"},
		{query + match, "", 6, "[[0 1 0 0 2] [1 0 1 1 1]]"},
		{fmt.Sprintf("unit=%d&bars=2", day), "watcher", 7, ""},
	} {
		c := h.counted(want.query, want.user, want.all)
		if got := fmt.Sprint(c.DBs[0]); want.bars != "" && (got != want.bars || c.From != first || c.Every != 1) {
			t.Errorf("%s of %s: %s from %d, one of %d", want.query, want.user, got, c.From, c.Every)
		}
	}
	for query, status := range map[string]int{
		query + match: 403, "unit=0&bars=1": 400, "unit=1000&bars=121": 400, "unit=1000": 400, fmt.Sprintf("unit=%d&bars=1", day+1): 400,
		query + strings.Repeat("&match=x", maxPatterns+1): 400, query + "&match=" + strings.Repeat("x", maxPattern+1): 400,
	} {
		if got, body := h.read("/dashboard/span?"+query, "watcher"); got != status {
			t.Errorf("%.80s: %d %s, want %d", query, got, body, status)
		}
	}
}

// Of more names than a count may look at it looks at a sample, and its counts are estimates of all.
func TestSpanSample(t *testing.T) {
	h := listen(t)
	h.spans.names = 500
	h.load()
	first := (h.o.Clock.Now()/hour + 2) * hour
	for i := range 4000 {
		h.run(fmt.Sprintf("SET %c:%d v PXAT %d", 'a'+rune(i%4), i, first))
	}
	var c spanCount
	query := fmt.Sprintf("from=%d&unit=%d&bars=1&match=a:*", first, minute)
	await.Until(t, "there is a count", func() bool {
		_, body := h.read("/dashboard/span?"+query, "")
		var answer struct{ Count *spanCount }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Count != nil {
			c = *answer.Count
		}
		return answer.Count != nil
	})
	if bar := c.DBs[0]; c.Every != 9 || len(bar) != 1 || bar[0][1] < 500 || bar[0][1] > 1500 || bar[0][2] < 2000 || bar[0][2] > 4000 {
		t.Errorf("one of %d: %v", c.Every, c.DBs)
	}
}

// What nobody asks for any more is not counted, and a user's spans are bounded: a new one takes the place of another of theirs.
func TestSpansAreBounded(t *testing.T) {
	var a spans
	a.init()
	for i := range int64(userSpans + 2) {
		a.ask(question{user: "u", from: i + 1, unit: 1, bars: 1}, nil, seconds(i))
	}
	a.ask(question{user: "other", from: 1, unit: 1, bars: 1}, nil, seconds(0))
	var from []int64
	for _, s := range a.mu.list {
		if s.user == "u" {
			from = append(from, s.from)
		}
	}
	if !slices.Equal(from, []int64{3, 4, 5, 6}) {
		t.Errorf("the spans of %v are counted", from)
	}
	first, _, due := a.due(seconds(6))
	if first.user != "other" || !due {
		t.Errorf("%+v is first: %v", first, due)
	}
	a.counted(first, &spanCount{Every: 7}, seconds(8))
	if got := a.ask(first, nil, seconds(6)); got == nil || got.Every != 7 {
		t.Errorf("the answer is %+v", got)
	}
	if q, _, due := a.due(seconds(20)); len(a.mu.list) != 2 || !due {
		t.Errorf("%d spans are left, %+v is due: %v", len(a.mu.list), q, due)
	}
	if _, _, due := a.due(seconds(1000)); due || len(a.mu.list) != 0 {
		t.Error("what nobody asks for is counted")
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
