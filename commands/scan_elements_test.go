package commands

import (
	"fmt"
	"testing"

	"keyp/resp"
	"keyp/storage/object"
)

// TestReplyScan: a scan of a large value returns each element that stays, whatever is added or
// removed. It takes more than one step.
func TestReplyScan(t *testing.T) {
	h := &object.Hash{}
	for i := range 5000 {
		h.Set(fmt.Append(nil, "stays", i), fmt.Append(nil, i), 0)
		h.Set(fmt.Append(nil, "goes", i), nil, 0)
	}
	o := scanOptions{match: []byte("stays*"), count: 50}
	seen := map[string]string{}
	steps, cursor := 0, uint64(0)
	for {
		var out resp.Writer
		replyScan(&Ctx{Out: &out, steps: patternSteps}, h, cursor, &o, (*resp.Writer).Bulk)
		reply, rest := parseReply(t, out.Buf)
		if len(rest) > 0 {
			t.Fatalf("behind the reply: %q", rest)
		}
		parts := reply.([]any)
		fields := parts[1].([]any)
		for i := 0; i < len(fields); i += 2 {
			seen[fields[i].(string)] = fields[i+1].(string)
		}
		h.Delete(fmt.Append(nil, "goes", steps))
		h.Set(fmt.Append(nil, "comes", steps), nil, 0)
		steps++
		var ok bool
		if cursor, ok = ParseUint([]byte(parts[0].(string))); !ok {
			t.Fatalf("cursor %q", parts[0])
		}
		if cursor == 0 {
			break
		}
	}
	if len(seen) != 5000 || seen["stays77"] != "77" || steps < 20 {
		t.Fatalf("%d fields in %d steps, stays77 is %q", len(seen), steps, seen["stays77"])
	}
}

func TestReplyScanSmall(t *testing.T) {
	h := &object.Hash{}
	h.Set([]byte("a"), []byte("1"), 0)
	h.Set([]byte("b"), []byte("2"), 0)
	for _, c := range []struct {
		o    scanOptions
		want string
	}{
		{scanOptions{count: 1}, `["0", ["a", "1", "b", "2"]]`},
		{scanOptions{count: 1, match: []byte("b")}, `["0", ["b", "2"]]`},
		{scanOptions{count: 1, match: []byte("c")}, `["0", []]`},
	} {
		out := resp.Writer{Buf: []byte("+before\r\n")}
		replyScan(&Ctx{Out: &out, steps: patternSteps}, h, 0, &c.o, (*resp.Writer).Bulk)
		before, rest := render(out.Buf)
		got, rest := render(rest)
		if before != "+before" || got != c.want || len(rest) > 0 {
			t.Errorf("%+v: %s, want %s; before it %s, behind it %q", c.o, got, c.want, before, rest)
		}
	}
	var out resp.Writer
	replyScan(&Ctx{Out: &out, steps: patternSteps}, h, 0, &scanOptions{count: 1}, nil)
	if got, _ := render(out.Buf); got != `["0", ["a", "b"]]` {
		t.Errorf("without values: %s", got)
	}
}
