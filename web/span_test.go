package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/testkit/await"
	"keyp/resp"
)

// counted asks for the numbers of keys that expire in a span of time, as the dashboard does for a
// user. It waits until their sum is want.
func (h *harness) counted(query, user string, want int64) (c dueBars) {
	h.t.Helper()
	await.Until(h.t, fmt.Sprintf("%s has %d", query, want), func() bool {
		status, body := h.read("/dashboard/span?"+query, user)
		var answer struct{ Count *dueBars }
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

// A span is counted in bars, as a whole or by pattern, of all keys or of those whose names a user
// may see.
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
		{query, "watcher", 6, "[[0 3] [1 3]]"},
		{query + match, "lister", 5, "[[0 1 0 0 2] [1 0 1 0 1]]"},
		{query + match, "", 6, "[[0 1 0 0 2] [1 0 1 1 1]]"},
		{fmt.Sprintf("unit=%d&bars=2", day), "watcher", 7, ""},
	} {
		c := h.counted(want.query, want.user, want.all)
		if got := fmt.Sprint(c.DBs[0]); want.bars != "" &&
			(got != want.bars || c.From != first || c.Every != 1) {
			t.Errorf("%s of %s: %s from %d, one of %d", want.query, want.user, got, c.From, c.Every)
		}
	}
	for query, status := range map[string]int{
		query + match: 403, "unit=0&bars=1": 400, "unit=1000&bars=121": 400, "unit=1000": 400,
		fmt.Sprintf("unit=%d&bars=1", day+1):                  400,
		query + strings.Repeat("&match=x", maxPatterns+1):     400,
		query + "&match=" + strings.Repeat("x", maxPattern+1): 400,
	} {
		if got, body := h.read("/dashboard/span?"+query, "watcher"); got != status {
			t.Errorf("%.80s: %d %s, want %d", query, got, body, status)
		}
	}
}

// If there are more names than a count may match, it matches a sample and estimates the numbers of
// all.
func TestSpanSample(t *testing.T) {
	h := listen(t)
	h.spans.names = 500
	h.load()
	first := (h.o.Clock.Now()/hour + 2) * hour
	for i := range 4000 {
		h.run(fmt.Sprintf("SET %c:%d v PXAT %d", 'a'+rune(i%4), i, first))
	}
	var c dueBars
	query := fmt.Sprintf("from=%d&unit=%d&bars=1&match=a:*", first, minute)
	await.Until(t, "there is a count", func() bool {
		_, body := h.read("/dashboard/span?"+query, "")
		var answer struct{ Count *dueBars }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Count != nil {
			c = *answer.Count
		}
		return answer.Count != nil
	})
	if bar := c.DBs[0]; c.Every != 9 || len(bar) != 1 || bar[0][1] < 500 || bar[0][1] > 1500 ||
		bar[0][2] < 2000 || bar[0][2] > 4000 {
		t.Errorf("one of %d: %v", c.Every, c.DBs)
	}
}

// A span that is no longer requested is not counted. The number of a user's spans is bounded: a new
// one replaces one that is on no screen.
func TestSpansAreBounded(t *testing.T) {
	h := listen(t)
	h.load()
	var a spans
	a.init()
	v, rights := h.visitor(t)
	ask := func(user string, from, at int64) (*dueBars, bool) {
		return a.ask(question{user: user, from: from, unit: 1, bars: 1}, v, seconds(at))
	}
	for i := range int64(userSpans + 2) {
		if _, ok := ask("u", i+1, i); !ok {
			t.Errorf("span %d is refused", i)
		}
	}
	ask("other", 1, userSpans)
	var from []int64
	for _, s := range a.mu.list {
		if s.user == "u" {
			from = append(from, s.from)
		}
	}
	if len(from) != userSpans || from[0] != 3 {
		t.Errorf("the spans of %v are counted", from)
	}
	for i := range int64(userSpans) {
		ask("u", i+3, userSpans+2)
	}
	if _, ok := ask("u", 100, userSpans+4); ok {
		t.Error("a span on a screen made room for another")
	}
	if _, ok := ask("u", 100, userSpans+5); !ok || len(a.mu.list) != userSpans+1 {
		t.Errorf("one of %d spans that are on no screen made no room", len(a.mu.list))
	}
	first, _ := a.due(seconds(userSpans + 5))
	if first == nil || first.from != 100 || !a.wanted(first, rights, seconds(userSpans+5)) {
		t.Fatalf("%+v is first", first)
	}
	a.counted(first, rights, &dueBars{Every: 7}, seconds(1000))
	if got, _ := ask("u", 100, userSpans+6); got == nil || got.Every != 7 {
		t.Errorf("the answer is %+v", got)
	}
	if a.wanted(first, rights, seconds(userSpans+6)+spanIdle+1) {
		t.Error("what nobody asks for is wanted")
	}
	if s, _ := a.due(seconds(1000)); s != nil || len(a.mu.list) != 0 {
		t.Error("what nobody asks for is counted")
	}
	if a.wanted(first, rights, seconds(userSpans+6)) {
		t.Error("what was forgotten is wanted")
	}
}

// Spans on screens are counted before the others, each in turn. A count that is no longer wanted is
// given up.
func TestSpansOnScreenFirst(t *testing.T) {
	h := listen(t)
	h.load()
	h.run("SET k v EX 1000")
	a := &h.spans
	v, rights := h.visitor(t)
	ask := func(from, at int64) {
		a.ask(question{user: "u", from: from, unit: 1, bars: 1}, v, seconds(at))
	}
	var order []int64
	var last *span
	count := func(at int64) {
		if s, _ := a.due(seconds(at)); s != nil {
			a.counted(s, rights, nil, seconds(at+1))
			order, last = append(order, s.from), s
		}
	}
	const at = 1_000_000 // later than the server's own clock, so that it counts none of them
	ask(1, at)
	ask(2, at+5)
	ask(3, at+5)
	for i := range int64(4) {
		ask(2, at+6+i)
		ask(3, at+6+i)
		count(at + 6 + i)
	}
	count(at + 13) // none is on a screen
	if !slices.Equal(order, []int64{2, 3, 2, 3, 1}) {
		t.Errorf("counted in the order %v", order)
	}
	if h.pulse.countSpan(h.env, &span{question: last.question}, v, rights) != nil {
		t.Error("a count that nobody wants went on")
	}
}

// A count is valid only for the rights under which it was made. A change of the rights, or a new
// user of the same name, makes it invalid.
func TestSpanOfOtherRights(t *testing.T) {
	h := listen(t)
	h.load()
	var a spans
	a.init()
	q := question{user: "watcher", from: 1, unit: 1, bars: 1}
	login := func() *commands.Visitor {
		v, err := h.env.Visit("", "", true, []byte("watcher"), []byte("watcher"))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, change := range []func(){
		func() { h.run("ACL SETUSER watcher on >watcher +info ~a:*") },
		func() { h.run("ACL SETUSER watcher resetkeys ~b:*") },
		func() {
			c := commands.Ctx{Client: &commands.Client{ID: 1}, Out: &resp.Writer{Proto: 2},
				Txn: h.env.Store.NewTxn()}
			h.env.Reset(c.Client)
			c.Client.Authenticated = true
			c.Args = [][]byte{[]byte("ACL"), []byte("DELUSER"), []byte("watcher")}
			if h.env.Dispatch(&c); string(c.Out.Buf) != ":1\r\n" {
				t.Fatalf("the user is not deleted: %q", c.Out.Buf)
			}
			h.run("ACL SETUSER watcher on >watcher +info ~a:*")
		},
	} {
		change()
		now := seconds(1)
		if answer, ok := a.ask(q, login(), now); answer != nil || !ok {
			t.Errorf("an answer of other rights: %+v", answer)
		}
		s, v := a.due(now)
		if s == nil {
			t.Fatal("it is not counted again at once")
		}
		rights := v.Rights()
		a.counted(s, rights, &dueBars{}, now)
		if answer, _ := a.ask(q, login(), now); answer == nil || !a.wanted(s, rights, now) {
			t.Error("no answer under the same rights")
		}
		h.run("ACL SETUSER watcher +ping")
		if answer, _ := a.ask(q, login(), now); answer != nil || a.wanted(s, rights, now) {
			t.Error("a count of other rights is wanted, or answers")
		}
		a.counted(s, rights, &dueBars{}, now) // of a count that was under way
	}
}

// Names are matched in steps: long names and patterns take more steps, and the longest step counts
// with its whole time.
func TestSpanMatchesInSteps(t *testing.T) {
	h := listen(t)
	h.load()
	first := (h.o.Clock.Now()/hour + 2) * hour
	const names, length = 300, 900
	for i := range names {
		h.run(fmt.Sprintf("SET {same}%d%s v PXAT %d", i, strings.Repeat("a", length), first))
	}
	v, _ := h.visitor(t)
	steps := func(from int64, patterns ...string) (n int, longest time.Duration) {
		q := question{from: from, unit: minute, bars: 1,
			patterns: url.Values{"match": patterns}.Encode()}
		c := &dueBars{From: from, DBs: map[int][][]int64{}}
		if !h.pulse.countNames(h.env, q, v, c, func(most time.Duration) bool {
			n, longest = n+1, max(longest, most)
			return true
		}) {
			t.Error("the count is not whole")
		}
		return n, longest
	}
	long := strings.Repeat("*a", maxPattern/2-1) + "b"
	n, longest := steps(first, long, long, long, long)
	if none, _ := steps(first+hour, long); n < none+names {
		t.Errorf("%d names are matched in %d steps, none in %d", names, n, none)
	}
	const few = nameMatch / rightsBytes
	h.run(fmt.Sprintf("SET %s v PXAT %d", strings.Repeat("x", few), first+2*hour))
	h.run(fmt.Sprintf("SET %s v PXAT %d", strings.Repeat("y", few/2), first+2*hour))
	c := &dueBars{From: first + 2*hour, DBs: map[int][][]int64{}}
	q := question{unit: minute, bars: 1, patterns: url.Values{"match": {"x*", "y*"}}.Encode()}
	most := time.Duration(0)
	whole := h.pulse.countNames(h.env, q, v, c, func(d time.Duration) bool {
		most = max(most, d)
		return true
	})
	if got := fmt.Sprint(c.DBs[0]); !whole || got != "[[0 0 1 0]]" || c.Long != 1 ||
		most > 2*nameMatch*matchTime {
		t.Errorf("of a very long name and another there are %s, %d are too long, and a step counts as %v",
			got, c.Long, most)
	}
	if least := stepTime + 4*length*time.Duration(len(long))*matchTime; longest < least {
		t.Errorf("a step counts as %v at most, and may take %v", longest, least)
	}
}

// visitor is the default user, with its present rights.
func (h *harness) visitor(t *testing.T) (*commands.Visitor, any) {
	v, err := h.env.Visit("", "", false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, v.Rights()
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
